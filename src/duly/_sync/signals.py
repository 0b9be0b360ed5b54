"""Holds signals back where an attempt could not be interrupted cleanly.

In the main thread a Ctrl-C, SIGTERM or SIGHUP is raised only inside an op that may be interrupted,
or when the attempt is over; from the seal on it waits for the commit's answer, within a
bound. It never swallows a signal, and changes nothing where no Python handler is set.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from duly._db.sessions.cancelling import cancel

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from duly._db.connect import Database
    from duly._db.sessions.base import Session

_HELD = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
# Without the look-up of an enum's member for each handler, which takes longer than the call.
_get: Any = _signal.getsignal
_set: Any = _signal.signal
HOLD_S = 10.0
"""How long a held signal waits for an op that may not be interrupted."""
_MARK = "duly_signal"


def came_by_signal(error: BaseException) -> bool:
    """Whether a signal that was held back here raised *error*, by the program's own handler."""
    return _MARK in error.__dict__


class HeldSignals:
    """Signals of one attempt; a context manager around its ops."""

    def __init__(self) -> None:
        self._previous: dict[int, Any] = {}
        self._pending: int | None = None
        self._open = False
        self._timer: threading.Timer | None = None

    def __enter__(self) -> HeldSignals:
        if threading.current_thread() is threading.main_thread():
            for number in _HELD:
                previous = _get(number)
                # SIG_DFL ends the process at once, as a crash; SIG_IGN ignores: both stay.
                if callable(previous):
                    self._previous[number] = previous
                    _set(number, self._arrived)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, previous in self._previous.items():
            _set(number, previous)
        self._cancel()
        if self._pending is not None and error is None:
            self._deliver(self._pending, None)

    def open(self) -> None:
        """From now until `close` a signal is raised at once; one that was held, here."""
        self._open = True
        if self._pending is not None:
            self._deliver(self._pending, None)

    def close(self) -> None:
        """From now on signals are held."""
        self._open = False

    def stopper(
        self, session: Session, database: Database, is_over: Callable[[], bool]
    ) -> Callable[[], None]:
        """What ends, from another thread, the statement that the handler has under way."""
        return lambda: cancel(session, database.engine)

    def _arrived(self, number: int, frame: FrameType | None) -> None:
        if self._open or self._pending is not None:
            # A second one insists: the person, or the bound, will not wait any longer.
            self._deliver(number, frame)
            return
        self._pending = number
        self._timer = threading.Timer(HOLD_S, os.kill, (os.getpid(), number))
        self._timer.daemon = True
        self._timer.start()

    def _deliver(self, number: int, frame: FrameType | None) -> None:
        self._pending = None
        self._cancel()
        try:
            self._previous[number](number, frame)
        except BaseException as stop:
            stop.__dict__[_MARK] = number
            raise

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
