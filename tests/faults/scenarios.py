"""The ways an attempt can go, as lists of ops, and the cells of the matrix that they span.

A scenario reaches its ops with the outcome that it names. A cell is one op of one scenario, the
moment before or after it, and what happens then.
"""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from unittest import mock

import psycopg
import pymysql

import duly
from duly import testing
from duly._core import ops
from duly._core.payload import canonical
from duly._core.resolve import Nominal
from duly._sync.claim import looks_old
from duly._sync.process import new_attempt_id
from tests.faults.ledger import PRUNED, Bank, HandlerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
    if isinstance(raw, psycopg.Connection):
        # One text, because no statement may follow an end: in another transaction, which looks
        # like ours.
        raw.execute("ROLLBACK; BEGIN")
    elif isinstance(raw, sqlite3.Connection):
        raw.execute("SELECT 1")
        try:
            raw.execute("INSERT OR ROLLBACK INTO duly_guard (id, ledger_id) VALUES (1, '')")
        except sqlite3.IntegrityError:
            raw.execute("SELECT 1")  # prepared before, so nothing kept it from running outside
    else:
        type(raw).query(raw, "COMMIT")  # past what the lent connection refuses


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
_COVER = ("Begin", "TakeSlot", "Claim", "Cover", "CallHandler")
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
            by_database={
                "postgresql": ("Begin", "Claim", "CallHandler", "Seal", "Rollback", "HoldTorn")
            },
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
            ("Begin", "TakeSlot", "LockGuard", "ReadHorizon", *_COVERING[2:]),
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
            by_database={"postgresql": (*_COVER, "Seal", "Rollback", "HoldTorn")},
        ),
        Scenario(
            "covering-landed",
            (*_COVERING, "Reconnect", "Begin", "Claim", "Explain", "Rollback"),
            first="unknown",
            first_place=6,
            first_moment="after",
            since=7,
            settled=11,
            covers=4,
            slots=1,
        ),
        Scenario(
            "covering-not-landed",
            (*_COVERING, *_ASKED, "Rollback", "Backoff", "Reconnect", *_COVERING),
            first="unknown",
            first_place=6,
            since=7,
            settled=11,
            covers=4,
            slots=1,
        ),
        Scenario(
            "no-slot",
            ("Begin", "TakeSlot", "Rollback"),
            ending="NoSlot",
            retried="applied",
            covers=4,
            slots=0,
            databases=("postgresql", "mariadb"),  # SQLite has one writer, who needs no slot
        ),
    )
}


# Cells

KINDS = ("kill", "cut", "contention", "refused", "plain", "interrupt", "terminate", "sigint")
STOPS = {"interrupt": KeyboardInterrupt, "sigint": KeyboardInterrupt, "terminate": SystemExit}


@dataclass(frozen=True)
class Cell:
    """One fault: *kind* happens at the op at *place* of *scenario* on *database*."""

    database: str
    scenario: str
    place: int
    moment: Moment
    kind: str

    def __str__(self) -> str:
        return f"{self.database}-{self.scenario}-{self.place}-{self.moment}-{self.op}-{self.kind}"

    @property
    def plan(self) -> Scenario:
        return SCENARIOS[self.scenario]

    @property
    def op(self) -> str:
        return self.plan.ops_on(self.database)[self.place]

    @property
    def is_past_seal(self) -> bool:
        """The seal was sent in the transaction that the fault meets, or the commit was."""
        return self.op == "Commit" or (self.op == "Seal" and self.moment == "after")

    @property
    def has_landed(self) -> bool:
        """A COMMIT of the effect was performed before the fault."""
        done = [
            place
            for place, op in enumerate(self.plan.ops_on(self.database)[: self.place + 1])
            if op == "Commit"
            and (place != self.plan.first_place or self.plan.first_moment == "after")
            and (place < self.place or self.moment == "after")
        ]
        return bool(done)

    @property
    def skip(self) -> int:
        """How many ops of this name come before; one that the scenario fails has no `after`."""
        plan = self.plan
        ops = plan.ops_on(self.database)
        return sum(
            1
            for place in range(self.place)
            if ops[place] == self.op
            and not (
                place == plan.first_place
                and plan.first_moment == "before"
                and self.moment == "after"
            )
        )


def cells() -> Iterator[Cell]:
    """The whole matrix."""
    for database in DATABASES:
        for plan in SCENARIOS.values():
            if database not in plan.databases:
                continue
            for place in range(plan.since, len(plan.ops_on(database))):
                for moment in MOMENTS:
                    for kind in KINDS:
                        yield Cell(database, plan.name, place, moment, kind)


# Staging


