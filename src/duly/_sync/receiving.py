"""Drives one delivery or request in duly's own transaction, and words its end.

The shell is that of an attempt, with the rows of another kind of key; it decides nothing
(`_core/inbox.py` and `_core/protocol.py` do).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, ClassVar, cast

from duly._core import inbox, ops
from duly._core.message import Message, body_of
from duly._core.states import Disposition, Outcome
from duly._db.keys import InboxRow, ParkedRow
from duly._db.translate import first_line
from duly._sync.budget import SETTLE_S
from duly._sync.claim import looks_old
from duly._sync.handling import Handling
from duly._sync.process import new_attempt_id
from duly._sync.refusals import loaded
from duly._sync.shell import Shell
from duly._sync.work import Work
from duly.errors import Busy, ConnectionLost, DulyError, MessageParked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from uuid import UUID

    from duly._core.payload import Payload
    from duly._db.keys import KeyRow
    from duly._sync.attempts import Attempts


@dataclass(frozen=True, slots=True)
class Receipt:
    """How one delivery of a message ended: committed, so acknowledge it.

    Attributes:
        is_new: This delivery was handled; all others are duplicates of one that was.
        consumer: Who took it.
        source: Who made the id.
        message_id: What the source calls it.
        receipt_id: The delivery that was handled: this one, or an earlier one.
        value: What the handler returned, as JSON keeps it; for a duplicate, the stored one.
        is_discarded: It had been parked, and a person decided that nobody handles it.
    """

    is_new: bool
    consumer: str
    source: str
    message_id: str
    receipt_id: UUID | None
    value: Any
    is_discarded: bool = False


class KeyShell(Shell):
    """Performs the ops of an attempt on the row of another kind of key."""

    def __init__(
        self, *args: Any, row: KeyRow, parked: ParkedRow | None = None, **named: Any
    ) -> None:
        super().__init__(*args, **named)
        self._row = row
        self._parked = parked

    def _claim_row(self, _op: ops.Claim) -> ops.Claimed:
        return self._row.claim(self.session, self._budget.wait_s)

    def _read_row(self, _op: ops.Explain) -> ops.Standing | None:
        return self._row.read(self.session)

    def _lock_guard_alone(self, _op: ops.LockGuard) -> None:
        """Without the horizon of a job, which it has not."""
        self.session.lock_guard(self._budget.wait_s)

    def _read_own_horizon(self, _op: ops.ReadHorizon) -> int | None:
        return read_horizon(self.session, self._row)

    def _seal_row(self, _op: ops.Seal) -> bool:
        return self._row.seal(self.session, self.value)

    def _keep_count(self, _op: ops.CountDuplicate) -> None:
        """The claim has counted it."""
        self.session.commit(SETTLE_S)

    def _use_parked(self, _op: inbox.UseParked) -> None:
        assert self._parked is not None
        self._row = self._parked

    def _park(self, op: ops.Record) -> None:
        """What is recorded of a refused message; a failure leaves nothing, the sender repeats."""
        row, session = self._row, self.session
        if not isinstance(row, InboxRow) or op.outcome.value not in set(inbox.Parked):
            return
        session.begin(1.0)
        row.park(session, op.outcome)
        session.commit(1.0)

    def _hold_row(self, _op: ops.HoldTorn) -> None:
        row, session = self._row, self.session
        session.begin(SETTLE_S)
        row.hold(session)
        if type(row) is InboxRow:
            row.park(session, Outcome.TORN)
        session.commit(SETTLE_S)

    def _handling(self) -> Handling:
        assert self._lease is not None
        return Handling(self._database, self._lending, self._lease, self._work, (), self._held)

    def _see_holders(self) -> None:
        """Nobody is marked as under way."""

    performs: ClassVar[Mapping[type, Callable[[Any, Any], Any]]] = {
        **Shell.performs,
        ops.Claim: _claim_row,
        ops.Explain: _read_row,
        ops.LockGuard: _lock_guard_alone,
        ops.ReadHorizon: _read_own_horizon,
        ops.Seal: _seal_row,
        ops.CountDuplicate: _keep_count,
        ops.Record: _park,
        ops.HoldTorn: _hold_row,
        inbox.UseParked: _use_parked,
    }


def read_horizon(session: Any, row: KeyRow) -> int | None:
    """At or below what a prune may have deleted messages of the row's consumer."""
    rows = session.run("inbox_horizon", {"consumer": row.columns["consumer"]})
    return None if not rows or rows[0][0] is None else int(rows[0][0])


