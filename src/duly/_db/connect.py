"""From a URL or an Engine to checked sessions.

Decides how a URL is read, which driver serves it, and that a missing SQLite file is not
made by accident. It never keeps a connection across a fork, and never shows a password.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import StaticPool

from duly._core.redact import is_secret
from duly._db.dialects import DIALECTS, MARIADB, POSTGRESQL, SQLITE, Dialect, ErrorKind
from duly._db.sessions.base import HANDLER_WAIT_S
from duly._db.sessions.choose import make_session
from duly._db.translate import first_line, public_error
from duly._db.watchdog import watchdog
from duly._db.write_queue import queue_of
from duly.errors import (
    ConnectionLost,
    DatabaseNotFound,
    MissingExtra,
    UnsupportedDatabase,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from sqlalchemy.pool import PoolProxiedConnection

    from duly._db.sessions.base import Session


# The driver that serves each spelling of a URL; one that names its driver keeps it.
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mariadb": "mariadb+pymysql",
    "mysql": "mysql+pymysql",
    "sqlite": "sqlite",
}
_AWAITED = {
    **_DRIVERS,
    "mariadb": "mariadb+asyncmy",
    "mysql": "mysql+asyncmy",
    "sqlite": "sqlite+aiosqlite",
}
_EXTRAS = {"psycopg": "postgresql", "pymysql": "mariadb"}
_ASYNC_EXTRAS = {"psycopg": "postgresql", "asyncmy": "asyncmy", "aiosqlite": "aiosqlite"}
_OF_THE_TRANSACTION = {"isolation_level", "postgresql_readonly", "postgresql_deferrable"}
CONNECT_S = 10
"""How long connecting to a server, or its first answer, may take, in seconds."""
_SERVED = {"sqlite": ("pysqlite",), "postgresql": ("psycopg",), "mariadb": ("pymysql",)}
_SERVED_ASYNC = {
    "sqlite": ("aiosqlite",),
    "postgresql": ("psycopg", "psycopg_async"),
    "mariadb": ("asyncmy",),
}


class Database:
    """A business database with a ledger in it, or about to have one.

    Attributes:
        engine: Whose pool the connections come from.
        dialect: Which database, as data.
        schema: The ledger's schema; None until the first check finds the default one.
        path: The SQLite file, absolute; None for a server.
        where: Its name for people, without secrets.
        ours: The engine was made here, so its connections may be set up for duly.
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
            self.engine, self.ours = _make_engine(url, is_async=is_async), True
        else:
            raise UsageError(
                f"a database is a URL or a SQLAlchemy Engine, not {type(database).__name__}"
            )
        self.dialect = _dialect_of(self.engine, is_async=is_async)
        _check_schema(self.dialect, schema)
        self.explicit_schema = schema
        self.schema = schema
        self.untested = untested
        self.path = _sqlite_path(url) if self.dialect is SQLITE else None
        shown = url.set(query={k: v for k, v in url.query.items() if not is_secret(k)})
        self.where = f"SQLite file {self.path}" if self.path else shown.render_as_string()
        self.secrets = _secrets(url)
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


def read_url(text: str | URL, *, is_async: bool = False) -> URL:
    """The URL with the driver that duly uses filled in.

    Raises:
        UsageError: It does not parse, or names what duly does not know.
    """
    try:
        url = make_url(text)
    except (sqlalchemy.exc.ArgumentError, ValueError) as error:
        raise UsageError(
            "the database URL does not parse: write sqlite:///file.db,"
            " postgresql://user@host/database or mariadb://user@host/database"
        ) from error
    name = url.drivername
    drivers = _AWAITED if is_async else _DRIVERS
    if name in drivers:
        return url.set(drivername=drivers[name])
    backend = name.split("+")[0]
    if backend not in _DRIVERS:
        raise UnsupportedDatabase(
            f"duly does not know the database {backend!r}: it serves SQLite, PostgreSQL and MariaDB"
        )
    if backend == "postgres":
        return url.set(drivername="postgresql+" + name.split("+")[1])
    return url


def _dialect_of(engine: Engine, *, is_async: bool) -> Dialect:
    name = engine.dialect.name
    ours = MARIADB.name if name == "mysql" else name
    if ours not in DIALECTS:
        raise UnsupportedDatabase(
            f"duly does not know the database {name!r}: it serves SQLite, PostgreSQL and MariaDB"
        )
    driver, served = engine.dialect.driver, _SERVED_ASYNC if is_async else _SERVED
    if engine.dialect.is_async and not is_async:
        raise UnsupportedDatabase(
            f"the driver {driver!r} is one of asyncio's: give it to duly.aio.App, or use"
            f" {' or '.join(_SERVED[ours])}"
        )
    if driver not in served[ours]:
        kind = "asynchronous " if is_async else ""
        raise UnsupportedDatabase(
            f"duly does not serve {name} through the {kind}driver {driver!r}: use"
            f" {' or '.join(served[ours])}"
        )
    return DIALECTS[ours]


