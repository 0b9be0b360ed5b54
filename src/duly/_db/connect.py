"""From a URL or an Engine to checked sessions.

Decides that a missing SQLite file is not made by accident. It never keeps a connection across
a fork, and never shows a password.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy.engine import URL, Engine
from sqlalchemy.pool import StaticPool

from duly._core.redact import is_secret
from duly._db.bell import Bell
from duly._db.dialects import SQLITE, Dialect, ErrorKind
from duly._db.engine import CONNECT_S, dialect_of, make_engine, read_url, sqlite_path
from duly._db.sessions.choose import make_session
from duly._db.translate import first_line, public_error
from duly._db.watchdog import watchdog
from duly._db.write_queue import queue_of
from duly.errors import (
    ConnectionLost,
    DatabaseNotFound,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from sqlalchemy.pool import PoolProxiedConnection

    from duly._db.line import Line
    from duly._db.sessions.base import Session


_OF_THE_TRANSACTION = {"isolation_level", "postgresql_readonly", "postgresql_deferrable"}


class Database:
    """A business database with a ledger in it, or about to have one.

    Attributes:
        engine: Whose pool the connections come from.
        dialect: Which database, as data.
        schema: The ledger's schema; None until the first check finds the default one.
        path: The SQLite file, absolute; None for a server.
        where: Its name for people, without secrets.
        ours: The engine was made here, so its connections may be set up for duly.
        bell: Wakes this process's relays when messages were committed.
        line: Wakes those of other processes; None where nobody asked for it.
        is_async: Its driver is one of an event loop's: it may be used only `waiting.in_loop`.
    """

    def __init__(
        self,
        database: str | URL | Engine,
        *,
        schema: str | None = None,
        untested: bool = False,
        is_async: bool = False,
    ) -> None:
        self.is_async = is_async
        if isinstance(database, Engine):
            self.engine, self.ours = database, False
            url = database.url
            if isinstance(database.pool, StaticPool):
                raise UsageError(
                    "the Engine has a StaticPool, whose one connection all threads share: one"
                    " attempt's commit would be another's; use the default pool"
                )
            if odd := sorted(_OF_THE_TRANSACTION & database.get_execution_options().keys()):
                raise UsageError(
                    f"the Engine sets {odd[0]} as an execution option, which SQLAlchemy would apply"
                    " inside duly's transaction: give it to create_engine() itself"
                )
        elif isinstance(database, str | URL):
            url = read_url(database, is_async=is_async)
            self.engine, self.ours = make_engine(url, is_async=is_async), True
        else:
            raise not_a_database(database, is_async=is_async)
        self.dialect = dialect_of(self.engine, is_async=is_async)
        _check_schema(self.dialect, schema)
        self.explicit_schema = schema
        self.schema = schema
        self.untested = untested
        self.path = sqlite_path(url) if self.dialect is SQLITE else None
        shown = url.set(query={k: v for k, v in url.query.items() if not is_secret(k)})
        self.where = f"SQLite file {self.path}" if self.path else shown.render_as_string()
        self.secrets = _secrets(url)
        self.bell = Bell(self.path or f"{self.dialect.name} {url.host}:{url.port}/{url.database}")
        self.line: Line | None = None
        self.ledger_id: str | None = None
        self.nontransactional: frozenset[str] = frozenset()
        self._pid = os.getpid()

    def connect(self) -> Lease:
        """Take a connection from the pool.

        Raises:
            ConnectionLost, AccessDenied, DatabaseNotFound: With the remedy.
        """
        if os.getpid() != self._pid:
            # A socket shared with the parent once let a child commit the parent's
            # rolled-back row: the child drops the pool without closing it (PROTOCOL 21).
            self.engine.dispose(close=False)
            self._pid = os.getpid()
        try:
            fairy = self.engine.raw_connection()
        except sqlalchemy.exc.TimeoutError as error:
            raise ConnectionLost(
                f"no connection of {self.where} became free in the pool ({error.args[0]}):"
                " raise pool_size, or run fewer attempts at once"
            ) from error
        except TypeError as error:
            raise UsageError(
                f"the driver does not take an option of the URL ({error}): check what follows the"
                f" '?' in {self.where}"
            ) from error
        except Exception as error:
            known = public_error(self.dialect, error, self.where)
            if known is None and self.dialect.classify(error) is ErrorKind.OTHER:
                known = UsageError(
                    f"the driver cannot use the URL of {self.where} ({first_line(error)}): check it"
                )
            raise (known or error) from (error if known else None)
        return Lease(self, fairy)

    def lend(self) -> Lease:
        """Take the connection that an attempt, and its handler, will use.

        Raises:
            DulyError: As `connect`.
        """
        return self.connect()

    def attempt_ended(self, *, applied: bool) -> None:
        """An attempt of this thread has come to its end, and its connection was given back."""
        if applied and self.bell.is_used:
            self.ring()

    def ring(self) -> None:
        """Messages were committed: wake the relays."""
        self.bell.ring()
        if self.line is not None:
            self.line.tell()

    @contextmanager
    def heard(self, call: Callable[[], None]) -> Iterator[None]:
        """While inside, *call* when messages were committed; from any thread."""
        self.bell.hear(call)
        listener = None if self.line is None else self.line.listen(call)
        try:
            yield
        finally:
            self.bell.leave(call)
            if listener is not None:
                listener.close()

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session on a connection that was just seen alive, for whatever is not an attempt.

        An attempt does not pay for the look: its first statement is tried again.

        Raises:
            DulyError: The database's refusal in duly's words; other errors as they came.
        """
        try:
            lease, _clock_us = self._alive()
            with lease as session:
                yield session
        except Exception as error:
            known = public_error(self.dialect, error, self.where)
            raise (known or error) from (error if known else error.__cause__)

    def clock_us(self) -> int:
        """The database's clock, on a connection that answered.

        Raises:
            DulyError: As `session`.
        """
        try:
            lease, clock_us = self._alive()
        except Exception as error:
            known = public_error(self.dialect, error, self.where)
            raise (known or error) from (error if known else error.__cause__)
        lease.give_back()
        return clock_us

    def _alive(self) -> tuple[Lease, int]:
        """A lease whose connection has just told the database's clock."""
        while True:
            lease = self.connect()
            try:
                with watchdog.bound(CONNECT_S, lease.session.cut):
                    clock_us = lease.session.clock_us()
                lease.session.rollback()
            except Exception as error:
                lease.discard()
                if self.dialect.classify(error) is not ErrorKind.LOST:
                    raise
                # Its siblings in the pool are as old, and each connection is new only once.
                self.engine.dispose()
            else:
                return lease, clock_us

    def create_file(self) -> None:
        """Make the SQLite file, in WAL mode, if there is none; only init and demo do."""
        if self.path is None or Path(self.path).exists():
            return
        if not Path(self.path).parent.is_dir():
            raise DatabaseNotFound(
                f"the folder of {self.path} does not exist: make it first", path=self.path
            )
        try:
            with closing(sqlite3.connect(self.path)) as raw:
                raw.execute("PRAGMA journal_mode = WAL")
        except sqlite3.Error as error:
            raise (public_error(self.dialect, error, self.where) or error) from error

    def require_file(self) -> None:
        """Refuse a SQLite file that does not exist: a relative path may name another place.

        Raises:
            DatabaseNotFound: It shows the absolute path.
        """
        if self.path is not None and not Path(self.path).exists():
            raise DatabaseNotFound(
                f"there is no SQLite file at {self.path}: check the path (a relative one depends"
                f" on the working directory, now {Path.cwd()}), or make it with `duly init`",
                path=self.path,
            )


