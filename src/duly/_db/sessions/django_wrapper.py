"""Sessions on the driver's connection beneath one of Django's.

Django keeps its own account of the transaction (`in_atomic_block`, `needs_rollback`, the
callbacks of `on_commit`). A session here reads that account for a caller's transaction, and
keeps it for one of duly's own: while a handler is at work, Django takes itself to be inside
the outermost `atomic`, so that the ORM, inner `atomic` blocks and `on_commit` work as ever,
and whatever would end the transaction is refused. It never commits through Django.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from duly._db.dialects import DIALECTS, MARIADB, Dialect
from duly._db.sessions.base import Session
from duly._db.sessions.choose import session_class
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly.errors import NoTransaction, SwallowedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.ops import Transaction

_ENDS = ("commit", "rollback", "close", "set_autocommit", "connect")
_DRIVERS = {"sqlite": "sqlite3", "postgresql": "psycopg", "mysql": "pymysql"}
_REMEDIES = {
    "postgresql": "install psycopg 3 (pip install 'duly[postgresql]'), which Django prefers",
    "mysql": "install PyMySQL (pip install 'duly[mariadb]') and call"
    " pymysql.install_as_MySQLdb() in the settings module",
}


def wrapper_of(connection: Any) -> Any:
    """Django's connection itself, where the proxy of it may have been given.

    Raises:
        UsageError: It is something else of Django's.
    """
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.utils.connection import ConnectionProxy

    if isinstance(connection, ConnectionProxy):
        connection = connection._connections[connection._alias]  # noqa: SLF001 - shown nowhere
    if not isinstance(connection, BaseDatabaseWrapper):
        raise UsageError(
            f"{type(connection).__name__} is no database connection of Django's: give"
            " django.db.connection, or django.db.connections[…]"
        )
    return connection


def dialect_of(wrapper: Any) -> Dialect:
    """Which database a connection of Django's is on.

    Raises:
        UsageError: A database, or a driver, that duly does not serve.
    """
    vendor = wrapper.vendor
    if vendor not in _DRIVERS:
        raise UsageError(
            f"duly does not serve Django's {vendor} databases: it serves SQLite, PostgreSQL and"
            " MariaDB"
        )
    driver = wrapper.Database.__name__.partition(".")[0]
    if driver != _DRIVERS[vendor]:
        raise UsageError(
            f"Django's connection {wrapper.alias!r} goes through {driver}, which duly does not"
            f" serve: {_REMEDIES.get(vendor, 'use the standard library')}"
        )
    return MARIADB if vendor == "mysql" else DIALECTS[vendor]


def django_session(wrapper: Any, schema: str | None) -> DjangoSession:
    """A session on the driver's connection that Django has open; Django opens one if need be."""
    dialect = dialect_of(wrapper)
    wrapper.ensure_connection()
    return _django_class(session_class(dialect))(wrapper, schema)


class DjangoSession(Session):
    """What a driver's session does otherwise where the connection is Django's.

    Attributes:
        wrapper: Django's connection.
        lender: Looks at each statement that the handler sends through Django.
        callbacks: What the handler registered with `on_commit`, once it has returned; a list of
            the lease's, which outlives a connection that is lost.
    """

    def __init__(self, wrapper: Any, schema: str | None) -> None:
        super().__init__(wrapper.connection, schema)
        self.wrapper = wrapper
        self.lender: Any = None
        self.callbacks: list[Callable[[], Any]] = []
        self._pretending = False
        self._marked = False

    # A caller's transaction

    def require_transaction(self) -> None:
        wrapper = self.wrapper
        if wrapper.closed_in_transaction:
            raise NoTransaction(
                f"duly.claim: Django's connection {wrapper.alias!r} was closed inside atomic():"
                " leave the block, and begin again"
            )
        if wrapper.needs_rollback:
            raise NoTransaction(
                f"duly.claim: an earlier error has marked the transaction of Django's connection"
                f" {wrapper.alias!r} for rollback: leave the atomic() block, and begin again"
            )
        if not wrapper.in_atomic_block and wrapper.get_autocommit():
            raise NoTransaction(
                f"duly.claim: Django's connection {wrapper.alias!r} is in autocommit mode, so the"
                " claim and your change would commit apart: use"
                f" `with transaction.atomic(using={wrapper.alias!r}):` around both"
            )
        super().require_transaction()  # type: ignore[safe-super]

    def swallowed(self) -> BaseException | None:
        if self._marked or self.wrapper.needs_rollback:
            return SwallowedError(
                "Django has marked the transaction for rollback (an error was swallowed inside"
                " atomic(), or set_rollback(True) was called), so nothing was done: let the error"
                " out, or put what may fail into an atomic() block of its own"
            )
        return super().swallowed()

    # duly's own transaction

    def arm(self) -> None:
        super().arm()  # type: ignore[safe-super]
        self.callbacks.clear()
        self._marked = False
        self._pretend()

    def _pretend(self) -> None:
        """What entering the outermost `atomic(durable=True)` leaves behind, without a BEGIN."""
        from django.db.transaction import Atomic

        wrapper = self.wrapper
        self._pretending = True
        wrapper.run_on_commit = []
        wrapper.savepoint_ids = []
        wrapper.needs_rollback = False
        wrapper.commit_on_exit = True
        wrapper.autocommit = False
        wrapper.in_atomic_block = True
        wrapper.atomic_blocks = [Atomic(wrapper.alias, savepoint=True, durable=True)]
        wrapper.health_check_done = (
            True  # else an unhealthy connection would be replaced by another
        )
        wrapper.lender = self.lender
        wrapper.execute_wrappers.append(self._look)
        refuse_ends(wrapper, _ENDS)
        # Django calls it as a request begins and ends, which may be inside of an attempt
        # (duly.contrib.wsgi): there is nothing to let go of before the transaction's end.
        wrapper.close_if_unusable_or_obsolete = _nothing

    def _look(self, execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        """What every statement of a handler passes that goes through Django."""
        self.lender.refuse_statement(str(sql))
        try:
            found = execute(sql, params, many, context)
        except Exception as error:
            self.lender.saw_error(error)
            raise
        self.lender.saw_statement(str(sql))
        return found

    def _pretend_no_more(self) -> None:
        if not self._pretending:
            return
        wrapper = self.wrapper
        self._pretending = False
        allow_ends(wrapper, (*_ENDS, "close_if_unusable_or_obsolete"))
        if self._look in wrapper.execute_wrappers:
            wrapper.execute_wrappers.remove(self._look)
        self.callbacks[:] = [callback for _savepoints, callback, _robust in wrapper.run_on_commit]
        wrapper.run_on_commit = []
        self._marked = bool(wrapper.needs_rollback)
        wrapper.savepoint_ids = []
        wrapper.atomic_blocks = []
        wrapper.needs_rollback = False
        wrapper.in_atomic_block = False
        wrapper.autocommit = True
        del wrapper.lender

    def after_handler(self, error: BaseException | None) -> Transaction:
        self._pretend_no_more()
        return super().after_handler(error)  # type: ignore[safe-super]

    def release(self) -> None:
        self._pretend_no_more()
        super().release()

    def kill(self) -> None:
        self._pretend_no_more()
        super().kill()  # type: ignore[safe-super]


def _nothing() -> None:
    """Not now."""


@cache
def _django_class(base: type[Session]) -> type[DjangoSession]:
    return type(f"Django{base.__name__}", (DjangoSession, base), {})
