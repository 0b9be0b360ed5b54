"""Threads, or tasks, that do the same work on one thing after the other, and are told of by one.

Decides nothing about the work. On the way out, by an error or a signal too, what is under way
comes to its end and is told of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from duly._db.waiting import Queue, begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Thing = TypeVar("Thing")
End = TypeVar("End")


def in_threads(
    things: Iterable[Thing],
    work: Callable[[Thing], End],
    *,
    workers: int,
    keep: Callable[[End], bool],
) -> None:
    """Do *work* on each, *workers* at once; *things* are taken one by one.

    Args:
        keep: Told of each end, in the caller's thread; False to begin no more.

    Raises:
        Exception: The first that *work* raised; no more were begun.
    """
    crew = _Crew(work, workers)
    try:
        for thing in things:
            crew.begin(thing)
            if crew.under_way == workers and not keep(crew.next_end()):
                return
        while crew.under_way:
            if not keep(crew.next_end()):
                return
    finally:
        crew.dismiss(keep)


class _Crew(Generic[Thing, End]):
    """The threads.

    Attributes:
        under_way: How many things were begun and not told of.
    """

    def __init__(self, work: Callable[[Thing], End], workers: int) -> None:
        self._work = work
        self._todo: Queue[tuple[Thing] | None] = Queue()
        self._ended: Queue[tuple[End] | BaseException] = Queue()
        self.under_way = 0
        # Daemons: whoever insists (a second Ctrl-C) is not kept waiting by a handler.
        self._strands = [begin(self._run, name="duly-crew") for _ in range(workers)]

    def begin(self, thing: Thing) -> None:
        self.under_way += 1
        self._todo.put((thing,))

    def next_end(self) -> End:
        """Wait for one to end."""
        found = self._ended.get()
        self.under_way -= 1
        if isinstance(found, BaseException):
            raise found
        return found[0]

    def dismiss(self, keep: Callable[[End], bool]) -> None:
        """Let what is under way come to its end, and the strands go."""
        for _ in self._strands:
            self._todo.put(None)
        while self.under_way:
            found = self._ended.get()
            self.under_way -= 1
            if not isinstance(found, BaseException):
                keep(found[0])

    def _run(self) -> None:
        while (given := self._todo.get()) is not None:
            try:
                self._ended.put((self._work(given[0]),))
            except BaseException as error:
                # A SystemExit too: whoever waits for the end must be told of it.
                self._ended.put(error)