@dataclass(frozen=True)
class Stage:
    """One start of one scenario: on which database, under which key.

    Attributes:
        partition: Nobody else's.
        at: The nominal time.
    """

    database: str
    bank: Bank
    plan: Scenario
    partition: str
    at: datetime

    @property
    def occurrence(self) -> duly.Occurrence:
        correction = 2 if self.plan.corrects else 1
        return duly.Occurrence(self.plan.job, self.at, self.partition, correction)

    @property
    def older(self) -> list[duly.Occurrence]:
        """The missing occurrences that a tick found with this one, newest first."""
        times = (self.at - number * MINUTE for number in range(1, self.plan.covers + 1))
        return [duly.Occurrence(self.plan.job, at, self.partition) for at in times]

    @property
    def by_hand(self) -> duly.Occurrence | None:
        """The one of them that a person runs before the start; it stands in their midst."""
        return self.older[self.plan.covers // 2] if self.plan.covers else None

    def prepare(self) -> None:
        """What happened before."""
        if self.by_hand is not None:
            self.bank.app.run(self.plan.job, self.by_hand.nominal_time, partition=self.partition)
        if self.plan.is_applied:
            self.bank.app.run(self.plan.job, self.at, partition=self.partition, payload=1)

    def start(self) -> duly.Result:
        """The start, with the scenario's own fault but no other."""
        if self.plan.does is not None:
            self.bank.doing[self.partition] = self.plan.does
        with ExitStack() as stack:
            if self.plan.is_blind:
                stack.enter_context(mock.patch("duly._sync.starting.looks_old", return_value=False))
            for context in self._first():
                stack.enter_context(context)
            return self._start(self.plan.wait_s)

    @contextmanager
    def faulted(self, cell: Cell) -> Iterator[testing.Injected]:
        """The start within meets the cell's fault as well."""
        with self._fault(cell) as injected:
            yield injected

    def retry(self) -> duly.Result:
        """An ordinary start, later."""
        self.bank.doing.pop(self.partition, None)
        return self._start(WAIT_S, slots=1)

    def _start(self, wait_s: float, *, slots: int | None = None) -> duly.Result:
        app = self.bank.app
        if self.plan.by_tick:
            return self._start_by_tick(wait_s, self.plan.slots if slots is None else slots)
        if self.plan.corrects:
            key = duly.Occurrence(self.plan.job, self.at, self.partition).key
            return app.correct(key, reason="wrong rate", actor="ann")
        return app.run(
            self.plan.job,
            self.at,
            partition=self.partition,
            payload=self.plan.payload,
            wait=wait_s,
        )

    def _start_by_tick(self, wait_s: float, slots: int | None) -> duly.Result:
        """As a tick starts the one that covers the others, but in a partition of its own."""
        app = self.bank.app
        app._readiness.ensure()
        payload = canonical(self.plan.payload)
        request = ops.Request(
            self.occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(self.occurrence),
            slots=slots,
            cover=[each.nominal_us for each in self.older],
        )
        nominal = Nominal(self.at, "schedule", self.at)
        job = app.jobs[self.plan.job]
        return app._attempts.make(job, request, payload, nominal, schedule=None, wait_s=wait_s)

    def _first(self) -> list[Any]:
        plan = self.plan
        if plan.first is None:
            return []
        where: dict[str, Any] = {
            "op": plan.ops_on(self.database)[plan.first_place],
            "when": plan.first_moment,
        }
        app = self.bank.app
        if plan.first == "contention":
            error: Exception = driver_error("contention", self.database)
            return [testing.fault(app, **where, kind="raise", error=error)]
        if plan.first == "lost":
            error = driver_error("lost", self.database)
        else:
            error = ConnectionResetError("no answer")
        raised = testing.fault(app, **where, kind="raise", error=error)
        if self.database == "sqlite":
            return [raised]
        return [testing.fault(app, **where, kind="cut"), raised]

    def _fault(self, cell: Cell) -> Any:
        app = self.bank.app
        where: dict[str, Any] = {"op": cell.op, "when": cell.moment, "skip": cell.skip}
        match cell.kind:
            case "plain":
                return testing.fault(app, **where, kind="raise")
            case "contention" | "refused":
                error = driver_error(cell.kind, self.database)
                return testing.fault(app, **where, kind="raise", error=error)
            case "sigint":
                return signalled(app, signal.SIGINT, **where)
            case _:
                return testing.fault(app, **where, kind=cell.kind)  # type: ignore[arg-type]


@contextmanager
def signalled(
    app: duly.App, number: signal.Signals, *, op: str, when: Moment, skip: int = 0
) -> Iterator[testing.Injected]:
    """Send this process a real signal at an op, once."""
    injected = testing.Injected()
    chances = 0
    outer = app._probe

    def probe(moment: str, current: Any, target: Any) -> None:
        nonlocal chances
        if outer is not None:
            outer(moment, current, target)
        if type(current).__name__ == op and moment == when:
            chances += 1
            if chances == skip + 1:
                injected.fired += 1
                os.kill(os.getpid(), number)

    app._probe = probe
    try:
        yield injected
    finally:
        app._probe = outer
