"""Sessions on aiosqlite: those of `sqlite_driver.py`, run in the thread of the connection.

aiosqlite gives each connection a thread, in which everything happens in order: the handler's
statements and duly's own. A cancelled statement is interrupted there, and its end waited for.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from duly._db.dialects import ErrorKind
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.sessions.sqlite_driver import BUSY_SLICE_MS, SqliteSession, unless_closed
from duly._db.sessions.stopping import stoppable
from duly._db.waiting import awaited, in_loop
from duly.errors import NoTransaction

if TYPE_CHECKING:
    from collections.abc import Callable

    import aiosqlite

    from duly._db.sessions.base import Params

_ENDS = ("commit", "rollback", "close", "set_authorizer", "set_trace_callback", "stop")
_CLOSED = "Cannot operate on a closed database."

Given = ParamSpec("Given")
Value = TypeVar("Value")


def _there(
    method: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Any, Given], Value]:
    """*method* of the synchronous session, in the connection's thread."""

    def called(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Value:
        if not in_loop():  # it is there already
            return method(self, *args, **named)
        result: Value = awaited(self.sent(partial(method, self, *args, **named)))
        return result

    update_wrapper(called, method)
    return called


class AiosqliteSession(SqliteSession):
    """One aiosqlite connection; only for code that `waiting.in_loop`."""

    keeps_its_place: ClassVar[bool] = True

    def __init__(self, driver: aiosqlite.Connection, schema: str | None) -> None:
        if driver._connection is None:  # noqa: SLF001 - `_conn` raises a bare ValueError
            raise NoTransaction(f"duly.claim: the connection cannot be used: {_CLOSED}")
        super().__init__(driver._connection, schema)  # noqa: SLF001 - as above
        self.driver: Any = driver
        self._caller_until_s = 0.0

    run = unless_closed(_there(SqliteSession.run))
    change = unless_closed(_there(SqliteSession.change))
    files = _there(SqliteSession.files)
    begin = unless_closed(_there(SqliteSession.begin))
    claim = unless_closed(_there(SqliteSession.claim))
    lock_guard = unless_closed(_there(SqliteSession.lock_guard))
    after_handler = _there(SqliteSession.after_handler)
    commit = unless_closed(_there(SqliteSession.commit))
    rollback = _there(SqliteSession.rollback)
    release = _there(SqliteSession.release)
    restore = _there(SqliteSession.restore)
    require_transaction = _there(SqliteSession.require_transaction)
    claim_in_caller = _there(SqliteSession.claim_in_caller)
    claim_row_in_caller = _there(SqliteSession.claim_row_in_caller)
    is_claimed_here = _there(SqliteSession.is_claimed_here)
    _arm_there = _there(SqliteSession.arm)
    _disarm_there = _there(SqliteSession.disarm)

    def is_closed(self) -> bool:
        return self.driver._connection is None  # noqa: SLF001 - its thread is not asked

    async def sent(self, work: Callable[[], Any]) -> Any:
        """What *work* returns, done in the connection's thread after all that came before."""
        self.is_hurried = False
        sent = _executed(self.driver, work)
        return await stoppable(sent, self._stop, self._give_up)

    async def _stop(self) -> None:
        # A wait for the write lock is a loop in the thread, and there may be a line before it.
        self.is_hurried = True
        if (place := self._place) is not None:
            place.hurry()
        self.raw.interrupt()

    def _give_up(self) -> None:
        let_go(self.driver)

    def _bound_caller(self, wait: float) -> None:
        # SQLite's own wait cannot be interrupted, so it is made of short ones.
        self._caller_until_s = time.monotonic() + wait
        super()._bound_caller(min(wait, BUSY_SLICE_MS / 1000))

    def _execute(self, text: str, params: Params) -> Any:
        while True:
            began_s = time.monotonic()
            try:
                return super()._execute(text, params)
            except sqlite3.OperationalError as error:
                now_s = time.monotonic()
                # Where SQLite did not wait at all, it saw that waiting is in vain.
                waited = now_s - began_s > BUSY_SLICE_MS / 2000
                is_over = self.is_hurried or now_s > self._caller_until_s
                if is_over or not waited or self.classify(error) is not ErrorKind.CONTENTION:
                    raise

    def arm(self) -> None:
        self._arm_there()
        refuse_ends(self.driver, _ENDS)
        self.driver._execute = self._execute_in_loop  # noqa: SLF001 - each statement passes it

    async def _execute_in_loop(self, work: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """What every statement of a handler passes."""
        return await self.sent(partial(work, *args, **named))

    def disarm(self) -> None:
        allow_ends(self.driver, (*_ENDS, "_execute"))
        self._disarm_there()

    def kill(self) -> None:
        allow_ends(self.driver, (*_ENDS, "_execute"))
        try:
            self.raw.interrupt()
            if in_loop():
                awaited(self.driver.close())
        finally:
            self._leave_line()


def let_go(driver: Any) -> None:
    """Let a connection be closed as soon as its thread is free, and wait for nothing.

    A `close()` after the driver's own `stop()` may wait for a thread that has ended, for ever.
    """
    from aiosqlite.core import _STOP_RUNNING_SENTINEL

    raw, driver._connection = driver._connection, None  # noqa: SLF001 - its `close` looks there
    driver._running = False  # noqa: SLF001 - as its `stop` does

    def end() -> object:
        if raw is not None:
            raw.close()
        return _STOP_RUNNING_SENTINEL

    driver._tx.put_nowait((None, end))  # noqa: SLF001 - as below


async def _executed(driver: Any, work: Callable[[], Any]) -> Any:
    if not driver._running or driver._connection is None:  # noqa: SLF001 - a bare ValueError else
        raise sqlite3.ProgrammingError(_CLOSED)
    future = asyncio.get_running_loop().create_future()
    driver._tx.put_nowait((future, work))  # noqa: SLF001 - as SQLAlchemy's adapter does
    return await future
