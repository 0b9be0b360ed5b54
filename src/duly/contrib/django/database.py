"""A database of Django's settings, as an App uses it.

Decides which connection serves what: an attempt runs on Django's own connection of its
thread, so that the ORM works in duly's transaction; everything else (markers, questions,
migrations) runs on further connections, which Django makes by the same settings. It must
never run an attempt where an outer `atomic` would hold duly's commit back.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import sqlalchemy
from django.db import connections
from django.db.backends.base.creation import TEST_DATABASE_PREFIX
from django.db.backends.signals import connection_created
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from duly._db.connect import Database, Lease
from duly._db.dialects import MARIADB, POSTGRESQL, SQLITE
from duly._db.sessions.django_wrapper import DjangoSession, dialect_of, django_session
from duly._db.translate import public_error
from duly._db.write_queue import queue_of
from duly.errors import NoTransaction, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.engine import Engine

    from duly._db.dialects import Dialect

log = logging.getLogger("duly.django")

_DRIVERS = {SQLITE: "sqlite", POSTGRESQL: "postgresql+psycopg", MARIADB: "mariadb+pymysql"}

_opened_in: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_of_the_parent: list[Any] = []


class DjangoDatabase(Database):
    """One of `DATABASES`.

    Attributes:
        using: Its alias.
    """

    def __init__(self, using: str, *, schema: str | None = None, untested: bool = False) -> None:
        self.using = using
        self._pending = threading.local()
        super().__init__(_engine(using), schema=schema, untested=untested)

    def lend(self) -> Lease:
        """This thread's connection of Django's, for an attempt.

        Raises:
            NoTransaction: A transaction of somebody else's is open on it.
            DulyError: As `connect`.
        """
        wrapper = connections[self.using]
        _refuse_nested(wrapper)
        _leave_to_the_parent(wrapper)
        opened = wrapper.connection is None
        try:
            wrapper.ensure_connection()
        except Exception as error:
            known = public_error(self.dialect, error, self.where)
            raise (known or error) from (error if known else error.__cause__)
        return DjangoLease(self, wrapper, self._callbacks, opened=opened)

    def attempt_ended(self, *, applied: bool) -> None:
        """Call what the handler registered with `on_commit`, if its transaction committed.

        What one of them raises is logged: the effect is there, and none of it can undo that.
        """
        super().attempt_ended(applied=applied)
        callbacks, self._callbacks[:] = list(self._callbacks), []
        for callback in callbacks if applied else ():
            try:
                callback()
            except Exception:
                name = getattr(callback, "__qualname__", repr(callback))
                log.exception("on_commit_failed", extra={"callback": name})

    @property
    def _callbacks(self) -> list[Callable[[], Any]]:
        """Of the attempt of this thread."""
        if not hasattr(self._pending, "callbacks"):
            self._pending.callbacks = []
        callbacks: list[Callable[[], Any]] = self._pending.callbacks
        return callbacks


class DjangoLease(Lease):
    """Django's connection while an attempt uses it."""

    session: DjangoSession

    def __init__(
        self,
        database: DjangoDatabase,
        wrapper: Any,
        callbacks: list[Callable[[], Any]],
        *,
        opened: bool,
    ) -> None:
        self.database = database
        self.session = django_session(wrapper, database.schema)
        self.session.callbacks = callbacks
        self.session.line = None if database.path is None else queue_of(database.path)
        self.fairy = _borrowed(wrapper.connection, database.engine)
        self._wrapper = wrapper
        self._opened = opened

    def lent_by(self, lender: Any) -> None:
        """What goes through Django is looked at as what goes through `run` is."""
        self.session.lender = lender

    def give_back(self) -> None:
        """Leave the connection in autocommit, or closed, as its CONN_MAX_AGE says."""
        try:
            self.session.release()
        except Exception:
            self.discard()
            return
        if self._opened:
            with suppress(Exception):
                self._wrapper.close_if_unusable_or_obsolete()

    def discard(self) -> None:
        """Close a connection that cannot be trusted any more; never raises."""
        with suppress(Exception):
            self.session.disarm()
        with suppress(Exception):
            self.session.kill()
        with suppress(Exception):
            self._wrapper.close()  # a pool of psycopg's wants it back, closed or not
        self._wrapper.connection = None