def _make_engine(url: URL, *, is_async: bool) -> Engine:
    # The pool's reset would send a ROLLBACK after every commit of ours, or ask the driver for one;
    # a lease is only given back with no transaction open.
    options: dict[str, Any] = {"pool_reset_on_return": None}
    if url.get_backend_name() == "sqlite":
        if is_async:
            options["async_creator"] = _aiosqlite_creator(url)
        else:
            options["creator"] = _sqlite_creator(url)
    elif url.get_backend_name() != POSTGRESQL.name:
        # Its default lets a handler's statement wait 50 s for a row. The answer to the first
        # packet is bounded as the connecting is; afterwards a statement may take its time.
        bound = f"SET SESSION innodb_lock_wait_timeout = {int(HANDLER_WAIT_S)}"
        mine: dict[str, Any] = {"init_command": bound}
        # asyncmy has no bound on reading, and the watchdog bounds the first answer too.
        mine |= {"connect_timeout": CONNECT_S} if is_async else {"read_timeout": CONNECT_S}
        options["connect_args"] = {k: v for k, v in mine.items() if k not in url.query}
    elif "connect_timeout" not in url.query:
        options["connect_args"] = {"connect_timeout": CONNECT_S}
    try:
        engine = _created(url, options, is_async=is_async)
        if "read_timeout" in options.get("connect_args", {}):
            event.listen(engine, "connect", _unbound_reads)
        return engine
    except ModuleNotFoundError as error:
        extra = (_ASYNC_EXTRAS if is_async else _EXTRAS).get(error.name or "")
        if extra is None:
            raise UnsupportedDatabase(
                f"the driver of {url.drivername} is not installed ({error.name}), and duly does"
                " not use it: drop the driver from the URL"
            ) from error
        raise MissingExtra(
            f"the driver {error.name} is not installed: pip install 'duly[{extra}]'", extra=extra
        ) from error
    except sqlalchemy.exc.InvalidRequestError as error:  # the driver is not one of a loop's
        name = MARIADB.name if url.get_backend_name() == "mysql" else url.get_backend_name()
        raise UnsupportedDatabase(
            f"the driver of {url.drivername} would block the event loop: name"
            f" {' or '.join(_SERVED_ASYNC[name])}, or drop the driver from the URL"
        ) from error
    except sqlalchemy.exc.NoSuchModuleError as error:
        raise UnsupportedDatabase(f"no such driver: {url.drivername}") from error


def _created(url: URL, options: dict[str, Any], *, is_async: bool) -> Engine:
    if not is_async:
        return sqlalchemy.create_engine(url, **options)
    from sqlalchemy.ext.asyncio import create_async_engine

    return create_async_engine(url, **options).sync_engine


def _unbound_reads(raw: Any, _record: Any) -> None:
    raw._read_timeout = None  # noqa: SLF001 - PyMySQL takes it with the connecting only


class SqliteConnection(sqlite3.Connection):
    """A connection whose methods can be refused while it is lent; the base class is closed."""


def _sqlite_creator(url: URL) -> Any:
    address, options = _sqlite_options(url)

    def connect() -> sqlite3.Connection:
        raw: sqlite3.Connection = sqlite3.connect(address, **options)
        raw.execute("PRAGMA synchronous = FULL")
        return raw

    return connect


def _aiosqlite_creator(url: URL) -> Any:
    address, options = _sqlite_options(url)

    async def connect() -> Any:
        import aiosqlite

        raw: Any = aiosqlite.connect(address, **options)
        raw._thread.daemon = True  # noqa: SLF001 - as SQLAlchemy does: it must not keep the process
        await raw
        await raw.execute("PRAGMA synchronous = FULL")
        return raw

    return connect


def _sqlite_options(url: URL) -> tuple[str, dict[str, Any]]:
    path = _sqlite_path(url)
    _names, options = url.get_dialect()().create_connect_args(url)
    options = {
        "timeout": 10.0,
        "check_same_thread": False,
        **options,
        "isolation_level": "IMMEDIATE",
        "uri": True,
        "factory": SqliteConnection,
    }
    # mode=rw: opening must not make an empty file where a path is wrong.
    return f"file:{quote(path)}?mode=rw", options


def _sqlite_path(url: URL) -> str:
    name = url.database
    if not name or name == ":memory:" or "mode=memory" in name:
        raise UsageError(
            "a SQLite database in memory is gone with its process, and the record of what was"
            " done with it: give a file, sqlite:///path/to/file.db"
        )
    return os.path.abspath(name.removeprefix("file:"))
