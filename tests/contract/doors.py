"""Doors where duly opens and ends the transaction: an App of each kind, and the block of `once`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy.orm import Session
from sqlalchemy.util import greenlet_spawn

import duly
import duly.aio
from duly._aio.once import _place_of as aio_place_of
from duly._sync.once import place_of
from tests.contract import django_project
from tests.contract.asynchronous import AioConnection, SyncRun
from tests.contract.bank import OLD, Bank, execute

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

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


class AppDoor(Door):
    """`App.run`."""

    def __init__(self, bank: Bank, app: duly.App) -> None:
        super().__init__(bank)
        self.app = app
        self._effect: Effect | None = None
        bank.define(app, self._handle)

    def executing(self, run: duly.Run) -> Execute:
        """What executes the effect's statements."""
        return run.execute

    def _handle(self, run: duly.Run) -> Any:
        execute = self.executing(run)
        if self._effect is not None:
            return self._effect(execute)
        execute(self.bank.credit())
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

    def executing(self, run: duly.Run) -> Execute:
        return lambda sql: run.session.execute(sqlalchemy.text(sql))


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
        return self.done_once(key, self._handle, wait=wait, **given)

    def done_once(
        self, key: duly.Occurrence, handler: Callable[[Any], Any], **options: Any
    ) -> Answer:
        """Let *handler* be the block."""
        with duly.once(self.app.database.engine, key, **options) as run:
            if run.is_new:
                run.value = handler(run)
        return _answer_of(run)

    @property
    def attempts(self) -> Any:
        """What makes the attempts."""
        return place_of(self.app.database.engine, None).attempts


class AioBlockDoor(BlockDoor):
    """The block of `async with duly.aio.once(…)`."""

    def __init__(self, bank: Bank) -> None:
        self._engine = bank.aio_engine()
        super().__init__(bank, bank.aio_app(self._engine))

    def done_once(
        self, key: duly.Occurrence, handler: Callable[[Any], Any], **options: Any
    ) -> Answer:
        async def done() -> Answer:
            async with duly.aio.once(self._engine, key, **options) as run:
                if run.is_new:
                    run.value = await greenlet_spawn(handler, SyncRun(run))
            return _answer_of(run)

        answer: Answer = self.bank.loop.result(done())
        return answer

    @property
    def attempts(self) -> Any:
        return self.bank.loop.result(aio_place_of(self._engine, None)).attempts


def _answer_of(run: Any) -> Answer:
    outcome = duly.Outcome.APPLIED if run.is_new else duly.Outcome.DUPLICATE
    return Answer(outcome, run.key, run.attempt, run.value)


def app(**options: Any) -> Callable[[Bank], Door]:
    return lambda bank: AppDoor(bank, bank.app(bank.engine(**options)))


def app_on_url(bank: Bank) -> Door:
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


def app_explicit_begin(bank: Bank) -> Door:
    return AppDoor(bank, bank.app(explicit_begin(bank.engine())))


def aio(**options: Any) -> Callable[[Bank], Door]:
    return lambda bank: AppDoor(bank, bank.aio_app(bank.aio_engine(**options)))


def aio_on_url(bank: Bank) -> Door:
    return AppDoor(bank, bank.aio_app())


class DjangoDoor(AppDoor):
    """`App.run` on Django's connection, with an effect that goes through Django."""

    def executing(self, run: duly.Run) -> Execute:
        return executor(django_project.connection_of(self.bank))


def app_session(bank: Bank) -> Door:
    return SessionDoor(bank, bank.app(bank.engine()))


def aio_session(bank: Bank) -> Door:
    return SessionDoor(bank, bank.aio_app(bank.aio_engine()))


def once_block(bank: Bank) -> Door:
    return BlockDoor(bank, bank.app(bank.engine()))


def app_django(bank: Bank) -> Door:
    return AppDoor(bank, django_project.app_on(bank))


def app_django_cursor(bank: Bank) -> Door:
    return DjangoDoor(bank, django_project.app_on(bank))


def executor(connection: Any) -> Execute:
    """What executes text on a caller's connection of any kind."""
    if isinstance(connection, AioConnection):
        return connection.execute
    if isinstance(connection, sqlalchemy.Connection | Session):
        return lambda sql: connection.execute(sqlalchemy.text(sql))
    return lambda sql: execute(connection, sql)
