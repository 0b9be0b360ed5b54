"""The state of a job in one word, and why each missing occurrence waits, runs or is given up.

Decides which state wins where several are true, and the words of a plan. It never decides what
happens to an occurrence: `catch_up.plan` did. It never reads a clock or the database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from duly._core.catch_up import Decision, Failures, Plan, Tried
from duly._core.instants import format_instant, from_us
from duly._core.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime, timedelta

    from duly._core.expected import Expected
    from duly._core.policies import Policies
    from duly.errors import DulyError

__all__ = [
    "Failing",
    "JobPlan",
    "JobStatus",
    "MissingOccurrence",
    "MissingReport",
    "PlanReport",
    "State",
    "StatusReport",
    "Step",
    "looked_at",
]


class State(StrEnum):
    """How a job is, in a word; the first one that is true."""

    REFUSED = "refused"
    RETIRED = "retired"
    PAUSED = "paused"
    UNSCHEDULED = "unscheduled"
    GIVEN_UP = "given up"
    OVERDUE = "overdue"
    FAILING = "failing"
    MISSING = "missing"
    DUE = "due"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Failing:
    """Failed attempts at what is not settled.

    Attributes:
        since: When the first of them was started.
        attempts: How many there were.
        key: Of the last one.
        error: What it said; None for a process that died.
    """

    since: datetime
    attempts: int
    key: str
    error: str | None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job, at one instant.

    Attributes:
        job: The name for people.
        ledger_name: The name in keys.
        schedule: Canonical text of the one in force; None without one.
        zone: The name of the job's zone; None if the ledger does not know it.
        revision: The number of the latest one; None before the first.
        pending: What registering this process's definition would record: `first`, `edit`,
            `zone data`; None for nothing.
        last_completed: The newest applied nominal time; not all before it need be.
        lag: How long ago it was due.
        missing: How many occurrences are due and not settled.
        oldest_missing: The nominal time of the first of them.
        overdue_since: When that one passed the job's `deadline=`; None if it has not.
        given_up: How many of the missing are not tried again.
        retry_at: When the first that failed is tried again.
        next_due_at: The first due time to come.
        refused: Why this process may not run the job.
        is_newest_alone: The only one missing is the newest due, and it did not fail.
    """

    job: str
    ledger_name: str
    schedule: str | None = None
    zone: str | None = None
    revision: int | None = None
    pending: str | None = None
    last_completed: datetime | None = None
    lag: timedelta | None = None
    missing: int = 0
    oldest_missing: datetime | None = None
    overdue_since: datetime | None = None
    failing: Failing | None = None
    given_up: int = 0
    retry_at: datetime | None = None
    paused_since: datetime | None = None
    retired_since: datetime | None = None
    next_due_at: datetime | None = None
    refused: DulyError | None = None
    is_newest_alone: bool = False

    @property
    def state(self) -> State:
        """The one word for it."""
        told = {
            State.REFUSED: self.refused is not None,
            State.RETIRED: self.retired_since is not None,
            State.PAUSED: self.paused_since is not None,
            State.UNSCHEDULED: self.schedule is None,
            State.GIVEN_UP: self.given_up > 0,
            State.OVERDUE: self.overdue_since is not None,
            State.FAILING: self.failing is not None,
            State.MISSING: self.missing > 0 and not self.is_newest_alone,
            State.DUE: self.missing > 0,
            State.OK: True,
        }
        return next(state for state, is_true in told.items() if is_true)

    @property
    def needs_a_person(self) -> bool:
        """Whether an occurrence is overdue or given up, whatever the state says."""
        return self.given_up > 0 or self.overdue_since is not None


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Every job asked for, by name, at one instant."""

    at: datetime
    jobs: tuple[JobStatus, ...]


@dataclass(frozen=True, slots=True)
class MissingOccurrence:
    """One occurrence that is expected, due and not settled.

    Attributes:
        overdue_since: When it passed the job's `deadline=`; None if it has not.
        failures: How many attempts at it failed.
        last_failed_at: When the last of them ended.
        given_up: It is not tried again by itself.
        retry_at: When it is tried again; None if it did not fail or may be tried now.
    """

    occurrence: Occurrence
    due_at: datetime
    overdue_since: datetime | None = None
    failures: int = 0
    last_failed_at: datetime | None = None
    given_up: bool = False
    retry_at: datetime | None = None

    @property
    def key(self) -> str:
        """The logical key."""
        return self.occurrence.key


@dataclass(frozen=True, slots=True)
class MissingReport:
    """The missing occurrences of one job, oldest first.

    Attributes:
        total: How many there are; *occurrences* holds the first of them, up to the limit.
    """

    job: str
    ledger_name: str
    at: datetime
    total: int
    occurrences: tuple[MissingOccurrence, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What a tick would do with one missing occurrence, and why."""

    occurrence: Occurrence
    due_at: datetime
    decision: Decision
    why: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What a tick would do for one job.

    Attributes:
        parts: The plan of each partition with something missing; of "" where there are none.
        pending: What it would record first: `first`, `edit`, `zone data` or `retired`.
        paused_since: It is paused; a tick does nothing.
        refused: Why this process may not run it.
    """

    job: str
    ledger_name: str
    policies: Policies | None = None
    parts: dict[str, Plan] = field(default_factory=dict)
    pending: str | None = None
    paused_since: datetime | None = None
    refused: DulyError | None = None
    expected: Expected | None = None
    failures: Mapping[str, Mapping[int, Failures]] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """How many occurrences are missing."""
        return sum(plan.missing for plan in self.parts.values())

    @property
    def over_limit(self) -> int:
        """How many more stay missing because one tick does no more."""
        runs = sum(len(plan.run) for plan in self.parts.values())
        most = 0 if self.policies is None else self.policies.max_per_tick
        return sum(plan.over_limit for plan in self.parts.values()) + max(0, runs - most)

    @property
    def held(self) -> int:
        """How many wait for another one."""
        return sum(plan.held for plan in self.parts.values())

    @property
    def left(self) -> int:
        """How many stay missing because the policy leaves them to a person."""
        return sum(plan.left for plan in self.parts.values())

    def steps(self) -> Iterator[Step]:
        """What happens to each occurrence that has its own decision; lazy.

        In the order of a tick: skipped, run, superseded; then what waits.
        """
        parts = self.parts.items()
        for partition, plan in parts:
            for us in plan.skip:
                yield self._step(us, partition, Decision.SKIP)
        most = 0 if self.policies is None else self.policies.max_per_tick
        runs = sorted((us, partition) for partition, plan in parts for us in plan.run)
        for us, partition in runs[:most]:
            yield self._step(us, partition, Decision.RUN)
        for partition, plan in parts:
            for us in plan.cover:
                yield self._step(us, partition, Decision.SUPERSEDE)
        for partition, plan in parts:
            for waiting in plan.waiting:
                yield self._step(waiting.nominal_us, partition, waiting.decision, waiting.until)

    def _step(
        self, us: int, partition: str, decision: Decision, until: datetime | None = None
    ) -> Step:
        assert self.expected is not None
        occurrence = Occurrence.from_us(self.ledger_name, us, partition)
        due_at = self.expected.due_time(occurrence.nominal_time) or occurrence.nominal_time
        return Step(occurrence, due_at, decision, self._why(us, partition, decision, until), until)

    def _why(self, us: int, partition: str, decision: Decision, until: datetime | None) -> str:
        assert self.policies is not None
        failed = self.failures.get(partition, {}).get(us)
        match decision:
            case Decision.SKIP:
                return f"due longer ago than skip_after={self.policies.skip_after}"
            case Decision.SUPERSEDE:
                by = Occurrence.from_us(self.ledger_name, self.parts[partition].run[0], partition)
                return f"covered by {by.key}"
            case Decision.RETRY_LATER:
                assert until is not None
                return f"{_times(failed)}; tried again from {format_instant(until)}"
            case Decision.GIVEN_UP:
                final = failed is not None and failed.final
                last = "its last error is not worth a retry" if final else "no attempt is left"
                return f"{_times(failed)}; {last}"
            case Decision.RUN:
                return self._why_run(partition, failed)

    def _why_run(self, partition: str, failed: Failures | None) -> str:
        assert self.policies is not None
        if failed is not None:
            return f"attempt {failed.count + 1}: {_times(failed)}"
        older = len(self.parts[partition].cover)
        if older:
            return f"the newest; it covers {older} older"
        return "the newest due" if self.policies.catch_up == "none" else "due and missing"


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What a tick would do at one instant.

    Attributes:
        jobs: Every job that a tick would look at, by name.
    """

    at: datetime
    jobs: tuple[JobPlan, ...]


