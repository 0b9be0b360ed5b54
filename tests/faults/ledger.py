"""A database with duly's tables and a table of effects, and the questions that tests ask of it.

Many cells share one: each has a key of its own. Facts are read on a connection that duly never
sees.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from uuid import UUID

import sqlalchemy
from sqlalchemy.pool import NullPool

import duly
from tests.contract import bank as contract
from tests.contract import ways
from tests.contract.doors import AppDoor, BlockDoor, Door
from tests.servers.database import Database, DatabaseName

PRUNED = datetime(2001, 1, 1, tzinfo=UTC)  # at or below the horizon of the job `pruned`
PATIENCE_S = 10.0
WAYS = {way.name: way for way in ways.WAYS}
DRIVERS: dict[str, DatabaseName] = {
    "sqlite": "sqlite", "postgresql": "postgresql", "mysql": "mariadb", "mariadb": "mariadb",
}  # fmt: skip
_CACHED_S = 0.12  # innodb_trx is a copy that is renewed only when nobody read it for 0.1 s

_OPEN_TRANSACTIONS = {
    "postgresql": (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
        " AND backend_type = 'client backend'"
    ),
    "mariadb": (
        "SELECT count(*) FROM information_schema.innodb_trx AS t"
        " JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id"
        " WHERE p.db = DATABASE()"
    ),
}


class HandlerError(Exception):
    """What a failing handler raises."""


Doing = Callable[["duly.Run"], None]


class Bank:
    """An App with the jobs of these tests; one per process, database and way in.

    Attributes:
        doing: By partition, what the handler does after its effect; nothing else if absent.
        calls: By key, how often the handler ran in this process.
    """

    def __init__(self, url: str, *, way: str = "app-url", evidence_after: float = 60.0) -> None:
        # A marker under way would make the same cell go two ways.
        self.site = Site(url, self._handle, started_by="tests", evidence_after=evidence_after)
        door = self.site.open(way)
        assert isinstance(door, AppDoor)
        self._door = door
        face: Any = OnceApp(door, self._handle) if isinstance(door, BlockDoor) else door.app
        self.app: duly.App = face
        self.doing: dict[str, Doing] = {}
        self.calls = Counter[str]()

    def close(self) -> None:
        self.site.close()

    def _handle(self, run: duly.Run) -> str:
        self.calls[run.key] += 1
        self._door.executing(run)(effect(run.key, run.attempt))
        if run.occurrence.partition in self.doing:
            self.doing[run.occurrence.partition](run)
        return "done"


def effect(key: str, attempt: object) -> str:
    """The statement that is the effect."""
    return f"INSERT INTO effect (occurrence, attempt) VALUES ('{key}', '{attempt}')"


class Site(contract.Bank):
    """The jobs `work` and `pruned` on a database that this process only reaches."""

    def __init__(self, url: str, handler: Any = None, **options: Any) -> None:
        name = DRIVERS[sqlalchemy.make_url(url).get_backend_name()]
        super().__init__(contract.Ledger(Database(name, url), None), "work", **options)
        self._handler = handler

    def open(self, way: str) -> Door:
        """The door that a way in is named for."""
        return WAYS[way].open(self)

    def define(self, app: duly.App, handler: Any = None, **options: Any) -> duly.App:
        for name in ("work", "pruned"):
            app.job(name, **options)(self._handler or handler)
        return app


class OnceApp:
    """The block of a `with duly.once(…)`, with the face of an App."""

    def __init__(self, door: BlockDoor, handler: Callable[[Any], Any]) -> None:
        self._door, self._handler = door, handler
        with mock.patch("duly._sync.once.EVIDENCE_AFTER_S", 60.0):
            self._attempts = door.attempts

    def run(self, job: str, at: datetime, *, partition: str = "", **options: Any) -> duly.Result:
        occurrence = duly.Occurrence(job, at, partition)
        answer = self._door.done_once(occurrence, self._handler, **options)
        return duly.Result(
            answer.outcome,
            answer.key,
            answer.attempt_id,
            answer.value,
            duration=timedelta(0),
            source="once",
            late=timedelta(0),
        )

    @property
    def _probe(self) -> Any:
        return self._attempts.probe

    @_probe.setter
    def _probe(self, probe: Any) -> None:
        self._attempts.probe = probe


@dataclass(frozen=True)
class Facts:
    """What the database says about one key.

    Attributes:
        effects: The attempts whose effect is there, as the effects themselves say.
        disposition: How the occurrence is settled, or None.
        attempt_id: Of the occurrence's row.
        attempts: (id, outcome, origin of the error) of every recorded attempt.
    """

    effects: list[str]
    disposition: str | None
    attempt_id: UUID | None
    attempts: list[tuple[UUID, str, str | None]]

    @property
    def applied(self) -> list[UUID]:
        """The attempts recorded as applied."""
        return [each for each, outcome, _ in self.attempts if outcome == "applied"]

    @property
    def is_sound(self) -> bool:
        """No effect and no completion, or one of each, of the same attempt."""
        settled = [self.attempt_id] if self.disposition == "applied" else []
        return self.applied == settled and self.effects == [str(each) for each in settled]


class Ledger:
    """One database: its Bank in this process, and its facts."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self.bank = Bank(url)
        self._banks = {"app-url": self.bank}
        self._engine = sqlalchemy.create_engine(
            url, poolclass=NullPool, isolation_level="AUTOCOMMIT"
        )
        self._connection = self._engine.connect()
        self._looked = 0.0
        if name == "sqlite":
            self.query("PRAGMA busy_timeout = 0")
        self.bank.app.init()
        self.query("CREATE TABLE effect (occurrence VARCHAR(400), attempt VARCHAR(40))")
        self.bank.app.run("pruned", PRUNED)
        self.bank.app.prune(older_than=PRUNED)

    def close(self) -> None:
        self._connection.close()
        for bank in self._banks.values():
            bank.close()

    def bank_of(self, way: str) -> Bank:
        """This process's bank on that way in."""
        if way not in self._banks:
            self._banks[way] = Bank(self.url, way=way)
        return self._banks[way]

    def reconnect(self) -> None:
        """After the server was down."""
        with suppress(sqlalchemy.exc.SQLAlchemyError):
            self._connection.close()
        self._connection = self._engine.connect()

    def query(self, statement: str, **binds: Any) -> list[Any]:
        result = self._connection.execute(sqlalchemy.text(statement), binds)
        return list(result) if result.returns_rows else []

    def facts(self, occurrence: duly.Occurrence) -> Facts:
        key = {
            "job": occurrence.job,
            "us": _us(occurrence),
            "partition": occurrence.partition,
            "correction": occurrence.correction,
        }
        where = (
            "WHERE job = :job AND nominal_us = :us AND partition_key = :partition"
            " AND correction = :correction"
        )
        settled = self.query(f"SELECT disposition, attempt_id FROM duly_occurrence {where}", **key)
        attempts = self.query(
            f"SELECT id, outcome, error_origin FROM duly_attempt {where} ORDER BY id, outcome",
            **key,
        )
        effects = self.query(
            "SELECT attempt FROM effect WHERE occurrence = :key ORDER BY attempt",
            key=occurrence.key,
        )
        return Facts(
            [str(row[0]) for row in effects],
            settled[0][0] if settled else None,
            _uuid(settled[0][1]) if settled and settled[0][1] is not None else None,
            [(_uuid(row[0]), row[1], row[2]) for row in attempts],
        )

    def wait_until_quiet(self) -> None:
        """Return when no client has a transaction open; a server needs a moment to miss one.

        Raises:
            AssertionError: One stays open: it leaked.
        """
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_quiet():
            assert time.monotonic() < deadline, "a transaction stayed open"
            time.sleep(0.01)

    def _is_quiet(self) -> bool:
        if self.name == "sqlite":
            try:
                self.query("BEGIN IMMEDIATE")
            except sqlalchemy.exc.OperationalError:
                return False
            with suppress(sqlalchemy.exc.OperationalError):
                self.query("ROLLBACK")
            return True
        if self.name == "mariadb":
            time.sleep(max(0.0, self._looked + _CACHED_S - time.monotonic()))
        count = self.query(_OPEN_TRANSACTIONS[self.name])[0][0]
        self._looked = time.monotonic()
        return bool(count == 0)


def _us(occurrence: duly.Occurrence) -> int:
    return round(occurrence.nominal_time.timestamp() * 1_000_000)


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(bytes=bytes(value))
