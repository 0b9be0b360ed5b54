"""One tick: what is due and missing is run, skipped or superseded, by each job's policies.

Decides nothing about an occurrence: the plan does, and the key decides between two ticks. Any
number of hosts may tick at once, at any time.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly._core import ops, timing
from duly._core.instants import from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.resolve import Nominal
from duly._core.states import Outcome
from duly._db import expectation
from duly._sync import partitioning, planning, registry
from duly._sync.claim import looks_old
from duly._sync.process import new_attempt_id
from duly._sync.refusals import NoSlot, Result
from duly._sync.starting import payload_of
from duly.errors import AlreadySettled, Busy, ConnectionLost, DulyError, PartitionsInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly._core.catch_up import Plan
    from duly._core.job import Job
    from duly._db.connect import Database
    from duly._sync.attempts import Attempts
    from duly._sync.registry import Known, Registry

log = logging.getLogger("duly.tick")

WAIT_S = 10.0
COMPLETE_EVERY = 64
"""After how many settled occurrences the ledger is told how far a job is complete."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One occurrence that a tick started.

    Attributes:
        outcome: None where it was settled otherwise, or not begun.
        result: Of an applied or duplicate one.
        error: What the handler or the database raised.
    """

    key: str
    outcome: Outcome | None
    result: Result | None = None
    error: Exception | None = None


@dataclass(slots=True)
class JobTick:
    """What a tick found and did for one job.

    Attributes:
        parts: The plan of each partition with something missing; of "" where there are none.
        skipped: How many occurrences it settled as skipped.
        paused_since: It is paused; nothing was done.
        refused: Why this process may not run it.
        full: As many of its occurrences as may run at once are running elsewhere.
    """

    job: str
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
        clock_behind: Jobs whose settled occurrences were due only after *at*: the clock went
            back, or was ahead once.
    """

    at: datetime
    jobs: list[JobTick] = field(default_factory=list)
    clock_behind: list[str] = field(default_factory=list)


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
            if done.missing or done.refused:
                report.jobs.append(done)
        report.jobs += [JobTick(job, refused=error) for job, error in refused.items()]
        report.clock_behind = self._clock_behind(at)
        return report

    def due(
        self, now: datetime | None, refused: dict[str, DulyError]
    ) -> tuple[datetime, list[tuple[Job, Known]]]:
        """The clock, and the jobs that may have something missing by then."""
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
                known = registry.read(session, job.ledger_name)
                assert known is not None
                found.append((job, known))
        return at, found

    def job(self, job: Job, known: Known, at: datetime) -> JobTick:
        """Do for one job what its plan says."""
        done = JobTick(job.name)
        try:
            found = self._missing(job, known, at)
        except PartitionsInvalid as error:
            done.refused = error
            return done
        with self._database.session() as session:
            for partition, of_part in found.items():
                done.parts[partition] = planning.plan(
                    session, known, of_part, now=at, partition=partition
                )
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
            if isinstance(ran.error, Busy | ConnectionLost):
                break  # the database's trouble is every occurrence's
            if ran.error is not None and policies.in_order:
                break
        self._mark_complete(known, found, done, at)
        return done

    def _missing(self, job: Job, known: Known, at: datetime) -> dict[str, planning.Missing]:
        """What is missing of each partition; of the one without a name, if there are none."""
        with self._database.session() as session:
            if job.partitions is None:
                return {"": planning.missing(session, known, now=at)}
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
        try:
            result = self._attempts.make(
                job, request, payload, nominal, schedule=schedule, wait_s=WAIT_S
            )
        except NoSlot:
            done.full = True
            return None
        except AlreadySettled as error:
            return Ran(occurrence.key, None, error=error)
        except Exception as error:
            outcome = Outcome.BUSY if isinstance(error, Busy) else Outcome.FAILED
            return Ran(occurrence.key, outcome, error=error)
        return Ran(occurrence.key, result.outcome, result)

    def _skip(self, known: Known, partition: str, nominal_times: Sequence[int]) -> int:
        """Settle what is too old, with the reason; what somebody runs meanwhile is left out."""
        after = known.latest.policies.skip_after
        reason = f"due longer ago than skip_after={after}"
        newest_first = sorted(nominal_times, reverse=True)
        with self._database.session() as session:
            session.begin(WAIT_S)
            count = session.settle(
                {"job": known.job, "partition_key": partition},
                newest_first,
                disposition="skipped",
                reason=reason,
            )
            session.commit(WAIT_S)
        return count

    def _mark_complete(
        self, known: Known, found: dict[str, planning.Missing], done: JobTick, at: datetime
    ) -> None:
        """Remember how far everything is settled, so that the next tick need not look again."""
        # What was covered or skipped is looked at once more: somebody may have been faster.
        settled = sum(ran.outcome in {Outcome.APPLIED, Outcome.DUPLICATE} for ran in done.ran)
        newest_us = max((m.newest_due_us or 0 for m in found.values()), default=0)
        if not newest_us or settled != sum(plan.missing for plan in done.parts.values()):
            return
        expected = max(m.expected for m in found.values())
        if known.complete_us is not None and expected < COMPLETE_EVERY:
            return
        newest = from_us(newest_us)
        due_at = known.expected.due_time(newest) or newest
        params = {"job": known.job, "complete_us": to_us(min(due_at, at))}
        with self._database.session() as session:
            session.begin(WAIT_S)
            session.change("mark_complete", params)
            session.commit(WAIT_S)

    def _clock_behind(self, at: datetime) -> list[str]:
        with self._database.session() as session:
            rows = session.run("list_jobs", {"limit": 100_000})
        return [row[0] for row in rows if row[3] is not None and from_us(int(row[3])) > at]


def _is_complete(job: Job, row: expectation.Latest, at: datetime) -> bool:
    """Whether nothing of a job fell due after what was found settled."""
    if row.complete_us is None or job.schedule is None:
        return False
    newest = timing.newest_due(job.schedule, at)
    return newest is None or timing.due_time(job.schedule, newest) <= from_us(row.complete_us)
