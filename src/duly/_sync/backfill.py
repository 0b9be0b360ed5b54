"""Backfills: every nominal time of a span that is not settled is run, oldest first.

Decides which those are, how many are too many, and when to stop; the key decides about each. It
never holds more of the span in memory than a page, and never runs what is settled or not due.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from duly._core import ops
from duly._core.instants import format_instant, from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.resolve import Nominal
from duly._core.timing import due_time
from duly._db.waiting import pause
from duly._sync import partitioning
from duly._sync.claim import looks_old
from duly._sync.crew import in_threads
from duly._sync.process import new_attempt_id
from duly._sync.refusals import NoSlot
from duly._sync.starting import named, payload_of
from duly._sync.watched import Watched, is_of_one_attempt
from duly.errors import (
    AlreadySettled,
    Busy,
    ConnectionLost,
    DulyError,
    Expired,
    InvariantBroken,
    NominalTimeInvalid,
    OperatorError,
    PayloadConflict,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from duly._core.job import Job
    from duly._core.schedules import Schedule
    from duly._db.connect import Database
    from duly._sync.attempts import Attempts
    from duly._sync.registry import Known

PAGE = 1_000
"""Nominal times that are held against the ledger at once."""
SPAN_MAX = 1_000_000
"""Nominal times of one backfill, and occurrences: they are counted before the first is run, which
takes about ten seconds for as many."""
WAIT_S = 10.0
PAUSE_S = 0.05
WORKERS_MAX = 12
"""More than these would wait for each other in the default pool of connections."""
KEPT_MAX = 20
"""Failures that a report names."""


@dataclass(frozen=True, slots=True)
class Backfilled:
    """How one occurrence of a backfill ended.

    Attributes:
        word: `applied`, `duplicate`, `failed`, `settled` (otherwise, meanwhile) or `busy`.
        error: What the handler or the database raised.
    """

    key: str
    word: str
    error: BaseException | None = None


@dataclass(slots=True)
class BackfillReport:
    """What a backfill found and did.

    Attributes:
        total: How many were not settled when it began.
        oldest, newest: The first and the last key of them.
        counts: How many ended how, by the words of `Backfilled`.
        failures: The first ones that failed or were busy.
        stopped: It ended before its time, at a failure.
    """

    job: str
    total: int = 0
    oldest: str | None = None
    newest: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    failures: list[Backfilled] = field(default_factory=list)
    stopped: bool = False

    @property
    def done(self) -> int:
        """How many ended, however."""
        return sum(self.counts.values())

    def add(self, one: Backfilled) -> None:
        """Count one."""
        self.counts[one.word] = self.counts.get(one.word, 0) + 1
        if one.word in {"failed", "busy"} and len(self.failures) < KEPT_MAX:
            self.failures.append(one)


class Backfill:
    """One job and one span."""

    def __init__(
        self,
        database: Database,
        attempts: Attempts,
        job: Job,
        known: Known,
        *,
        since: datetime,
        until: datetime,
        now: datetime,
    ) -> None:
        """Take the span.

        Args:
            since, until: Nominal times, half-open, aware UTC.
            now: The database's clock: what is due later is left out.

        Raises:
            UsageError: The job has no schedule, nothing in the span can be due, or too much.
            Expired: The span begins at or below the horizon.
        """
        schedule = named(job, known)
        if schedule is None:
            raise UsageError(
                f"job {job.name} has no schedule, so no time of it can be listed: start its"
                " occurrences by name",
                job=job.name,
            )
        if since > now:
            raise NominalTimeInvalid(
                f"since {format_instant(since)} is in the future: nothing from then on is due; give"
                " an earlier one"
            )
        self._database = database
        self._attempts = attempts
        self._known = known
        self._schedule: Schedule = schedule
        self._since, self._until, self._now = since, until, now
        self._job = job
        self._refuse_pruned()
        self._refuse_endless()

    def count(self) -> BackfillReport:
        """How many are to be run, and the first and last of them; runs nothing.

        Raises:
            NominalTimeInvalid: They are too many, by their partitions.
        """
        report = BackfillReport(self._job.name)
        for occurrence in self._todo():
            if report.total == SPAN_MAX:
                raise self._too_many("occurrences", occurrence.nominal_time)
            report.total += 1
            report.oldest = report.oldest or occurrence.key
            report.newest = occurrence.key
        return report

    def run(
        self,
        report: BackfillReport,
        *,
        workers: int,
        stop_on_failure: bool,
        on_done: Callable[[Backfilled], object] | None,
    ) -> None:
        """Run them, and count in *report* how each ended.

        Raises:
            DulyError: What makes every further one fail too; those before are done.
        """

        def keep(one: Backfilled) -> bool:
            """Whether to go on."""
            report.add(one)
            if on_done is not None:
                on_done(one)
            report.stopped |= stop_on_failure and one.word == "failed"
            return not report.stopped

        if workers == 1:
            slots = self._known.latest.policies.max_running
            for occurrence in self._todo():
                if not keep(self._one(occurrence, slots)):
                    return
        else:
            work = partial(self._one, slots=None)
            in_threads(self._todo(), work, workers=workers, keep=keep)

    # What is to be done

    def _refuse_pruned(self) -> None:
        horizon_us = self._known.horizon_us
        first = next(iter(self._schedule.between(self._since, self._until)), None)
        if horizon_us is None or first is None or to_us(first) > horizon_us:
            return
        horizon = format_instant(from_us(horizon_us))
        raise Expired(
            f"job {self._job.name}: {format_instant(first)} is at or below its horizon ({horizon}):"
            " what was pruned is never run again; give a later since",
            job=self._job.name,
            horizon=horizon,
        )

    def _refuse_endless(self) -> None:
        """Before the ledger is asked about any: a slip in the year is told at once."""
        times = self._schedule.between(self._since, max(self._since, min(self._until, self._now)))
        over = next(islice(times, SPAN_MAX, None), None)
        if over is not None:
            raise self._too_many("nominal times", over)

    def _too_many(self, what: str, over: datetime) -> NominalTimeInvalid:
        return NominalTimeInvalid(
            f"job {self._job.name}: the span has more than {SPAN_MAX} {what}, and one backfill"
            f" takes no more: give a later since, or until {format_instant(over)} first and go on"
            " from there",
            job=self._job.name,
        )

    def _todo(self) -> Iterator[Occurrence]:
        """What is not settled, oldest first; a page is read at a time."""
        page: list[int] = []
        for at in self._schedule.between(self._since, self._until):
            if self._due(at) > self._now:
                break  # due times increase with nominal times
            page.append(to_us(at))
            if len(page) == PAGE:
                yield from self._unsettled(page)
                page = []
        if page:
            yield from self._unsettled(page)

    def _unsettled(self, page: Sequence[int]) -> Iterator[Occurrence]:
        """By the set of each occurrence's partitions, fixed now where it was not."""
        job = self._known.job
        with self._database.session() as session:
            planned = partitioning.planned_sets(session, job, page)
            whole = partitioning.settled_whole(session, job, page)
        free = [us for us in page if us not in planned and us not in whole]
        if self._job.partitions is None and not planned:
            yield from (Occurrence.from_us(job, us) for us in free)
            return
        if self._job.partitions is not None and free:
            names = partitioning.partitions_of(self._database, self._job)
            for us in free:
                partitioning.fix(self._database, job, us, names)
            free = []
        rest = page
        while rest:
            with self._database.session() as session:
                parts, until_us = partitioning.missing_parts(session, job, rest)
            found = [(us, name) for name, times in parts.items() for us in times]
            # Of a job that has no partitions any more.
            found += [(us, "") for us in free if rest[0] <= us <= until_us]
            yield from (Occurrence.from_us(job, us, name) for us, name in sorted(found))
            rest = [us for us in rest if us > until_us]

    def _due(self, at: datetime) -> datetime:
        return self._known.expected.due_time(at) or due_time(self._schedule, at)

    # Doing it

    def _one(self, occurrence: Occurrence, slots: int | None) -> Backfilled:
        due_at = self._due(occurrence.nominal_time)
        payload = payload_of(self._job, self._known, due_at)
        nominal = Nominal(occurrence.nominal_time, "backfill", due_at)
        deadline = time.monotonic() + WAIT_S
        while True:
            request = ops.Request(
                occurrence,
                payload.fingerprint,
                new_attempt_id(),
                looks_old=looks_old(occurrence),
                slots=slots,
            )
            handler = Watched(self._job.handler)
            try:
                result = self._attempts.make(
                    replace(self._job, handler=handler),
                    request,
                    payload,
                    nominal,
                    schedule=self._schedule,
                    wait_s=WAIT_S,
                )
            except NoSlot:
                if time.monotonic() > deadline:
                    raise Busy(
                        f"{occurrence.key}: as many occurrences of its job as may run at once"
                        f" ({slots}) are running elsewhere, for {WAIT_S:.0f} s; try again",
                        key=occurrence.key,
                    ) from None
                pause(PAUSE_S)
            except BaseException as error:
                if not is_of_one_attempt(error):
                    raise
                return Backfilled(occurrence.key, _word(error, handler.raised), error)
            else:
                return Backfilled(occurrence.key, result.outcome.value)


def _word(error: BaseException, raised: BaseException | None) -> str:
    """What an error means for the one occurrence; *raised* is what left the handler.

    Raises:
        DulyError: *error*, if it is not about this occurrence alone.
    """
    if not isinstance(error, DulyError) or error is raised:
        return "failed"
    if isinstance(error, AlreadySettled):
        return "settled"
    if isinstance(error, Busy):
        return "busy"
    if isinstance(error, OperatorError | ConnectionLost | InvariantBroken) and not isinstance(
        error, PayloadConflict
    ):
        raise error
    return "failed"
