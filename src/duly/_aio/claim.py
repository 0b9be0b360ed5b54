"""`duly.aio.claim`: the primitive, for a transaction of a task's own.

It is `duly.claim`, awaited, and decides nothing.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from duly._aio.turn import in_greenlet
from duly._sync.claim import Found
from duly._sync.claim import claim as sync_claim

if TYPE_CHECKING:
    from datetime import timedelta

    from duly._core.occurrence import Occurrence


class Claim(Found):
    """What a claim found; see `duly.Claim` for its attributes."""

    __slots__ = ()

    async def confirm(self) -> None:
        """Prove, just before the commit, that the claim is still in the transaction.

        Raises:
            TransactionEnded: The claim is gone; roll back.
        """
        await in_greenlet(self._confirm)


async def claim(
    connection: Any,
    occurrence: Occurrence | str,
    *,
    payload: Any = None,
    schema: str | None = None,
    wait: timedelta | float = 10.0,
    early: bool = False,
) -> Claim:
    """Claim an occurrence inside the transaction of *connection*; see `duly.claim`.

    Args:
        connection: Of psycopg (AsyncConnection), aiosqlite, asyncmy or SQLAlchemy (an
            AsyncConnection or an AsyncSession), with a transaction open or begun by its next
            statement.
        occurrence, payload, schema, wait, early: As `duly.claim`.

    Raises:
        CancelledError: The task was cancelled; its statement has ended, and the transaction is
            the caller's to roll back.
        DulyError: As `duly.claim`.
    """

    def claimed() -> Claim:
        found = sync_claim(
            connection, occurrence, payload=payload, schema=schema, wait=wait, early=early
        )
        return Claim(**{field.name: getattr(found, field.name) for field in fields(found)})

    return await in_greenlet(claimed)
