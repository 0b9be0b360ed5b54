"""The handle that a consumer's handler gets: one message, at work in duly's transaction.

It lends the open transaction as a run does, under the same refusals; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._sync.run import Borrower, Lent

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from duly._core.message import Message
    from duly._sync.run import Lender


class Received(Borrower):
    """One message: what is the same whoever holds the connection.

    Attributes:
        consumer: Who takes it.
        source: Who made its id.
        message_id: What the source calls it.
        sent_at: When it was made, aware UTC; None where nobody said.
        payload: JSON parsed from its canonical text, the handler's own copy; or the bytes.
        receipt_id: The id of this delivery.
        key: The message as one line for people.
    """

    _staged = None  # what a run would send; a message's id is no occurrence's

    def __init__(
        self,
        message: Message,
        payload: Any,
        receipt_id: UUID,
        *,
        lender: Lender,
        **_of_a_run: Any,
    ) -> None:
        self.consumer = message.consumer
        self.source = message.source
        self.message_id = message.message_id
        self.sent_at: datetime | None = message.sent_at
        self.payload = payload
        self.receipt_id = receipt_id
        self.key = message.key
        self._lender = lender


class Incoming(Received, Lent):
    """One message, inside the transaction in which it is handled."""
