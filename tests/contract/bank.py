"""A bank of one test's own, in a ledger that many tests share.

A new database with duly's tables costs far more than a test. So each process keeps one for
each kind of database, and each test gets a job and an account that nobody else has.
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import psycopg
import pymysql
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

import duly
from tests.contract.asynchronous import AioApp, AioConnection, Loop, connected

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.database import Database, DatabaseName

# Older than a prune may pass, so that a claim must look at the horizon.
OLD = datetime(2024, 2, 29, tzinfo=UTC)
UNITS = 10

_numbers = itertools.count(1)


def recent() -> datetime:
    """A whole hour in the last two, which no prune may pass."""
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)


class Attempt(NamedTuple):
    """A row of duly_attempt, as it is stored."""

    nominal_us: int
    partition: str
    correction: int
    id: UUID
    outcome: str
    started_by: str | None
    source: str | None
    host: str | None
    pid: int | None
    started_us: int
    finished_us: int
    result: str | None
    error_origin: str | None
    error_type: str | None
    error_message: str | None
    error_traceback: str | None


class Settled(NamedTuple):
    """A row of duly_occurrence, as it is stored."""

    partition: str
    correction: int
    disposition: str
    attempt_id: UUID | None
    reason: str | None
    actor: str | None


@dataclass(frozen=True)
class Ledger:
    """A database with duly's tables and a table of balances.

    Attributes:
        database: Where it is.
        observer: A driver's connection in autocommit, on which tests look and arrange.
    """

    database: Database
    observer: Any

    @classmethod
    def create(cls, database: Database) -> Ledger:
        app = duly.App(database.url)
        app.init()
        app.close()
        ledger = cls(database, autocommit(database))
        ledger.run("CREATE TABLE balance (id INTEGER NOT NULL PRIMARY KEY, units INTEGER NOT NULL)")
        return ledger

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute *sql* by itself and return its rows."""
        with closing(self.observer.cursor()) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []


def autocommit(database: Database) -> Any:
    """A driver's connection on which each statement is a transaction of its own."""
    connection = database.connect()
    match database.name:
        case "sqlite":
            connection.isolation_level = None
        case "postgresql":
            connection.autocommit = True
        case "mariadb":
            connection.autocommit(True)
    return connection


