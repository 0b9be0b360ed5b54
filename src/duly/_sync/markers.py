"""Marks attempts that have run for a while, so that they are seen while and after they run.

A marker never touches the effect's path: one thread writes it, on a connection of its own
outside the pool, and finishing an attempt neither waits for it nor fails with it
(PROTOCOL 19). It is evidence for people and for the sweep; it decides nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from duly._db.waiting import joined
from duly._sync.warned import not_marked, not_unmarked

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

log = logging.getLogger("duly.markers")

_LINGER_S = 5.0


@dataclass(frozen=True, slots=True)
class Marker:
    """An attempt under way, as it is stored."""

    attempt_id: UUID
    job: str
    nominal_us: int
    partition_key: str
    correction: int
    started_by: str
    host: str
    process: str
    pid: int
    started_us: int


class MarkerStore(Protocol):
    """Where markers are kept; each call may fail, and is then only logged."""

    def add(self, marker: Marker) -> None:
        """Write the marker."""

    def remove(self, attempt_id: UUID) -> None:
        """Delete the marker; none there is fine."""

    def close(self) -> None:
        """Let go of whatever the store holds."""


@dataclass
class Markers:
    """The markers of one App in this process.

    Args:
        store: Where to keep them.
        after_s: How long an attempt runs before it gets one, in seconds.
    """

    store: MarkerStore
    after_s: float
    _due: dict[UUID, tuple[float, Callable[[], Marker]]] = field(default_factory=dict)
    _gone: deque[UUID] = field(default_factory=deque)
    _written: set[UUID] = field(default_factory=set)
    _thread: threading.Thread | None = None
    _asleep: bool = False

    def __post_init__(self) -> None:
        self._pid, self._lock = os.getpid(), threading.Lock()
        self._condition = threading.Condition(self._lock)

    def started(self, attempt_id: UUID, marker: Callable[[], Marker]) -> None:
        """An attempt entered its handler; nothing is written, or put into words, yet."""
        self._notice_fork()
        with self._lock:
            if attempt_id in self._written:
                return  # its command ran before its handler
            self._due[attempt_id] = (time.monotonic() + self.after_s, marker)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="duly-markers", daemon=True)
                self._thread.start()
            elif self._asleep:
                self._condition.notify()

    def finished(self, attempt_id: UUID) -> None:
        """The attempt is over; its marker, if one was written, goes soon."""
        self._notice_fork()
        with self._lock:
            # One that never came to its handler has nothing to be taken back: nobody is woken.
            if self._due.pop(attempt_id, None) is None and attempt_id in self._written:
                self._gone.append(attempt_id)
                self._condition.notify()

    def close(self, wait_s: float = 1.0) -> None:
        """Give the last deletions a moment, then let go."""
        self._notice_fork()
        with self._lock:
            thread, self._thread = self._thread, None
            self._condition.notify()
        if thread is not None:
            joined(thread, wait_s)

    def _notice_fork(self) -> None:
        """In a child the thread is gone, and its lock may be held for ever."""
        if os.getpid() == self._pid:
            return
        self._due, self._gone, self._written = {}, deque(), set()
        self._thread = None
        self.__post_init__()

    def _work(self) -> None:
        idle_since = time.monotonic()
        me = threading.current_thread()
        while True:
            with self._lock:
                now = time.monotonic()
                due = [each for each, (at, _) in self._due.items() if at <= now]
                ready = [self._due.pop(each)[1]() for each in due]
                self._written.update(due)
                gone = list(self._gone)
                self._gone.clear()
                if not ready and not gone:
                    if self._thread is not me:
                        break
                    self._sleep(now, idle_since)
                    continue
            idle_since = time.monotonic()
            for marker in ready:
                self._try(partial(self.store.add, marker), partial(not_marked, marker))
            for attempt_id in gone:
                self._written.discard(attempt_id)
                self._try(partial(self.store.remove, attempt_id), partial(not_unmarked, attempt_id))
        with contextlib.suppress(Exception):
            self.store.close()

    def _sleep(self, now: float, idle_since: float) -> None:
        if self._due:
            self._condition.wait(max(0.0, min(at for at, _ in self._due.values()) - now))
        elif now - idle_since < _LINGER_S:
            # New attempts are due later than this, so they need not wake us: no switch of
            # threads on the path of short attempts.
            self._condition.wait(self.after_s)
        else:
            self._asleep = True
            self._condition.wait()
            self._asleep = False

    def _try(
        self, call: Callable[[], None], told: Callable[[BaseException], dict[str, Any]]
    ) -> None:
        try:
            call()
        except Exception as error:
            log.warning("marker_not_kept", extra=told(error))
            with contextlib.suppress(Exception):
                self.store.close()
