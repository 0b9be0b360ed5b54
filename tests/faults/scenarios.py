"""The ways an attempt can go, as lists of ops.

A scenario reaches its ops with the outcome that it names.
"""

from __future__ import annotations

import inspect
import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import aiosqlite
import psycopg
import pymysql
from sqlalchemy.util import await_only

import duly
from duly import testing
from tests.faults.ledger import PRUNED, HandlerError

if TYPE_CHECKING:
    from collections.abc import Callable

Moment: TypeAlias = Literal["before", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "after")

OLD = datetime(2020, 1, 1, tzinfo=UTC)  # a prune may have passed it: the guard is needed
WAIT_S = 8.0
DATABASES = ("sqlite", "postgresql", "mariadb")
MINUTE = timedelta(minutes=1)


def young() -> datetime:
    """No prune can have passed it, so the guard is not needed."""
    return datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=1)


# Errors of the drivers, which are classified by their code


def _sqlite(code: int, text: str) -> Exception:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error


_ERRORS: dict[str, dict[str, Callable[[], Exception]]] = {
    "contention": {
        "sqlite": lambda: _sqlite(5, "database is locked"),
        "postgresql": lambda: psycopg.errors.SerializationFailure("could not serialize access"),
        "mariadb": lambda: pymysql.OperationalError(1213, "Deadlock found"),
    },
    "lost": {
        "sqlite": lambda: _sqlite(10, "disk I/O error"),
        "postgresql": lambda: psycopg.OperationalError("server closed the connection"),
        "mariadb": lambda: pymysql.OperationalError(2013, "Lost connection"),
    },
    "refused": {
        "sqlite": lambda: _sqlite(13, "database or disk is full"),
        "postgresql": lambda: psycopg.errors.DiskFull("could not extend file"),
        "mariadb": lambda: pymysql.OperationalError(1021, "Disk full"),
    },
}


def driver_error(kind: str, database: str) -> Exception:
    """An error as the driver of *database* raises it."""
    return _ERRORS[kind][database]()


# What handlers do beyond their effect


def fail(_run: duly.Run) -> None:
    raise HandlerError("the handler failed")


def lose(run: duly.Run) -> None:
    """The connection goes away under the handler."""
    testing.cut(run.connection)
    run.execute("SELECT 1")


def end(run: duly.Run) -> None:
    """Ends duly's transaction behind its back; on MariaDB the effect and the claim land."""
    raw = run.connection.connection.driver_connection
    assert raw is not None
    if isinstance(raw, psycopg.Connection | psycopg.AsyncConnection):
        # One text, because no statement may follow an end: in another transaction, which looks
        # like ours.
        _done(raw.execute("ROLLBACK; BEGIN"))
    elif isinstance(raw, sqlite3.Connection | aiosqlite.Connection):
        harmless = partial(_rows, raw, "SELECT 1")
        harmless()
        try:
            _rows(raw, "INSERT OR ROLLBACK INTO duly_guard (id, ledger_id) VALUES (1, '')")
        except sqlite3.IntegrityError:
            harmless()  # prepared before, so nothing kept it from running outside
    else:
        _done(type(raw).query(raw, "COMMIT"))  # past what the lent connection refuses


def _rows(raw: Any, sql: str) -> Any:
    """All rows, so that the prepared statement is free to be used again."""
    if isinstance(raw, aiosqlite.Connection):
        return _done(raw.execute_fetchall(sql))
    return raw.execute(sql).fetchall()


def _done(work: Any) -> Any:
    """What a driver's call gives; awaited, where it is one of a task's."""
    return await_only(work) if inspect.isawaitable(work) else work


# Scenarios


@dataclass(frozen=True)
class Scenario:
    """One way for an attempt to go when nothing more happens.

    Attributes:
        ops: What the start performs, in order; by database where they differ.
        ending: The outcome, or the names of the errors, of the undisturbed start.
        retried: The same for a start that comes later and meets no fault.
        first: A fault that belongs to the scenario, with its op's place and moment.
        since: The first op that is a cell; earlier ones are another scenario's.
        is_applied: An earlier attempt has applied the key.
        is_blind: The host's clock does not know that the occurrence is old.
        corrects: It is a correction, ordered by a person.
        payload: Of the start; the earlier attempt had 1.
        covers: How many older occurrences a tick found missing with it; one of them is run by
            hand before the start, so it covers one less.
        slots: How many occurrences of the job may run at once; None where nobody counts.
        settled: The place of the first op after the fate of an unknown commit is known.
        databases: On which it can happen.
    """

    name: str
    ops: tuple[str, ...]
    ending: str = "applied"
    retried: str = "duplicate"
    by_database: dict[str, tuple[str, ...]] = field(default_factory=dict)
    at: Callable[[], datetime] = young
    job: str = "work"
    does: Callable[[duly.Run], None] | None = None
    first: str | None = None
    first_place: int = -1
    first_moment: Moment = "before"
    since: int = 0
    is_applied: bool = False
    is_blind: bool = False
    corrects: bool = False
    payload: int = 1
    wait_s: float = WAIT_S
    covers: int = 0
    slots: int | None = None
    settled: int = 0
    databases: tuple[str, ...] = DATABASES

    @property
    def by_tick(self) -> bool:
        """Whether a tick makes the start."""
        return self.slots is not None

    def ops_on(self, database: str) -> tuple[str, ...]:
        return self.by_database.get(database, self.ops)


