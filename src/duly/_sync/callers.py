"""From a connection of the user's to a session, with the ledger checked.

Decides which kind of connection it is, and refuses one that cannot carry a claim. It never
begins, commits or rolls back, but where SQLAlchemy would have begun with the next statement.
"""

from __future__ import annotations

import os
import weakref
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from duly._db.dialects import MARIADB, POSTGRESQL, SQLITE, Dialect
from duly._db.queries import queries
from duly._db.sessions.choose import comes_from, is_asynchronous, is_djangos, make_session
from duly._db.tables import require_current
from duly._db.translate import first_line
from duly._db.waiting import in_loop
from duly.errors import DatabaseNotFound, NoTransaction, SchemaMissing, UsageError

if TYPE_CHECKING:
    from duly._db.sessions.base import Session
    from duly._db.sessions.sqlite_driver import SqliteSession

_schemas: weakref.WeakKeyDictionary[Any, dict[str | None, str]] = weakref.WeakKeyDictionary()
_checked_files: set[tuple[int, int, int]] = set()


def open_session(connection: Any, schema: str | None) -> Session:
    """A session on the driver's connection beneath *connection*, with the ledger checked.

    Raises:
        UsageError: A connection of a kind that duly does not know.
        SchemaMissing, SchemaOutdated, SchemaNewer: The ledger is not this code's.
    """
    if is_djangos(connection):
        from duly._db.sessions.django_wrapper import django_session, wrapper_of

        wrapper = wrapper_of(connection)
        return _with_ledger(django_session(wrapper, schema), schema)
    raw = _driver_connection(connection)
    if is_asynchronous(raw) and not in_loop():
        raise UsageError(
            f"duly.claim cannot wait for a connection of type {type(raw).__module__}."
            f"{type(raw).__qualname__}: write `await duly.aio.claim(…)`"
        )
    kind: Any = type(raw)
    return _with_ledger(make_session(_dialect(kind), raw, schema), schema)


def _with_ledger(session: Session, schema: str | None) -> Session:
    if session.dialect is SQLITE:
        _check_file(session)
        return session
    known = _schemas.setdefault(session.driver, {})
    if schema not in known:
        session.require_transaction()
        known[schema] = _find_ledger(session, schema)
    _qualify(session, known[schema])
    return session


def synchronous(connection: Any) -> Any:
    """What SQLAlchemy's AsyncConnection or AsyncSession stands for.

    Raises:
        NoTransaction: The connection was not opened.
    """
    kind: Any = type(connection)
    if not comes_from("sqlalchemy", kind):
        return connection
    if kind.__name__ == "async_scoped_session":
        connection = connection()
    for name in ("sync_connection", "sync_session"):
        if (found := getattr(connection, name, None)) is not None:
            return found
    if kind.__name__ == "AsyncConnection":
        raise NoTransaction(
            "duly.aio.claim: this AsyncConnection is not open: claim inside `async with"
            " engine.begin() as connection:`"
        )
    return connection


def _driver_connection(connection: Any) -> Any:
    kind: Any = type(connection)
    if not comes_from("sqlalchemy", kind):
        return connection
    from sqlalchemy import Connection
    from sqlalchemy.exc import InvalidRequestError, UnboundExecutionError
    from sqlalchemy.orm import Session as OrmSession
    from sqlalchemy.orm import scoped_session

    if isinstance(connection, scoped_session):
        connection = connection()
    try:
        if isinstance(connection, OrmSession):
            _refuse_changes(connection)
            connection = connection.connection()
        if not isinstance(connection, Connection):
            raise UsageError(
                f"duly.claim takes a connection or a session, not {type(connection).__name__}: use"
                " `with engine.begin() as connection:`"
            )
        if not connection.in_transaction():
            # As its own next statement would have done; without it, SQLAlchemy's commit()
            # would not know of the claim.
            connection.begin()
        # Not the pool's `driver_connection`, which is None once the connection is detached.
        beneath: Any = connection.connection.dbapi_connection
        return connection.dialect.get_driver_connection(beneath)
    except (InvalidRequestError, UnboundExecutionError) as error:
        raise NoTransaction(
            f"duly.claim: SQLAlchemy has no usable transaction there ({first_line(error)}): roll"
            " it back, or open a new one, and claim again"
        ) from error


def _refuse_changes(session: Any) -> None:
    """Changes of an effect that come before the claim are committed with a duplicate too."""
    changed = [each for each in session.dirty if session.is_modified(each)]
    if session.new or changed or session.deleted:
        raise UsageError(
            "duly.claim: the session holds changes from before the claim"
            f" (new: {len(session.new)}, changed: {len(changed)}, deleted: {len(session.deleted)}),"
            " which would be committed also where the claim is a duplicate: claim first, then"
            " change; or call session.flush() for what is no part of the effect"
        )


@cache
def _dialect(connection_class: type[Any]) -> Dialect:
    names = {(kind.__module__.split(".")[0], kind.__name__) for kind in connection_class.__mro__}
    if names & {("sqlite3", "Connection"), ("aiosqlite", "Connection")}:
        return SQLITE
    if names & {("psycopg", "Connection"), ("psycopg", "AsyncConnection")}:
        return POSTGRESQL
    if names & {("pymysql", "Connection"), ("asyncmy", "Connection")}:
        return MARIADB
    raise UsageError(
        "duly.claim does not know connections of type"
        f" {connection_class.__module__}.{connection_class.__qualname__}: give one of sqlite3,"
        " psycopg 3, PyMySQL, SQLAlchemy or Django"
    )


def _find_ledger(session: Session, schema: str | None) -> str:
    from duly._db.checks import default_schema

    dialect = session.dialect
    found = default_schema(session, schema)
    _qualify(session, found)
    require_current(session, f"schema {found!r} of this {dialect.title} connection")
    return found


def _qualify(session: Session, schema: str) -> None:
    """From now on its statements speak of the tables in *schema*."""
    session.schema = schema
    session.queries = queries(session.dialect, schema)


def _check_file(session: Session) -> None:
    session.require_transaction()
    raw = session.raw
    path = cast("SqliteSession", session).path
    identity: tuple[int, int, int] | None = None
    if path:
        try:
            found = os.stat(path)
        except FileNotFoundError as gone:
            raise DatabaseNotFound(
                f"the file {path} of this connection was removed or renamed, so what is committed"
                " here is lost: close the connection, and open one to the file that is meant"
            ) from gone
        identity = (found.st_dev, found.st_ino, os.getpid())
        if identity in _checked_files:
            return
    try:
        require_current(session, f"SQLite file {path}" if path else "this SQLite database")
    except SchemaMissing as missing:
        if not path:
            raise SchemaMissing(
                "this SQLite database is in memory, or temporary, and ends with its connection, so"
                " it keeps no key and duly makes no tables in it: connect to a file",
                where="memory",
            ) from missing
        if raw.in_transaction:
            raise
        # The embedded default: in an existing file the tables are made at first use.
        from duly._db.connect import Database
        from duly._db.migrate import migrate

        migrate(Database(f"sqlite:///{path}"))
    if identity is not None:
        _checked_files.add(identity)
