"""Starts by name: from a job and what was said of a time to one request.

Decides nothing about times or effects; it asks the ledger which schedule and payload are in
force, and `_core/resolve.py` which occurrence is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._core import ops
from duly._core.instants import from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.payload import Payload, canonical, from_text
from duly._core.resolve import Nominal, nominal_time
from duly._core.start import Start
from duly._core.timing import due_time
from duly._db.sessions.base import host_clock_us
from duly._sync import partitioning, questions
from duly._sync.claim import looks_old
from duly._sync.defining import naming
from duly._sync.process import new_attempt_id

if TYPE_CHECKING:
    from datetime import date, datetime

    from duly._core.job import Job
    from duly._core.schedules import Schedule
    from duly._db.connect import Database
    from duly._sync.attempts import Attempts
    from duly._sync.refusals import Result
    from duly._sync.registry import Known, Registry

MICROSECOND = timedelta(microseconds=1)


class Unset:
    """The payload that was not given: the job's own."""


UNSET = Unset()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller says of one start.

    Attributes:
        at: As `App.run` takes it.
        payload: A value, a Payload, or `UNSET`.
    """

    at: Start | datetime | date | str | None
    partition: str = ""
    payload: Any = UNSET
    wait_s: float = 10.0
    off_schedule: bool = False
    early: bool = False


class Starting:
    """Starts occurrences of an App's jobs by name."""

    def __init__(self, database: Database, registry: Registry, attempts: Attempts) -> None:
        self._database = database
        self._registry = registry
        self._attempts = attempts

    def start(self, job: Job, wanted: Wanted) -> Result:
        """Start one occurrence; see `App.run`."""
        payload = None if isinstance(wanted.payload, Unset) else _payload(wanted.payload)
        schedule, nominal, occurrence = self.means(job, wanted)
        by_person = _by_person(wanted)
        known = self._registry.known(job)
        # The set of what is not due yet is that of the moment at which it will be.
        if job.partitions is not None and nominal.due_at <= questions.now(self._database):
            partitioning.fix_for(self._database, job, occurrence)
        if payload is None:
            payload = payload_of(job, known, _due_at(known, nominal.time, nominal.due_at))
        request = ops.Request(
            occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(occurrence),
            due_us=to_us(nominal.due_at) if by_person and not wanted.early else None,
            tolerance_us=job.tolerance // MICROSECOND,
        )
        return self._attempts.make(
            job, request, payload, nominal, schedule=schedule, wait_s=wanted.wait_s
        )

    def means(
        self, job: Job, wanted: Wanted, *, is_recorded: bool = True
    ) -> tuple[Schedule | None, Nominal, Occurrence]:
        """What a start means; nothing is written, so that one that is refused leaves nothing.

        Args:
            is_recorded: There is a ledger to ask; without one the job is as it is defined here.
        """
        schedule = named(job, self._registry.believed(job)) if is_recorded else job.schedule
        # What a person names is held against the database's clock by the claim itself.
        by_person = _by_person(wanted)
        now = from_us(host_clock_us()) if by_person else questions.now(self._database)
        with naming(job.name):
            nominal = nominal_time(
                wanted.at,
                schedule,
                zone=job.zone,
                now=now,
                off_schedule=wanted.off_schedule,
                early=wanted.early or by_person,
                tolerance=job.tolerance,
            )
        occurrence = Occurrence(job.ledger_name, nominal.time, wanted.partition)
        partitioning.require_part(self._database, job, occurrence, is_recorded=is_recorded)
        return schedule, nominal, occurrence

    def correct(
        self, job: Job, earlier: Occurrence, order: ops.Order, wanted: Any = UNSET
    ) -> Result:
        """Make the correction that follows *earlier*, which must be settled."""
        # A second effect by a definition that was edited meanwhile is worse than one read.
        known = self._registry.known(job, fresh=True)
        schedule = named(job, known)
        occurrence = Occurrence(
            earlier.job, earlier.nominal_time, earlier.partition, earlier.correction + 1
        )
        due_at = due_time(schedule, occurrence.nominal_time)
        payload = (
            payload_of(job, known, _due_at(known, occurrence.nominal_time, due_at))
            if isinstance(wanted, Unset)
            else _payload(wanted)
        )
        request = ops.Request(
            occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(occurrence),
            order=order,
        )
        nominal = Nominal(occurrence.nominal_time, "correction", due_at)
        return self._attempts.make(job, request, payload, nominal, schedule=schedule, wait_s=10.0)


def named(job: Job, known: Known) -> Schedule | None:
    """The schedule by which a job's times are named: of this code, and of the edits before it."""
    return job.schedule if len(known.revisions) == 1 else known.expected.revised()


def payload_of(job: Job, known: Known, due_at: datetime) -> Payload:
    """The payload of the revision in force when an occurrence was due."""
    revision = known.in_force(due_at)
    if revision is None or revision.payload == job.payload.text:
        return job.payload
    return from_text(revision.payload)


def _due_at(known: Known, nominal_time: datetime, by_schedule: datetime) -> datetime:
    """When an occurrence was due: a period that an edit left over, when the edit took effect.

    As ticks see it, so that both give it the payload of the same revision.
    """
    if len(known.revisions) == 1:
        return by_schedule
    return known.expected.due_time(nominal_time) or by_schedule


def _by_person(wanted: Wanted) -> bool:
    return wanted.at is not None and not isinstance(wanted.at, Start)


def _payload(given: Any) -> Payload:
    return given if isinstance(given, Payload) else canonical(given)
