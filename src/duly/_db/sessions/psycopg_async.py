"""Sessions on psycopg's AsyncConnection: those of `psycopg_driver.py`, whose waits are awaited.

psycopg itself stops a statement on the server when its task is cancelled, and waits for its
end. It decides nothing that the synchronous session does not decide.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg.rows import tuple_row

from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.sessions.psycopg_driver import ENDS, PsycopgSession
from duly._db.sessions.psycopg_wire import Wire, wire_of
from duly._db.waiting import awaited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._db.sessions.base import Params


class AsyncPsycopgSession(PsycopgSession):
    """One psycopg AsyncConnection; only for code that `waiting.in_loop`."""

    keeps_its_place: ClassVar[bool] = True

    def __init__(self, driver: psycopg.AsyncConnection[Any], schema: str | None) -> None:
        face: Any = _Face(driver)
        super().__init__(face, schema)
        self.driver: Any = driver

    @cached_property
    def _cursor(self) -> Any:
        return _Cursor(self.driver)

    def _one_by_one(self, name: str, rows: Sequence[Params]) -> list[int]:
        return [self.change(name, row) for row in rows]

    @cached_property
    def _wire(self) -> Wire:
        return wire_of(self.driver)

    def _waited(self, generator: Any) -> Any:
        return awaited(self.driver.wait(generator))

    def arm(self) -> None:
        driver: Any = self.driver
        refuse_ends(driver, ENDS)
        driver.wait = self._wait_in_loop

    async def _wait_in_loop(self, generator: Any, *args: Any, **named: Any) -> Any:
        self._refuse_ended(generator)
        return await type(self.driver).wait(self.driver, generator, *args, **named)

    def disarm(self) -> None:
        allow_ends(self.driver, (*ENDS, "wait"))


class _Face:
    """An AsyncConnection as `PsycopgSession` speaks to one."""

    def __init__(self, driver: psycopg.AsyncConnection[Any]) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    @property
    def autocommit(self) -> bool:
        return self.driver.autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        awaited(self.driver.set_autocommit(value))

    def execute(self, text: str) -> _Cursor:
        return _Cursor(self.driver).execute(text)

    def rollback(self) -> None:
        awaited(self.driver.rollback())

    def close(self) -> None:
        # What the coroutine of the same name does; it must not wait, nor need a loop.
        self.driver._closed = True  # noqa: SLF001 - as above
        self.driver.pgconn.finish()


class _Cursor:
    """A cursor as `PsycopgSession` speaks to one; all rows have arrived with their statement."""

    def __init__(self, driver: psycopg.AsyncConnection[Any]) -> None:
        self._cursor = psycopg.AsyncCursor(driver, row_factory=tuple_row)

    @property
    def pgresult(self) -> Any:
        return self._cursor.pgresult

    @property
    def rowcount(self) -> int:
        return self._cursor.rowcount

    @property
    def statusmessage(self) -> str | None:
        return self._cursor.statusmessage

    def execute(self, text: str, params: Params | None = None, **options: Any) -> _Cursor:
        awaited(self._cursor.execute(text, params, **options))
        return self

    def fetchall(self) -> Sequence[Any]:
        return awaited(self._cursor.fetchall())

    def fetchone(self) -> Any:
        return awaited(self._cursor.fetchone())
