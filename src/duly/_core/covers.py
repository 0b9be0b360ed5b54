"""The occurrences that one run settles: its own, and those it covers.

Decides nothing; it shows a hundred thousand of them without making them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

from duly._core.occurrence import Occurrence

__all__ = ["Covers"]


class Covers(Sequence[Occurrence]):
    """Occurrences, oldest first, made when they are looked at."""

    __slots__ = ("_occurrence", "_older_us")

    def __init__(self, occurrence: Occurrence, covered_us: Sequence[int] = ()) -> None:
        """Take the run's own occurrence, and the covered nominal times, newest first."""
        self._occurrence = occurrence
        self._older_us = covered_us

    def __len__(self) -> int:
        return len(self._older_us) + 1

    @overload
    def __getitem__(self, index: int) -> Occurrence: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Occurrence, ...]: ...
    def __getitem__(self, index: int | slice) -> Occurrence | tuple[Occurrence, ...]:
        if isinstance(index, slice):
            return tuple(self[at] for at in range(*index.indices(len(self))))
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        if at == len(self._older_us):
            return self._occurrence
        own = self._occurrence
        return Occurrence.from_us(own.job, self._older_us[-1 - at], own.partition)

    def __repr__(self) -> str:
        return f"<{len(self)} occurrences, {self[0].key} to {self[-1].key}>"