def looked_at(
    occurrence: Occurrence, due_at: datetime, *, policies: Policies, now: datetime, tried: Tried
) -> MissingOccurrence:
    """What is known of one missing occurrence."""
    failed = tried.failures.get(occurrence.nominal_us)
    waiting = tried.waiting(occurrence.nominal_us)
    return MissingOccurrence(
        occurrence,
        due_at,
        overdue_since(due_at, policies, now),
        0 if failed is None else failed.count,
        None if failed is None else failed.last_at,
        waiting is not None and waiting.decision is Decision.GIVEN_UP,
        None if waiting is None else waiting.until,
    )


def overdue_since(due_at: datetime, policies: Policies, now: datetime) -> datetime | None:
    """When an occurrence that is still missing passed its deadline; None if it has not."""
    if policies.deadline is None or now - due_at < policies.deadline:
        return None
    return due_at + policies.deadline


def oldest(parts: Mapping[str, Plan]) -> datetime | None:
    """The nominal time of the oldest missing occurrence of all partitions."""
    found = [plan.oldest_us for plan in parts.values() if plan.oldest_us is not None]
    return from_us(min(found)) if found else None


def _times(failed: Failures | None) -> str:
    count = 0 if failed is None else failed.count
    return "failed once" if count == 1 else f"failed {count} times"
