"""What the ledger expects of an App's jobs: it is told of each definition, and tells the rest.

Decides nothing about a definition (`_core/revision.py` does); it reads, writes, and remembers
for a minute. It must never let a job run by a definition that the ledger refuses; one that it
could not be told of, because it was busy, runs, and is told by the next start.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from duly import schedules, zones
from duly._core.expected import CALENDAR_END, Expected, Pause, Span
from duly._core.instants import from_us, to_us
from duly._core.revision import Definition, Revision, decide, retirement
from duly._core.zone_record import RecordedZone
from duly._db import expectation
from duly._db.dialects import ErrorKind
from duly._db.translate import public_error
from duly._db.waiting import taken
from duly._sync import renaming
from duly.errors import Busy, DulyError, FormerlyInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly._core.job import Job
    from duly._core.schedules import Schedule
    from duly._db.connect import Database
    from duly._db.sessions.base import Session

log = logging.getLogger("duly.registry")

BRIEF_S = 0.1
"""How long a start by name waits to record its definition."""
FRESH_S = 60.0
"""How long what was read of a job's revisions is taken for true by a start by name."""
TRIES = 5


@dataclass(frozen=True)
class Known:
    """What the ledger holds of one job.

    Attributes:
        revisions: By number; at least one.
        pauses: Those that count.
        complete_us: Everything expected that was due by then is settled; None if unknown.
        horizon_us: Records at or below this nominal time were pruned; None if none were.
    """

    job: str
    revisions: tuple[Revision, ...]
    pauses: tuple[Pause, ...]
    complete_us: int | None = None
    horizon_us: int | None = None

    @property
    def latest(self) -> Revision:
        """The revision that is in force from its effective-from on."""
        return self.revisions[-1]

    @cached_property
    def expected(self) -> Expected:
        """The occurrences that should exist; made once, because it reads every schedule."""
        horizon = None if self.horizon_us is None else from_us(self.horizon_us)
        return Expected(spans(self.revisions), self.pauses, horizon=horizon)

    def in_force(self, due: datetime) -> Revision | None:
        """The revision that was in force at a due time; None before the first."""
        found = [r for r in self.revisions if r.effective_at <= due]
        return found[-1] if found else None


class _NotWritten(Exception):
    """A revision could not be written.

    Attributes:
        error: The driver's.
        known: What would be true now.
    """

    def __init__(self, error: Exception, known: Known) -> None:
        super().__init__(str(error))
        self.error = error
        self.known = known


