"""Chooses the session class for a driver's connection.

It imports one driver's file, when it is asked for it, and neither SQLAlchemy nor a pool: a
claim on a raw connection pays for nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._db.dialects import Dialect
    from duly._db.sessions.base import Session


def make_session(dialect: Dialect, raw: Any, schema: str | None) -> Session:
    """A session on a driver's connection."""
    return session_class(dialect)(raw, schema)


def session_class(dialect: Dialect) -> Callable[[Any, str | None], Session]:
    """The session class for a database's driver, imported only now."""
    match dialect.name:
        case "sqlite":
            from duly._db.sessions.sqlite_driver import SqliteSession

            return SqliteSession
        case "postgresql":
            from duly._db.sessions.psycopg_driver import PsycopgSession

            return PsycopgSession
        case _:
            from duly._db.sessions.pymysql_driver import PyMysqlSession

            return PyMysqlSession


def is_djangos(connection: Any) -> bool:
    """Whether it is one of Django's connections, or the proxy `django.db.connection`."""
    kind: Any = type(connection)
    return comes_from("django", kind)


@cache
def comes_from(package: str, class_: type) -> bool:
    """Whether *class_*, or one that it is made from, is of that package."""
    return any(kind.__module__.partition(".")[0] == package for kind in class_.__mro__)
