"""Waivers: a person settles what is torn or missing, under the key, with who and why.

Decides when something may be waived: nothing that is to come, nothing that is settled otherwise;
what its job has at all is decided by `waivable`. It never settles a key that an attempt holds: it
waits for that attempt, as a rival does.
"""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import TYPE_CHECKING

from duly._core.instants import format_instant, from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.states import Disposition, is_in_parts
from duly._db import reading
from duly._sync import outstanding, partitioning, questions, registry, waivable
from duly._sync.deciding import WAIT_S, decided
from duly._sync.process import new_attempt_id
from duly.errors import AlreadySettled, Expired, NotDue, UnknownJob, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from duly._core.job import Job
    from duly._core.ops import Order
    from duly._db.connect import Database
    from duly._db.sessions.base import Session
    from duly._sync.planning import Missing

BATCH = 200
"""Occurrences that one transaction waives: each holds its key until the commit."""


def known_name(session: Session, jobs: Mapping[str, Job], name: str) -> str:
    """The name in keys of the job that *name* means: its own, a former one, or the shown one.

    Raises:
        UnknownJob: Neither this process nor the ledger knows it.
    """
    found = questions.ledger_name(session, jobs, name)
    known = {*reading.known_jobs(session), *(job.ledger_name for job in jobs.values())}
    if found not in known:
        near = get_close_matches(name, [*known, *jobs], n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "check its name"
        raise UnknownJob(f"no job is called {name!r} in the ledger: {hint}", job=name)
    return found


def renamed(database: Database, jobs: Mapping[str, Job], occurrence: Occurrence) -> Occurrence:
    """*occurrence* under the name that its keys bear.

    Raises:
        UnknownJob: Nobody knows its job.
    """
    with database.session() as session:
        name = known_name(session, jobs, occurrence.job)
    return Occurrence(name, occurrence.nominal_time, occurrence.partition, occurrence.correction)


def waive(
    database: Database,
    job: Job | None,
    occurrence: Occurrence,
    order: Order,
    *,
    wait_s: float = WAIT_S,
) -> None:
    """Settle a torn or missing occurrence as waived, with the audit of who and why.

    Args:
        job: As this process defines it, if it does.

    Raises:
        AlreadySettled: It is settled, and not torn.
        NotDue: It is to come.
        OffSchedule, PartitionsInvalid: Nothing was started at it, and it is none of its job's.
        Expired: It is at or below the horizon.
        Busy: An attempt at it stayed under way.
    """
    with database.session() as session:
        known = registry.read(session, occurrence.job)
    due_us = to_us(waivable.due_at(known, job, occurrence.nominal_time))
    refusal = waivable.refusal(database, known, job, occurrence)

    def work(session: Session, left: float) -> None:
        # Before the insert, so that no prune passes between it and the horizon (PROTOCOL 15).
        session.lock_guard(left)
        said = {"actor": order.actor, "reason": order.reason}
        if occurrence.correction == 1 and session.waive_free(occurrence, left, **said):
            if refusal is not None:
                raise refusal
            _refuse_untimely(session, occurrence, due_us)
        elif not session.waive(occurrence, **said):
            raise _not_waived(session, occurrence)
        session.audit(occurrence, new_attempt_id(), action="waive", **said)

    decided(database, work, about=occurrence.key, wait_s=wait_s)


def missing_between(
    database: Database, job: str, defined: Job | None, since: datetime, until: datetime
) -> dict[str, Missing]:
    """What is missing of each partition of a job in [*since*, *until*)."""
    with database.session() as session:
        known = registry.read(session, job)
        if known is None:
            return {}
        names = None
        if defined is not None and defined.partitions is not None:
            names = partitioning.partitions_of(database, defined)
        found = outstanding.missing(session, known, now=from_us(session.clock_us()), names=names)
    return outstanding.within(found, since, until)


def waive_all(
    database: Database, job: str, partition: str, nominal_times: Sequence[int], order: Order
) -> Iterator[int]:
    """Waive missing occurrences; yields how many each transaction settled.

    One that was settled meanwhile is left as it is.
    """
    said = {"actor": order.actor, "reason": order.reason}
    todo = iter(nominal_times)
    while batch := list(islice(todo, BATCH)):

        def work(session: Session, left: float, batch: list[int] = batch) -> int:
            session.lock_guard(left)
            count = 0
            for us in reversed(batch):  # newest first, as every claim of many keys (PROTOCOL 22)
                occurrence = Occurrence.from_us(job, us, partition)
                if session.waive_free(occurrence, left, **said):
                    session.audit(occurrence, new_attempt_id(), action="waive", **said)
                    count += 1
            horizon_us = session.read_horizon(job)
            if horizon_us is not None and batch[0] <= horizon_us:
                raise _expired(Occurrence.from_us(job, batch[0], partition), horizon_us)
            return count

        yield decided(database, work, about=job, wait_s=WAIT_S)


def note_span(
    database: Database, job: str, action: str, order: Order, since: datetime, until: datetime
) -> None:
    """Keep who ordered something for a span, and why; the key is the instant of the order."""
    what = f"{order.reason} ({format_instant(since)} to {format_instant(until)})"

    def work(session: Session, _left: float) -> None:
        occurrence = Occurrence.from_us(job, session.clock_us())
        said = {"action": action, "actor": order.actor, "reason": what}
        session.audit(occurrence, new_attempt_id(), **said)

    decided(database, work, about=f"job {job}")


def _refuse_untimely(session: Session, occurrence: Occurrence, due_us: int) -> None:
    clock_us = session.clock_us()
    if due_us > clock_us:
        raise NotDue(
            f"{occurrence.key} is due at {format_instant(from_us(due_us))}, and the database's"
            f" clock says {format_instant(from_us(clock_us))}: only what was due can be waived;"
            " wait for it, or pause the job",
            key=occurrence.key,
            due_at=format_instant(from_us(due_us)),
        )
    horizon_us = session.read_horizon(occurrence.job)
    if horizon_us is not None and occurrence.nominal_us <= horizon_us:
        raise _expired(occurrence, horizon_us)


def _expired(occurrence: Occurrence, horizon_us: int) -> Expired:
    horizon = format_instant(from_us(horizon_us))
    return Expired(
        f"{occurrence.key} is at or below the horizon of its job ({horizon}): its record may have"
        " been pruned, nothing expects it any more, and there is nothing to waive",
        key=occurrence.key,
        horizon=horizon,
    )


def _not_waived(session: Session, occurrence: Occurrence) -> Exception:
    standing = session.read_standing(occurrence)
    if standing is None:
        return UsageError(
            f"{occurrence.key} is not settled, and nothing expects a correction: only a torn one is"
            f" waived (`duly explain '{occurrence.key}'` shows what is recorded)"
        )
    if is_in_parts(standing.disposition, standing.reason):
        step = f"its partitions are run instead, so waive those (`{occurrence.key}:PART`)"
    elif standing.disposition is Disposition.APPLIED:
        step = f"if another effect is needed, `duly correct '{occurrence.key}' --reason …`"
    else:
        step = f"if its effect is needed after all, `duly correct '{occurrence.key}' --reason …`"
    return AlreadySettled(
        f"{occurrence.key} is settled as {standing.disposition}, so there is nothing to waive:"
        f" {step}",
        key=occurrence.key,
        disposition=standing.disposition.value,
    )


__all__ = ["known_name", "missing_between", "renamed", "waive", "waive_all"]
