"""Chooses the session class for a driver's connection.

It imports one driver's file, when it is asked for it, and neither SQLAlchemy nor a pool: a
claim on a raw connection pays for nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duly._db.dialects import Dialect
    from duly._db.sessions.base import Session


def make_session(dialect: Dialect, raw: Any, schema: str | None) -> Session:
    """The session class for a driver's connection, imported only now."""
    match dialect.name:
        case "sqlite":
            from duly._db.sessions.sqlite_driver import SqliteSession

            return SqliteSession(raw, schema)
        case "postgresql":
            from duly._db.sessions.psycopg_driver import PsycopgSession

            return PsycopgSession(raw, schema)
        case _:
            from duly._db.sessions.pymysql_driver import PyMysqlSession

            return PyMysqlSession(raw, schema)