_WORK = ("Begin", "Claim", "CallHandler", "Seal", "Commit")
_GUARDED = ("Begin", "LockGuard", "ReadHorizon", "Claim", "CallHandler", "Seal", "Commit")
_TORN = ("Begin", "Claim", "CallHandler", "Rollback", "HoldTorn")
# Where the seal, which finds it out, goes with the COMMIT.
_TORN_LATE = ("Begin", "Claim", "CallHandler", "Seal", "Commit", "Rollback", "HoldTorn")
_SERVERS = ("postgresql", "mariadb")
_COVER = ("Begin", "Claim", "Cover", "CallHandler")
_COVERING = (*_COVER, "Seal", "Commit")
_ASKED = ("Reconnect", "Begin", "Claim", "Rollback")

SCENARIOS: dict[str, Scenario] = {
    each.name: each
    for each in (
        Scenario("applied", _WORK),
        Scenario("old", _GUARDED, at=lambda: OLD),
        Scenario(
            "late",
            ("Begin", "Claim", "Rollback", *_GUARDED),
            at=lambda: OLD,
            is_blind=True,
        ),
        Scenario(
            "duplicate",
            ("Begin", "Claim", "Explain", "CountDuplicate"),
            ending="duplicate",
            is_applied=True,
        ),
        Scenario(
            "conflict",
            ("Begin", "Claim", "Explain", "Rollback", "Record"),
            ending="PayloadConflict",
            retried="PayloadConflict",
            is_applied=True,
            payload=2,
        ),
        Scenario(
            "failing",
            ("Begin", "Claim", "CallHandler", "Rollback", "Record"),
            ending="HandlerError",
            retried="applied",
            does=fail,
        ),
        Scenario(
            "handler-lost",
            ("Begin", "Claim", "CallHandler", "Rollback", "Reconnect", "Record"),
            ending="OperationalError or ProgrammingError",
            retried="applied",
            does=lose,
            since=3,
            by_database={"sqlite": ("Begin", "Claim", "CallHandler", "Rollback", "Record")},
        ),
        Scenario(
            "torn",
            _TORN,
            ending="TransactionEnded",
            retried="AlreadySettled",
            does=end,
            by_database=dict.fromkeys(_SERVERS, _TORN_LATE),
        ),
        Scenario(
            "expired",
            ("Begin", "LockGuard", "ReadHorizon", "Rollback", "Record"),
            ending="Expired",
            retried="Expired",
            at=lambda: PRUNED,
            job="pruned",
        ),
        Scenario(
            "correction",
            ("Begin", "Claim", "SettleCorrected", "CallHandler", "Seal", "Commit"),
            is_applied=True,
            corrects=True,
        ),
        Scenario(
            "landed",
            (*_WORK, "Reconnect", "Begin", "Claim", "Explain", "Rollback"),
            first="unknown",
            first_place=4,
            first_moment="after",
            since=5,
            settled=9,
        ),
        Scenario(
            "not-landed",
            (
                *_WORK,
                "Reconnect",
                "Begin",
                "Claim",
                "Rollback",
                "Rollback",
                "Backoff",
                "Reconnect",
                *_WORK,
            ),
            first="unknown",
            first_place=4,
            since=5,
            settled=9,
        ),
        Scenario(
            "lost",
            ("Begin", "Claim", "Rollback", "Backoff", "Reconnect", *_WORK),
            first="lost",
            first_place=1,
            since=2,
        ),
        Scenario(
            "busy",
            ("Begin", "Claim", "Rollback", "Backoff", "Record"),
            ending="Busy",
            retried="applied",
            first="contention",
            first_place=1,
            since=2,
            wait_s=0.0,
        ),
        Scenario("covering", _COVERING, covers=4, slots=1),
        Scenario(
            "covering-old",
            ("Begin", "LockGuard", "ReadHorizon", *_COVERING[1:]),
            at=lambda: OLD,
            covers=4,
            slots=1,
        ),
        Scenario(
            "covering-failing",
            (*_COVER, "Rollback", "Record"),
            ending="HandlerError",
            retried="applied",
            does=fail,
            covers=4,
            slots=1,
        ),
        Scenario(
            "covering-torn",
            (*_COVER, "Rollback", "HoldTorn"),
            ending="TransactionEnded",
            retried="AlreadySettled",
            does=end,
            covers=4,
            slots=1,
            by_database=dict.fromkeys(
                _SERVERS, (*_COVER, "Seal", "Commit", "Rollback", "HoldTorn")
            ),
        ),
        Scenario(
            "covering-landed",
            (*_COVERING, "Reconnect", "Begin", "Claim", "Explain", "Rollback"),
            first="unknown",
            first_place=5,
            first_moment="after",
            since=6,
            settled=10,
            covers=4,
            slots=1,
        ),
        Scenario(
            "covering-not-landed",
            (*_COVERING, *_ASKED, "Rollback", "Backoff", "Reconnect", *_COVERING),
            first="unknown",
            first_place=5,
            since=6,
            settled=10,
            covers=4,
            slots=1,
        ),
        Scenario(
            "no-slot",
            ("Begin", "Claim", "Rollback"),
            ending="NoSlot",
            retried="applied",
            covers=4,
            slots=0,
            databases=("postgresql", "mariadb"),  # SQLite has one writer, who needs no slot
        ),
    )
}
