"""The connection that a handler gets, as SQLAlchemy is told of it.

Decides where a lender looks: at each statement that goes to the driver, at its error, and at a
commit or a rollback. It looks from a dialect of its own, not from events, which would be made
anew for each connection that is lent. It never tells what a statement may do: the lender does.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import Dialect

from duly.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine, ExceptionContext

    from duly._sync.run import Lender


class LentConnection(Connection):
    """A connection whose end is not the handler's to decide."""

    lender: Lender | None = None

    def execute(self, *args: Any, **named: Any) -> Any:
        """As SQLAlchemy's, while the run lasts.

        Raises:
            UsageError: The run is over.
        """
        if self.lender is not None:
            self.lender.refuse_late()
        return super().execute(*args, **named)

    def exec_driver_sql(self, *args: Any, **named: Any) -> Any:
        """As SQLAlchemy's, while the run lasts.

        Raises:
            UsageError: The run is over.
        """
        if self.lender is not None:
            self.lender.refuse_late()
        return super().exec_driver_sql(*args, **named)

    def _begin_impl(self, transaction: Any) -> None:
        """Nothing: the transaction is open, and a listener of the user's may not begin another."""

    def close(self) -> None:
        """Refused: duly gives the connection back when the handler returns.

        Raises:
            UsageError: Always.
        """
        raise UsageError(
            "run.connection is lent: leave it open, duly commits and returns it when the handler"
            " returns"
        )

    def invalidate(self, exception: BaseException | None = None) -> None:
        """Refused, as close.

        Raises:
            UsageError: Always, unless SQLAlchemy itself found the connection lost.
        """
        if exception is None:
            raise UsageError("run.connection is lent: it cannot be invalidated by the handler")
        super().invalidate(exception)


class LendingDialect(Dialect):
    """What lent connections ask the driver through: each statement is shown to the lender."""

    def do_execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Execute, unless the lender refuses."""
        lender = _before(context, statement)
        super().do_execute(cursor, statement, parameters, context)
        _after(lender, statement)

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        """Execute for each of the parameters, unless the lender refuses."""
        lender = _before(context, statement)
        super().do_executemany(cursor, statement, parameters, context)
        _after(lender, statement)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        """Execute without parameters, unless the lender refuses."""
        lender = _before(context, statement)
        super().do_execute_no_params(cursor, statement, context)
        _after(lender, statement)

    def do_commit(self, _dbapi_connection: Any) -> None:
        """Refused.

        Raises:
            UsageError: Always.
        """
        raise _not_yours("commit")

    def do_rollback(self, _dbapi_connection: Any) -> None:
        """Refused.

        Raises:
            UsageError: Always.
        """
        raise _not_yours("rollback")


def lending_engine(engine: Engine) -> Engine:
    """A view of *engine* on the same pool, whose connections refuse to end a transaction."""
    lending = engine.execution_options()
    kind: Any = type(engine.dialect)
    dialect: Dialect = object.__new__(_lending(kind))
    # One state for both: what the first connection taught the one is known to the other.
    dialect.__dict__ = engine.dialect.__dict__
    lending.dialect = dialect
    return lending


@cache
def _lending(kind: Any) -> Any:
    # Read by SQLAlchemy from a class's own attributes only.
    own = {"supports_statement_cache": kind.__dict__.get("supports_statement_cache")}
    return type(f"Lending{kind.__name__}", (LendingDialect, kind), own)


def watch_errors(engine: Engine) -> None:
    """Let a lender see its statements' errors; once per engine (an event of the dialect)."""
    event.listen(engine, "handle_error", _on_error)


def _before(context: Any, statement: str) -> Lender | None:
    """The lender of the connection that executes *statement*, if it may."""
    lender: Lender | None = getattr(context.root_connection, "lender", None)
    if lender is not None:
        lender.refuse_statement(statement)
    return lender


def _after(lender: Lender | None, statement: str) -> None:
    if lender is not None:
        lender.saw_statement(statement)


def _on_error(context: ExceptionContext) -> None:
    connection = context.connection
    if isinstance(connection, LentConnection) and connection.lender is not None:
        connection.lender.saw_error(context.original_exception)
        if connection.lender.survives(context.original_exception):
            # SQLAlchemy would close it, which is refused, and then lose sight of it.
            context.is_disconnect = False


def _not_yours(what: str) -> UsageError:
    return UsageError(
        f"run.connection refuses {what}: duly commits when the handler returns and rolls back"
        " when it raises; for a part of the work use run.connection.begin_nested()"
    )