def _refuse_nested(wrapper: Any) -> None:
    """Refuse a connection on which duly's COMMIT would not be the last word."""
    where = f"Django's connection {wrapper.alias!r}"
    if getattr(wrapper, "lender", None) is not None:
        raise NoTransaction(
            f"an attempt was started from inside a handler on {where}, which has one transaction"
            " at a time: start it after the handler returned"
        )
    if any(block._from_testcase for block in wrapper.atomic_blocks):  # noqa: SLF001
        raise NoTransaction(
            f"TestCase keeps a transaction open on {where} and rolls it back, so duly could commit"
            " nothing: use duly.contrib.django.testing.TransactionTestCase"
        )
    if wrapper.in_atomic_block:
        raise NoTransaction(
            f"a job was started inside transaction.atomic() on {where} (ATOMIC_REQUESTS puts every"
            " view into one), whose end would decide what duly commits: start it outside, or from"
            " transaction.on_commit(), or call duly.claim there"
        )
    if wrapper.connection is not None and not wrapper.get_autocommit():
        raise NoTransaction(
            f"autocommit is off on {where}, so a transaction of yours may be open: call"
            " transaction.set_autocommit(True) before you start a job"
        )


# Connections


def _engine(using: str) -> Engine:
    """An Engine whose connections Django makes, by its settings of the moment."""
    wrapper = connections[using]
    dialect = dialect_of(wrapper)
    if dialect is SQLITE and wrapper.is_in_memory_db():
        raise UsageError(
            f"Django's database {using!r} is a SQLite database in memory, which is gone with its"
            " process, and with it the record of what was done: name a file (for tests in"
            f' DATABASES[{using!r}]["TEST"]["NAME"])'
        )
    options: dict[str, Any] = {}
    if dialect is not POSTGRESQL:
        options["pool_reset_on_return"] = None  # a lease is given back with none open
    if is_of_tests(wrapper):
        options["poolclass"] = NullPool  # no idle connection may hold up the database's end
    return sqlalchemy.create_engine(
        _url(wrapper.settings_dict, dialect), creator=lambda: _connected(using), **options
    )


def is_of_tests(wrapper: Any) -> bool:
    """Whether a test runner of Django's made the database, or a copy for one of its processes."""
    runner = getattr(sys.modules.get("django.test.utils"), "_TestState", None)
    settings = wrapper.settings_dict
    made = settings["TEST"]["NAME"] or TEST_DATABASE_PREFIX
    return hasattr(runner, "saved_data") and str(settings["NAME"]).startswith(str(made))


def _url(settings: dict[str, Any], dialect: Dialect) -> URL:
    """Its name for people and messages; nobody connects by it."""
    name = str(settings["NAME"] or settings["OPTIONS"].get("service", ""))
    if dialect is SQLITE:
        return URL.create(_DRIVERS[dialect], database=name)
    return URL.create(
        _DRIVERS[dialect],
        username=settings["USER"] or None,
        password=settings["PASSWORD"] or None,
        host=settings["HOST"] or None,
        port=int(settings["PORT"]) if str(settings["PORT"]).isdecimal() else None,
        database=name,
    )


def _connected(using: str) -> Any:
    """A new driver's connection of duly's own, set up as Django sets its connections up."""
    model = connections[using]
    options = dict(model.settings_dict["OPTIONS"])
    options.pop("pool", None)  # it would be one of the pool's, and never come back
    wrapper = type(model)({**model.settings_dict, "OPTIONS": options}, model.alias)
    wrapper.connect()
    wrapper.set_autocommit(False)
    raw, wrapper.connection = wrapper.connection, None
    return raw


class _Borrowed(NullPool):
    """A pool of one connection that is Django's: whoever returns it leaves it as it is."""

    def _do_return_conn(self, record: Any) -> None:
        """Keep it open."""


def _borrowed(raw: Any, engine: Engine) -> Any:
    """The connection as SQLAlchemy wants it."""
    return _Borrowed(lambda: raw, dialect=engine.dialect, reset_on_return=None).connect()


# Forks (PROTOCOL 21)


def _remember_process(connection: Any, **_sent: Any) -> None:
    _opened_in[connection] = os.getpid()


connection_created.connect(_remember_process, dispatch_uid="duly.contrib.django.database")


def _leave_to_the_parent(wrapper: Any) -> None:
    """In a forked child: let go of a connection that is the parent's, without closing it."""
    if wrapper.connection is None or _opened_in.get(wrapper, os.getpid()) == os.getpid():
        return
    _of_the_parent.append(wrapper.connection)  # collected, it might say goodbye to the server
    wrapper.connection = None
