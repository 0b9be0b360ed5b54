"""The ORM session that a run lends to code that awaits: SQLAlchemy's AsyncSession.

It is the synchronous one with an awaited face; when its work counts is decided there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from duly._db.orm import OPTIONS, LentSession, refusing

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session


class LentAsyncSession(LentSession):
    """See `LentSession`."""

    base: ClassVar[tuple[type[Any], str]] = (
        AsyncSession,
        "sqlmodel.ext.asyncio.session.AsyncSession",
    )

    def _made(self, connection: Connection) -> tuple[Any, Session]:
        # Whatever the face is asked to do, the session beneath does or refuses.
        face: AsyncSession = self._kind(
            bind=awaited_face(connection),
            sync_session_class=refusing(self._kind.sync_session_class),
            **OPTIONS,
        )
        return face, face.sync_session


def awaited_face(connection: Connection) -> AsyncConnection:
    """The connection, for code that awaits."""
    return AsyncConnection(AsyncEngine(connection.engine), sync_connection=connection)
