"""Ends the statement that another thread has under way, on the server too.

A cut connection alone would leave the server at work, and the key locked. It decides nothing,
and touches no transaction: the statement fails, and whoever sent it goes on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Engine

    from duly._db.sessions.base import Session

CANCEL_S: Final = 5.0
"""How long the server may take to answer that it cancels."""


def cancel(session: Session, engine: Engine) -> None:
    """Cancel what *session* has under way; nothing under way is fine.

    Raises:
        Exception: The driver's, where the server cannot be reached.
    """
    _WAYS[session.dialect.name](session.raw, engine)


def _sqlite(raw: Any, _engine: Engine) -> None:
    raw.interrupt()


def _postgresql(raw: Any, _engine: Engine) -> None:
    raw.cancel_safe(timeout=CANCEL_S)


def _mariadb(raw: Any, engine: Engine) -> None:
    # A connection outside the pool: the pool may be empty just because all are stuck.
    pool = engine.pool.recreate()
    try:
        fairy = pool.connect()
        try:
            cursor = fairy.cursor()
            cursor.execute(f"KILL QUERY {int(raw.thread_id())}")
            cursor.close()
        finally:
            fairy.invalidate()
    finally:
        pool.dispose()


_WAYS: Final[dict[str, Callable[[Any, Engine], None]]] = {
    "sqlite": _sqlite,
    "postgresql": _postgresql,
    "mariadb": _mariadb,
}