class Registry:
    """The definitions of one App, held against the ledger."""

    def __init__(self, database: Database, jobs: dict[str, Job], *, app: str, writer: str) -> None:
        self._database = database
        self._jobs = jobs
        self.app = app
        self._writer = writer
        self._known: dict[str, tuple[float, str, Known]] = {}
        self._definitions: dict[str, tuple[Job, Definition]] = {}
        self._lock, self._pid = threading.Lock(), os.getpid()

    def known(self, job: Job, *, fresh: bool = False) -> Known:
        """What the ledger holds of a job, after it was told of this definition.

        Args:
            fresh: Ask the ledger, whatever was read before.

        Raises:
            DefinitionStale, ZoneDataOutdated, PeriodChanged, FormerlyInvalid: It may not run.
        """
        definition = self.definition(job)
        if not fresh and (held := self._held(job, definition)) is not None:
            return held
        with taken(self._locked()):
            # Another thread may have asked meanwhile.
            held = None if fresh else self._held(job, definition)
            if held is not None:
                return held
            known = self._told(job, definition)
            self._known[job.ledger_name] = (time.monotonic(), definition.digest, known)
            return known

    def believed(self, job: Job) -> Known:
        """What the ledger would hold of a job after it was told; nothing is written.

        Raises:
            DefinitionStale, ZoneDataOutdated, PeriodChanged, FormerlyInvalid: It may not run.
        """
        held = self._held(job, self.definition(job))
        if held is not None:
            return held
        with self._database.session() as session:
            return self.foreseen(session, job)[0]

    def _held(self, job: Job, definition: Definition) -> Known | None:
        """What was read of a job within the last minute, by the same definition."""
        read_at, digest, known = self._known.get(job.ledger_name, (0.0, "", None))
        is_fresh = time.monotonic() - read_at < FRESH_S
        return known if digest == definition.digest and is_fresh else None

    def _locked(self) -> threading.Lock:
        """The lock; in a forked child a new one, since the parent's may be held for ever."""
        if os.getpid() != self._pid:
            self._lock, self._pid = threading.Lock(), os.getpid()
        return self._lock

    def _told(self, job: Job, definition: Definition) -> Known:
        """Register for a start by name, which does not wait for a database that is busy.

        What could not be written now is what the next start writes; this one goes by it.
        """
        try:
            return self._register(job, definition, wait_s=BRIEF_S)[0]
        except _NotWritten as put_off:
            log.info("registration_put_off", extra={"job": job.name, "error": str(put_off)})
            return put_off.known

    def register(self, *, adopt: bool = False) -> tuple[list[Revision], dict[str, DulyError]]:
        """Tell the ledger of every definition.

        Args:
            adopt: Make earlier definitions the new ones.

        Returns:
            The revisions that were written, and the jobs that may not run, with the reason.
        """
        written: list[Revision] = []
        refused: dict[str, DulyError] = {}
        with self._database.session() as session:
            latest = expectation.latest(session)
        version = zones.data_version()
        for job in self._jobs.values():
            definition = self.definition(job)
            now = latest.get(job.ledger_name)
            if (
                now is not None
                and now.digest == definition.digest
                and now.zone_version == version
                and job.shown_name in {None, now.shown_name}
            ):
                continue
            try:
                _, new = self._register(job, definition, wait_s=10.0, adopt=adopt)
            except DulyError as error:
                refused[job.name] = error
            else:
                written += new
        # A job whose former name was refused may be the one that seems to be gone.
        if self.app and not any(isinstance(each, FormerlyInvalid) for each in refused.values()):
            written += self._retire_undefined(latest)
        return written, refused

    def definition(self, job: Job) -> Definition:
        """What this process says of a job; put into words once."""
        worded, definition = self._definitions.get(job.name, (None, None))
        if worded is not job or definition is None:
            definition = Definition(
                job.ledger_name,
                None if job.schedule is None else job.schedule.text,
                job.zone.key,
                job.policies,
                job.payload.text,
                self.app,
                job.name,
            )
            self._definitions[job.name] = (job, definition)
        return definition

    def foreseen(self, session: Session, job: Job) -> tuple[Known, Revision | None]:
        """What the ledger would hold after it was told of a definition; nothing is written.

        Returns:
            That, and the revision that would be written for it.

        Raises:
            DefinitionStale, ZoneDataOutdated, PeriodChanged, FormerlyInvalid: It may not run.
        """
        definition = self.definition(job)
        self._check_names(session, job)
        found = read(session, job.ledger_name)
        now = from_us(session.clock_us())
        version = zones.data_version()
        revisions = () if found is None else found.revisions
        new = decide(definition, revisions, now=now, zone=job.zone, zone_version=version)
        if found is None:
            assert new is not None  # the first
            before_us = to_us(new.effective_at) - 1
            return Known(job.ledger_name, (new,), (), before_us), new
        if new is None:
            return found, None
        before_us = to_us(new.effective_at) - 1
        complete_us = None if found.complete_us is None else min(found.complete_us, before_us)
        return replace(found, revisions=(*revisions, new), complete_us=complete_us), new

    def _register(
        self, job: Job, definition: Definition, *, wait_s: float, adopt: bool = False
    ) -> tuple[Known, list[Revision]]:
        deadline = time.monotonic() + wait_s
        for _ in range(TRIES):
            try:
                with self._database.session() as session:
                    return self._registered(session, job, definition, wait_s, adopt=adopt)
            except _NotWritten as failed:
                kind = self._database.dialect.classify(failed.error)
                is_contended = kind is ErrorKind.CONTENTION
                if wait_s == BRIEF_S and is_contended:
                    raise
                # Another process wrote that revision first: it may be the same. At REPEATABLE READ
                # and above its lock on the job's row is a lost race, too.
                is_lost_race = is_contended and time.monotonic() < deadline
                if kind is not ErrorKind.DUPLICATE_KEY and not is_lost_race:
                    dialect = self._database.dialect
                    known = public_error(dialect, failed.error, self._database.where)
                    raise (known or failed.error) from failed.error
        raise Busy(f"job {job.name}: its definition could not be recorded; try again")

    def _registered(
        self, session: Session, job: Job, definition: Definition, wait_s: float, *, adopt: bool
    ) -> tuple[Known, list[Revision]]:
        self._check_names(session, job)
        found = read(session, job.ledger_name)
        revisions = () if found is None else found.revisions
        new = decide(
            definition,
            revisions,
            now=from_us(session.clock_us()),
            zone=job.zone,
            zone_version=zones.data_version(),
            adopt=adopt,
        )
        row = expectation.row_of(session, job.ledger_name)
        # A host with the code of before a rename does not take the new name back.
        rename = row is None or job.shown_name not in {None, row[1]}
        version = zones.data_version()
        newer = new is None and bool(revisions) and revisions[-1].zone_version < version
        session.rollback()
        if new is None and not rename and not newer and found is not None:
            return found, []
        written = [] if new is None else [new]
        pauses = () if found is None else found.pauses
        complete_us = None if found is None else found.complete_us
        horizon_us = None if found is None else found.horizon_us
        known = Known(definition.job, (*revisions, *written), pauses, complete_us, horizon_us)
        try:
            session.begin(wait_s)
            for revision in written:
                expectation.add_revision(session, revision, self._writer)
            if newer:  # and it agrees: nobody need compare the two again
                agreed = {"job": job.ledger_name, "revision": revisions[-1].number}
                session.change("note_zone_version", {**agreed, "zone_version": version})
            if rename:
                session.change("add_job", {"job": job.ledger_name})
                names = {"job": job.ledger_name, "shown_name": job.shown_name}
                session.change("show_job_as", names)
            session.commit(wait_s)
        except Exception as error:
            session.rollback()
            raise _NotWritten(error, known) from error
        return known, written

    def _check_names(self, session: Session, job: Job) -> None:
        defined = {each.ledger_name for each in self._jobs.values()}
        renaming.check_names(session, job, app=self.app, defined=defined)

    def _retire_undefined(self, latest: dict[str, expectation.Latest]) -> list[Revision]:
        """Retire the jobs that this App defined once and does not any more."""
        defined = {job.ledger_name for job in self._jobs.values()}
        gone = [row.job for row in latest.values() if row.job not in defined and not row.retired]
        return [new for job in gone if (new := self.retire(job, of_app=self.app)) is not None]

    def retire(self, job: str, *, of_app: str | None = None) -> Revision | None:
        """Expect nothing more of a job.

        Args:
            of_app: Only if that App defined it.

        Returns:
            The revision; None if there is nothing to retire.
        """
        for _ in range(TRIES):
            with self._database.session() as session:
                found = read(session, job)
                if found is None or found.latest.retired:
                    return None
                if of_app is not None and found.latest.app != of_app:
                    return None
                new = retirement(found.latest, from_us(session.clock_us()))
                session.rollback()
                try:
                    session.begin(10.0)
                    expectation.add_revision(session, new, self._writer)
                    session.commit(10.0)
                except Exception as error:
                    session.rollback()
                    if session.classify(error) is not ErrorKind.DUPLICATE_KEY:
                        raise
                else:
                    return new
        return None


