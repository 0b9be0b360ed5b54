"""A start whose effect is made and rolled back: for `--dry-run`.

Decides nothing about an attempt: there is none. It must never commit, claim a key, or tell the
ledger of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core.covers import Covers
from duly._core.ops import Transaction
from duly._core.payload import canonical
from duly._core.resolve import not_due
from duly._db.dialects import ErrorKind
from duly._db.translate import first_line, public_error
from duly._sync import nesting, questions
from duly._sync.process import new_attempt_id
from duly._sync.run import Lender, Run, lending_engine
from duly._sync.starting import Unset, payload_of
from duly.errors import StatementFailed, TransactionEnded

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.job import Job
    from duly._core.ops import Standing
    from duly._db.connect import Lease
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
    app._readiness.ensure(only_read=True)  # noqa: SLF001 - an App's own way to do less than `run`
    schedule, nominal, occurrence = app._starting.means(job, wanted)  # noqa: SLF001
    if nominal.due_at > questions.now(app.database) + job.tolerance:
        raise not_due(nominal)
    known = app._registry.believed(job)  # noqa: SLF001
    payload = (
        payload_of(job, known, nominal.due_at)
        if isinstance(wanted.payload, Unset)
        else canonical(wanted.payload)
    )
    with app.database.session() as session:
        standing = session.read_standing(occurrence)
    if standing is not None:
        return Rehearsed(occurrence.key, standing, None)
    lease = app.database.connect()
    lender = Lender(
        lending_engine(app.database.engine),
        lease.fairy,
        app.database.dialect,
        app.database.nontransactional,
        key=occurrence.key,
        on_lost=lease.session.disarm,
    )
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
        return Rehearsed(
            occurrence.key, None, _undone(lease, lender, lambda: job.handler(run), wanted.wait_s)
        )
    except Exception as error:
        said = public_error(app.database.dialect, error, app.database.where)
        raise (said or error) from (error if said else error.__cause__)


def _undone(lease: Lease, lender: Lender, handler: Callable[[], Any], wait_s: float) -> Any:
    """What *handler* returns; its work is rolled back, and would have been committed."""
    with lease as session:
        session.begin(wait_s)
        session.arm()
        raised: BaseException | None = None
        try:
            with nesting.inside(lease.database.path):
                value = handler()
        except BaseException as error:
            raised = error
            raise
        finally:
            lender.take_back()
            state = session.after_handler(raised)
        if state is not Transaction.OPEN:
            raise TransactionEnded(
                f"the dry run of {lender.key} lost its transaction: something in it commits or"
                " rolls back by itself, so what it did may be left: look at it by hand"
            )
        try:
            session.check_deferred()
        except Exception as error:
            if session.classify(error) is not ErrorKind.OTHER:
                raise
            raise StatementFailed(
                f"the commit of {lender.key} would be refused: {first_line(error)}"
            ) from error
        return value
