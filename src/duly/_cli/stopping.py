"""SIGTERM, SIGHUP and Ctrl-C: how a stop reaches the code at work, and what it is called.

Decides that SIGTERM and SIGHUP raise where they may (the attempt's shell holds it back where it may
not). It must never end the process by itself, and leaves a signal alone that the parent
chose to ignore.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


_STOPS = (signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):
    """SIGTERM or SIGHUP arrived.

    Not an `Exception`, so that a handler's `except Exception` does not hide it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number

    def __str__(self) -> str:
        return f"by {name_of(self.number)}"


class AttemptStopped(Exception):
    """A signal ended an attempt, and it is known (or not) what became of it.

    Attributes:
        number: The signal.
        fate: `rolled_back`, `settled`, `not_begun` or `unknown`.
    """

    def __init__(self, number: int, said: str, *, fate: str, key: str | None) -> None:
        super().__init__(said)
        self.number = number
        self.fate = fate
        self.key = key


def signal_of(error: BaseException) -> int | None:
    """The number of the signal that *error* stands for; None if it is no stop."""
    if isinstance(error, Stopped | AttemptStopped):
        return error.number
    return signal.SIGINT if isinstance(error, KeyboardInterrupt) else None


def name_of(number: int) -> str:
    """What a person calls the signal."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


@contextmanager
def listening() -> Iterator[None]:
    """While inside, SIGTERM and SIGHUP raise `Stopped` in the main thread."""
    heard = []
    if threading.current_thread() is threading.main_thread():
        heard = [each for each in _STOPS if signal.getsignal(each) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, _frame: FrameType | None) -> Any:
    raise Stopped(number)
