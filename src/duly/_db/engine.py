"""From a URL to an Engine whose connections are set up for duly.

Decides how a URL is read and which driver serves it, synchronous or of an event loop's. It
connects to nothing.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.engine import URL, Engine, make_url

from duly._db.dialects import DIALECTS, MARIADB, POSTGRESQL, Dialect
from duly._db.sessions.base import HANDLER_WAIT_S
from duly._db.sessions.sqlite_driver import SqliteConnection
from duly.errors import MissingExtra, UnsupportedDatabase, UsageError

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
CONNECT_S = 10
"""How long connecting to a server, or its first answer, may take, in seconds."""
_SERVED = {"sqlite": ("pysqlite",), "postgresql": ("psycopg",), "mariadb": ("pymysql",)}
_SERVED_ASYNC = {
    "sqlite": ("aiosqlite",),
    "postgresql": ("psycopg", "psycopg_async"),
    "mariadb": ("asyncmy",),
}


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


def dialect_of(engine: Engine, *, is_async: bool) -> Dialect:
    """Which database an Engine is for.

    Raises:
        UnsupportedDatabase: One, or a driver, that duly does not serve.
    """
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


def make_engine(url: URL, *, is_async: bool) -> Engine:
    """An Engine for a URL that `read_url` has read.

    Raises:
        MissingExtra, UnsupportedDatabase: Its driver is not installed, or not served.
    """
    # The pool's reset would send a ROLLBACK after every commit of ours, or ask the driver for one;
    # a lease is only given back with no transaction open.
    options: dict[str, Any] = {"pool_reset_on_return": None}
    if url.get_backend_name() == "sqlite":
        if is_async:
            options["async_creator"] = _aiosqlite_creator(url)
        else:
            options["creator"] = _sqlite_creator(url)
    elif url.get_backend_name() != POSTGRESQL.name:
        # Its defaults let a statement wait 50 s for a row, and a day for a table that somebody
        # locked. The answer to the first packet is bounded as the connecting is; afterwards a
        # statement may take its time.
        wait = int(HANDLER_WAIT_S)
        bound = f"SET SESSION innodb_lock_wait_timeout = {wait}, lock_wait_timeout = {wait}"
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
        if url.get_backend_name() == POSTGRESQL.name:
            event.listen(engine, "connect", _bound_locks)
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


def _bound_locks(raw: Any, _record: Any) -> None:
    """Where nobody said how long to wait for a lock, a read of duly's would wait for ever.

    Not by `options=` of the connecting: a pooler refuses what it does not know there.
    """
    raw.autocommit = True  # one message, where a transaction would be three
    cursor = raw.cursor()
    cursor.execute(
        f"SELECT set_config('lock_timeout', '{int(HANDLER_WAIT_S)}s', false)"
        " WHERE current_setting('lock_timeout') = '0'"
    )
    cursor.close()
    raw.autocommit = False


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
    path = sqlite_path(url)
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


def sqlite_path(url: URL) -> str:
    """The file of a URL, absolute.

    Raises:
        UsageError: It is in memory.
    """
    name = url.database
    if not name or name == ":memory:" or "mode=memory" in name:
        raise UsageError(
            "a SQLite database in memory is gone with its process, and the record of what was"
            " done with it: give a file, sqlite:///path/to/file.db"
        )
    return os.path.abspath(name.removeprefix("file:"))
