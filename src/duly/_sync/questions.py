"""Reads for an App: the clock, histories, explanations, how a key is settled.

Each opens one short transaction of its own. It decides nothing about an attempt.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from duly._core.evidence import Explanation, History, Running, Settled, explain
from duly._core.instants import format_instant, from_us
from duly._core.job import check_name
from duly._core.occurrence import Occurrence
from duly._core.states import is_in_parts
from duly._db import reading
from duly._db.sessions.base import Session, key_params
from duly._sync import partitioning, renaming
from duly._sync.refusals import settled_otherwise
from duly.errors import Expired, UnknownJob, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from duly._core.job import Job
    from duly._core.states import Disposition
    from duly._db.connect import Database
    from duly._sync.evidence import Evidence
    from duly._sync.markers import Marker


def now(database: Database) -> datetime:
    """The database's clock."""
    return from_us(database.clock_us())


def ledger_name(session: Session, jobs: Mapping[str, Job], name: str) -> str:
    """The name in keys of the job that *name* means: its own, a former, or the shown one."""
    for job in jobs.values():
        if job.formerly and name in {job.name, *job.formerly}:
            return job.ledger_name
    return renaming.shown_as(session, name) or name


def history(
    database: Database, evidence: Evidence, job: str, limit: int, *, jobs: Mapping[str, Job]
) -> History:
    """What happened to one job, by either of its names, newest first.

    Raises:
        UnknownJob: Neither the ledger nor this process knows the name.
    """
    check_name(job)
    with database.session() as session:
        job = ledger_name(session, jobs, job)
        running = [m for m in evidence.running(session) if m.job == job]
        # A job whose first attempt is under way has no other trace yet.
        defined = (each.ledger_name for each in jobs.values())
        names = {*reading.known_jobs(session), *defined, *(m.job for m in running)}
        if job not in names:
            near = get_close_matches(job, names, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "it has no history"
            raise UnknownJob(f"no job is called {job!r} in {database.where}: {hint}", job=job)
        completed = session.run("last_completed", {"job": job})
        page = {"job": job, "limit": limit}
        return History(
            job,
            reading.settled(session, completed[0]) if completed else None,
            reading.horizon(session, job),
            reading.attempts(session, session.run("list_attempts", page)),
            reading.refused(session.run("list_duplicates", page)),
            _running(running),
            tuple(reading.settled(session, row) for row in session.run("list_held", page)),
        )


def explanation(
    database: Database,
    evidence: Evidence,
    named: Occurrence,
    limit: int,
    *,
    jobs: Mapping[str, Job],
) -> Explanation:
    """All that is known of one key, its job by either name."""
    with database.session() as session:
        occurrence = replace(named, job=ledger_name(session, jobs, named.job))
        page = {**key_params(occurrence), "limit": limit}
        settled = reading.settled_on(session, occurrence)
        return explain(
            occurrence,
            settled=settled,
            corrections=tuple(
                later
                for row in session.run("list_corrections", key_params(occurrence))
                if (later := reading.settled(session, row)).occurrence.correction
                > occurrence.correction
            ),
            horizon_at=reading.horizon(session, occurrence.job),
            attempts=reading.attempts(session, session.run("attempts_on_key", page)),
            refused=reading.refused(session.run("duplicates_on_key", page)),
            running=_running(evidence.holders(session, occurrence)),
            audit=reading.audit(session.run("audit_on_key", page)),
            parts_missing=_parts_missing(session, settled),
        )


def _parts_missing(session: Session, settled: Settled | None) -> int:
    """How many partitions are not settled of an occurrence whose partitions are run instead."""
    if settled is None or not is_in_parts(settled.disposition, settled.reason):
        return 0
    occurrence = settled.occurrence
    return len(partitioning.missing_parts(session, occurrence.job, [occurrence.nominal_us])[0])


def require_settled(database: Database, occurrence: Occurrence) -> Disposition:
    """How the occurrence is settled.

    Raises:
        UsageError: It is not: run it instead of correcting it.
        AlreadySettled: Its partitions are run instead of it: correct one of those.
        Expired: Its record may have been pruned.
    """
    with database.session() as session:
        standing = session.read_standing(occurrence)
        horizon_us = session.read_horizon(occurrence.job)
    if standing is not None and is_in_parts(standing.disposition, standing.reason):
        raise settled_otherwise(occurrence.key, standing)
    if standing is not None:
        return standing.disposition
    if horizon_us is not None and occurrence.nominal_us <= horizon_us:
        horizon = format_instant(from_us(horizon_us))
        raise Expired(
            f"{occurrence.key} is at or below the horizon of its job ({horizon}): its record may"
            " have been pruned, so it is not known what a correction would correct; order what is"
            " still needed under a later nominal time",
            key=occurrence.key,
            horizon=horizon,
        )
    raise UsageError(
        f"{occurrence.key} is not settled, so there is nothing to correct: run it"
        f" (`duly explain '{occurrence.key}'` shows what is recorded)"
    )


def holders(session: Session, evidence: Evidence, occurrence: Occurrence) -> tuple[Running, ...]:
    """Attempts under way at one key."""
    return _running(evidence.holders(session, occurrence))


def _running(markers: Iterable[Marker]) -> tuple[Running, ...]:
    return tuple(
        Running(
            Occurrence.from_us(m.job, m.nominal_us, m.partition_key, m.correction),
            m.attempt_id,
            m.started_by,
            m.host,
            m.pid,
            from_us(m.started_us),
        )
        for m in markers
    )
