"""What can be asked of an App: plans, what is missing, how jobs are, histories, explanations.

It decides nothing about an occurrence, and never makes tables or tells the ledger of a job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly import zones
from duly._core.instants import as_utc
from duly._core.job import find
from duly._core.occurrence import Occurrence
from duly._core.resolve import TOLERANCE, nominal_time
from duly._sync import questions, registry
from duly._sync.base import AppBase
from duly._sync.defining import naming
from duly._sync.starting import named
from duly.errors import DulyError, SchemaMissing, UsageError

if TYPE_CHECKING:
    from datetime import date, datetime

    from duly._core.evidence import Explanation, History
    from duly._core.job import Job
    from duly._core.schedules import Schedule
    from duly._core.start import Start
    from duly._core.status import MissingReport, PlanReport, StatusReport
    from duly._sync.registry import Known
    from duly._sync.reporting import Reporting

LIMIT_MAX = 1_000_000


class Asking(AppBase):
    """The questions."""

    def plan(self, now: datetime | None = None) -> PlanReport:
        """What `tick` would do now and why; nothing is changed, not even a definition recorded.

        Without jobs in this process: of every job that the ledger holds.

        Args:
            now: Instead of the database's clock: what is due by then.
        """
        return self._reporting().plan(None if now is None else as_utc(now, name="now"))

    def missing(
        self,
        job: str,
        *,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
        limit: int = 1000,
    ) -> MissingReport:
        """The occurrences of *job* that are expected, due and not settled, oldest first.

        Also those behind the newest, and those that an earlier schedule expected. The job needs
        no definition here.

        Args:
            since, until: A half-open span of nominal times: instants, or dates in the job's
                zone; None for no bound.
            limit: The most occurrences to list; all are counted.

        Raises:
            UnknownJob: Neither the ledger nor this process knows the name.
            NominalTimeInvalid: A bound is no instant and no date.
        """
        if not 1 <= limit <= LIMIT_MAX:
            raise UsageError(f"limit={limit} is not allowed; give 1 to {LIMIT_MAX}")
        return self._reporting().missing(job, since=since, until=until, limit=limit)

    def status(self, *jobs: str, now: datetime | None = None) -> StatusReport:
        """How each job is: its state, what is completed, missing, failing, next due.

        Args:
            jobs: Names; none for every job that the ledger or this process knows.
            now: Instead of the database's clock.

        Raises:
            UnknownJob: Neither the ledger nor this process knows a name.
        """
        return self._reporting().status(jobs, None if now is None else as_utc(now, name="now"))

    def sweep(self) -> int:
        """Record attempts whose process died as abandoned; returns how many there were."""
        from duly._sync.sweep import sweep

        self._readiness.ensure(only_read=True)
        return sweep(self.database, self._attempts.evidence)

    def history(self, job: str, *, limit: int = 50) -> History:
        """What happened to *job*, newest first; a job needs no definition here."""
        self.sweep()
        return questions.history(self.database, self._attempts.evidence, job, limit, jobs=self.jobs)

    def explain(self, key: str | Occurrence, *, limit: int = 50) -> Explanation:
        """All that is known of one key, with a verdict to quote."""
        occurrence = Occurrence.parse(key) if isinstance(key, str) else key
        self.sweep()
        return questions.explanation(
            self.database, self._attempts.evidence, occurrence, limit, jobs=self.jobs
        )

    def occurrence(
        self, job: str, at: Start | datetime | date | str | None = None, *, partition: str = ""
    ) -> Occurrence:
        """The occurrence that a start of *job* would mean; without `at`, the newest due.

        By the schedules that were in force. The job needs no definition here if the ledger has
        one.
        """
        self.database.require_file()
        found, known = self._told(job)
        schedule: Schedule | None
        if known is None:
            found = found or find(self.jobs, job)
            ledger_name, schedule, zone = found.ledger_name, found.schedule, found.zone
        elif found is None:
            ledger_name, schedule = known.job, known.expected.revised()
            zone = zones.load(known.latest.zone)
        else:
            ledger_name, schedule, zone = found.ledger_name, named(found, known), found.zone
        with naming(job):
            nominal = nominal_time(
                at,
                schedule,
                zone=zone,
                now=questions.now(self.database),
                off_schedule=True,
                early=True,
                tolerance=TOLERANCE if found is None else found.tolerance,
            )
        return Occurrence(ledger_name, nominal.time, partition)

    def _told(self, name: str) -> tuple[Job | None, Known | None]:
        """The job of that name here, and what the ledger holds of it or would."""
        by_name = {each: job for job in self.jobs.values() for each in (*job.formerly, job.name)}
        job = by_name.get(name)
        try:
            self._readiness.ensure(only_read=True)
        except SchemaMissing:
            return job, None
        with self.database.session() as session:
            if job is None:
                return None, registry.read(session, questions.ledger_name(session, self.jobs, name))
            try:
                return job, self._registry.foreseen(session, job)[0]
            except DulyError:  # this definition may not run: what the ledger holds is asked
                return job, registry.read(session, job.ledger_name)

    def _reporting(self) -> Reporting:
        from duly._sync.reporting import Reporting

        self._readiness.ensure(only_read=True)
        return Reporting(self.database, self.jobs, self._registry)
