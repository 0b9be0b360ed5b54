"""One tick: what is due and missing is run, skipped or superseded, by each job's policies.

Decides nothing about an occurrence: the plan does, and the key decides between two ticks. Any
number of hosts may tick at once, at any time.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from duly._core import ops, timing
from duly._core.instants import NEVER_US, from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.resolve import Nominal
from duly._core.states import Outcome
from duly._db import expectation
from duly._db.dialects import ErrorKind
from duly._db.translate import public_error
from duly._sync import partitioning, planning, registry
from duly._sync.claim import looks_old
from duly._sync.process import new_attempt_id
from duly._sync.refusals import NoSlot, Result
from duly._sync.starting import payload_of
from duly._sync.watched import Watched, is_of_one_attempt
from duly.errors import (
    AlreadySettled,
    Busy,
    ConnectionLost,
    DulyError,
    Expired,
    Fenced,
    PartitionsInvalid,
    PayloadConflict,
    TransactionEnded,
    TransientError,
)

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import datetime

    from duly._core.catch_up import Plan
    from duly._core.job import Job
    from duly._db.connect import Database
    from duly._sync.attempts import Attempts
    from duly._sync.registry import Known, Registry

log = logging.getLogger("duly.tick")

WAIT_S = 10.0
SKIP_WAIT_S = 2.0
"""How long a tick waits for who runs what it would skip; the next tick tries again."""
MARK_WAIT_S = 2.0
"""How long a tick waits to save the next one some work."""
AHEAD_MAX = 10_000
"""Jobs whose settled occurrences are looked at for a clock that is behind."""
COMPLETE_EVERY = 64
"""After how many settled occurrences the ledger is told how far a job is complete."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One occurrence that a tick started.

    Attributes:
        outcome: None where it was settled otherwise, or where the database went away.
        took: How long this start took.
        result: Of an applied or duplicate one.
        error: What the handler or the database raised.
    """

    key: str
    outcome: Outcome | None
    took: timedelta
    result: Result | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class JobTick:
    """What a tick found and did for one job.

    Attributes:
        job: The name for people.
        ledger_name: The name in keys.
        parts: The plan of each partition with something missing; of "" where there are none.
        skipped: How many occurrences it settled as skipped.
        paused_since: It is paused; nothing was done.
        refused: Why this process may not run it.
        full: As many of its occurrences as may run at once are running elsewhere.
    """

    job: str
    ledger_name: str
    parts: dict[str, Plan] = field(default_factory=dict)
    ran: list[Ran] = field(default_factory=list)
    skipped: int = 0
    paused_since: datetime | None = None
    refused: DulyError | None = None
    full: bool = False

    @property
    def missing(self) -> int:
        """How many occurrences were missing when it was planned."""
        return sum(plan.missing for plan in self.parts.values())


@dataclass(slots=True)
class TickReport:
    """What one tick found and did.

    Attributes:
        at: The database's clock when it began.
        jobs: Those with anything to tell.
        clock_behind: Jobs of which something is settled that is due only after *at*, or whose
            definition was recorded as from a later time: the clock went back, or was ahead once.
    """

    at: datetime
    jobs: list[JobTick] = field(default_factory=list)
    clock_behind: list[str] = field(default_factory=list)


_ENDS: dict[type[DulyError], Outcome | None] = {
    AlreadySettled: None,
    Busy: Outcome.BUSY,
    ConnectionLost: None,
    Expired: Outcome.EXPIRED,
    Fenced: Outcome.FENCED,
    PayloadConflict: Outcome.CONFLICT,
    TransactionEnded: Outcome.TORN,
}
"""How an attempt ended, by duly's own error."""


