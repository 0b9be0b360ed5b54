"""The ways in: how somebody brings one occurrence to its database.

Each promise that does not depend on the way is tested through every one of them. A new way
(an async App, Django's connections) is one more entry in `WAYS` with what it can do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import duly
from tests.contract import django_project
from tests.contract.bank import OLD, Bank, execute
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from tests.servers.database import DatabaseName

Execute = Callable[[str], Any]
Effect = Callable[[Execute], Any]


class _Omitted:
    """The payload that is not given at all."""


OMITTED = _Omitted()


@dataclass(frozen=True)
class Answer:
    """What a start said."""

    outcome: duly.Outcome
    key: str
    attempt_id: UUID
    value: Any


class Door(ABC):
    """One way in, opened on one bank."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank

    @abstractmethod
    def start(
        self,
        effect: Effect | None = None,
        *,
        at: datetime = OLD,
        partition: str = "",
        payload: Any = OMITTED,
        wait: float = 10.0,
    ) -> Answer:
        """Start one occurrence whose effect is *effect*, or a credit; commit if it returns."""


@dataclass(frozen=True)
class Way:
    """A way in, by name.

    Attributes:
        name: In a test's id.
        open: Opens it on a bank.
        databases: Those that have it.
        own: duly opens and ends the transaction: failures are recorded, results stored.
    """

    name: str
    open: Callable[[Bank], Door]
    own: bool
    databases: tuple[DatabaseName, ...] = DATABASES


# ----------------------------------------------------------------------- duly's own connection


class AppDoor(Door):
    """`App.run`."""

    def __init__(self, bank: Bank, app: duly.App) -> None:
        super().__init__(bank)
        self.app = app
        self._effect: Effect | None = None
        bank.define(app, self._handle)

    def _handle(self, run: duly.Run) -> Any:
        if self._effect is not None:
            return self._effect(run.execute)
        run.execute(self.bank.credit())
        return None

    def start(
        self,
        effect: Effect | None = None,
        *,
        at: datetime = OLD,
        partition: str = "",
        payload: Any = OMITTED,
        wait: float = 10.0,
    ) -> Answer:
        self._effect = effect
        given = {} if payload is OMITTED else {"payload": payload}
        result = self.app.run(self.bank.job, at, partition=partition, wait=wait, **given)
        return Answer(result.outcome, result.key, result.attempt_id, result.value)


class SessionDoor(AppDoor):
    """`App.run` whose handler works through `run.session`."""

    def _handle(self, run: duly.Run) -> Any:
        def through_session(sql: str) -> Any:
            return run.session.execute(sqlalchemy.text(sql))

        if self._effect is not None:
            return self._effect(through_session)
        through_session(self.bank.credit())
        return None


class BlockDoor(AppDoor):
    """The block of `with duly.once(…)`."""

    def start(
        self,
        effect: Effect | None = None,
        *,
        at: datetime = OLD,
        partition: str = "",
        payload: Any = OMITTED,
        wait: float = 10.0,
    ) -> Answer:
        self._effect = effect
        given = {} if payload is OMITTED else {"payload": payload}
        key = self.bank.occurrence(at, partition)
        with duly.once(self.app.database.engine, key, wait=wait, **given) as run:
            if run.is_new:
                run.value = self._handle(run)
        outcome = duly.Outcome.APPLIED if run.is_new else duly.Outcome.DUPLICATE
        return Answer(outcome, run.key, run.attempt, run.value)


def _app(**options: Any) -> Callable[[Bank], Door]:
    return lambda bank: AppDoor(bank, bank.app(bank.engine(**options)))


def _app_on_url(bank: Bank) -> Door:
    return AppDoor(bank, bank.app())


