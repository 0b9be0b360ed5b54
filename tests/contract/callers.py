"""Doors where the caller opens and ends the transaction, and duly only claims in it."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

import duly
from tests.contract import django_project
from tests.contract.asynchronous import AioConnection
from tests.contract.bank import OLD, Bank
from tests.contract.doors import OMITTED, Answer, Door, Effect, executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime


class ClaimDoor(Door):
    """`duly.claim`, or `duly.aio.claim`, in a transaction that the caller begins and ends.

    Attributes:
        transaction: Opens the caller's transaction; commits it unless an error comes out.
        meets: Is told each step before and after it, for tests that let one fail.
        found: What the last claim found.
    """

    found: duly.Claim

    def __init__(self, bank: Bank, transaction: Callable[[], AbstractContextManager[Any]]) -> None:
        super().__init__(bank)
        self.transaction = transaction
        self.meets: Callable[[str, Any], None] = lambda _place, _connection: None

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
        occurrence = self.bank.occurrence(at, partition)
        with self.transaction() as connection:
            with self._step("claim", connection):
                self.found = claim = claim_on(connection, occurrence, wait=wait, **given)
            if claim.is_new:
                with self._step("effect", connection):
                    run = executor(connection)
                    run(self.bank.credit()) if effect is None else effect(run)
                with self._step("confirm", connection):
                    claim.confirm()
            self.meets("before commit", connection)
        self.meets("after commit", connection)
        return Answer(claim.outcome, claim.key, claim.attempt_id, claim.value)

    @contextmanager
    def _step(self, name: str, connection: Any) -> Iterator[None]:
        self.meets(f"before {name}", connection)
        yield
        self.meets(f"after {name}", connection)


def claim_on(connection: Any, occurrence: duly.Occurrence | str, **options: Any) -> duly.Claim:
    """The claim on a caller's connection of any kind."""
    if isinstance(connection, AioConnection):
        found: duly.Claim = connection.claim(occurrence, **options)
        return found
    return duly.claim(connection, occurrence, **options)


def send_on(connection: Any, occurrence: duly.Occurrence, *message: Any, **options: Any) -> str:
    """A message with the transaction of a caller's connection of any kind."""
    if isinstance(connection, AioConnection):
        sent: str = connection.send(occurrence, *message, **options)
        return sent
    return duly.send(connection, occurrence, *message, **options)


def driver(connect: Callable[[Bank], Any]) -> Callable[[Bank], Door]:
    """A driver's connection, which begins by itself."""

    def opened(bank: Bank) -> Door:
        connection = _impatient(bank, connect(bank))

        @contextmanager
        def transaction() -> Iterator[Any]:
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

        return ClaimDoor(bank, transaction)

    return opened


def driver_begin(connect: Callable[[Bank], Any]) -> Callable[[Bank], Door]:
    """A connection in autocommit, on which the caller says BEGIN by itself."""

    def opened(bank: Bank) -> Door:
        connection = _impatient(bank, connect(bank))
        says = executor(connection)

        @contextmanager
        def transaction() -> Iterator[Any]:
            says("BEGIN")
            try:
                yield connection
            except BaseException:
                says("ROLLBACK")
                raise
            says("COMMIT")

        return ClaimDoor(bank, transaction)

    return opened


def _impatient(bank: Bank, connection: Any) -> Any:
    """With SQLite's own bound on a wait, which is the connection's and not a claim's."""
    if bank.name == "sqlite":
        executor(connection)("PRAGMA busy_timeout = 200")
    return connection


def _quick(bank: Bank) -> dict[str, Any]:
    """The same for SQLAlchemy's."""
    return {"connect_args": {"timeout": 0.2}} if bank.name == "sqlite" else {}


def sqlalchemy_connection(bank: Bank) -> Door:
    return ClaimDoor(bank, bank.engine(**_quick(bank)).begin)


def sqlalchemy_session(bank: Bank) -> Door:
    engine = bank.engine(**_quick(bank))

    @contextmanager
    def transaction() -> Iterator[Any]:
        with Session(engine) as session, session.begin():
            yield session

    return ClaimDoor(bank, transaction)


def aio_sqlalchemy(kind: type[AsyncConnection | AsyncSession]) -> Callable[[Bank], Door]:
    def opened(bank: Bank) -> Door:
        engine = bank.aio_engine(**_quick(bank))

        @contextmanager
        def transaction() -> Iterator[Any]:
            connection = AioConnection(bank.loop, kind(engine))
            if kind is AsyncConnection:
                connection.start()
            try:
                yield connection
                connection.commit()
            finally:
                connection.close()  # what was not committed is rolled back

        return ClaimDoor(bank, transaction)

    return opened


def django(bank: Bank) -> Door:
    return ClaimDoor(bank, lambda: django_project.atomic(bank))
