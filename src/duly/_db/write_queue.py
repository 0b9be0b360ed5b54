"""The line of those who want to write to one SQLite file.

SQLite has one writer and no queue: whoever finds the file locked sleeps and looks again, and
the longest sleeper loses to every newcomer. So duly's own transactions stand in a line before
they BEGIN: threads of a process in the order in which they came, processes by locks whose
waiters the kernel wakes. The line is advice. SQLite's own lock decides who writes, so the
line may be left, lost or impossible to make without harm; it never bars a transaction, and a
transaction that a caller owns never stands in it.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
import time
from collections import deque
from contextlib import suppress

NEXT, NOW = "queue.next", "queue.now"
_LINGER_S = 30.0  # how long the thread that waits for the kernel stays without work

# Held for some instructions at a time, and across every fork: a child finds nothing half made.
_guard = threading.Lock()
_queues: dict[str, WriteQueue] = {}
_descriptors: set[int] = set()


def queue_of(path: str) -> WriteQueue:
    """This process's one line for the SQLite file at *path*."""
    real = os.path.realpath(path)  # by the file, not by the link, as SQLite names its journal
    with _guard:
        if real not in _queues:
            _queues[real] = WriteQueue(real)
        return _queues[real]


class WriteQueue:
    """Those of this process who write to a file, or want to.

    Attributes:
        folder: Where the lock files are.
        first: Who writes, or waits for the other processes.
        behind: The rest of the line, in the order in which they came.
        doorman: Waits in the kernel, if anybody ever had to.
    """

    def __init__(self, path: str) -> None:
        self.folder = f"{path}-duly"
        self.forget()

    def forget(self) -> None:
        """Begin anew: in a forked child nobody stands in the line yet."""
        self.first: Place | None = None
        self.behind: deque[Place] = deque()
        self.doorman: Doorman | None = None


class Place:
    """One transaction's place in the line; whoever made it calls `leave`, whatever happens."""

    def __init__(self, line: WriteQueue) -> None:
        self._line = line
        self._called = threading.Lock()
        self._turn: FileTurn | None = None
        self._hurried = False

    def enter(self, seconds: float) -> None:
        """Wait for the turn, at most *seconds*; then go on, whether it came or not."""
        deadline = time.monotonic() + seconds
        self._stand()
        if self._called.acquire(timeout=max(0.0, seconds)) and not self._hurried:
            self._turn = FileTurn(self._line)
            if not self._hurried:
                self._turn.wait(max(0.0, deadline - time.monotonic()))

    def hurry(self) -> None:
        """From another thread: let whoever waits go on at once, without the turn."""
        with _guard:
            self._hurried = True
            if self in self._line.behind:
                self._line.behind.remove(self)
                self._called.release()
        if (turn := self._turn) is not None:
            turn.hurry()

    def leave(self) -> None:
        """Give up the turn, or the waiting for it; a second time does nothing."""
        if self._turn is not None:
            self._turn.end()
        line = self._line
        with _guard:
            if line.first is self:
                line.first = line.behind.popleft() if line.behind else None
                if line.first is not None:
                    line.first._called.release()  # noqa: SLF001 - the next of this class
            elif self in line.behind:
                line.behind.remove(self)

    def _stand(self) -> None:
        line = self._line
        with _guard:
            if line.first is None:
                line.first = self
            elif not self._hurried:
                self._called.acquire()  # whoever leaves before us releases it
                line.behind.append(self)


class FileTurn:
    """A turn of this process among the others.

    Two locks keep the line from crowding: one waiter has `next` and waits for `now`, all
    others wait for `next`. With a single lock, a process that had just written took it again
    before the one that the kernel had woken, and the rate was half.

    The files are opened by their names for each turn, and never unlinked: two processes with
    locks on different files of one name would both be first.
    """

    def __init__(self, line: WriteQueue) -> None:
        self._line = line
        self._next: int | None = None
        self._now: int | None = None
        self._doorman: Doorman | None = None  # while it waits for us
        self._answer: threading.Event | None = None  # of the doorman's
        self._hurried = False
        self._given_up = False

    def wait(self, seconds: float) -> None:
        """Take the turn; where no lock can be had (read-only, a network), there is no line."""
        with suppress(OSError):
            os.makedirs(self._line.folder, exist_ok=True)
            self._next, self._now = self._open(NEXT), self._open(NOW)
            try:
                self.take(fcntl.LOCK_NB)
            except BlockingIOError:
                answer = self._send_doorman()
                if not self._hurried:
                    answer.wait(seconds)

    def hurry(self) -> None:
        """From another thread: wait no longer."""
        self._hurried = True
        if (answer := self._answer) is not None:
            answer.set()

    def take(self, how: int = 0) -> None:
        """Lock `next`, then `now`, and let the one behind have `next`."""
        assert self._next is not None
        assert self._now is not None
        fcntl.flock(self._next, fcntl.LOCK_EX | how)
        fcntl.flock(self._now, fcntl.LOCK_EX | how)
        _close(self._next)
        self._next = None

    def came(self) -> bool:
        """The doorman is back; False if nobody waits for the turn any more."""
        with _guard:
            self._doorman = None
        if not self._given_up:
            assert self._answer is not None
            self._answer.set()
            return True
        self._close()
        return False

    def end(self) -> None:
        """Free the locks."""
        with _guard:
            if self._doorman is not None:
                # It sits in the kernel with our descriptors, and closes them when it is back;
                # whoever comes next must not wait for that.
                self._given_up = True
                if self._line.doorman is self._doorman:
                    self._line.doorman = None
                return
        self._close()

    def _close(self) -> None:
        for descriptor in (self._next, self._now):
            if descriptor is not None:
                _close(descriptor)
        self._next = self._now = None

    def _open(self, name: str) -> int:
        path = os.path.join(self._line.folder, name)
        with _guard:
            # To read is enough for a lock, and another user's file may allow no more.
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _descriptors.add(descriptor)
        return descriptor

    def _send_doorman(self) -> threading.Event:
        self._answer = answer = threading.Event()
        with _guard:
            if self._line.doorman is None:
                self._line.doorman = Doorman(self._line)
                self._line.doorman.start()
            self._doorman = self._line.doorman
            self._doorman.sent.put(self)
        return answer


class Doorman(threading.Thread):
    """Waits in the kernel for one turn at a time, because such a wait has no bound."""

    def __init__(self, line: WriteQueue) -> None:
        super().__init__(name="duly-queue", daemon=True)
        self.sent: queue.SimpleQueue[FileTurn] = queue.SimpleQueue()
        self._line = line

    def run(self) -> None:
        """Until a turn is not wanted any more, or for long none is."""
        while True:
            try:
                turn = self.sent.get(timeout=_LINGER_S)
            except queue.Empty:
                with _guard:
                    if self.sent.empty():
                        self._line.doorman = None
                        return
                continue
            with suppress(OSError):
                turn.take()
            if not turn.came():
                return


def _close(descriptor: int) -> None:
    """Close it, unless a fork has."""
    with _guard:
        if descriptor in _descriptors:
            _descriptors.discard(descriptor)
            os.close(descriptor)


def _forget_all() -> None:
    """In a forked child: the parent's locks must not live on in us."""
    for descriptor in _descriptors:
        os.close(descriptor)
    _descriptors.clear()
    for line in _queues.values():
        line.forget()
    _guard.release()


os.register_at_fork(
    before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_all
)
