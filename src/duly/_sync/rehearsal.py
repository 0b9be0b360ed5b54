"""A start whose effect is made and rolled back: for `--dry-run`.

Decides nothing about an attempt: there is none that anybody sees. It must never commit, or tell
the ledger of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core.covers import Covers
from duly._core.instants import format_instant, from_us
from duly._core.ops import Transaction
from duly._core.payload import canonical, stored
from duly._core.resolve import not_due
from duly._db.dialects import ErrorKind
from duly._db.sessions.base import key_params
from duly._db.translate import first_line, public_error
from duly._sync import questions
from duly._sync.lending import lending_engine
from duly._sync.process import new_attempt_id
from duly._sync.run import Lender, Run
from duly._sync.starting import Unset, payload_of
from duly.errors import Busy, Expired, SchemaMissing, StatementFailed, TransactionEnded

if TYPE_CHECKING:
    from duly._core.job import Job
    from duly._core.occurrence import Occurrence
    from duly._core.ops import Standing
    from duly._db.connect import Lease
    from duly._db.sessions.base import Session
    from duly._sync.app import App
    from duly._sync.starting import Wanted


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """How a dry run went.

    Attributes:
        key: The occurrence that a start would mean.
        standing: The row that already holds the key; then nothing was run.
        value: What the handler returned.
    """

    key: str
    standing: Standing | None
    value: Any


def rehearse(app: App, job: Job, wanted: Wanted) -> Rehearsed:
    """Run a job's handler as a start would, and roll back whatever it did.

    Raises:
        DulyError: The start would be refused, or the database cannot be used.
        TransactionEnded: The handler ended the transaction, so something may be left.
        Exception: The handler's own.
    """
    is_recorded = _has_ledger(app)
    schedule, nominal, occurrence = app._starting.means(  # noqa: SLF001 - an App's own way to do less than `run`
        job, wanted, is_recorded=is_recorded
    )
    if nominal.due_at > questions.now(app.database) + job.tolerance:
        raise not_due(nominal)
    if not isinstance(wanted.payload, Unset):
        payload = canonical(wanted.payload)
    elif is_recorded:
        payload = payload_of(job, app._registry.believed(job), nominal.due_at)  # noqa: SLF001
    else:
        payload = job.payload
    lease = app.database.lend()
    lender = Lender(
        lending_engine(app.database.engine),
        lease.fairy,
        app.database.dialect,
        app.database.nontransactional,
        key=occurrence.key,
        on_lost=lease.session.disarm,
    )
    lease.lent_by(lender)
    run = Run(
        occurrence,
        payload.value,
        new_attempt_id(),
        zone=job.zone,
        schedule=schedule,
        covers=Covers(occurrence),
        lender=lender,
    )
    try:
        fingerprint = payload.fingerprint if is_recorded else None
        return _undone(lease, lender, job, run, wait_s=wanted.wait_s, fingerprint=fingerprint)
    except Exception as error:
        said = public_error(app.database.dialect, error, app.database.where)
        raise (said or error) from (error if said else error.__cause__)


def _has_ledger(app: App) -> bool:
    """Whether anything can be recorded; a start makes a SQLite file's tables, a dry run none."""
    try:
        app._readiness.ensure(only_read=True)  # noqa: SLF001 - as above
    except SchemaMissing:
        if app.database.path is None:
            raise
        return False
    return True


def _undone(
    lease: Lease, lender: Lender, job: Job, run: Run, *, wait_s: float, fingerprint: bytes | None
) -> Rehearsed:
    """Claim, run and unclaim in one transaction, and roll it back; None where no key is held."""
    with lease as session:
        claim = {
            **key_params(run.occurrence),
            "fingerprint": None if fingerprint is None else stored(fingerprint),
            "attempt_id": session.encode_id(run.attempt),
        }
        session.begin(wait_s)
        if fingerprint is not None:
            # As a start does: a rival is waited for, and the bounds of a handler's statements set.
            if not session.claim(claim, wait_s).inserted:
                return Rehearsed(run.key, _standing(session, run.occurrence), None)
            _refuse_pruned(session, run.occurrence)
        value = _handled(session, lender, job, run)
        try:
            if fingerprint is not None:
                session.unclaim(claim)
            session.check_deferred()
        except Exception as error:
            if session.classify(error) not in {ErrorKind.OTHER, ErrorKind.DUPLICATE_KEY}:
                raise
            raise StatementFailed(
                f"the commit of {run.key} would be refused: {first_line(error)}"
            ) from error
        return Rehearsed(run.key, None, value)


def _standing(session: Session, occurrence: Occurrence) -> Standing:
    session.rollback()  # so that what a rival committed meanwhile is seen
    session.begin(1.0)
    standing = session.read_standing(occurrence)
    if standing is None:
        raise Busy(f"{occurrence.key} was held by another start just now: try again")
    return standing


def _refuse_pruned(session: Session, occurrence: Occurrence) -> None:
    horizon_us = session.read_horizon(occurrence.job)
    if horizon_us is not None and occurrence.nominal_us <= horizon_us:
        raise Expired(
            f"{occurrence.key} is at or below the horizon of its job"
            f" ({format_instant(from_us(horizon_us))}): a start would be refused",
            key=occurrence.key,
        )


def _handled(session: Session, lender: Lender, job: Job, run: Run) -> Any:
    raised: BaseException | None = None
    session.arm()
    try:
        value = job.handler(run)
    except BaseException as error:
        raised = error
        raise
    finally:
        lender.take_back()
        state = session.after_handler(raised)
    if state is not Transaction.OPEN or not session.is_ours():
        raise TransactionEnded(
            f"the dry run of {run.key} lost its transaction: something in it commits or rolls"
            " back by itself, so what it did may be left: look at it by hand"
        )
    return value
