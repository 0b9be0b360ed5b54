"""`duly.aio.once`: `duly.once` for code that awaits, as an `async with` block or a decorator.

It wires: the attempt is made by a task of its own, so that a cancellation of the block's meets
it as it meets `duly.aio.App`. It decides nothing that `_sync/once.py` does not decide.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from duly._aio.blocking import Watched
from duly._aio.loops import OneLoop
from duly._aio.run import Run
from duly._aio.turn import AWAITED, Turn, in_greenlet, performed
from duly._core.protocol import attempt
from duly._core.states import Outcome
from duly._db.connect import not_a_database
from duly._db.waiting import awaited
from duly._sync import nesting
from duly._sync.attempts import ended
from duly._sync.claim import seconds
from duly._sync.once import Asking, OnceBase, Place, duplicate, end_of_block, without_run

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from types import TracebackType

    from duly._core.occurrence import Occurrence
    from duly._core.payload import Payload
    from duly._sync.refusals import Result

Params = ParamSpec("Params")

_by_loop: Final[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, _Place]]] = (
    weakref.WeakKeyDictionary()
)


def once(
    database: str | URL | AsyncEngine,
    key: Occurrence | str | Callable[..., Occurrence | str],
    *,
    payload: Any = None,
    schema: str | None = None,
    wait: timedelta | float = 10.0,
    early: bool = False,
) -> Once:
    """Do something once for a key, in a transaction of duly's own; see `duly.once`.

    As a block: `async with duly.aio.once(engine, key) as run:` with all its work under
    `if run.is_new:`, through `run` alone. A task that is cancelled inside rolls back.

    As a decorator on an `async def` function that takes the run and then its own arguments.

    Args:
        database: A URL, whose connections are kept until the event loop ends, or a SQLAlchemy
            AsyncEngine.
        key, payload, schema, wait, early: As `duly.once`.

    Raises:
        CancelledError: The task was cancelled; nothing was kept, or a note says what was.
        DulyError: As `duly.once`.
        Exception: The block's own, unchanged, after it was recorded as `failed`.
    """
    return Once(database, key, payload=payload, schema=schema, wait_s=seconds(wait), early=early)


class OnceRun(Asking, Run):
    """What the block of `async with duly.aio.once(…) as run` gets; see `duly.OnceRun`."""


class Once(OnceBase):
    """See `once`."""

    block = "async with duly.aio.once(…)"
    _entered: _Block | None = None

    # As a block

    async def __aenter__(self) -> OnceRun:
        occurrence, payload = self._for_block(is_inside=self._entered is not None)
        place = await _place_of(self._database, self._schema)
        block = _Block(place)
        run = await block.entered(
            partial(self._made, place, occurrence, payload, block.lent_to, OnceRun, block.settled)
        )
        self._entered = block
        return run

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        block, self._entered = self._entered, None
        assert block is not None
        await block.left(error)

    # As a decorator

    def __call__(
        self, function: Callable[Concatenate[Run, Params], Coroutine[Any, Any, Any]]
    ) -> Callable[Params, Coroutine[Any, Any, Any]]:
        """*function* gets the run first, then its arguments; the caller gives those alone.

        Raises:
            HandlerInvalid: It is no `async def` function that takes the run.
        """

        @wraps(function)
        async def call(*args: Params.args, **named: Params.kwargs) -> Any:
            occurrence, payload = self._for_call(args, named)
            place = await _place_of(self._database, self._schema)

            def handler(run: Run) -> Any:
                return awaited(Watched(function(run, *args, **named), run.key))

            work = partial(self._made, place, occurrence, payload, handler, Run)
            return (await performed(work)).value

        # Whoever asks for the parameters, a web framework or a task queue, gives no run.
        vars(call)["__signature__"] = without_run(function, is_async=True)
        return call

    def _made(
        self,
        place: _Place,
        occurrence: Occurrence,
        payload: Payload,
        handler: Callable[[Any], Any],
        run_class: type[Any],
        settled: Callable[[Any], None] | None = None,
    ) -> Result:
        """Make the attempt, in a greenlet; *settled* gets the run of a duplicate."""
        work, shell = self._attempt(place, occurrence, payload, handler, run_class)
        report = shell.drive(attempt(work.request))
        place.database.attempt_ended(applied=report.outcome is Outcome.APPLIED)
        result = ended(work, shell, report, due_at=occurrence.nominal_time)
        if settled is not None and result.outcome is Outcome.DUPLICATE:
            settled(duplicate(work, result))
        return result


class _Block:
    """The block of one `async with`, which stands for the handler of an attempt.

    The attempt's task waits, in the midst of the transaction, until the block's has left.
    """

    def __init__(self, place: _Place) -> None:
        loop = asyncio.get_running_loop()
        self._place = place
        self._turn = Turn()
        self._lent: asyncio.Future[OnceRun] = loop.create_future()
        self._ended: asyncio.Future[BaseException | None] = loop.create_future()
        self._settled: OnceRun | None = None
        self._inside: AbstractContextManager[None] | None = None

    def lent_to(self, run: OnceRun) -> Any:
        """The handler of the attempt, in its greenlet."""
        self._lent.set_result(run)
        if (error := awaited(self._ended)) is not None:
            raise error
        return end_of_block(run)

    def settled(self, run: OnceRun) -> None:
        """There is nothing to be done; *run* is for the block."""
        self._settled = run

    async def entered(self, work: Callable[[], Result]) -> OnceRun:
        """The run, once the attempt has come to its handler, or has found a duplicate."""
        turn = self._turn.begin(work)
        await turn.reached(self._lent)
        if not turn.is_over:
            # Of this task too: it is inside of the handler, although another one calls it.
            self._inside = nesting.inside(self._place.database.path)
            self._inside.__enter__()
            return self._lent.result()
        await turn.ended()
        assert self._settled is not None
        return self._settled

    async def left(self, error: BaseException | None) -> None:
        """The block has ended, by *error* or by itself."""
        if self._settled is not None:
            if error is None:
                self._settled.require_asked()
            return
        assert self._inside is not None
        self._inside.__exit__(None, None, None)
        if not self._ended.done():  # else the attempt was ended before the block
            self._ended.set_result(error)
        try:
            await self._turn.ended()
        except BaseException as raised:
            if raised is not error:  # it goes on by itself
                raise


class _Place(Place):
    """A database that was given to `once`, in one event loop."""

    def __init__(self, database: str | URL | AsyncEngine, schema: str | None) -> None:
        engine = database.sync_engine if isinstance(database, AsyncEngine) else database
        super().__init__(engine, schema, AWAITED)
        self.loop = OneLoop(self.database, "duly.aio.once")
        self.keeper: AsyncGenerator[None, None] | None = None

    async def keep(self) -> None:
        """Close its connections when the event loop ends, as that ends all its generators."""
        if self.keeper is None:
            self.keeper = self._kept()
            await anext(self.keeper)

    async def _kept(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await in_greenlet(self.close)


async def _place_of(database: str | URL | AsyncEngine, schema: str | None) -> _Place:
    """The one place for a URL in this event loop, or for an AsyncEngine as long as it lives."""
    if isinstance(database, AsyncEngine):
        places = vars(database.sync_engine).setdefault("duly_once", {})
        name: Any = schema
    elif not isinstance(database, str | URL):
        raise not_a_database(database, is_async=True)
    else:
        places = _by_loop.setdefault(asyncio.get_running_loop(), {})
        # A relative path means another file in another directory.
        name = (os.getcwd(), database, schema)
    if name not in places:
        places[name] = _Place(database, schema)
    place: _Place = places[name]
    place.loop.require()
    if not isinstance(database, AsyncEngine):
        await place.keep()
    return place