def explicit_begin(engine: sqlalchemy.Engine) -> sqlalchemy.Engine:
    """SQLAlchemy's own recipe for SQLite: the driver begins nothing, an event says BEGIN."""

    @sqlalchemy.event.listens_for(engine, "connect")
    def _connected(raw: Any, _record: Any) -> None:
        raw.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begun(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


def _app_explicit_begin(bank: Bank) -> Door:
    return AppDoor(bank, bank.app(explicit_begin(bank.engine())))


def _aio(**options: Any) -> Callable[[Bank], Door]:
    return lambda bank: AppDoor(bank, bank.aio_app(bank.aio_engine(**options)))


def _aio_on_url(bank: Bank) -> Door:
    return AppDoor(bank, bank.aio_app())


# -------------------------------------------------------------------- the caller's transaction


class ClaimDoor(Door):
    """`duly.claim` in a transaction that the caller begins and ends."""

    def __init__(self, bank: Bank, transaction: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__(bank)
        self.transaction = transaction

    def start(
        self,
        effect: Effect | None = None,
        *,
        at: datetime = OLD,
        partition: str = "",
        payload: Any = OMITTED,
        wait: float = 10.0,
    ) -> Answer:
        given = {} if payload is OMITTED else {"payload": payload}
        with self.transaction() as connection:
            claim = duly.claim(connection, self.bank.occurrence(at, partition), wait=wait, **given)
            if claim.is_new:
                run = executor(connection)
                run(self.bank.credit()) if effect is None else effect(run)
        return Answer(claim.outcome, claim.key, claim.attempt_id, claim.value)


def executor(connection: Any) -> Execute:
    """What executes text on a caller's connection of any kind."""
    if isinstance(connection, sqlalchemy.Connection | Session):
        return lambda sql: connection.execute(sqlalchemy.text(sql))
    return lambda sql: execute(connection, sql)


def _driver(bank: Bank) -> Door:
    connection = bank.connect()
    if bank.name == "sqlite":
        execute(connection, "PRAGMA busy_timeout = 200")

    @contextmanager
    def transaction() -> Iterator[Any]:
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    return ClaimDoor(bank, transaction)


def _driver_begin(bank: Bank) -> Door:
    """A connection in autocommit, on which the caller says BEGIN by itself."""
    connection = bank.autocommit()
    if bank.name == "sqlite":
        execute(connection, "PRAGMA busy_timeout = 200")

    @contextmanager
    def transaction() -> Iterator[Any]:
        execute(connection, "BEGIN")
        try:
            yield connection
        except BaseException:
            execute(connection, "ROLLBACK")
            raise
        execute(connection, "COMMIT")

    return ClaimDoor(bank, transaction)


def _quick(bank: Bank) -> dict[str, Any]:
    """SQLite's own bound on a wait, which is the connection's and not a claim's."""
    return {"connect_args": {"timeout": 0.2}} if bank.name == "sqlite" else {}


def _sqlalchemy_connection(bank: Bank) -> Door:
    return ClaimDoor(bank, bank.engine(**_quick(bank)).begin)


def _sqlalchemy_session(bank: Bank) -> Door:
    engine = bank.engine(**_quick(bank))

    @contextmanager
    def transaction() -> Iterator[Any]:
        with Session(engine) as session, session.begin():
            yield session

    return ClaimDoor(bank, transaction)


class DjangoDoor(AppDoor):
    """`App.run` on Django's connection, with an effect that goes through Django."""

    def _handle(self, run: duly.Run) -> Any:
        through_django = executor(django_project.connection_of(self.bank))
        if self._effect is not None:
            return self._effect(through_django)
        through_django(self.bank.credit())
        return None


def _app_django(bank: Bank) -> Door:
    return AppDoor(bank, django_project.app_on(bank))


def _app_django_cursor(bank: Bank) -> Door:
    return DjangoDoor(bank, django_project.app_on(bank))


def _django(bank: Bank) -> Door:
    return ClaimDoor(bank, lambda: django_project.atomic(bank))


class DjangoBank(Bank):
    """A bank whose Apps run on Django's connections, unless a test names another database."""

    def app(self, database: Any = None, **options: Any) -> duly.App:
        if database is not None:
            return super().app(database, **options)
        return django_project.app_on(self, **options)


AppKind = Literal["own", "django"]
KINDS: dict[AppKind, type[Bank]] = {"own": Bank, "django": DjangoBank}

WAYS = (
    Way("app-url", _app_on_url, own=True),
    Way("app-engine", _app(), own=True),
    Way("app-autocommit-engine", _app(isolation_level="AUTOCOMMIT"), own=True),
    Way("app-explicit-begin-engine", _app_explicit_begin, own=True, databases=("sqlite",)),
    Way("app-nullpool-engine", _app(poolclass=NullPool), own=True),
    Way("app-one-connection-engine", _app(pool_size=1, max_overflow=0), own=True),
    Way("app-session", lambda bank: SessionDoor(bank, bank.app(bank.engine())), own=True),
    Way("once-block", lambda bank: BlockDoor(bank, bank.app(bank.engine())), own=True),
    Way("aio-app-url", _aio_on_url, own=True),
    Way("aio-app-engine", _aio(), own=True),
    Way("aio-app-autocommit-engine", _aio(isolation_level="AUTOCOMMIT"), own=True),
    Way("aio-app-nullpool-engine", _aio(poolclass=NullPool), own=True),
    Way("claim-driver", _driver, own=False),
    Way("claim-driver-begin", _driver_begin, own=False),
    Way("claim-sqlalchemy-connection", _sqlalchemy_connection, own=False),
    Way("claim-sqlalchemy-session", _sqlalchemy_session, own=False),
    Way("app-django", _app_django, own=True),
    Way("app-django-cursor", _app_django_cursor, own=True),
    Way("claim-django", _django, own=False),
)
