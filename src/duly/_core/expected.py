"""Which occurrences should exist: the schedules in force over time, less pauses.

Decides the expected nominal times of a job from its revisions. A span of due times belongs to
one revision, and what it expected stays expected whatever comes later. Must never look at what
is settled: that is another set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly._core.schedules.period import PeriodSchedule
from duly._core.timing import due_time, newest_due

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly._core.schedules import Schedule

__all__ = ["Expected", "Pause", "Span"]

CALENDAR_END: Final = datetime.max.replace(tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Span:
    """The due times of one revision, half-open.

    Attributes:
        schedule: None where nothing is expected.
        start, end: Aware UTC.
        revision: Its number.
    """

    schedule: Schedule | None
    start: datetime
    end: datetime
    revision: int


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which nothing is expected.

    Attributes:
        end: None while it lasts.
    """

    start: datetime
    end: datetime | None


class Expected:
    """The expected occurrences of one job."""

    def __init__(self, spans: Sequence[Span], pauses: Sequence[Pause] = ()) -> None:
        """Take the spans.

        Args:
            spans: By start, not overlapping.
            pauses: Those that count, by start.
        """
        self._spans = [_joined(spans, index) for index in range(len(spans))]
        self._pauses = list(pauses)

    def due_until(self, until: datetime) -> Iterator[datetime]:
        """The nominal times whose due time is at or before *until*, strictly increasing."""
        return self.due_between(datetime.min.replace(tzinfo=UTC), until + MICROSECOND)

    def due_between(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """The nominal times whose due time is in [*since*, *until*), strictly increasing, lazy."""
        newest: datetime | None = None
        for span, floor in self._spans:
            if span.schedule is None:
                continue
            start, end = max(span.start, since), min(span.end, until)
            if start >= end:
                continue
            for part_start, part_end in self._unpaused(start, end):
                for nominal_time in _due_between(span.schedule, part_start, part_end):
                    if floor is not None and nominal_time < floor:
                        continue
                    if newest is None or nominal_time > newest:
                        yield nominal_time
                        newest = nominal_time

    def next_due(self, after: datetime) -> datetime | None:
        """The first due time strictly later than *after*; None if there is none."""
        for span, floor in self._spans:
            if span.schedule is None or span.end <= after:
                continue
            for start, end in self._unpaused(max(span.start, after + MICROSECOND), span.end):
                for nominal_time in _due_between(span.schedule, start, end):
                    if floor is None or nominal_time >= floor:
                        return due_time(span.schedule, nominal_time)
        return None

    def span_of(self, nominal_time: datetime) -> Span | None:
        """The span that expects *nominal_time*; None if none does."""
        for span, floor in self._spans:
            if span.schedule is None or span.schedule.previous(nominal_time) != nominal_time:
                continue
            due = due_time(span.schedule, nominal_time)
            if span.start <= due < span.end and (floor is None or nominal_time >= floor):
                return span
        return None

    def _unpaused(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """The parts of a span that no pause takes."""
        for pause in self._pauses:
            pause_end = pause.end if pause.end is not None else CALENDAR_END
            if pause_end <= start:
                continue
            if pause.start >= end:
                break
            if pause.start > start:
                yield start, pause.start
            start = max(start, pause_end)
            if start >= end:
                return
        if start < end:
            yield start, end


def _joined(spans: Sequence[Span], index: int) -> tuple[Span, datetime | None]:
    """A span, and the nominal time before which the spans before it expected already.

    An edit in the middle of a period must neither expect that period again nor lose the one
    that the old schedule had not started yet (PROTOCOL 24).
    """
    span = spans[index]
    for earlier in reversed(spans[:index]):
        if earlier.schedule is None:
            continue
        last = newest_due(earlier.schedule, earlier.end - MICROSECOND)
        if last is None or due_time(earlier.schedule, last) < earlier.start:
            continue
        if not isinstance(earlier.schedule, PeriodSchedule):
            return span, last + MICROSECOND
        floor = earlier.schedule.interval(last)[1]
        if earlier is spans[index - 1] and isinstance(span.schedule, PeriodSchedule):
            following = span.schedule.next(floor - MICROSECOND)
            due = None if following is None else due_time(span.schedule, following)
            if due is not None and due < span.start:
                span = replace(span, start=due)
        return span, floor
    return span, None


def _due_between(schedule: Schedule, start: datetime, end: datetime) -> Iterator[datetime]:
    """The nominal times whose due time is in [*start*, *end*)."""
    if not isinstance(schedule, PeriodSchedule):
        return schedule.between(start, end)
    dues = schedule.schedule.between(start, end)
    return (t for due in dues if (t := schedule.of_due(due)) is not None)
