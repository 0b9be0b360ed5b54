"""`duly.aio.send`: a message with a transaction of a task's own.

It is `duly.send`, awaited, and decides nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from duly._aio.turn import in_greenlet
from duly._sync.caller_send import send as sync_send

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duly._core.occurrence import Occurrence


async def send(
    connection: Any,
    occurrence: Occurrence | str,
    destination: str,
    body: Any,
    *,
    name: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    ordering_key: str | None = None,
    schema: str | None = None,
) -> str:
    """Send a message with the transaction of *connection*; see `duly.send`.

    Args:
        connection: As `duly.aio.claim` takes it; the one in which the claim was made.
        occurrence, destination, body, name, key, headers, not_before, expires_at, ordering_key,
            schema: As `duly.send`.

    Raises:
        DulyError: As `duly.send`.
    """
    return await in_greenlet(
        partial(
            sync_send,
            connection,
            occurrence,
            destination,
            body,
            name=name,
            key=key,
            headers=headers,
            not_before=not_before,
            expires_at=expires_at,
            ordering_key=ordering_key,
            schema=schema,
        )
    )
