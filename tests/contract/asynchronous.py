"""`duly.aio` behind the face of `duly`, so that one suite tests both.

A `Loop` is a thread with an event loop. `AioApp` is a `duly.aio.App` whose methods are called
from any thread and wait for their end there; a handler that is a plain function runs in a
greenlet of its task, where `run.execute` awaits in place. `AioConnection` is a connection of a
task's own, whose statements and claims are awaited there one by one.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import TYPE_CHECKING, Any

import aiosqlite
import asyncmy
import psycopg
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.util import await_only, greenlet_spawn

import duly
import duly.aio

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.servers.database import Database


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="test-loop", daemon=True)
        self._is_over = False
        self._task: asyncio.Task[Any] | None = None
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._is_over:
            try:
                self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # asyncio lets one that a task raised end the loop; here it is the task's alone.
                continue

    def result(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What *work* returns, done in the loop."""
        return asyncio.run_coroutine_threadsafe(self._kept(work), self._loop).result()()

    def cancel(self) -> None:
        """Cancel the task that does the last work given; from within the loop."""
        assert self._task is not None
        self._task.cancel()

    def close(self) -> None:
        self._is_over = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _kept(self, work: Coroutine[Any, Any, Any]) -> Callable[[], Any]:
        """How *work* ended, as a value: a KeyboardInterrupt of a task's would end the loop."""
        self._task = asyncio.current_task()
        try:
            value = await work
        except BaseException as error:
            raised = error

            def again() -> Any:
                raise raised

            return again
        return lambda: value


class SyncRun:
    """A `duly.aio.Run` for a plain function in a greenlet."""

    def __init__(self, run: duly.aio.Run) -> None:
        self.awaited = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.awaited, name)

    @property
    def connection(self) -> Any:
        return self.awaited.connection.sync_connection

    @property
    def session(self) -> Any:
        return self.awaited.session.sync_session

    def execute(self, sql: str, params: Any = None) -> Any:
        return await_only(self.awaited.execute(sql, params))


class AioApp:
    """A `duly.aio.App` with the face of a `duly.App`."""

    def __init__(self, loop: Loop, database: Any, **options: Any) -> None:
        self.loop = loop
        if isinstance(database, sqlalchemy.Engine):
            from sqlalchemy.ext.asyncio import AsyncEngine

            database = AsyncEngine(database)
        self.aio = duly.aio.App(database, **options)

    def job(self, name: str, **options: Any) -> Any:
        define: Any = self.aio.job(name, **options)

        def decorate(handler: Any) -> Any:
            async def handled(run: duly.aio.Run) -> Any:
                return await greenlet_spawn(handler, SyncRun(run))

            define(handler if inspect.iscoroutinefunction(handler) else handled)
            return handler

        return decorate

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.aio, name)
        if not inspect.iscoroutinefunction(found):
            return found

        def called(*args: Any, **named: Any) -> Any:
            return self.loop.result(found(*args, **named))

        return called

    @property
    def _probe(self) -> Any:
        return self.aio._probe

    @_probe.setter
    def _probe(self, probe: Any) -> None:
        self.aio._probe = probe


class AioConnection:
    """An asynchronous connection or session, with the face of a synchronous one."""

    def __init__(self, loop: Loop, awaited: Any) -> None:
        self.loop = loop
        self.awaited = awaited

    def execute(self, sql: str) -> Any:
        return self.loop.result(execute(self.awaited, sql))

    def claim(self, occurrence: Any, **options: Any) -> Any:
        return AioClaim(
            self.loop, self.loop.result(duly.aio.claim(self.awaited, occurrence, **options))
        )

    def send(self, occurrence: Any, *message: Any, **options: Any) -> Any:
        return self.loop.result(duly.aio.send(self.awaited, occurrence, *message, **options))

    def __getattr__(self, name: str) -> Any:
        """`commit`, `rollback`, `close` and their like."""

        def called() -> Any:
            return self.loop.result(_called(self.awaited, name))

        return called


class AioClaim:
    """A `duly.aio.Claim` with the face of a `duly.Claim`."""

    def __init__(self, loop: Loop, claim: duly.aio.Claim) -> None:
        self._loop = loop
        self._claim = claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def confirm(self) -> None:
        self._loop.result(self._claim.confirm())


async def connected(database: Database, *, autocommit: bool = False) -> Any:
    """A new connection of aiosqlite, psycopg or asyncmy."""
    match database.name:
        case "sqlite":
            return await aiosqlite.connect(
                database.path, isolation_level=None if autocommit else "DEFERRED"
            )
        case "postgresql":
            where = database.address("dbname")
            return await psycopg.AsyncConnection.connect(**where, autocommit=autocommit)
        case "mariadb":
            where = database.address("database")
            return await asyncmy.connect(**where, autocommit=autocommit)


async def execute(connection: Any, sql: str) -> Any:
    """Execute *sql*; a driver's rows, or SQLAlchemy's result."""
    if isinstance(connection, AsyncConnection | AsyncSession):
        return await connection.execute(sqlalchemy.text(sql))
    cursor = connection.cursor()
    if isinstance(connection, aiosqlite.Connection):
        cursor = await cursor
    try:
        await cursor.execute(sql)
        return list(await cursor.fetchall()) if cursor.description else []
    finally:
        await cursor.close()


async def _called(connection: Any, name: str) -> Any:
    done = getattr(connection, name)()
    return await done if inspect.isawaitable(done) else done
