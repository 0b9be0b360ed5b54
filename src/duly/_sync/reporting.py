"""Reports: what a tick would do, what is missing, how each job is; from the database alone too.

Decides nothing about an occurrence (`_core/catch_up.py` and `_core/status.py` do). It only
reads: a definition that the ledger does not hold yet is shown as what would be recorded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from duly import zones
from duly._core import status
from duly._core.instants import US_MAX, US_MIN, from_us
from duly._core.job import check_name
from duly._core.status import JobPlan, JobStatus, MissingReport, PlanReport, StatusReport
from duly._core.timing import due_time
from duly._db import expectation, reading
from duly._sync import outstanding, partitioning, planning, questions, registry, span
from duly.errors import (
    DefinitionStale,
    DulyError,
    FormerlyInvalid,
    PartitionsInvalid,
    PeriodChanged,
    UnknownJob,
    ZoneDataOutdated,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import date, datetime

    from duly._core.job import Job
    from duly._core.revision import Revision
    from duly._db.connect import Database
    from duly._db.sessions.base import Session
    from duly._sync.registry import Known, Registry

REFUSED = (DefinitionStale, FormerlyInvalid, PeriodChanged, ZoneDataOutdated)


@dataclass(frozen=True, slots=True)
class _Subject:
    """One job of a report.

    Attributes:
        name: For people.
        ledger_name: In keys.
        job: As this process defines it; None if it does not.
        known: What the ledger holds, or would; None for a job that nobody ever defined.
        new: The revision that registering it would write.
        refused: Why this process may not run it.
    """

    name: str
    ledger_name: str
    job: Job | None = None
    known: Known | None = None
    new: Revision | None = None
    refused: DulyError | None = None


class Reporting:
    """Reports on the jobs of an App and of its ledger."""

    def __init__(self, database: Database, jobs: Mapping[str, Job], told: Registry) -> None:
        self._database = database
        self._jobs = jobs
        self._registry = told

    def plan(self, now: datetime | None) -> PlanReport:
        """What a tick would do; without code, of every job that the ledger holds."""
        with self._database.session() as session:
            latest = expectation.latest(session)
            if self._jobs:
                subjects = [self._defined(session, job) for job in self._jobs.values()]
                retired = list(self._retirements(session, latest))
            else:
                subjects = [_stored(session, row) for row in latest.values() if not row.retired]
                retired = []
            at = _clock(session, now)
            paused = expectation.paused_jobs(session)
            found = [self._planned(session, each, at, paused) for each in subjects] + retired
        return PlanReport(at, tuple(sorted(found, key=lambda each: each.job)))

    def missing(
        self,
        name: str,
        *,
        since: datetime | date | str | None,
        until: datetime | date | str | None,
        limit: int,
    ) -> MissingReport:
        """The missing occurrences of one job in a span of nominal times, oldest first."""
        check_name(name)
        with self._database.session() as session:
            subject = self._subject(session, name)
            at = _clock(session, None)
            known = subject.known
            if known is None:
                return MissingReport(subject.name, subject.ledger_name, at, 0, ())
            zone = zones.load(known.latest.zone)
            start = None if since is None else span.bound(since, "since", zone)
            end = None if until is None else span.bound(until, "until", zone)
            due_since = None if start is None else planning.earliest_due(known, start)
            found = outstanding.missing(
                session, known, now=at, since=due_since, names=_listed(subject.job)
            )
            found = outstanding.within(found, start, end)
            failed = outstanding.failures(session, known, found)
        rows = islice(outstanding.occurrences(known, found, failed, at), limit)
        total = sum(len(part.nominal_us) for part in found.values())
        return MissingReport(subject.name, subject.ledger_name, at, total, tuple(rows))

    def status(self, names: Sequence[str], now: datetime | None) -> StatusReport:
        """How each job is; of every job that the ledger or this process knows, if none is named."""
        with self._database.session() as session:
            if names:
                for name in names:
                    check_name(name)
                subjects = [self._subject(session, name) for name in dict.fromkeys(names)]
            else:
                subjects = self._all(session)
            at = _clock(session, now)
            paused = expectation.paused_jobs(session)
            found = [self._status(session, each, at, paused) for each in subjects]
        return StatusReport(at, tuple(sorted(found, key=lambda each: each.job)))

    # Which jobs

    def _all(self, session: Session) -> list[_Subject]:
        latest = expectation.latest(session)
        defined = [self._defined(session, job) for job in self._jobs.values()]
        seen = {each.ledger_name for each in defined}
        stored = [_stored(session, row) for name, row in latest.items() if name not in seen]
        seen |= {each.ledger_name for each in stored}
        names = reading.known_jobs(session, limit=10_000)
        return [*defined, *stored, *(_Subject(n, n) for n in names if n not in seen)]

    def _subject(self, session: Session, name: str) -> _Subject:
        """The job that *name* means, by either of its names.

        Raises:
            UnknownJob: Neither the ledger nor this process knows it.
        """
        ledger_name = questions.ledger_name(session, self._jobs, name)
        for job in self._jobs.values():
            if job.ledger_name == ledger_name:
                return self._defined(session, job)
        known = registry.read(session, ledger_name)
        if known is not None:
            row = expectation.row_of(session, ledger_name)
            shown = None if row is None else row[1]
            return _Subject(shown or ledger_name, ledger_name, known=known)
        names = {*reading.known_jobs(session, limit=10_000), *self._jobs}
        if ledger_name in names:
            return _Subject(ledger_name, ledger_name)
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "duly status lists all"
        raise UnknownJob(f"no job is called {name!r} in {self._database.where}: {hint}", job=name)

    def _defined(self, session: Session, job: Job) -> _Subject:
        try:
            known, new = self._registry.foreseen(session, job)
        except REFUSED as error:
            held = registry.read(session, job.ledger_name)
            return _Subject(job.name, job.ledger_name, job, held, refused=error)
        return _Subject(job.name, job.ledger_name, job, known, new)

    def _retirements(
        self, session: Session, latest: Mapping[str, expectation.Latest]
    ) -> Iterator[JobPlan]:
        """The jobs that a tick would retire."""
        app = self._registry.app
        defined = {job.ledger_name for job in self._jobs.values()}
        for row in latest.values():
            if not app or row.job in defined or row.retired:
                continue
            subject = _stored(session, row)
            if subject.known is not None and subject.known.latest.app == app:
                yield JobPlan(subject.name, subject.ledger_name, pending="retired")

    # What becomes of each

    def _planned(
        self, session: Session, subject: _Subject, at: datetime, paused: Mapping[str, datetime]
    ) -> JobPlan:
        plan = JobPlan(
            subject.name,
            subject.ledger_name,
            pending=None if subject.new is None else subject.new.why,
            paused_since=paused.get(subject.ledger_name),
            refused=subject.refused,
        )
        known = subject.known
        if known is None or plan.paused_since or plan.refused:
            return plan
        try:
            names = self._partitions(subject.job)
        except PartitionsInvalid as error:
            return replace(plan, refused=error)
        found = outstanding.missing(session, known, now=at, names=names)
        return replace(
            plan,
            policies=known.latest.policies,
            parts=planning.plans(session, known, found, now=at),
            expected=known.expected,
            failures=outstanding.failures(session, known, found),
        )

    def _status(
        self, session: Session, subject: _Subject, at: datetime, paused: Mapping[str, datetime]
    ) -> JobStatus:
        found = JobStatus(
            subject.name,
            subject.ledger_name,
            paused_since=paused.get(subject.ledger_name),
            refused=subject.refused,
            pending=None if subject.new is None else subject.new.why,
        )
        rows = session.run("last_completed", {"job": subject.ledger_name})
        last = reading.settled(session, rows[0]).occurrence.nominal_time if rows else None
        known = subject.known
        if known is None:
            failing = outstanding.failing(session, subject.ledger_name, US_MIN, US_MAX)
            lag = None if last is None else at - last
            return replace(found, last_completed=last, lag=lag, failing=failing)
        schedule = known.expected.revised()
        due_at = None if last is None else due_time(schedule, last)
        latest = known.latest
        found = replace(
            found,
            schedule=latest.schedule,
            zone=latest.zone,
            revision=None if subject.new is latest and latest.number == 1 else latest.number,
            last_completed=last,
            lag=None if due_at is None else at - due_at,
            retired_since=latest.effective_at if latest.retired else None,
            next_due_at=known.expected.next_due(at),
        )
        return self._with_missing(session, subject, known, found, at)

    def _with_missing(
        self, session: Session, subject: _Subject, known: Known, found: JobStatus, at: datetime
    ) -> JobStatus:
        parts = outstanding.missing(session, known, now=at, names=_listed(subject.job))
        latest = known.latest
        if not parts:
            unsettled = None
            if latest.schedule is None and not latest.retired:
                unsettled = outstanding.failing(session, known.job, US_MIN, US_MAX)
            return replace(found, failing=unsettled)
        oldest_us = min(part.nominal_us[0] for part in parts.values())
        newest_us = max(part.nominal_us[-1] for part in parts.values())
        newest_due_us = max(part.newest_due_us or 0 for part in parts.values())
        oldest = from_us(oldest_us)
        failed = outstanding.failures(session, known, parts)
        tried = list(outstanding.occurrences(known, parts, failed, at, failed_only=True))
        failing = outstanding.failing(session, known.job, oldest_us, newest_us) if tried else None
        return replace(
            found,
            missing=sum(len(part.nominal_us) for part in parts.values()),
            oldest_missing=oldest,
            overdue_since=status.overdue_since(
                known.expected.due_time(oldest) or oldest, latest.policies, at
            ),
            failing=failing,
            given_up=sum(each.given_up for each in tried),
            retry_at=min((t.retry_at for t in tried if t.retry_at is not None), default=None),
            is_newest_alone=oldest_us == newest_us == newest_due_us and not tried,
        )

    def _partitions(self, job: Job | None) -> Sequence[str] | None:
        """The partitions that a tick would fix for what is due now."""
        if job is None or job.partitions is None:
            return None
        return partitioning.partitions_of(self._database, job)


def _clock(session: Session, now: datetime | None) -> datetime:
    """The instant of a report: after any edit that it foresees, whose periods may be due at once.

    A tick reads the clock after it told the ledger of its definitions, too.
    """
    return now or from_us(session.clock_us())


def _listed(job: Job | None) -> Sequence[str] | None:
    """The partitions of a list; those of a query are not known before a tick asks for them."""
    return job.partitions if job is not None and isinstance(job.partitions, tuple) else None


def _stored(session: Session, row: expectation.Latest) -> _Subject:
    """A job as the ledger alone knows it."""
    known = registry.read(session, row.job)
    return _Subject(row.shown_name or row.job, row.job, known=known)
