"""Threads, or tasks, that do the same work on one thing after the other, and are told of by one.

Decides nothing about the work. On the way out, by an error or a signal too, what is under way
comes to its end and is told of.
"""

from __future__ import annotations

import itertools
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

    A signal may be raised between any two lines of whoever is told. So an end stays where it is
    until it was taken, and the way out waits for the strands themselves, not for a count.
    """

    def __init__(self, work: Callable[[Thing], End], workers: int) -> None:
        self._work = work
        self._todo: Queue[tuple[Thing] | None] = Queue()
        self._ends: dict[int, tuple[End] | BaseException | None] = {}
        self._numbers = itertools.count()
        self._bell: Queue[None] = Queue()
        self._begun = self._told = 0
        # Daemons: whoever insists (a second Ctrl-C) is not kept waiting by a handler.
        self._strands = [begin(self._run, name="duly-crew") for _ in range(workers)]

    @property
    def under_way(self) -> int:
        """How many things were begun and not told of."""
        return self._begun - self._told

    def begin(self, thing: Thing) -> None:
        self._todo.put((thing,))
        self._begun += 1

    def next_end(self) -> End:
        """Wait for one to end."""
        found = self._next()
        assert found is not None, "no strand leaves before it is dismissed"
        if isinstance(found, BaseException):
            raise found
        return found[0]

    def dismiss(self, keep: Callable[[End], bool]) -> None:
        """Let what is under way come to its end, and the strands go."""
        for _ in self._strands:
            self._todo.put(None)
        gone = 0
        while gone < len(self._strands):
            found = self._next()
            if found is None:
                gone += 1
            elif not isinstance(found, BaseException):
                keep(found[0])

    def _next(self) -> tuple[End] | BaseException | None:
        while self._told not in self._ends:
            self._bell.get()
        found = self._ends[self._told]
        self._told += 1
        del self._ends[self._told - 1]
        return found

    def _run(self) -> None:
        try:
            while (given := self._todo.get()) is not None:
                try:
                    self._end((self._work(given[0]),))
                except BaseException as error:
                    # A SystemExit too: whoever waits for the end must be told of it.
                    self._end(error)
        finally:
            self._end(None)

    def _end(self, how: tuple[End] | BaseException | None) -> None:
        """How one thing ended; None where the strand itself does."""
        self._ends[next(self._numbers)] = how
        self._bell.put(None)