def delivery_of(message: Message, fingerprint: bytes) -> inbox.Delivery:
    """One delivery, as the protocol sees it."""
    named: Any = message
    return inbox.Delivery(named, fingerprint, new_attempt_id(), looks_old=looks_old(named))


def received(
    attempts: Attempts,
    consumer: str,
    handler: Callable[[Any], Any],
    handle: type[Any],
    *,
    source: str,
    message_id: str,
    payload: Any,
    sent_at: datetime | None,
    wait_s: float,
) -> Receipt:
    """Handle one delivery in a transaction of duly's own, unless it was handled before.

    Raises:
        MessageParked, Busy, ConnectionLost, IncomingInvalid, Exception: As `App.receive`.
    """
    message = Message.of(consumer, source, message_id, sent_at)
    said = body_of(payload)
    delivery = delivery_of(message, said.fingerprint)
    work = Work(
        delivery, cast("Payload", said), handler, None, UTC, "message", attempts.started_by,
        run_class=handle,
    )  # fmt: skip
    parked = ParkedRow(delivery)
    shell = attempts.shell(
        work,
        wait_s=wait_s,
        kind=lambda *args, **named: KeyShell(*args, row=InboxRow(delivery), parked=parked, **named),
    )
    report = shell.drive(cast("ops.Ops", inbox.receive(delivery)))
    raise_interruption(message.key, report)
    return receipt_of(message, delivery, report, shell.value)


def raise_interruption(key: str, report: ops.Report) -> None:
    """Raise the signal or cancellation that came while the commit was under way.

    Raises:
        BaseException: It, with a note that says how the key is settled.
    """
    if report.interrupted is not None:
        how = report.outcome or "not known: deliver it again, the key decides"
        report.interrupted.add_note(f"{key}: the commit was under way and is settled: {how}")
        raise report.interrupted


def receipt_of(
    message: Message, delivery: inbox.Delivery, report: ops.Report, value: str | None
) -> Receipt:
    """The receipt of a delivery that has come to its end.

    Raises:
        DulyError, Exception: It was not handled; do not acknowledge it.
    """
    names = (message.consumer, message.source, message.message_id)
    standing = report.standing
    if report.outcome is Outcome.APPLIED:
        return Receipt(True, *names, delivery.attempt_id, loaded(value))
    if report.outcome is Outcome.DUPLICATE and standing:
        return Receipt(False, *names, standing.attempt_id, loaded(standing.result))
    if report.outcome is None and standing and standing.disposition is Disposition.WAIVED:
        return Receipt(False, *names, None, None, is_discarded=True)
    if report.outcome is Outcome.FAILED and not report.unreachable:
        assert report.error is not None
        raise report.error
    raise _refusal(message, delivery, report) from report.error


def _refusal(message: Message, delivery: inbox.Delivery, report: ops.Report) -> DulyError:
    key = message.key
    if (why := inbox.parked_for(report)) is not None or report.outcome is Outcome.TORN:
        return _parked(message, delivery, report, why or inbox.Parked.TORN)
    if report.outcome is Outcome.BUSY:
        return Busy(
            f"{key} stayed busy for all of the wait: another delivery of it is being handled, or"
            " the database is contended; nothing was done, do not acknowledge it",
            key=key,
        )
    words = first_line(report.error) if report.error is not None else "no answer"
    if report.unknown:
        return ConnectionLost(
            f"{key}: the connection was lost while the commit was under way, and whether it landed"
            " could not be learnt: do not acknowledge it, the next delivery decides",
            key=key,
            unknown=True,
        )
    return ConnectionLost(
        f"{key}: the database went away ({words}); nothing was committed, do not acknowledge it",
        key=key,
    )


def _parked(
    message: Message, delivery: inbox.Delivery, report: ops.Report, why: inbox.Parked
) -> MessageParked:
    given = delivery.fingerprint.hex()
    standing = report.standing
    stored = standing.fingerprint.hex() if standing and standing.fingerprint else None
    text = {
        inbox.Parked.CONFLICT: f"it was received before with another body (stored fingerprint"
        f" {(stored or '')[:16]}…, this one {given[:16]}…)",
        inbox.Parked.EXPIRED: "it is at or below the inbox's horizon, so its record may have been"
        " pruned",
        inbox.Parked.TORN: "its handler ended duly's transaction, so its effect may have landed",
    }[why]
    return MessageParked(
        f"{message.key} is parked and was not handled: {text}; do not acknowledge it as done; look"
        " at it with `duly inbox show`, then `duly inbox release` or `duly inbox discard` it",
        key=message.key,
        why=why.value,
        stored_fingerprint=stored,
        given_fingerprint=given,
        **message.columns,
    )
