"""`duly.receive`: the inbox, for a transaction that the caller owns.

It inserts the message's key and says whether it was free, by the protocol of a claim
(PROTOCOL 10 to 13). It never begins, commits or rolls back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast

from duly._core import inbox, ops
from duly._core.message import Message, body_of
from duly._core.payload import result_json
from duly._db.keys import InboxRow, KeyRow, ParkedRow
from duly._db.sessions.base import Session  # noqa: TC001 - the type of a field
from duly._db.translate import first_line
from duly._sync import receiving
from duly._sync.caller_errors import told_of
from duly._sync.callers import open_session, synchronous
from duly._sync.claim import in_caller, seconds
from duly.errors import TransactionEnded

if TYPE_CHECKING:
    from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class FoundMessage(receiving.Receipt):
    """What a receive found in a caller's transaction; see `duly.Receipt` for its attributes."""

    _session: Session = field(repr=False, kw_only=True)
    _row: KeyRow = field(repr=False, kw_only=True)

    def _confirm(self) -> None:
        self._prove(lambda: self._row.confirm(self._session))

    def _store(self, value: Any) -> None:
        text = result_json(value)
        self._prove(lambda: self._row.store(self._session, text))

    def _prove(self, ask: Any) -> None:
        """Ask the database about the claim.

        Raises:
            TransactionEnded: It is not there any more.
        """
        try:
            swallowed = self._session.swallowed()
            found = swallowed is None and ask()
        except Exception as error:
            if self._session.classify(error) is None:
                raise
            found, swallowed = False, error
        name = f"message {self.message_id!r} of {self.source!r}"
        if swallowed is not None:
            raise TransactionEnded(
                f"{name}: an earlier error has ended this transaction ({first_line(swallowed)}), so"
                " a commit would keep nothing: roll back and try the whole again"
            ) from swallowed
        if not found:
            raise TransactionEnded(
                f"{name}: this delivery holds no claim in the transaction (a duplicate has none, a"
                " savepoint that was rolled back took it along): roll back and try the whole again"
            )


class InboxReceipt(FoundMessage):
    """What a receive found in the caller's transaction."""

    __slots__ = ()

    def store(self, value: Any) -> None:
        """Keep *value*, JSON-ready, as what a duplicate of this message gets.

        Raises:
            TransactionEnded: The claim is not in the transaction any more; roll back.
            ResultInvalid: It is not JSON-ready.
        """
        self._store(value)

    def confirm(self) -> None:
        """Prove, just before the commit, that the claim is still in the transaction.

        Raises:
            TransactionEnded: The claim is gone; roll back.
        """
        self._confirm()


def receive(
    connection: Any,
    *,
    consumer: str,
    source: str,
    message_id: str,
    payload: Any = None,
    sent_at: datetime | None = None,
    schema: str | None = None,
    wait: timedelta | float = 10.0,
) -> InboxReceipt:
    """Receive a message inside the transaction of *connection*.

    Receive first, then change, commit both, and only then acknowledge. A rival delivery waits
    for this transaction to end.

    Args:
        connection: As `duly.claim` takes it.
        consumer: Who takes the message; each consumer takes it once.
        source: Who made the id.
        message_id: The same in every delivery.
        payload: The body: bytes, or JSON-ready; another body under the same id is parked.
        sent_at: The message's own time, the same in every delivery. Without one its key is
            never pruned.
        schema: Of the ledger, where it is not the connection's default.
        wait: How long to wait for a rival, as a timedelta or in seconds.

    Raises:
        MessageParked: It is held for a person. That is written in the transaction too: commit
            to keep it on record, and do not acknowledge the message as done.
        TransientError: The database was contended: roll back and try the whole again.
        NoTransaction: The connection would commit claim and change apart.
        IncomingInvalid, PayloadInvalid: Refused before any statement.
    """
    message = Message.of(consumer, source, message_id, sent_at)
    delivery = receiving.delivery_of(message, body_of(payload).fingerprint)
    wait_s = seconds(wait)
    with told_of(message.key):
        session = open_session(synchronous(connection), schema)
        rows = _Rows(session, delivery, wait_s)
        protocol = cast("ops.Ops", inbox.receive_in_caller(delivery))
        report = in_caller(session, protocol, rows.perform)
    found = receiving.receipt_of(message, delivery, report, None)
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    return InboxReceipt(**values, _session=session, _row=rows.row)


class _Rows:
    """Performs the ops of a receive in a caller's transaction."""

    def __init__(self, session: Session, delivery: inbox.Delivery, wait_s: float) -> None:
        self._session = session
        self._wait_s = wait_s
        self._inbox = InboxRow(delivery)
        self._parked = ParkedRow(delivery)
        self.row: KeyRow = self._inbox

    def perform(self, op: ops.Op | inbox.UseParked) -> Any:
        session = self._session
        match op:
            case ops.Claim():
                return self.row.claim_in_caller(session, self._wait_s)
            case ops.LockGuard():
                return session.lock_guard(self._wait_s)
            case ops.ReadHorizon():
                return receiving.read_horizon(session, self.row)
            case ops.Explain():
                return self.row.read(session)
            case ops.Unclaim():
                return self.row.unclaim(session)
            case ops.Record():
                return self._inbox.park(session, op.outcome)
            case inbox.UseParked():
                self.row = self._parked
                return None
            case _:
                raise AssertionError(f"a receive does not ask for {op}")
