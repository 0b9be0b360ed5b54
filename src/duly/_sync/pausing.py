"""Pauses and retirements: a person says that a job is not expected for a while, or any more.

Decides that a pause begins and ends at the database's clock, never in the past: what was expected
stays expected. It never touches an occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.instants import format_instant, from_us
from duly._core.occurrence import Occurrence
from duly._core.revision import retirement
from duly._db import expectation
from duly._sync import registry
from duly._sync.deciding import decided
from duly._sync.process import new_attempt_id
from duly.errors import OperatorError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.ops import Order
    from duly._db.connect import Database
    from duly._db.sessions.base import Session
    from duly._sync.registry import Known


def pause(database: Database, job: str, order: Order) -> datetime:
    """Expect nothing of a job from now on; returns since when.

    Raises:
        UsageError: The job has no schedule.
        OperatorError: It is paused already, or retired.
    """

    def work(session: Session, left: float) -> datetime:
        session.lock_job(job, left)
        known = _scheduled(session, job)
        if known.latest.retired:
            raise _retired(known)
        if (since_us := _open_pause(session, job)) is not None:
            since = format_instant(from_us(since_us))
            raise OperatorError(
                f"job {job} is paused since {since} already; `duly resume {job} --reason …` ends"
                " that",
                job=job,
                paused_at=since,
            )
        now_us = session.clock_us()
        session.change("add_pause", {"job": job, "paused_us": now_us, "included": False})
        _audit(session, job, now_us, "pause", order)
        return from_us(now_us)

    return decided(database, work, about=f"job {job}")


def resume(database: Database, job: str, order: Order, *, catch_up: bool) -> datetime:
    """Expect a job again from now on; returns since when it was paused.

    Args:
        catch_up: What fell due in the pause is expected too.

    Raises:
        OperatorError: It is not paused.
    """

    def work(session: Session, left: float) -> datetime:
        session.lock_job(job, left)
        paused_us = _open_pause(session, job)
        if paused_us is None:
            raise OperatorError(
                f"job {job} is not paused, so there is nothing to resume; `duly status` shows how"
                " it is",
                job=job,
            )
        now_us = session.clock_us()
        resumed_us = max(now_us, paused_us)
        session.change("end_pause", {"job": job, "resumed_us": resumed_us, "included": catch_up})
        if catch_up:
            # Ticks look again from there: the pause was no part of what they found complete.
            session.change("unmark_complete", {"job": job, "complete_us": paused_us - 1})
        _audit(session, job, now_us, "resume with its pause" if catch_up else "resume", order)
        return from_us(paused_us)

    return decided(database, work, about=f"job {job}")


def retire(database: Database, job: str, order: Order, writer: str) -> datetime:
    """Expect nothing more of a job; returns from when on.

    Raises:
        UsageError: The ledger expects nothing of it.
        OperatorError: It is retired already.
    """

    def work(session: Session, left: float) -> datetime:
        session.lock_job(job, left)
        known = _scheduled(session, job)
        if known.latest.retired:
            raise _retired(known)
        now_us = session.clock_us()
        made = retirement(known.latest, from_us(now_us))
        expectation.add_revision(session, made, writer)
        _audit(session, job, now_us, "retire", order)
        return made.effective_at

    return decided(database, work, about=f"job {job}")


def _scheduled(session: Session, job: str) -> Known:
    known = registry.read(session, job)
    if known is None or (known.latest.schedule is None and not known.latest.retired):
        raise UsageError(
            f"job {job} has no schedule that the ledger knows, so nothing is expected of it and no"
            " tick starts it: stop whoever starts it by name",
            job=job,
        )
    return known


def _retired(known: Known) -> OperatorError:
    since = format_instant(known.latest.effective_at)
    return OperatorError(
        f"job {known.job} is retired since {since}: nothing more is expected of it; `duly init"
        " --adopt` with its code makes it the rule again",
        job=known.job,
        retired_at=since,
    )


def _open_pause(session: Session, job: str) -> int | None:
    rows = session.run("list_pauses", {"job": job})
    return next((int(row[0]) for row in rows if row[1] is None), None)


def _audit(session: Session, job: str, at_us: int, action: str, order: Order) -> None:
    """The audit's key is the job at the instant of the decision."""
    session.audit(
        Occurrence.from_us(job, at_us),
        new_attempt_id(),
        action=action,
        actor=order.actor,
        reason=order.reason,
    )
