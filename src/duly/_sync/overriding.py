"""What a person does to occurrences by hand, with a reason: waive, correct, prune.

It decides nothing about an effect: the key does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._core import retention
from duly._core.instants import as_utc, to_us
from duly._core.job import find
from duly._core.occurrence import CORRECTION_MAX, Occurrence
from duly._sync import deciding, pausing, prune, questions, registry, span, waiving
from duly._sync.asking import Asking
from duly._sync.starting import UNSET
from duly.errors import KeyInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date, datetime

    from duly._core.job import Job
    from duly._sync.backfill import Backfilled, BackfillReport
    from duly._sync.refusals import Result


class Overriding(Asking):
    """The overrides."""

    def waive(self, key: str, *, reason: str, actor: str) -> None:
        """Settle an occurrence without its effect: one that is missing, or torn.

        Args:
            key: Of the occurrence. A missing one is any that was due and is not settled.
            reason: Why, in one line of at most 2000 characters.
            actor: Who, in at most 200.

        Raises:
            UsageError: The reason or the actor, or an occurrence that is to come.
            AlreadySettled: It is settled, and not torn.
            Expired: It is at or below the horizon.
            Busy: An attempt at it stayed under way for 10 s; nothing was done.
        """
        order = deciding.order(reason, actor)
        named = Occurrence.parse(key)
        self._readiness.ensure()
        occurrence = waiving.renamed(self.database, self.jobs, named)
        waiving.waive(self.database, self._of(occurrence.job), occurrence, order)

    def waive_missing(
        self,
        job: str,
        *,
        since: datetime | date | str,
        until: datetime | date | str,
        reason: str,
        actor: str,
        dry_run: bool = False,
    ) -> int:
        """Waive every missing occurrence of a job in a span of nominal times.

        Args:
            since, until: The span, half-open: instants, or dates in the job's zone.
            dry_run: Only count them.

        Returns:
            How many were waived, or would be. One that was settled meanwhile is left as it is.

        Raises:
            UsageError: The reason or the actor, an unknown job, a span that ends before it begins.
            Busy: An attempt at one of them stayed under way; the batches before are done.
        """
        order = deciding.order(reason, actor)
        self._readiness.ensure()
        name, start, end = self._span(job, since, until)
        parts = waiving.missing_between(self.database, name, self._of(name), start, end)
        if dry_run:
            return sum(len(part.nominal_us) for part in parts.values())
        return sum(
            sum(waiving.waive_all(self.database, name, partition, part.nominal_us, order))
            for partition, part in parts.items()
        )

    def correct(self, key: str, *, reason: str, actor: str, payload: Any = UNSET) -> Result:
        """Make a second effect for a settled occurrence, under the key's next number.

        It is also the way to run one that was skipped, superseded or waived. A torn one becomes
        waived in its favour; both commit together. Ordered again, it is a duplicate.

        Args:
            key: Of the settled occurrence.
            reason: Why, in one line of at most 2000 characters.
            actor: Who, in at most 200.
            payload: In place of the job's own.

        Raises:
            UsageError: The reason or the actor, or a key that is not settled: run that one.
            Expired: It is at or below the horizon.
            Exception: The handler's own, as from `run`; nothing was changed.
        """
        order = deciding.order(reason, actor)
        named = Occurrence.parse(key)
        if named.correction == CORRECTION_MAX:
            raise KeyInvalid(f"{key} has no next correction: its number is the highest that fits")
        self._readiness.ensure()
        occurrence = waiving.renamed(self.database, self.jobs, named)
        job = self._of(occurrence.job) or find(self.jobs, named.job)
        questions.require_settled(self.database, occurrence)
        return self._starting.correct(job, occurrence, order, payload)

    def pause(self, job: str, *, reason: str, actor: str) -> datetime:
        """Expect nothing of a job for a while: ticks and workers leave it alone.

        What is under way goes on, and a start by name still runs.

        Returns:
            Since when, by the database's clock. What falls due from then on, until it is
            resumed, is not missing.

        Raises:
            UsageError: The reason or the actor, an unknown job, or one without a schedule.
            OperatorError: It is paused already, or retired.
        """
        order = deciding.order(reason, actor)
        return pausing.pause(self.database, self._registered(job), order)

    def resume(self, job: str, *, reason: str, actor: str, catch_up: bool = False) -> datetime:
        """End a job's pause.

        Args:
            catch_up: What fell due in the pause is missing now; by default it is not expected.

        Returns:
            Since when it was paused.

        Raises:
            UsageError: The reason or the actor, or an unknown job.
            OperatorError: It is not paused.
        """
        order = deciding.order(reason, actor)
        return pausing.resume(self.database, self._registered(job), order, catch_up=catch_up)

    def retire(self, job: str, *, reason: str, actor: str) -> datetime:
        """Expect nothing more of a job; what is missing until now stays missing.

        Code that still defines it is told that it is stale.

        Returns:
            From when on nothing is expected.

        Raises:
            UsageError: The reason or the actor, an unknown job, or one without a schedule.
            OperatorError: It is retired already.
        """
        order = deciding.order(reason, actor)
        return pausing.retire(self.database, self._registered(job), order, self.started_by)

    def backfill(
        self,
        job: str,
        *,
        since: datetime | date | str,
        until: datetime | date | str,
        dry_run: bool = False,
        workers: int = 1,
        stop_on_failure: bool = False,
        reason: str | None = None,
        actor: str | None = None,
        on_counted: Callable[[BackfillReport], None] | None = None,
        on_done: Callable[[Backfilled], object] | None = None,
    ) -> BackfillReport:
        """Run every nominal time of a span that is due and not settled, oldest first.

        Also those before the job's start, which nothing expects. A handler's exception is
        recorded and told in the report, and the rest goes on. It may be repeated: what is
        settled is not run again.

        Args:
            since, until: The span of nominal times, half-open: instants, or dates in the job's
                zone. What is not due yet is left out.
            dry_run: Only count them.
            workers: How many threads run them, at most 12. One keeps to `max_running`, with
                whatever else runs the job; more overlap, as this order says.
            stop_on_failure: Stop at the first that fails.
            reason: Why; kept with the audit if it is given.
            actor: Who; by default who starts attempts here.
            on_counted: Called once, before the first is run.
            on_done: Called after each one, in the caller's thread.

        Raises:
            UsageError: An unknown job, or one without a schedule; a span that ends before it
                begins, begins in the future, or has more than a million nominal times.
            Expired: The span begins at or below the horizon.
            OperatorError, ConnectionLost, …: What every further one would meet, such as a torn
                occurrence; those before are done.
        """
        from duly._sync.backfill import WORKERS_MAX, Backfill

        if isinstance(workers, bool) or not 1 <= workers <= WORKERS_MAX:
            raise UsageError(f"workers={workers!r} is not from 1 to {WORKERS_MAX}")
        who = self.started_by if actor is None else actor
        order = deciding.order(reason, who) if reason is not None else None
        self._readiness.ensure()
        name, start, end = self._span(job, since, until)
        defined = self._of(name) or find(self.jobs, job)
        known = self._registry.known(defined, fresh=True)
        planned = Backfill(
            self.database,
            self._attempts,
            defined,
            known,
            since=start,
            until=end,
            now=questions.now(self.database),
        )
        report = planned.count()
        if on_counted is not None:
            on_counted(report)
        if dry_run or not report.total:
            return report
        if order is not None:
            waiving.note_span(self.database, name, "backfill", order, start, end)
        planned.run(report, workers=workers, stop_on_failure=stop_on_failure, on_done=on_done)
        return report

    def prune(
        self, *, older_than: timedelta | datetime, clock_is_right: bool = False
    ) -> list[retention.PrunedJob]:
        """Delete settled records at or below a nominal time; their keys stay refused.

        Args:
            older_than: An age by the database's clock, or an aware instant.
            clock_is_right: Nothing was recorded for a day, and that is as it should be.

        Raises:
            PruneRefused: It would pass the floor, or the clock is in doubt.
        """
        self._readiness.ensure(only_read=True)
        self.sweep()
        if isinstance(older_than, timedelta):
            if older_than <= timedelta(0):
                raise UsageError(f"older_than={older_than} is not an age: give more than zero")
            age = older_than // timedelta(microseconds=1)
            protocol = retention.prune(None, age_us=age, clock_is_right=clock_is_right)
        else:
            bound = to_us(as_utc(older_than, name="older_than"))
            protocol = retention.prune(bound, clock_is_right=clock_is_right)
        return prune.drive(self.database, self._attempts.evidence, protocol, self._probe)

    def _registered(self, job: str) -> str:
        """A job's name in keys, after the ledger was told of a definition that it lacks."""
        self._readiness.ensure()
        with self.database.session() as session:
            name = waiving.known_name(session, self.jobs, job)
            known = registry.read(session, name)
        defined = self._of(name)
        if known is None and defined is not None:
            self._registry.known(defined, fresh=True)
        return name

    def _of(self, ledger_name: str) -> Job | None:
        """The job of that name in keys, if this process defines it."""
        return next((job for job in self.jobs.values() if job.ledger_name == ledger_name), None)

    def _span(
        self, job: str, since: datetime | date | str, until: datetime | date | str
    ) -> tuple[str, datetime, datetime]:
        """A job's name in keys, and a span of its nominal times."""
        with self.database.session() as session:
            name = waiving.known_name(session, self.jobs, job)
            defined = self._of(name)
            zone = defined.zone if defined is not None else span.zone_of(session, name)
        start, end = span.read(since, until, zone=zone)
        return name, start, end
