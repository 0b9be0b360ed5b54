"""A business database for races: duly's tables, and a table in which every effect leaves a row.

The table has no unique key, so a second effect of one occurrence is seen and counted, never
refused by the business data itself.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import sqlalchemy

import duly
from duly._db.engine import read_url
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgresql import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.servers.database import DatabaseName

JOB = "credit"
OLD = datetime(2020, 1, 1, tzinfo=UTC)
"""Years below the floor: a prune may pass it."""

SERVER_LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ENGINE_LEVELS: dict[DatabaseName, tuple[str | None, ...]] = {
    "sqlite": (None, "READ UNCOMMITTED", "SERIALIZABLE", "AUTOCOMMIT"),
    "postgresql": (None, *SERVER_LEVELS, "AUTOCOMMIT"),
    "mariadb": (None, *SERVER_LEVELS, "AUTOCOMMIT"),
}
"""What an Engine's `isolation_level` may be."""

CALLER_LEVELS: dict[DatabaseName, tuple[str, ...]] = {
    "sqlite": ("DEFERRED", "IMMEDIATE", "EXCLUSIVE"),
    "postgresql": SERVER_LEVELS,
    "mariadb": SERVER_LEVELS,
}
"""How a caller may begin a transaction; on SQLite, the kind of BEGIN."""

_TABLES = (
    "CREATE TABLE effect (occurrence VARCHAR(300) NOT NULL)",
    "CREATE TABLE elsewhere (id INTEGER NOT NULL PRIMARY KEY)",
    "INSERT INTO elsewhere VALUES (1)",
)
_LEDGER = ("duly_occurrence", "duly_attempt", "duly_duplicate", "duly_job", "effect")


