"""`duly.aio.receive`: the inbox, for a transaction of a task's own.

It is `duly.receive`, awaited, and decides nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from duly._aio.turn import in_greenlet
from duly._sync.receive import FoundMessage
from duly._sync.receive import receive as sync_receive

if TYPE_CHECKING:
    from datetime import datetime, timedelta


class InboxReceipt(FoundMessage):
    """What a receive found in the caller's transaction; see `duly.InboxReceipt`."""

    __slots__ = ()

    async def store(self, value: Any) -> None:
        """Keep *value*, JSON-ready, as what a duplicate of this message gets.

        Raises:
            TransactionEnded: The claim is not in the transaction any more; roll back.
            ResultInvalid: It is not JSON-ready.
        """
        await in_greenlet(lambda: self._store(value))

    async def confirm(self) -> None:
        """Prove, just before the commit, that the claim is still in the transaction.

        Raises:
            TransactionEnded: The claim is gone; roll back.
        """
        await in_greenlet(self._confirm)


async def receive(
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
    """Receive a message inside the transaction of *connection*; see `duly.receive`.

    Args:
        connection: As `duly.aio.claim` takes it.
        consumer, source, message_id, payload, sent_at, schema, wait: As `duly.receive`.

    Raises:
        CancelledError: The task was cancelled; the transaction is the caller's to roll back.
        DulyError: As `duly.receive`.
    """

    def received() -> InboxReceipt:
        found = sync_receive(
            connection,
            consumer=consumer,
            source=source,
            message_id=message_id,
            payload=payload,
            sent_at=sent_at,
            schema=schema,
            wait=wait,
        )
        return InboxReceipt(**{each.name: getattr(found, each.name) for each in fields(found)})

    return await in_greenlet(received)
