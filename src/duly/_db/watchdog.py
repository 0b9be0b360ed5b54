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
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TICK_S = 1.0
_LINGER_TICKS = 30


class Watchdog:
    """The bounds of this process; one thread for all of them."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._bounds: dict[int, tuple[float, Callable[[], None]]] = {}
        self._numbers = count()
        self._running = False

    @contextlib.contextmanager
    def bound(self, seconds: float, cut: Callable[[], None]) -> Iterator[None]:
        """Call *cut*, once, if the block is still under way after *seconds*."""
        number = self.start(seconds, cut)
        try:
            yield
        finally:
            self.stop(number)

    def start(self, seconds: float, cut: Callable[[], None]) -> int:
        """Call *cut*, once, after *seconds*, unless `stop` is told this number before."""
        if os.getpid() != self._pid:
            self._reset()
        number = next(self._numbers)
        with self._lock:
            self._bounds[number] = (time.monotonic() + seconds, cut)
            if not self._running:
                self._running = True
                threading.Thread(target=self._work, name="duly-watchdog", daemon=True).start()
        return number

    def stop(self, number: int) -> None:
        """Whatever was bounded is over."""
        self._bounds.pop(number, None)

    def _work(self) -> None:
        idle = 0
        while True:
            time.sleep(_TICK_S)
            now = time.monotonic()
            with self._lock:
                # A copy, since `stop` takes no lock; and what it was faster with is not cut.
                late = [number for number, (at, _) in list(self._bounds.items()) if at <= now]
                taken = [self._bounds.pop(number, None) for number in late]
                cuts = [bound[1] for bound in taken if bound is not None]
                idle = 0 if self._bounds else idle + 1
                if idle > _LINGER_TICKS and not cuts:
                    self._running = False
                    return
            for cut in cuts:
                with contextlib.suppress(Exception):
                    cut()


watchdog = Watchdog()
