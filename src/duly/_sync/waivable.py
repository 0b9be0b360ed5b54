"""What may be waived that nothing was started at: what its job expects, or may yet be asked to run.

Decides that a waiver names an occurrence of its job: a nominal time, within `starts=` and `ends=`,
of a part that it has. A waiver of anything else would settle a key that nobody misses, and leave
the one that was meant missing. It never looks at what is settled, and never at the clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.expected import Expected
from duly._core.instants import format_instant
from duly._core.occurrence import Occurrence
from duly._core.timing import due_time
from duly._core.wording import shown
from duly._db.sessions.base import key_params
from duly._sync import partitioning, registry
from duly.errors import OffSchedule, PartitionsInvalid

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.job import Job
    from duly._core.schedules import Schedule
    from duly._db.connect import Database
    from duly._sync.registry import Known

NAMED_MAX = 5
"""Partitions that a refusal names."""


def due_at(known: Known | None, job: Job | None, at: datetime) -> datetime:
    """When a nominal time is due: that instant, except with `period=`."""
    found = None if known is None else known.expected.due_time(at)
    return found or due_time(_schedule(known, job), at)


def refusal(
    database: Database, known: Known | None, job: Job | None, occurrence: Occurrence
) -> OffSchedule | PartitionsInvalid | None:
    """Why an occurrence is none of its job's; None if it is one, or if it was started.

    Args:
        known: What the ledger holds of the job, if it does.
        job: As this process defines it, if it does.
    """
    with database.session() as session:
        if session.run("attempts_on_key", {**key_params(occurrence), "limit": 1}):
            return None
        fixed = partitioning.fixed(session, occurrence)
    schedule = _schedule(known, job)
    if schedule is None:
        return _part_refusal(database, job, occurrence, fixed, has_schedule=False)
    if known is None or known.expected.span_of(occurrence.nominal_time) is None:
        if (why := _outside(known, job, occurrence.nominal_time)) is not None:
            return _refused(occurrence, why)
        if schedule.previous(occurrence.nominal_time) != occurrence.nominal_time:
            return _off_schedule(known, job, occurrence)
    return _part_refusal(database, job, occurrence, fixed, has_schedule=True)


def _schedule(known: Known | None, job: Job | None) -> Schedule | None:
    """By which the times of a job are named, also of one that was retired."""
    if known is None:
        return None if job is None else job.schedule
    scheduled = known.revisions[:-1] if known.latest.retired else known.revisions
    return Expected(registry.spans(scheduled)).revised()


def _outside(known: Known | None, job: Job | None, at: datetime) -> str | None:
    """What says that a nominal time of the schedule was never to run; None if nothing does.

    A job without `starts=` begins when the ledger is told of it, which says nothing of the time
    before: what another program did then may be waived before a backfill.
    """
    due = due_at(known, job, at)
    if known is not None:
        revision = known.in_force(due) or known.revisions[0]
        if revision.retired:
            return f"its job was retired at {format_instant(revision.effective_at)}"
        policies = revision.policies
    else:
        assert job is not None  # a schedule is one's or the other's
        policies = job.policies
    if policies.starts is not None and due < policies.starts:
        return f"its job has starts={format_instant(policies.starts)}"
    if policies.ends is not None and due >= policies.ends:
        return f"its job has ends={format_instant(policies.ends)}"
    return None


def _refused(occurrence: Occurrence, why: str) -> OffSchedule:
    return OffSchedule(
        f"nothing expects {occurrence.key}, because {why}, and nothing was started at it, so there"
        f" is nothing to waive: `duly missing {occurrence.job}` lists what there is",
        key=occurrence.key,
    )


def _off_schedule(known: Known | None, job: Job | None, occurrence: Occurrence) -> OffSchedule:
    schedule, at = _schedule(known, job), occurrence.nominal_time
    assert schedule is not None
    near = [
        Occurrence(occurrence.job, each, occurrence.partition).key
        for each in (schedule.previous(at), schedule.next(at))
        if each is not None and _outside(known, job, each) is None
    ]
    nearest = f"the nearest are {' and '.join(near)}" if near else "it has none near"
    return OffSchedule(
        f"{occurrence.key} is not a nominal time of its job, and nothing was started at it, so"
        f" there is nothing to waive: {nearest}",
        key=occurrence.key,
    )


def _part_refusal(
    database: Database,
    job: Job | None,
    occurrence: Occurrence,
    fixed: tuple[str, ...] | None,
    *,
    has_schedule: bool,
) -> PartitionsInvalid | None:
    """Why an occurrence has no such part, by its set, or else by what its job declares now."""
    names = fixed
    if names is None and job is not None:
        if job.partitions is not None:
            try:
                names = partitioning.partitions_of(database, job)
            except PartitionsInvalid as error:
                return error
        elif has_schedule:
            names = ("",)
        else:
            return None  # free text: nobody expects any of it
    elif names is None:
        return None  # what the job declares is not known here
    if occurrence.partition in names:
        return None
    listed = ", ".join(map(shown, names[:NAMED_MAX])) + (", …" if len(names) > NAMED_MAX else "")
    if names == ("",):
        step = "its job declares none, so leave the last part of the key out"
    elif names:
        step = f"it has the partitions {listed}, so name one of them at the end of the key"
    else:
        step = "the query for its partitions gave none"
    given = shown(occurrence.partition) if occurrence.partition else "the whole occurrence"
    return PartitionsInvalid(
        f"{occurrence.key}: {given} is none of its partitions, and nothing was started at it, so"
        f" there is nothing to waive: {step}",
        key=occurrence.key,
        job=occurrence.job,
    )
