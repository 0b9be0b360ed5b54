"""Connections at rest between two sends, each used by one thread at a time.

Decides only how long one may rest. It opens none and sends nothing; whether one that rested is
still alive, the channel asks before it says a word of the message.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Connection = TypeVar("Connection")


class Resting(Generic[Connection]):
    """The connections of one channel that no thread uses now.

    Args:
        close: Ends one; what it raises is of no interest.
        seconds_max: One that rested longer is ended: many servers hang up after some minutes.
    """

    def __init__(self, close: Callable[[Connection], object], *, seconds_max: float = 30) -> None:
        self._close = close
        self._seconds_max = seconds_max
        self._resting: deque[tuple[Connection, float, int]] = deque()

    def take(self) -> Connection | None:
        """The one that rested for the shortest time; None if there is none that is fresh."""
        while self._resting:
            try:
                connection, since, pid = self._resting.pop()
            except IndexError:  # another thread was quicker
                break
            if pid != os.getpid():  # the parent's: a word on it would be one in its talk
                continue
            if time.monotonic() - since <= self._seconds_max:
                return connection
            self.end(connection)
        return None

    def give(self, connection: Connection) -> None:
        """Let *connection* rest, which has nothing left to say or to hear."""
        self._resting.append((connection, time.monotonic(), os.getpid()))

    def end(self, connection: Connection) -> None:
        """Close *connection*, in whatever state it is."""
        with suppress(Exception):
            self._close(connection)

    def close(self) -> None:
        """Close all that rest."""
        while (connection := self.take()) is not None:
            self.end(connection)