class Lease:
    """A pooled connection while duly uses it; a context manager that gives it back."""

    def __init__(self, database: Database, fairy: PoolProxiedConnection) -> None:
        self.database = database
        self.fairy = fairy
        self.session = _session_of(database, fairy)

    def lent_by(self, lender: Any) -> None:
        """A handler is about to get the connection; *lender* refuses what would end it."""

    def give_back(self) -> None:
        """Return a connection with no transaction of ours open."""
        try:
            self.session.release()
        except Exception:
            self.discard()
            return
        self.fairy.close()

    def discard(self) -> None:
        """Close a connection that cannot be trusted any more; never raises."""
        with suppress(Exception):
            # A signal may have come just after it was armed; armed, it refuses its own close,
            # and its open transaction would keep the key's lock.
            self.session.disarm()
        with suppress(Exception):
            self.session.kill()
        with suppress(Exception):
            # SQLAlchemy's own close may have invalidated it already, and would warn.
            if self.fairy.is_valid:
                self.fairy.invalidate()
            self.fairy.close()

    def __enter__(self) -> Session:
        return self.session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.session.rollback()
        except Exception:
            self.discard()
        else:
            self.give_back()


def _session_of(database: Database, fairy: PoolProxiedConnection) -> Session:
    """The session of a pooled connection, made once in that connection's life."""
    sessions: dict[str | None, Session] = fairy.info.setdefault("duly", {})
    if database.schema not in sessions:
        session = make_session(database.dialect, fairy.driver_connection, database.schema)
        session.line = None if database.path is None else queue_of(database.path)
        sessions[database.schema] = session
    return sessions[database.schema]


def not_a_database(database: object, *, is_async: bool) -> UsageError:
    """What to raise where neither a URL nor an Engine was given."""
    kind, given = "AsyncEngine" if is_async else "Engine", type(database).__name__
    hint = ": give that to duly.aio" if given == "AsyncEngine" else ""
    return UsageError(f"a database is a URL or a SQLAlchemy {kind}, not {given}{hint}")


def _check_schema(dialect: Dialect, schema: object) -> None:
    if schema is None:
        return
    if dialect is SQLITE:
        raise UsageError("a SQLite file has no schemas: leave schema= (--schema) out")
    if not isinstance(schema, str) or not schema or ":" in schema or not schema.isprintable():
        raise UsageError(f"{str(schema)[:60]!r} cannot be the name of the ledger's schema")


def _secrets(url: URL) -> tuple[str, ...]:
    hidden = [url.password] if isinstance(url.password, str) else []
    for name, value in url.query.items():
        if is_secret(name):
            hidden += [value] if isinstance(value, str) else value
    return tuple(secret for secret in hidden if secret)