class Ticking:
    """Ticks over an App's jobs."""

    def __init__(
        self, database: Database, jobs: dict[str, Job], told: Registry, attempts: Attempts
    ) -> None:
        self._database = database
        self._jobs = jobs
        self._registry = told
        self._attempts = attempts

    def tick(self, now: datetime | None = None) -> TickReport:
        """Run what is due.

        Args:
            now: Instead of the database's clock; what is due by then.
        """
        _, refused = self._registry.register()
        at, due = self.due(now, refused)
        report = TickReport(at)
        for job, known in due:
            done = self.job(job, known, at)
            if done.missing or done.refused or done.ran:
                report.jobs.append(done)
        report.jobs += [
            JobTick(name, self._jobs[name].ledger_name, refused=error)
            for name, error in refused.items()
        ]
        report.jobs += self._paused()
        report.clock_behind = self.clock_behind(at)
        return report

    def due(
        self,
        now: datetime | None,
        refused: dict[str, DulyError],
        only: Container[str] | None = None,
    ) -> tuple[datetime, list[tuple[Job, Known]]]:
        """The clock, and the jobs that may have something missing by then.

        Args:
            only: Of these names; None for all.
        """
        found: list[tuple[Job, Known]] = []
        with self._database.session() as session:
            at = now or from_us(session.clock_us())
            latest = expectation.latest(session)
            paused = expectation.paused_jobs(session)
            for job in self._jobs.values():
                row = latest.get(job.ledger_name)
                if row is None or job.name in refused or job.ledger_name in paused:
                    continue
                if job.schedule is None or _is_complete(job, row, at):
                    continue
                if only is not None and job.name not in only:
                    continue
                known = registry.read(session, job.ledger_name)
                assert known is not None
                found.append((job, known))
        return at, found

    def job(self, job: Job, known: Known, at: datetime) -> JobTick:
        """Do for one job what its plan says."""
        done = JobTick(job.name, job.ledger_name)
        began = time.monotonic()
        try:
            found = self._missing(job, known, at)
        except PartitionsInvalid as error:
            done.refused = error
            return done
        except Busy as error:
            # Somebody runs the whole of what would be fanned out: of no other job's concern.
            key = str(error.details.get("key", job.ledger_name))
            took = timedelta(seconds=time.monotonic() - began)
            done.ran.append(Ran(key, Outcome.BUSY, took, error=error))
            return done
        with self._database.session() as session:
            done.parts = planning.plans(session, known, found, now=at)
        policies = known.latest.policies
        for partition, plan in done.parts.items():
            if plan.skip:
                done.skipped += self._skip(known, partition, plan.skip)
        # All parts of an occurrence before the next one, as far as one tick goes.
        runs = sorted((us, part) for part, plan in done.parts.items() for us in plan.run)
        for us, partition in runs[: policies.max_per_tick]:
            occurrence = Occurrence.from_us(job.ledger_name, us, partition)
            ran = self._start(job, known, occurrence, done.parts[partition].cover, done)
            if ran is None:
                break
            done.ran.append(ran)
            if ran.outcome in {None, Outcome.BUSY} and isinstance(ran.error, TransientError):
                break  # the database's trouble is every occurrence's
            if ran.error is not None and policies.in_order:
                break
        self._mark_complete(known, found, done, at)
        return done

    def _missing(self, job: Job, known: Known, at: datetime) -> dict[str, planning.Missing]:
        """What is missing of each partition; of the one without a name, if there are none."""
        with self._database.session() as session:
            return partitioning.missing(self._database, session, job, known, now=at)

    def _start(
        self,
        job: Job,
        known: Known,
        occurrence: Occurrence,
        cover: Sequence[int],
        done: JobTick,
    ) -> Ran | None:
        expected = known.expected
        due_at = expected.due_time(occurrence.nominal_time) or occurrence.nominal_time
        payload = payload_of(job, known, due_at)
        request = ops.Request(
            occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(occurrence),
            slots=known.latest.policies.max_running,
            cover=cover,
        )
        schedule = expected.revised() if len(known.revisions) > 1 else job.schedule
        nominal = Nominal(occurrence.nominal_time, "schedule", due_at)
        handler = Watched(job.handler)
        began = time.monotonic()
        try:
            result = self._attempts.make(
                replace(job, handler=handler),
                request,
                payload,
                nominal,
                schedule=schedule,
                wait_s=WAIT_S,
            )
        except NoSlot:
            done.full = True
            return None
        except BaseException as raised:
            if not is_of_one_attempt(raised):
                raise
            took = timedelta(seconds=time.monotonic() - began)
            outcome, error = self._ended(raised, is_the_handlers=raised is handler.raised)
            return Ran(occurrence.key, outcome, took, error=error)
        return Ran(occurrence.key, result.outcome, result.duration, result)

    def _ended(
        self, error: BaseException, *, is_the_handlers: bool
    ) -> tuple[Outcome | None, BaseException]:
        """How an attempt ended that raised, and the error to tell."""
        if is_the_handlers:
            dialect = self._database.dialect
            if not isinstance(error, DulyError) and dialect.classify(error) is ErrorKind.LOST:
                return None, public_error(dialect, error, self._database.where) or error
            return Outcome.FAILED, error
        ends = (outcome for kind, outcome in _ENDS.items() if isinstance(error, kind))
        return next(ends, Outcome.FAILED), error

    def _skip(self, known: Known, partition: str, nominal_times: Sequence[int]) -> int:
        """Settle what is too old, with the reason; what somebody runs meanwhile is left out."""
        after = known.latest.policies.skip_after
        try:
            with self._database.session() as session:
                session.begin(SKIP_WAIT_S)
                # No row may say "skipped" of what was applied and pruned meanwhile (PROTOCOL 15).
                session.lock_guard(SKIP_WAIT_S)
                horizon_us = session.read_horizon(known.job)
                count = session.settle(
                    {"job": known.job, "partition_key": partition},
                    [us for us in reversed(nominal_times) if horizon_us is None or us > horizon_us],
                    wait=SKIP_WAIT_S,
                    disposition="skipped",
                    reason=f"due longer ago than skip_after={after}",
                )
                session.commit(WAIT_S)
        except Busy as error:
            # Somebody runs one of them now: what is not too old need not wait for that.
            log.info("skip_put_off", extra={"job": known.job, "error": str(error)})
            return 0
        return count

    def _mark_complete(
        self, known: Known, found: dict[str, planning.Missing], done: JobTick, at: datetime
    ) -> None:
        """Remember how far everything is settled, so that the next tick need not look again."""
        # What was covered or skipped is looked at once more: somebody may have been faster.
        settled = sum(ran.outcome in {Outcome.APPLIED, Outcome.DUPLICATE} for ran in done.ran)
        if settled != sum(plan.missing for plan in done.parts.values()):
            return
        # Until what earlier revisions expected is marked too, no tick may pass the job by.
        in_force_us = to_us(min(known.latest.effective_at, at))
        is_behind = known.complete_us is not None and known.complete_us < in_force_us
        newest_us = max((m.looked_at_us or 0 for m in found.values()), default=0)
        if newest_us:
            newest = from_us(newest_us)
            complete_us = to_us(min(known.expected.due_time(newest) or newest, at))
        elif is_behind:
            complete_us = in_force_us  # nothing was expected since
        else:
            return
        expected = max((m.expected for m in found.values()), default=0)
        if known.complete_us is not None and expected < COMPLETE_EVERY and not is_behind:
            return
        params = {
            "job": known.job,
            "complete_us": complete_us,
            # A held command that failed since then left a hole where the plan saw none.
            "known_us": NEVER_US if known.complete_us is None else known.complete_us,
            "never_us": NEVER_US,
            "revision": known.latest.number,
        }
        try:
            with self._database.session() as session:
                session.begin(MARK_WAIT_S)
                # Before the statement that looks: a revision that is being written is waited for.
                session.lock_job(known.job, MARK_WAIT_S)
                session.change("mark_complete", params)
                session.commit(WAIT_S)
        except Busy as error:
            log.info("mark_put_off", extra={"job": known.job, "error": str(error)})

    def _paused(self) -> list[JobTick]:
        with self._database.session() as session:
            paused = expectation.paused_jobs(session)
        return [
            JobTick(job.name, job.ledger_name, paused_since=paused[job.ledger_name])
            for job in self._jobs.values()
            if job.ledger_name in paused
        ]

    def clock_behind(self, at: datetime) -> list[str]:
        """The jobs that say that the clock was ahead of *at*.

        A schedule or a starter settled what is due only later, or their definition was recorded as
        from a later time: until then nothing is expected by it.
        """
        jobs = {job.ledger_name: job for job in self._jobs.values()}
        with self._database.session() as session:
            rows = session.run("settled_ahead", {"at_us": to_us(at), "limit": AHEAD_MAX})
            latest = expectation.latest(session)
        ahead = [
            (jobs[row[0]], timing.due_time(jobs[row[0]].schedule, from_us(int(row[1]))))
            for row in rows
            if row[0] in jobs
        ]
        ahead += [
            (jobs[name], from_us(row.effective_us))
            for name, row in latest.items()
            if name in jobs and jobs[name].schedule is not None
        ]
        return sorted({job.name for job, until in ahead if until - at > job.tolerance})


def _is_complete(job: Job, row: expectation.Latest, at: datetime) -> bool:
    """Whether nothing of a job fell due after what was found settled."""
    if row.complete_us is None or job.schedule is None:
        return False
    if row.revision > 1 and row.complete_us < row.effective_us:
        return False  # an earlier schedule may have expected something since
    newest = timing.newest_due(job.schedule, at)
    return newest is None or timing.due_time(job.schedule, newest) <= from_us(row.complete_us)
