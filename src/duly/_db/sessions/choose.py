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
    return session_class(dialect, is_async=is_asynchronous(raw))(raw, schema)


@cache
def session_class(
    dialect: Dialect, *, is_async: bool = False
) -> Callable[[Any, str | None], Session]:
    """The session class for a database's driver, imported only now."""
    match dialect.name:
        case "sqlite" if is_async:
            from duly._db.sessions.aiosqlite_driver import AiosqliteSession

            return AiosqliteSession
        case "postgresql" if is_async:
            from duly._db.sessions.psycopg_async import AsyncPsycopgSession

            return AsyncPsycopgSession
        case "mariadb" if is_async:
            from duly._db.sessions.asyncmy_driver import AsyncmySession

            return AsyncmySession
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


def is_asynchronous(raw: Any) -> bool:
    """Whether a driver's connection is one of an event loop's."""
    kind: Any = type(raw)
    return _awaits(kind)


@cache
def _awaits(class_: type) -> bool:
    return any(
        (kind.__module__.partition(".")[0], kind.__name__) in _ASYNCHRONOUS
        for kind in class_.__mro__
    )


_ASYNCHRONOUS = {
    ("aiosqlite", "Connection"),
    ("psycopg", "AsyncConnection"),
    ("asyncmy", "Connection"),
}
