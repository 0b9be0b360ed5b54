"""Waits that block a thread, or, inside an event loop, only the task that waits.

The same synchronous code serves both kinds of App: under `duly.aio` it runs in a greenlet of
SQLAlchemy's, which may await in place. It decides nothing; it must never block the thread of
an event loop, where a lock's holder may be another task of the very same thread.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Iterator

Value = TypeVar("Value")

_STEP_S: Final = 0.005
"""How often something that no event loop can wait for is looked at."""
_strands: set[asyncio.Task[Any]] = set()


def in_loop() -> bool:
    """Whether the caller runs for a task of an event loop, and may await in place."""
    if "greenlet" not in sys.modules:
        return False
    from sqlalchemy.util.concurrency import in_greenlet

    return in_greenlet()


def awaited(work: Awaitable[Value]) -> Value:
    """What *work* returns; only where `in_loop` says so."""
    from sqlalchemy.util import await_only

    return await_only(work)


def pause(seconds: float) -> None:
    """Sleep."""
    if not in_loop():
        time.sleep(seconds)
        return
    import asyncio

    awaited(asyncio.sleep(seconds))


def until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether *condition* came to hold, looked at for at most *seconds*."""
    deadline = time.monotonic() + seconds
    while not condition():
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        pause(min(_STEP_S, left))
    return True


def aside(call: Callable[[], Value]) -> Value:
    """What *call* returns, which may block: an event loop lets a thread do it."""
    if not in_loop():
        return call()
    import asyncio

    return awaited(asyncio.to_thread(call))


@contextmanager
def taken(lock: threading.Lock) -> Iterator[None]:
    """While inside, *lock* is held; its holder may do I/O."""
    if in_loop():
        while not lock.acquire(blocking=False):
            pause(_STEP_S)
    else:
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def joined(thread: threading.Thread, seconds: float) -> None:
    """Wait for a thread to end."""
    if in_loop():
        until(lambda: not thread.is_alive(), seconds)
    else:
        thread.join(seconds)


class OwnLoop:
    """An event loop for the thread that uses it, which has none."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def do(self, work: Callable[[], Value]) -> Value:
        """What *work* returns, its waits awaited here."""
        import asyncio

        from sqlalchemy.util import greenlet_spawn

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(greenlet_spawn(work))

    def close(self) -> None:
        """End it; another use begins another."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


class Queue(Generic[Value]):
    """A queue between strands; anybody may put, also a signal handler or another thread."""

    def __init__(self) -> None:
        self._items: SimpleQueue[Value] = SimpleQueue()
        self._wakes: list[Callable[[], Any]] = []

    def put(self, item: Value) -> None:
        """Add an item."""
        self._items.put(item)
        for wake in tuple(self._wakes):
            wake()

    def empty(self) -> bool:
        """Whether there is nothing to get."""
        return self._items.empty()

    def get(self, timeout: float | None = None) -> Value:
        """Take the oldest item, waiting for one.

        Raises:
            Empty: None came within *timeout* seconds.
        """
        if not in_loop():
            return self._items.get(timeout=timeout)
        return awaited(self._got(timeout))

    async def _got(self, timeout: float | None) -> Value:  # noqa: ASYNC109 - as the queue's own
        import asyncio

        loop, came = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(came.set)

        self._wakes.append(wake)
        try:
            async with asyncio.timeout(timeout):
                while True:
                    try:
                        return self._items.get_nowait()
                    except Empty:
                        await came.wait()
                        came.clear()
        except TimeoutError:
            raise Empty from None
        finally:
            self._wakes.remove(wake)


class Stop(Protocol):
    """An event of threads, or of asyncio."""

    def is_set(self) -> bool:
        """Whether it has happened."""


class Wake:
    """What one strand waits for; anybody may set it, from wherever they are."""

    def __init__(self) -> None:
        self._came: Queue[None] = Queue()

    def set(self) -> None:
        """Let whoever waits go on."""
        # Where one is there already, whoever takes it looks afterwards at what this one is about.
        if self._came.empty():
            self._came.put(None)

    def wait(self, seconds: float) -> None:
        """Wait until it is set, for at most *seconds*; from then on it is not set any more."""
        with suppress(Empty):
            self._came.get(timeout=seconds)
            while not self._came.empty():
                self._came.get()


def begin(work: Callable[..., Any], *args: Any, name: str) -> Strand:
    """Do *work* beside the caller: in a daemon thread, or in a task of the caller's loop."""
    if not in_loop():
        thread = threading.Thread(target=work, args=args, name=name, daemon=True)
        thread.start()
        return thread
    import asyncio

    from sqlalchemy.util import greenlet_spawn

    task = asyncio.get_running_loop().create_task(greenlet_spawn(work, *args), name=name)
    _strands.add(task)
    task.add_done_callback(_strands.discard)
    return _TaskStrand(task)


class _TaskStrand:
    """A task with the one method of a thread that is asked for."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def join(self, timeout: float | None = None) -> None:
        until(self._task.done, 1e9 if timeout is None else timeout)


Strand = threading.Thread | _TaskStrand
