"""The line of those who want to write to one SQLite file.

SQLite has one writer and no queue: whoever finds the file locked sleeps and looks again, and
the longest sleeper loses to every newcomer. So duly's own transactions stand in a line before
they BEGIN: threads of a process in the order in which they came, processes by locks whose
waiters the kernel wakes, each for a spell of some turns. The line is advice. SQLite's own lock
decides who writes, so the line may be left, lost or impossible to make without harm; it never
bars a transaction, and a transaction that a caller owns never stands in it.
"""

from __future__ import annotations

import fcntl
import os
import queue
import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import TypeAlias

NEXT, NOW = "queue.next", "queue.now"
# A process that was asleep has nothing in the processor's caches: its turn costs twice as much as
# the second in a row. So one may come back at once for a while, and whoever is next lets it.
_SPELL_S = 0.005
_LOOK_S = 0.001  # how often whoever is next looks whether the turn is free meanwhile
_LINGER_S = 30.0  # how long the thread that waits for the kernel stays without work

# Held for some instructions at a time, and across every fork: a child finds nothing half made.
# Whoever holds it may be the one to let go of a file that nobody uses any more.
_guard = threading.RLock()
_queues: dict[str, WriteQueue] = {}
_files: weakref.WeakSet[LockFile] = weakref.WeakSet()


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
        spell_ends_s: Until when this process may take turns in a row, by the monotonic clock.
    """

    def __init__(self, path: str) -> None:
        self.folder = f"{path}-duly"
        self.forget()

    def forget(self) -> None:
        """Begin anew: in a forked child nobody stands in the line yet."""
        self.first: Place | None = None
        self.behind: deque[Place] = deque()
        self.doorman: Doorman | None = None
        self.spell_ends_s = 0.0


class Place:
    """One transaction's place in the line; whoever made it calls `leave`, whatever happens."""

    def __init__(self, line: WriteQueue, kept: Kept | None = None) -> None:
        self._line = line
        self._kept: Kept = [] if kept is None else kept
        self._called = threading.Lock()
        self._turn: FileTurn | None = None
        self._hurried = False

    def enter(self, seconds: float) -> None:
        """Wait for the turn, at most *seconds*; then go on, whether it came or not."""
        deadline = time.monotonic() + seconds
        self._stand()
        if self._called.acquire(timeout=max(0.0, seconds)) and not self._hurried:
            self._turn = FileTurn(self._line, self._kept)
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


class LockFile:
    """An open lock file; a forked child closes it.

    Attributes:
        path: As it was opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        with _guard:
            # To read is enough for a lock, and another user's file may allow no more.
            flags = os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o644)
            _files.add(self)

    @property
    def is_there(self) -> bool:
        """Whether others find the same file by its name, as far as can be told cheaply."""
        return self._descriptor is not None and os.fstat(self._descriptor).st_nlink > 0

    def lock(self, how: int) -> None:
        """Take, or with LOCK_UN free, its lock."""
        assert self._descriptor is not None
        fcntl.flock(self._descriptor, how)

    def lock_if_free(self) -> bool:
        """Take its lock, unless another has it."""
        try:
            self.lock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def close(self) -> None:
        """Free its lock and close it, once."""
        with _guard:
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def __del__(self) -> None:
        self.close()


Kept: TypeAlias = list[tuple[LockFile, LockFile]]
"""The open lock files of a connection, from one transaction to its next."""


class FileTurn:
    """A turn of this process among the others.

    Two locks keep the line from crowding: one waiter has `next` and waits for `now`, all
    others wait for `next`. With a single lock, a process that had just written took it again
    before the one that the kernel had woken. Here it may do so while its spell lasts, and no
    longer: then it waits for `next` behind the others.

    The files are never unlinked: two processes with locks on different files of one name would
    both be first.
    """

    def __init__(self, line: WriteQueue, kept: Kept) -> None:
        self._line = line
        self._kept = kept
        self._files: tuple[LockFile, LockFile] | None = None
        self._doorman: Doorman | None = None  # while it waits for us
        self._answer: threading.Event | None = None  # of the doorman's
        self._hurried = False
        self._given_up = False

    def wait(self, seconds: float) -> None:
        """Take the turn; where no lock can be had (read-only, a network), there is no line."""
        with suppress(OSError):
            self._files = self._kept.pop() if self._kept else None
            if self._files is None or not self._files[1].is_there:
                os.makedirs(self._line.folder, exist_ok=True)
                self._files = self._open(NEXT), self._open(NOW)
            if not self._take_at_once():
                answer = self._send_doorman()
                if not self._hurried:
                    answer.wait(seconds)

    def hurry(self) -> None:
        """From another thread: wait no longer."""
        self._hurried = True
        if (answer := self._answer) is not None:
            answer.set()

    def take(self) -> None:
        """Lock `next`, then `now`, however long others have them.

        Whoever has the turn is in its spell, so `now` is looked at until that must be over.
        """
        assert self._files is not None
        following, now = self._files
        following.lock(fcntl.LOCK_EX)
        look_until_s = time.monotonic() + _SPELL_S
        while not now.lock_if_free():
            if time.monotonic() > look_until_s:
                now.lock(fcntl.LOCK_EX)
                break
            time.sleep(_LOOK_S)
        self._begin_spell()

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
        try:
            for file in self._files or ():
                file.lock(fcntl.LOCK_UN)
        except OSError:
            self._close()
        if self._files is not None:
            self._kept.append(self._files)
            self._files = None

    def _take_at_once(self) -> bool:
        """Whether the turn is free: for whoever comes, or for us while our spell lasts."""
        assert self._files is not None
        following, now = self._files
        if time.monotonic() < self._line.spell_ends_s and now.lock_if_free():
            return True
        if not (following.lock_if_free() and now.lock_if_free()):
            return False  # with `next`, if that was free
        self._begin_spell()
        return True

    def _begin_spell(self) -> None:
        """Of this process, which has both locks; the one behind may have `next`."""
        assert self._files is not None
        self._line.spell_ends_s = time.monotonic() + _SPELL_S
        self._files[0].lock(fcntl.LOCK_UN)

    def _close(self) -> None:
        for file in self._files or ():
            file.close()
        self._files = None

    def _open(self, name: str) -> LockFile:
        return LockFile(os.path.join(self._line.folder, name))

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


def _forget_all() -> None:
    """In a forked child: the parent's locks must not live on in us."""
    for file in list(_files):
        file.close()
    for line in _queues.values():
        line.forget()
    _guard.release()


os.register_at_fork(
    before=_guard.acquire, after_in_parent=_guard.release, after_in_child=_forget_all
)
