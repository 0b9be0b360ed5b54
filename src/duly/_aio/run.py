"""The handle that an async handler gets: `duly.Run`, whose statements are awaited.

It lends the same connection, under the same refusals; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from duly._sync.run import Attempted

if TYPE_CHECKING:
    from sqlalchemy.engine import CursorResult


class Run(Attempted):
    """One attempt at one occurrence, inside its transaction; see `duly.Run`."""

    _lent: AsyncConnection | None = None

    @property
    def connection(self) -> AsyncConnection:
        """The SQLAlchemy AsyncConnection in the open transaction; duly commits, nobody else.

        Savepoints (`async with connection.begin_nested():`) are free to use; commit, rollback
        and close raise UsageError.
        """
        lent = self._lender.connection()
        if self._lent is None:
            self._lent = AsyncConnection(AsyncEngine(lent.engine), sync_connection=lent)
        return self._lent

    async def execute(self, sql: str, params: Any = None) -> CursorResult[Any]:
        """Run SQL text with named binds (`:units`) in the transaction; SQLAlchemy's result."""
        return await self.connection.execute(text(sql), params)