@dataclass
class Bank:
    """One database with a ledger and effects; every connection it gave is closed by `close`."""

    name: DatabaseName
    url: str
    _apps: list[duly.App] = field(default_factory=list)
    _raw: list[Any] = field(default_factory=list)
    _kept: dict[tuple[str, str | None], duly.App] = field(default_factory=dict)
    _clerk: Any = None

    @classmethod
    def found(cls, name: DatabaseName, url: str) -> Bank:
        """Make the tables in an empty database."""
        bank = cls(name, url)
        if name == "sqlite":
            with closing(bank.connect()) as raw:
                raw.execute("PRAGMA journal_mode = WAL")
        bank.app().init()
        with closing(bank.connect()) as raw:
            for statement in _TABLES:
                raw.cursor().execute(statement)
            raw.commit()
        return bank

    def app(
        self,
        *,
        level: str | None = None,
        handler: Callable[[duly.Run], Any] | None = None,
        pool_size: int = 5,
        **options: Any,
    ) -> duly.App:
        """An App of its own, with the job `credit`, on connections at *level*."""
        database: Any = self.url
        if level is not None or pool_size != 5:
            extra: dict[str, Any] = {} if level is None else {"isolation_level": level}
            database = sqlalchemy.create_engine(
                read_url(self.url), pool_size=pool_size, max_overflow=20, **extra
            )
        app = duly.App(database, **options)
        app.job(JOB)(handler or credit)
        self._apps.append(app)
        return app

    def kept_app(self, role: str, level: str | None = None, *, pool_size: int = 5) -> duly.App:
        """The one App of that role, made when first asked for; its probe is off."""
        if (role, level) not in self._kept:
            self._kept[role, level] = self.app(level=level, pool_size=pool_size)
            self._kept[role, level].sweep()  # connects, and looks at the ledger
        app = self._kept[role, level]
        app._probe = None
        return app

    # Callers' connections

    def connect(self) -> Any:
        """A connection of sqlite3, psycopg or PyMySQL; whoever asks closes it."""
        return connect(self.name, self.url)

    def caller(self, level: str) -> Caller:
        """A caller who owns its transactions, at *level*."""
        raw = connect(self.name, self.url, level)
        self._raw.append(raw)
        return Caller(self.name, raw, level)

    # Asking and telling the database

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        """What is committed now."""
        cursor = self._at_the_desk().cursor()
        cursor.execute(sql)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
        return rows

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]

    def change(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        cursor = self._at_the_desk().cursor()
        for statement in statements:
            cursor.execute(statement)

    def _at_the_desk(self) -> Any:
        """A connection in autocommit, for the test's own thread."""
        if self._clerk is None:
            self._clerk = self.connect()
            if self.name == "sqlite":
                self._clerk.isolation_level = None
            elif self.name == "mariadb":
                self._clerk.autocommit(True)
            else:
                self._clerk.autocommit = True
        return self._clerk

    def effects(self) -> Counter[str]:
        """How often each occurrence's effect is there."""
        return Counter(key for (key,) in self.rows("SELECT occurrence FROM effect"))

    def horizon(self, job: str = JOB) -> int | None:
        rows = self.rows(f"SELECT horizon_us FROM duly_job WHERE name = '{job}'")
        return rows[0][0] if rows else None

    def empty(self) -> None:
        """As just founded: no occurrence, no horizon, no effect."""
        self.change(*(f"DELETE FROM {table}" for table in _LEDGER))

    def dismiss_callers(self) -> None:
        """Close their connections, which rolls back what they left open."""
        for raw in self._raw:
            with suppress(Exception):  # some were killed on purpose
                raw.close()
        self._raw = []

    def close(self) -> None:
        self.dismiss_callers()
        for app in self._apps:
            app.close()
        self._apps, self._kept = [], {}
        if self._clerk is not None:
            self._clerk.close()
            self._clerk = None


@dataclass
class Caller:
    """Somebody who owns a transaction and calls `duly.claim` in it."""

    name: DatabaseName
    raw: Any
    level: str

    def begin(self, *, snapshot: bool) -> None:
        """Begin; with *snapshot*, read something that nobody changes."""
        if self.name == "sqlite":
            self.raw.execute(f"BEGIN {self.level}")
        elif self.name == "mariadb":
            self.raw.begin()
        if snapshot:
            cursor = self.raw.cursor()
            cursor.execute("SELECT id FROM elsewhere")
            cursor.fetchall()

    def claim(self, key: str, *, wait: float = 30.0) -> duly.Claim:
        """Claim, and make the effect if it is new; committed by nobody yet."""
        claim = duly.claim(self.raw, key, wait=wait)
        if claim.is_new:
            insert_effect(self.name, self.raw, key)
        return claim

    def once(self, key: str, *, snapshot: bool = False, wait: float = 30.0) -> str:
        """One whole transaction; returns how it ended: an outcome, `expired` or `again`."""
        try:
            self.begin(snapshot=snapshot)
        except Exception as error:
            self.raw.rollback()
            if not is_contention(error):
                raise
            return "again"
        return self.finish(key, wait=wait)

    def finish(self, key: str, *, wait: float = 30.0) -> str:
        """Claim in the transaction that is open, and commit; returns how that ended."""
        try:
            claim = self.claim(key, wait=wait)
            self.raw.commit()
        except duly.Expired:
            self.raw.rollback()
            return "expired"
        except Exception as error:
            self.raw.rollback()
            if not is_contention(error):
                raise
            return "again"
        return claim.outcome.value

    def until_settled(self, key: str, *, snapshot: bool = False) -> str:
        """As a caller should: rolled back and tried again while the database is contended."""
        deadline = time.monotonic() + 60
        while (outcome := self.once(key, snapshot=snapshot)) == "again":
            assert time.monotonic() < deadline, f"{key} stayed contended for a minute"
            time.sleep(random.uniform(0.001, 0.02))
        return outcome


def credit(run: duly.Run) -> None:
    """The effect of an App's attempt."""
    run.execute("INSERT INTO effect (occurrence) VALUES (:key)", {"key": run.key})


def insert_effect(name: DatabaseName, raw: Any, key: str) -> None:
    """The effect of a caller."""
    mark = "?" if name == "sqlite" else "%s"
    raw.cursor().execute(f"INSERT INTO effect (occurrence) VALUES ({mark})", [key])


def key_at(at: datetime, job: str = JOB) -> str:
    """The key of *job* at a nominal time."""
    return duly.Occurrence(job, at).key


def recent(minutes: int) -> datetime:
    """A nominal time of today or yesterday that no prune can reach."""
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    return now - timedelta(minutes=minutes)


def connect(name: DatabaseName, url: str, level: str | None = None) -> Any:
    """A driver's connection; at *level*, in the manner of that driver."""
    parsed = read_url(url)
    if name == "sqlite":
        assert parsed.database is not None
        mode: Any = "DEFERRED" if level is None else None
        return sqlite3.connect(
            parsed.database, timeout=30, isolation_level=mode, check_same_thread=False
        )
    where: dict[str, Any] = {"host": parsed.host, "port": parsed.port, "user": parsed.username}
    where["password"] = parsed.password
    if name == "postgresql":
        connection = psycopg.connect(**where, dbname=parsed.database, connect_timeout=10)
        if level is not None:
            connection.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
        return connection
    raw = pymysql.connect(**where, database=parsed.database, charset="utf8mb4", connect_timeout=10)
    if level is not None:
        raw.cursor().execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    return raw


def is_contention(error: BaseException) -> bool:
    """Whether *error* says, by its code, that the whole transaction may be tried again."""
    if isinstance(error, duly.TransientError):
        return True
    if isinstance(error, psycopg.Error):
        return error.sqlstate in {"40001", "40P01", "55P03"}
    if isinstance(error, pymysql.MySQLError):
        return error.args[0] in {1213, 1205, 1020}
    if isinstance(error, sqlite3.Error):
        return error.sqlite_errorcode & 0xFF in {5, 6}
    return False


def server_of(name: DatabaseName) -> type[PostgresServer] | type[MariaDBServer]:
    """The kind of server a database is on."""
    return PostgresServer if name == "postgresql" else MariaDBServer
