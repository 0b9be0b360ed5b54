"""Schedules: the set of nominal times that a job expects.

Decides what every kind of schedule can be asked, one kind a file. Must never depend on when
or how often it is asked: a schedule is a fixed set of instants, not a walk from the last run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["Schedule"]


@runtime_checkable
class Schedule(Protocol):
    """A set of instants, each one a nominal time."""

    @property
    def text(self) -> str:
        """The canonical description: equal for equal schedules, and enough to rebuild one."""
        ...

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        ...

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*, or None.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        ...

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*, or None.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        ...
