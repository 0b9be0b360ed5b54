"""A schedule that was edited: each revision's own, for what fell due while it was in force.

Decides which revision an instant belongs to. A time that no revision expected (before the first
one, or before an edit that moved it to an earlier hour) may be run by name: the next revision
names it. Must never name a time by two revisions, and never take such a time for the newest due.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly._core.instants import as_span, as_utc
from duly._core.schedules.period import due_of, newest_due_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly._core.schedules import Schedule

__all__ = ["Part", "RevisedSchedule"]

MICROSECOND: Final = timedelta(microseconds=1)
CALENDAR_START: Final = datetime.min.replace(tzinfo=UTC)
CALENDAR_END: Final = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Part:
    """One revision's share.

    Attributes:
        schedule: None where nothing is expected.
        start, end: Of the due times, half-open, aware UTC.
        floor: No nominal time before it; None for no bound.
    """

    schedule: Schedule | None
    start: datetime
    end: datetime
    floor: datetime | None


class RevisedSchedule:
    """The schedules of a job's revisions, as one."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Take the parts, by start; they do not overlap, and the last has a schedule."""
        self._parts = list(parts)
        latest = self._parts[-1].schedule
        assert latest is not None
        self.latest: Schedule = latest

    @property
    def text(self) -> str:
        """The canonical description of the latest revision, which messages show."""
        return self.latest.text

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        start, end = as_span(start, end)
        return self._between(start, end)

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None if there is none.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        after = as_utc(after, name="after")
        if after == CALENDAR_END:
            return None
        return next(self._between(after + MICROSECOND, CALENDAR_END), None)

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None if there is none.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        at = as_utc(at, name="at")
        for part in reversed(self._parts):
            found = None if part.schedule is None else self._previous(part, part.schedule, at)
            if found is not None:
                return found
        return None

    def newest_due(self, until: datetime) -> datetime | None:
        """The nominal time that fell due last, at or before *until*; None if none has."""
        for part in reversed(self._parts):
            if part.schedule is None or part.start > until:
                continue
            found = newest_due_of(part.schedule, min(until, part.end - MICROSECOND))
            if (
                found is not None
                and _names(part, part.schedule, found)
                and due_of(part.schedule, found) >= part.start
            ):
                return found
        return None

    def of(self, nominal_time: datetime) -> Schedule:
        """The schedule that names *nominal_time*; the latest if none does."""
        for part in reversed(self._parts):
            schedule = part.schedule
            if (
                schedule is not None
                and schedule.previous(nominal_time) == nominal_time
                and _names(part, schedule, nominal_time)
            ):
                return schedule
        return self.latest

    def _between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        newest: datetime | None = None
        for part in self._parts:
            if part.schedule is None:
                continue
            first = start if part.floor is None else max(start, part.floor)
            if first >= end:
                continue
            for found in part.schedule.between(first, end):
                if due_of(part.schedule, found) >= part.end:
                    break
                if newest is None or found > newest:
                    yield found
                    newest = found

    def _previous(self, part: Part, schedule: Schedule, at: datetime) -> datetime | None:
        last = at
        if part.end < CALENDAR_END:
            newest = newest_due_of(schedule, part.end - MICROSECOND)
            if newest is None:
                return None
            last = newest
        found = schedule.previous(min(at, last))
        return found if found is not None and _names(part, schedule, found) else None

    def __repr__(self) -> str:
        return f"<{len(self._parts)} revisions, now {self.text}>"

    def __eq__(self, other: object) -> bool:
        return self._parts == other._parts if isinstance(other, RevisedSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def _names(part: Part, schedule: Schedule, nominal_time: datetime) -> bool:
    floored = part.floor is None or nominal_time >= part.floor
    return floored and due_of(schedule, nominal_time) < part.end