class Bank:
    """One job and one account; closes what it opened.

    Args:
        ledger: Where they are.
        job: The name of the job, whose effect is no credit then; otherwise nobody else's.
        options: Of every App.
    """

    def __init__(self, ledger: Ledger, job: str | None = None, **options: Any) -> None:
        self.ledger = ledger
        self._options = options
        self.database = ledger.database
        self.name: DatabaseName = ledger.database.name
        self.url = ledger.database.url
        number = next(_numbers)
        self.job = job or f"credit-{os.getpid()}-{number}"
        self.account = number
        self._open = ExitStack()
        if job is None:
            self.run(f"INSERT INTO balance (id, units) VALUES ({number}, 0)")

    def close(self) -> None:
        self._open.close()

    def on_close(self, call: Callable[[], Any]) -> None:
        """Call it when the bank is closed."""
        self._open.callback(call)

    # ------------------------------------------------------------------------------ the business

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute *sql* by itself, outside of what is tested, and return its rows."""
        return self.ledger.run(sql)

    def credit(self, units: int = UNITS) -> str:
        """The statement that is the effect."""
        return f"UPDATE balance SET units = units + {units} WHERE id = {self.account}"

    @property
    def units(self) -> int:
        """What all effects so far have added."""
        return int(self.run(f"SELECT units FROM balance WHERE id = {self.account}")[0][0])

    # -------------------------------------------------------------------------------- the ledger

    def occurrence(self, at: datetime = OLD, partition: str = "") -> duly.Occurrence:
        return duly.Occurrence(self.job, at, partition)

    @property
    def settled(self) -> list[Settled]:
        """What the ledger holds of this job."""
        rows = self.run(
            "SELECT partition_key, correction, disposition, attempt_id, reason, actor"
            f" FROM duly_occurrence WHERE job = '{self.job}'"
            " ORDER BY nominal_us, partition_key, correction"
        )
        return [Settled._make((*row[:3], _uuid(row[3]), *row[4:])) for row in rows]

    @property
    def attempts(self) -> list[Attempt]:
        """The finished attempts at this job, oldest first."""
        rows = self.run(
            "SELECT nominal_us, partition_key, correction, id, outcome, started_by, source, host,"
            " pid, started_us, finished_us, result, error_origin, error_type, error_message,"
            f" error_traceback FROM duly_attempt WHERE job = '{self.job}'"
            " ORDER BY id, outcome"
        )
        return [Attempt._make((*row[:3], _uuid(row[3]), *row[4:])) for row in rows]

    @property
    def outcomes(self) -> list[str]:
        """How the attempts ended, oldest first."""
        return [attempt.outcome for attempt in self.attempts]

    def settle(
        self,
        disposition: str,
        *,
        at: datetime = OLD,
        partition: str = "",
        reason: str = "too old",
    ) -> None:
        """Settle the occurrence otherwise than by its effect."""
        us = self.occurrence(at).nominal_us
        self.run(
            "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
            f" recorded_us, reason) VALUES ('{self.job}', {us}, '{partition}', 1,"
            f" '{disposition}', {us}, '{reason}')"
        )

    # ------------------------------------------------------------------------------- connections

    def app(self, database: Any = None, **options: Any) -> duly.App:
        """An App on this ledger, closed with the bank."""
        app = duly.App(database or self.url, **{**self._options, **options})
        self._open.callback(app.close)
        return app

    def aio_app(self, database: Any = None, **options: Any) -> Any:
        """A `duly.aio.App` on this ledger with the face of a `duly.App`, closed with the bank."""
        given = {**self._options, **options}
        app = AioApp(self.loop, database or async_url(self.url), **given)
        self._open.callback(app.close)
        return app

    def aio_engine(self, **options: Any) -> AsyncEngine:
        """An AsyncEngine of the user's own, disposed of with the bank."""
        engine, loop = create_async_engine(async_url(self.url), **options), self.loop
        self._open.callback(lambda: loop.result(engine.dispose()))
        return engine

    @cached_property
    def loop(self) -> Loop:
        """An event loop of this test's own."""
        loop = Loop()
        self._open.callback(loop.close)
        return loop

    def define(
        self, app: duly.App, handler: Callable[[duly.Run], Any] | None = None, **options: Any
    ) -> duly.App:
        """Define this bank's job on *app*; without a handler it credits the account."""

        def credit(run: duly.Run) -> None:
            run.execute(self.credit())

        app.job(self.job, **options)(handler or credit)
        return app

    def engine(self, **options: Any) -> sqlalchemy.Engine:
        """An Engine of the user's own, disposed of with the bank."""
        engine = sqlalchemy.create_engine(self.url, **options)
        self._open.callback(engine.dispose)
        return engine

    def connect(self) -> Any:
        """A connection of the driver's own, as its `connect` gives it, closed with the bank."""
        connection = self.database.connect()
        self._open.callback(_close, connection)
        return connection

    def autocommit(self) -> Any:
        """A connection of the driver's own in autocommit, closed with the bank."""
        connection = autocommit(self.database)
        self._open.callback(_close, connection)
        return connection

    def aio_connect(self, *, autocommit: bool = False) -> AioConnection:
        """A connection of an asynchronous driver's own, closed with the bank."""
        made = self.loop.result(connected(self.database, autocommit=autocommit))
        connection = AioConnection(self.loop, made)
        self._open.callback(_close, connection)
        return connection

    def aio_autocommit(self) -> AioConnection:
        """The same in autocommit."""
        return self.aio_connect(autocommit=True)

    # ------------------------------------------------------------------------------------ waiting

    def wait_until_blocked(self) -> None:
        """Return when a connection waits for a lock; at once on SQLite, which cannot tell."""
        if self.name != "sqlite":
            look = self._is_blocked_mariadb if self.name == "mariadb" else self._is_blocked
            wait_until(look, "a connection waits for a lock")

    def _is_blocked(self) -> bool:
        return bool(
            self.run(
                "SELECT 1 FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    def _is_blocked_mariadb(self) -> bool:
        # Not information_schema.innodb_trx: it is stale for as long as others read it often.
        ours = self.run("SELECT id FROM information_schema.processlist WHERE db = DATABASE()")
        status = self.run("SHOW ENGINE INNODB STATUS")[0][2]
        waiting = re.findall(r"\nLOCK WAIT .*\nMariaDB thread id (\d+)", status)
        return bool({int(each) for each in waiting} & {each for (each,) in ours})


def async_url(url: str) -> str:
    """The URL of the same database through the asynchronous driver."""
    for name, driver in {"sqlite:": "sqlite+aiosqlite:", "+pymysql:": "+asyncmy:"}.items():
        url = url.replace(name, driver, 1)
    return url


def wait_until(condition: Callable[[], bool], what: str, *, seconds: float = 20) -> None:
    """Return as soon as *condition* holds; fail by name if it never does."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"in {seconds} s it never happened that {what}")
        time.sleep(0.01)


def execute(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Execute *sql* on a connection of any driver, and return its rows."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []
    finally:
        cursor.close()


DRIVER_ERRORS = (sqlite3.Error, psycopg.Error, pymysql.MySQLError)


def _close(connection: Any) -> None:
    with suppress(*DRIVER_ERRORS):  # the test may have closed it
        connection.close()


def _uuid(value: Any) -> UUID | None:
    if value is None or isinstance(value, UUID):
        return value
    return UUID(bytes=bytes(value))
