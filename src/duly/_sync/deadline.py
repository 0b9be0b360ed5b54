"""Ends a handler before it has come to its end: `timeout=`, or a worker that must stop.

Decides, once and under a lock, whether the handler came back in time. From then on nothing is
cut, cancelled or raised, so none of it can fall between the seal and the answer to COMMIT
(PROTOCOL 6); and what was ended is never sealed, even if its handler returns.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duly._db.waiting import begin, in_loop, until
from duly.errors import HandlerTimeout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta
    from types import FrameType

    from duly._core import ops

log = logging.getLogger("duly.attempt")

Value = TypeVar("Value")
AGAIN_S: Final = 1.0
"""After how long a handler that goes on is cancelled once more."""
RECORD_S: Final = 10.0
"""How long the records of handlers that did not come back may take."""
INSIST_AFTER: Final = 10
"""At every how many cancels the main thread is interrupted again: clean-up may take a while."""


class TimeUp(BaseException):
    """Raised inside a handler; no `Exception`, so that `except Exception` does not hide it."""


class WorkerStopped(BaseException):
    """The worker was told to stop, and its grace is over.

    Attributes:
        number: The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Call:
    """One call of a handler, which another thread may end.

    Attributes:
        key: The logical key.
        ended_by: Why it was ended; None if it was not.
        record: Writes the failed attempt in its place, where its thread cannot be had.
        is_over: Whether the handler has come back.
    """

    def __init__(
        self,
        key: str,
        *,
        timeout: timedelta | None,
        cancel: Callable[[], None],
        record: Callable[[BaseException], None],
    ) -> None:
        self.key = key
        self.ended_by: BaseException | None = None
        self.record = record
        self._timeout = timeout
        self._cancel = cancel
        self._lock = threading.Lock()
        self.is_over = False
        self._came_back: threading.Event | None = None
        self._until = None if timeout is None else time.monotonic() + timeout.total_seconds()
        self._alarm: int | None = None

    def made(self, handler: Callable[[], Value]) -> Value:
        """What the handler returns.

        Raises:
            HandlerTimeout, WorkerStopped: It was ended, whatever it did afterwards.
            BaseException: The handler's own.
        """
        if self._until is None:
            value = self._ended_or_made(handler)
        else:
            with self._watched():
                value = self._ended_or_made(handler)
        if self.ended_by is not None:
            raise self.ended_by
        return value

    def _ended_or_made(self, handler: Callable[[], Value]) -> Value:
        try:
            try:
                if self.ended_by is not None:
                    raise self.ended_by
                return _called(self, handler)
            finally:
                self._close()
        except BaseException as error:
            if self.ended_by is not None and error is not self.ended_by:
                raise self.ended_by from error
            raise

    def end(self, why: BaseException, *, insist: bool = True) -> bool:
        """End the call, from another thread; False if the handler has come back before."""
        with self._lock:
            if self.is_over:
                return False
            if self.ended_by is None:
                self.ended_by = why
            try:
                self._cancel()
            except Exception as error:
                log.info("statement_not_cancelled", extra={"error": str(error)})
            if insist and self._alarm is not None:
                signal.pthread_kill(self._alarm, signal.SIGALRM)
            return True

    def wait(self, seconds: float) -> bool:
        """Whether the handler has come back, after at most *seconds*."""
        if in_loop():
            return until(lambda: self.is_over, seconds)
        with self._lock:
            if self.is_over:
                return True
            # Made for whoever waits: most handlers come back before anybody does.
            came_back = self._came_back = self._came_back or threading.Event()
        return came_back.wait(seconds)

    def _close(self) -> None:
        """The handler is back: from here on nobody ends it, and late is late."""
        self._is_back()
        if self.ended_by is None and self._until is not None and time.monotonic() >= self._until:
            self.ended_by = self._too_late()

    def _is_back(self) -> None:
        with self._lock:
            self.is_over = True
            if self._came_back is not None:
                self._came_back.set()

    def _too_late(self) -> HandlerTimeout:
        assert self._timeout is not None
        seconds = f"{self._timeout.total_seconds():g}"
        return HandlerTimeout(
            f"the handler of {self.key} took longer than its timeout= of {seconds} s, so its work"
            " was rolled back and the key stays free: make it faster, or allow it more",
            key=self.key,
            timeout_s=self._timeout.total_seconds(),
        )

    # The bound

    @contextmanager
    def _watched(self) -> Iterator[None]:
        with self._interruptible():
            threading.Thread(target=self._watch, name="duly-deadline", daemon=True).start()
            yield

    def _watch(self) -> None:
        assert self._until is not None
        if self.wait(max(0.0, self._until - time.monotonic())):
            return
        why, count = self._too_late(), 0
        while self.end(why, insist=count % INSIST_AFTER == 0):
            count += 1
            if self.wait(AGAIN_S):
                return

    @contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Let the main thread's system calls and loops be interrupted; other threads' cannot."""
        # The tasks of a loop share the signal, and would give it back in any order.
        if in_loop() or threading.current_thread() is not threading.main_thread():
            yield
            return
        previous: Any = signal.getsignal(signal.SIGALRM)
        if previous is None:  # not Python's: it could not be given back
            yield
            return

        def arrived(number: int, frame: FrameType | None) -> None:
            if self.ended_by is None:
                if callable(previous):  # somebody's own alarm
                    previous(number, frame)
            elif _is_inside(self, frame):
                raise TimeUp

        signal.signal(signal.SIGALRM, arrived)
        self._alarm = threading.get_ident()
        try:
            yield
        finally:
            self._is_back()  # also where a Ctrl-C came before the call was closed
            with self._lock:
                self._alarm = None
            _restore(previous, was_sent=self.ended_by is not None)


def _called(call: Call, handler: Callable[[], Value]) -> Value:  # noqa: ARG001 - see _is_inside
    """Stands on the stack exactly while the handler may be interrupted."""
    return handler()


def _is_inside(call: Call, frame: FrameType | None) -> bool:
    """Whether what a signal interrupted is the handler, and not what duly does after it."""
    while frame is not None:
        if frame.f_code is _called.__code__ and frame.f_locals.get("call") is call:
            return True
        frame = frame.f_back
    return False


def _restore(previous: Any, *, was_sent: bool) -> None:
    """Give SIGALRM back; one of ours that is still on its way must not meet the old action."""
    if not was_sent:
        signal.signal(signal.SIGALRM, previous)
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        while signal.SIGALRM in signal.sigpending():
            signal.sigwait({signal.SIGALRM})
        signal.signal(signal.SIGALRM, previous)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class Calls:
    """The handlers of one App that are at work now."""

    def __init__(self) -> None:
        self._calls: set[Call] = set()
        self._none_begin: BaseException | None = None

    def made(self, call: Call, handler: Callable[[], Value]) -> Value:
        """What *handler* returns; meanwhile the call can be found and ended.

        Raises:
            BaseException: As `Call.made`.
        """
        self._calls.add(call)
        try:
            if self._none_begin is not None:
                call.end(self._none_begin)
            return call.made(handler)
        finally:
            self._calls.discard(call)

    def end_all(self, why: BaseException, *, within_s: float) -> list[Call]:
        """End every call, and every one that begins later.

        Args:
            within_s: How long to wait for the handlers to come back.

        Returns:
            The calls that were ended; those that did not come back are recorded here, and
            their threads must not go on.
        """
        self._none_begin = why
        calls = list(self._calls)
        # Side by side: each may wait for a server that does not answer.
        strands = [begin(_end, call, why, within_s, name="duly-end") for call in calls]
        latest = time.monotonic() + within_s + RECORD_S
        for strand in strands:
            strand.join(max(0.0, latest - time.monotonic()))
        return [call for call in calls if call.ended_by is why]


def _end(call: Call, why: BaseException, within_s: float) -> None:
    if call.end(why) and not call.wait(within_s):
        with suppress(Exception):
            call.record(why)


def lost(call: Call, raised: ops.Raised) -> ops.Raised:
    """What a handler that was ended left: a connection with a cancel on its way."""
    if call.ended_by is None:
        return raised
    from dataclasses import replace

    return replace(raised, error=call.ended_by, contention=False, lost=True)
