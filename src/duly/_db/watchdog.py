"""Bounds the answer to a statement of duly's own where the network has gone silent.

A server that is stopped, or a firewall that drops, leaves a driver waiting for ever. One
thread cuts the connection when the bound has passed; the driver then reports it as lost.
It never bounds a handler, and costs an attempt no thread and no switch.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TICK_S = 1.0
_LINGER_TICKS = 30


class Bounded(Protocol):
    """What waits for answers, one after the other.

    Attributes:
        late_at: When the answer to what is under way is given up, by the monotonic clock;
            infinity while nothing is. Only its owner sets it, without a lock.
    """

    late_at: float

    def cut(self) -> None:
        """End the wait; from the watchdog's thread, again each second until it is not late."""


@dataclass(slots=True, eq=False)
class Bound:
    """One thing that may be late, which is told once."""

    late_at: float
    told: Callable[[], None]

    def cut(self) -> None:
        """It is late."""
        self.late_at = inf
        self.told()


class Watchdog:
    """The bounds of this process; one thread for all of them."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._watched: set[Bounded] = set()
        self._running = False

    @contextlib.contextmanager
    def bound(self, seconds: float, cut: Callable[[], None]) -> Iterator[None]:
        """Call *cut*, once, if the block is still under way after *seconds*."""
        bound = self.after(seconds, cut)
        try:
            yield
        finally:
            self.stop(bound)

    def after(self, seconds: float, told: Callable[[], None]) -> Bound:
        """Call *told*, once, after *seconds*, unless `stop` comes before."""
        bound = Bound(time.monotonic() + seconds, told)
        self.start(bound)
        return bound

    def start(self, bounded: Bounded) -> None:
        """Cut *bounded* whenever it is late, until `stop`."""
        if os.getpid() != self._pid:
            self._reset()
        with self._lock:
            self._watched.add(bounded)
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="duly-watchdog", daemon=True).start()

    def stop(self, bounded: Bounded) -> None:
        """It waits for nothing any more."""
        self._watched.discard(bounded)

    def _work(self) -> None:
        idle = 0
        while True:
            time.sleep(_TICK_S)
            now = time.monotonic()
            with self._lock:
                # A copy, since `stop` takes no lock.
                watched = list(self._watched)
                idle = 0 if watched else idle + 1
                if idle > _LINGER_TICKS:
                    self._running = False
                    return
            for bounded in watched:
                if bounded.late_at <= now:
                    with contextlib.suppress(Exception):
                        bounded.cut()
            del watched  # nothing is kept alive while asleep


watchdog = Watchdog()
