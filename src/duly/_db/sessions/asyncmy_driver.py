"""Sessions on asyncmy: those of `pymysql_driver.py`, whose waits are awaited.

Cancelled in the middle of an answer, asyncmy closes its connection and leaves the statement,
with its locks, on the server; so each statement is stopped there by KILL QUERY instead
(`stopping.py`). It decides nothing that the synchronous session does not decide.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar

from asyncmy.connection import Connection
from asyncmy.cursors import Cursor

from duly._db.sessions.base import shut_down
from duly._db.sessions.claimed import HOOK
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.sessions.pymysql_driver import ENDS, SET_SENTINEL, PyMysqlSession
from duly._db.sessions.stopping import stoppable
from duly._db.waiting import awaited

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from duly._core.ops import Transaction


class AsyncmySession(PyMysqlSession):
    """One asyncmy connection; only for code that `waiting.in_loop`."""

    keeps_its_place: ClassVar[bool] = True

    def __init__(self, driver: Connection, schema: str | None) -> None:
        face: Any = _Face(driver)
        super().__init__(face, schema)
        self.driver: Any = driver
        self._under_way: set[asyncio.Future[Any]] = set()

    def _new_cursor(self) -> Any:
        face: Any = self.raw
        return _Cursor(face.driver)

    def arm(self) -> None:
        if not self._has_sentinel:
            self._plain(SET_SENTINEL)
        self.contention = None
        refuse_ends(self.driver, ENDS)
        self.driver.query = self._query_in_loop

    async def _query_in_loop(self, sql: str | bytes, *args: Any, **named: Any) -> Any:
        self._refuse_query(sql)
        work = asyncio.ensure_future(self._query_as_it_is(sql, *args, **named))
        self._under_way.add(work)
        try:
            return await work
        except Exception as error:
            self._note_deadlock(error)
            raise
        finally:
            self._under_way.discard(work)

    async def _query_as_it_is(self, sql: str | bytes, *args: Any, **named: Any) -> Any:
        # Made in here: where the task is cancelled before it begins, nobody would await it.
        return await _sent(self.driver, type(self.driver).query(self.driver, sql, *args, **named))

    def disarm(self) -> None:
        allow_ends(self.driver, (*ENDS, "query"))

    def after_handler(self, error: BaseException | None) -> Transaction:
        for work in list(self._under_way):
            # A task that the handler began and did not wait for is in the middle of an answer.
            work.cancel()
            with suppress(BaseException):
                awaited(asyncio.wait([work]))
        return super().after_handler(error)

    def cut(self) -> None:
        if (transport := self.driver._transport) is not None:  # noqa: SLF001 - it is shown nowhere
            shut_down(transport.get_extra_info("socket").fileno())

    def kill(self) -> None:
        self.driver.close()  # without a farewell


class _Face:
    """An asyncmy connection as `PyMysqlSession` speaks to one."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    @property
    def open(self) -> bool:
        return bool(self.driver.connected)

    def autocommit(self, value: bool) -> None:
        awaited(_sent(self.driver, self.driver.autocommit(value)))

    def commit(self) -> None:
        awaited(_sent(self.driver, self.driver.commit()))

    def rollback(self) -> None:
        awaited(_sent(self.driver, self.driver.rollback()))


class _Cursor:
    """A cursor as `PyMysqlSession` speaks to one; all rows have arrived with their statement."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self._cursor: Any = Cursor(driver)

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int:
        return int(self._cursor.rowcount)

    def execute(self, text: str) -> None:
        awaited(_sent(self.driver, self._cursor.execute(text)))

    def fetchall(self) -> Sequence[Any]:
        rows: Sequence[Any] = awaited(self._cursor.fetchall())
        return rows

    def nextset(self) -> bool:
        return bool(awaited(_sent(self.driver, self._cursor.nextset())))


async def _sent(driver: Connection, work: Coroutine[Any, Any, Any]) -> Any:
    return await stoppable(work, lambda: _kill_query(driver), driver.close)


async def _kill_query(driver: Connection) -> None:
    """Stop what the server does for *driver*, from a connection made as that one was."""
    made: Any = Connection
    other = made()
    hooks = {*ENDS, "query", HOOK}
    vars(other).update({name: each for name, each in vars(driver).items() if name not in hooks})
    await other.connect()
    try:
        await other.query(f"KILL QUERY {int(driver.thread_id())}")
    finally:
        other.close()
