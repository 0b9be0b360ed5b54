"""`duly.aio.App`: `duly.App` for code that awaits.

Every method is the synchronous one, performed for a task; nothing is decided here but that a
handler of an async App is a coroutine function.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import update_wrapper, wraps
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

from sqlalchemy.ext.asyncio import AsyncEngine

from duly._aio.awaiting import Awaiting, Given, awaits
from duly._aio.blocking import Watched
from duly._aio.loops import OneLoop
from duly._aio.run import Run
from duly._aio.turn import AWAITED
from duly._core.job import is_awaited
from duly._db.waiting import awaited
from duly._sync.app import App as SyncApp
from duly._sync.refusals import Result
from duly.errors import HandlerInvalid

if TYPE_CHECKING:
    from datetime import timedelta
    from types import TracebackType

    from sqlalchemy.engine import URL

    from duly._aio.outbox import Outbox
    from duly._core.channel import Channel
    from duly._core.destination import Destination
    from duly._core.job import Job
    from duly._db.connect import Database
    from duly._sync.shell import Probe

Handler = TypeVar("Handler", bound=Callable[..., Coroutine[Any, Any, Any]])


def _defines(
    method: Callable[Concatenate[Any, Given], Any],
) -> Callable[Concatenate[App, Given], Callable[[Handler], Handler]]:
    """`App.job`, for handlers that are coroutine functions."""

    def called(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Any:
        define = method(self._sync, *args, **named)

        def decorate(handler: Handler) -> Handler:
            if not is_awaited(handler):
                raise HandlerInvalid(
                    f"job {args[0] if args else named['name']}: its handler is no coroutine"
                    " function, and a plain one would block the event loop: write it as `async def`"
                    " without yield, or use duly.App"
                )

            @wraps(handler)
            def handled(run: Run) -> Any:
                return awaited(Watched(handler(run), run.key))

            define(handled)
            return handler

        return decorate

    update_wrapper(called, method)
    return called


class App(Awaiting):
    """The jobs of one process and the database that keeps them, for code that awaits.

    Args:
        database: A URL or a SQLAlchemy AsyncEngine; the business database itself. A URL without
            a driver chooses psycopg, aiosqlite or asyncmy.
        schema, allow_untested, evidence_after, started_by, name, listen: As `duly.App`.

    Raises:
        UsageError: The URL cannot be read, or names what duly does not serve, or cannot listen.
            The database is not touched before it is needed.
    """

    _sync: SyncApp

    def __init__(
        self,
        database: str | URL | AsyncEngine,
        *,
        schema: str | None = None,
        allow_untested: bool = False,
        evidence_after: timedelta | float = 0.25,
        started_by: str | None = None,
        name: str = "",
        listen: bool = False,
    ) -> None:
        engine = database.sync_engine if isinstance(database, AsyncEngine) else database
        self._sync = SyncApp(
            engine,
            schema=schema,
            allow_untested=allow_untested,
            evidence_after=evidence_after,
            started_by=started_by,
            name=name,
            listen=listen,
            manner=AWAITED,
        )
        self._loop = OneLoop(self._sync.database, "duly.aio.App")

    @property
    def database(self) -> Database:
        """The database; its engine is for code that SQLAlchemy runs in a greenlet."""
        return self._sync.database

    @property
    def destinations(self) -> Mapping[str, Destination]:
        """The destinations that are registered, by name."""
        return self._sync.destinations

    def destination(self, name: str, channel: Channel, **settings: Any) -> Destination:
        """Register where handlers may send messages; see `duly.App.destination`."""
        return self._sync.destination(name, channel, **settings)

    @property
    def outbox(self) -> Outbox:
        """What persons see of messages, and decide about them; its methods are awaited."""
        from duly._aio.outbox import Outbox

        return Outbox(self._sync.outbox, self._loop)

    @property
    def jobs(self) -> dict[str, Job]:
        """The jobs that are defined, by name."""
        return self._sync.jobs

    job = _defines(SyncApp.job)
    consumer = _defines(SyncApp.consumer)
    init = awaits(SyncApp.init)
    register = awaits(SyncApp.register)
    run = awaits(SyncApp.run)
    tick = awaits(SyncApp.tick)
    work = awaits(SyncApp.work)
    deliver = awaits(SyncApp.deliver)
    plan = awaits(SyncApp.plan)
    missing = awaits(SyncApp.missing)
    status = awaits(SyncApp.status)
    sweep = awaits(SyncApp.sweep)
    history = awaits(SyncApp.history)
    explain = awaits(SyncApp.explain)
    occurrence = awaits(SyncApp.occurrence)
    waive = awaits(SyncApp.waive)
    waive_missing = awaits(SyncApp.waive_missing)
    correct = awaits(SyncApp.correct)
    pause = awaits(SyncApp.pause)
    resume = awaits(SyncApp.resume)
    retire = awaits(SyncApp.retire)
    backfill = awaits(SyncApp.backfill)
    prune = awaits(SyncApp.prune)
    receive = awaits(SyncApp.receive)
    _answer_once = awaits(SyncApp._answer_once)  # noqa: SLF001 - for duly.contrib.asgi
    inbox_summary = awaits(SyncApp.inbox_summary)
    inbox_messages = awaits(SyncApp.inbox_messages)
    inbox_message = awaits(SyncApp.inbox_message)
    parked = awaits(SyncApp.parked)
    release_parked = awaits(SyncApp.release_parked)
    discard_parked = awaits(SyncApp.discard_parked)
    prune_inbox = awaits(SyncApp.prune_inbox)
    close = awaits(SyncApp.close)

    async def __aenter__(self) -> App:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # For tests

    @property
    def _probe(self) -> Probe | None:
        return self._sync._probe  # noqa: SLF001 - the App it stands for

    @_probe.setter
    def _probe(self, probe: Probe | None) -> None:
        self._sync._probe = probe  # noqa: SLF001 - as above


__all__ = ["App", "Result", "Run"]
