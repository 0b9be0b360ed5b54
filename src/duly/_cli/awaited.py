"""A `duly.aio.App` with the face of a `duly.App`, for one command.

Decides how a stop reaches what an event loop is at: the task is cancelled, so that it can be
rolled back or settled; where the loop does not turn, the stop is raised in what blocks it. It
decides nothing about an occurrence.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duly._aio.turn import performed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from duly._aio.app import App

STOPS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BLOCKED_S: Final = 1.0
"""After how long a loop that has not heard of a stop is taken to be blocked."""


class AwaitedApp:
    """Its methods wait, in an event loop of the command's own; all else is the App's."""

    def __init__(self, app: App) -> None:
        self._awaited = app
        self._app: Any = app._sync  # noqa: SLF001 - the App it stands for
        self._runner = asyncio.Runner()

    def __getattr__(self, name: str) -> Any:
        return _waiting(self._app, name, self._done)

    @property
    def outbox(self) -> Any:
        """Its outbox, whose methods wait too."""
        return _Outbox(self._app.outbox, self._done)

    @property
    def started_by(self) -> str:
        """Who starts attempts here, for people."""
        return str(self._app.started_by)

    @started_by.setter
    def started_by(self, who: str) -> None:
        self._app.started_by = who

    def deliver(self, **settings: Any) -> Any:
        """A relay, which the caller's `stop` ends: nothing is to be cancelled."""
        stops = _Stops(self._runner.get_loop())
        value, raised = self._runner.run(self._ended(partial(self._app.deliver, **settings), stops))
        if raised is not None:
            raise raised
        return value

    def close(self) -> None:
        """Let go of connections, and of the loop."""
        try:
            self._done(self._app.close)
        finally:
            self._runner.close()

    def _done(self, method: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """What *method* returns; a stop that came meanwhile is raised by what handled it before."""
        with _Stops(self._runner.get_loop()).heard() as stops:
            value, raised = self._runner.run(self._ended(partial(method, *args, **named), stops))
        if isinstance(raised, asyncio.CancelledError) and stops.number is not None:
            stops.raise_as_before(raised)
        if raised is not None:
            raise raised
        return value

    async def _ended(self, work: Callable[[], Any], stops: _Stops) -> tuple[Any, Any]:
        """How *work* ended, as values: a task that raises a SystemExit would end the loop."""
        stops.task = asyncio.current_task()
        try:
            self._awaited._loop.require()  # noqa: SLF001 - the App it stands for
            return await performed(work), None
        except BaseException as error:
            return None, error


class _Outbox:
    """What an App calls its outbox; its methods wait as the App's own."""

    def __init__(self, outbox: Any, done: Callable[..., Any]) -> None:
        self._outbox, self._done = outbox, done

    def __getattr__(self, name: str) -> Any:
        return _waiting(self._outbox, name, self._done)


def _waiting(of: Any, name: str, done: Callable[..., Any]) -> Any:
    """An attribute; a method waits until it is done."""
    found = getattr(of, name)
    return partial(done, found) if inspect.ismethod(found) else found


class _Stops:
    """The signals that stop a command, while a task is at work.

    Attributes:
        task: What is cancelled.
        number: The first signal that came.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.number: int | None = None
        self._loop = loop
        self._previous: dict[int, Any] = {}
        self._insist: threading.Timer | None = None

    @contextmanager
    def heard(self) -> Iterator[_Stops]:
        """While inside; what the parent chose to ignore, or ends the process, stays so."""
        if threading.current_thread() is threading.main_thread():
            for number in map(int, STOPS):
                previous = signal.getsignal(number)
                if callable(previous):
                    self._previous[number] = previous
                    signal.signal(number, self._arrived)
        try:
            yield self
        finally:
            for number, previous in self._previous.items():
                signal.signal(number, previous)
            self._heard()

    def raise_as_before(self, cancelled: BaseException) -> None:
        """Raise what stands for the signal where no loop is."""
        assert self.number is not None
        try:
            self._previous[self.number](self.number, None)
        except BaseException as error:
            for note in getattr(cancelled, "__notes__", ()):
                error.add_note(note)
            raise error from cancelled

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._insist is not None:
            self._heard()
            self._previous[number](number, frame)
        self.number = number if self.number is None else self.number
        self._insist = threading.Timer(BLOCKED_S, os.kill, (os.getpid(), number))
        self._insist.daemon = True
        self._insist.start()
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        self._heard()
        if self.task is not None:
            self.task.cancel()

    def _heard(self) -> None:
        insist, self._insist = self._insist, None
        if insist is not None:
            insist.cancel()
