"""The handle that an async handler gets: `duly.Run`, whose statements are awaited.

It lends the same connection, under the same refusals; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from duly._aio.session import LentAsyncSession, awaited_face
from duly._sync.incoming import Received
from duly._sync.run import Attempted, Borrower

if TYPE_CHECKING:
    from sqlalchemy.engine import CursorResult
    from sqlalchemy.ext.asyncio import AsyncConnection

Kind = TypeVar("Kind", bound=AsyncSession)


class Lent(Borrower):
    """The open transaction, as a coroutine works in it."""

    _face: AsyncConnection | None = None

    @property
    def connection(self) -> AsyncConnection:
        """The SQLAlchemy AsyncConnection in the open transaction; duly commits, nobody else.

        Savepoints (`async with connection.begin_nested():`) are free to use; commit, rollback
        and close raise UsageError.
        """
        connection = self._lent().connection()
        if self._face is None:
            self._face = awaited_face(connection)
        return self._face

    @property
    def session(self) -> AsyncSession:
        """A SQLAlchemy AsyncSession in the open transaction, made when first asked for.

        duly flushes it when the handler returns; an error of that flush is the handler's. Its
        commit, rollback and close raise UsageError; `session.begin_nested()` is free to use.
        """
        return self.session_of(AsyncSession)

    def session_of(self, kind: type[Kind]) -> Kind:
        """The same session, of another class: SQLModel's AsyncSession.

        Args:
            kind: A class derived from SQLAlchemy's AsyncSession. A run has one session.

        Raises:
            UsageError: Not such a class, or the session is of another one already.
        """
        found: Kind = self._lent().session(kind, LentAsyncSession)
        return found

    async def execute(self, sql: str, params: Any = None) -> CursorResult[Any]:
        """Run SQL text with named binds (`:units`) in the transaction; SQLAlchemy's result."""
        return await self.connection.execute(text(sql), params)


class Run(Attempted, Lent):
    """One attempt at one occurrence, inside its transaction; see `duly.Run`."""


class Incoming(Received, Lent):
    """One message, inside the transaction in which it is handled; see `duly.Incoming`."""
