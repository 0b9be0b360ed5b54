"""Schedules: the set of nominal times that a job expects.

Decides what every kind of schedule can be asked, one kind a file. Must never depend on when
or how often it is asked: a schedule is a fixed set of instants, not a walk from the last run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from duly._core.instants import to_us

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

__all__ = ["Schedule", "stretches"]


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


@runtime_checkable
class Stretched(Protocol):
    """A schedule that tells many nominal times at once."""

    def stretches(self, start: datetime, end: datetime) -> Iterator[Sequence[int]]:
        """As `Schedule.between`, in microseconds, in pieces that are not empty."""
        ...


def stretches(schedule: Schedule, start: datetime, end: datetime) -> Iterator[Sequence[int]]:
    """The nominal times in [*start*, *end*) in microseconds, in pieces that are not empty.

    A piece is a range where the schedule knows one step: a million times cost no more than one.

    Raises:
        NominalTimeInvalid: A bound is naive, or *start* is after *end*.
    """
    if isinstance(schedule, Stretched):
        return schedule.stretches(start, end)
    return ((to_us(at),) for at in schedule.between(start, end))