def read(session: Session, job: str) -> Known | None:
    """What the ledger holds of a job, by its name in keys; None if it holds nothing."""
    found = expectation.revisions(session, job)
    if not found:
        return None
    row = expectation.row_of(session, job)
    horizon_us, complete_us = (None, None) if row is None else (_int(row[2]), _int(row[3]))
    pauses = tuple(expectation.pauses(session, job))
    return Known(job, tuple(found), pauses, complete_us, horizon_us)


def spans(revisions: Sequence[Revision]) -> list[Span]:
    """The spans of due times that revisions rule, each with its schedule."""
    found = []
    for revision, following in zip(revisions, [*revisions[1:], None], strict=True):
        start, end = (
            revision.effective_at,
            CALENDAR_END if following is None else following.effective_at,
        )
        bounds = revision.policies
        start = start if bounds.starts is None else max(start, bounds.starts)
        end = end if bounds.ends is None else min(end, bounds.ends)
        if start < end:
            found.append(Span(schedule_of(revision), start, end, revision.number))
    return found


def schedule_of(revision: Revision) -> Schedule | None:
    """The schedule of a revision, by the zone data that it was made with."""
    if revision.schedule is None:
        return None
    if revision.zone_version == zones.data_version():
        return schedules.from_text(revision.schedule)
    record = revision.zone_record
    if record.agrees(zones.load(revision.zone)):
        return schedules.from_text(revision.schedule)
    with zones.recorded(RecordedZone(record)):
        return schedules.from_text(revision.schedule)


def _int(value: Any) -> int | None:
    return None if value is None else int(value)
