"""Which occurrences should exist: the schedules in force over time, less pauses.

Decides the expected nominal times of a job from its revisions. A span of due times belongs to
one revision, and what it expected stays expected whatever comes later. Must never look at what
is settled: that is another set.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING, Final

from duly._core.instants import from_us, to_us
from duly._core.schedules import stretches
from duly._core.schedules.period import PeriodSchedule
from duly._core.schedules.revised import Part, RevisedSchedule
from duly._core.timing import due_time, newest_due

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly._core.schedules import Schedule

__all__ = ["Expected", "Pause", "Span"]

CALENDAR_START: Final = datetime.min.replace(tzinfo=UTC)
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

    def __init__(
        self,
        spans: Sequence[Span],
        pauses: Sequence[Pause] = (),
        *,
        horizon: datetime | None = None,
    ) -> None:
        """Take the spans.

        Args:
            spans: By start, not overlapping.
            pauses: Those that count, by start.
            horizon: The nominal time up to which records were pruned: nothing is expected any
                more, whenever it was due.
        """
        self._horizon = horizon
        self._parts: list[_Part] = []
        for span in spans:
            self._parts.append(_part(span, self._parts[-1] if self._parts else None))
        self._pauses = list(pauses)

    def due_until(self, until: datetime) -> Iterator[datetime]:
        """The nominal times whose due time is at or before *until*, strictly increasing."""
        return self.due_between(CALENDAR_START, _later(until))

    def due_between(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """The nominal times whose due time is in [*since*, *until*), strictly increasing, lazy."""
        return map(from_us, chain.from_iterable(self.stretches(since, until)))

    def stretches(self, since: datetime, until: datetime) -> Iterator[Sequence[int]]:
        """As `due_between`, in microseconds, in pieces that are not empty.

        A piece is a range where the schedule knows one step: a million times cost no more than one.
        """
        for part in self._parts:
            start, end = max(part.span.start, since), min(part.span.end, until)
            for piece in self._unpaused(start, end):
                yield from self._above_horizon(part.stretches(*piece))

    def next_due(self, after: datetime) -> datetime | None:
        """The first due time strictly later than *after*; None if there is none."""
        for part in self._parts:
            start = max(part.span.start, _later(after))
            for piece in self._unpaused(start, part.span.end):
                for stretch in self._above_horizon(part.stretches(*piece)):
                    due_at = due_time(part.span.schedule, from_us(stretch[0]))
                    return max(due_at, part.span.start)
        return None

    def span_of(self, nominal_time: datetime) -> Span | None:
        """The span that expects *nominal_time*, were there no pause; None if none does."""
        parts = (part for part in self._parts if part.due_time(nominal_time) is not None)
        return next((part.span for part in parts), None)

    def due_time(self, nominal_time: datetime) -> datetime | None:
        """When *nominal_time* is due, were there no pause; None if it is not expected."""
        dues = (part.due_time(nominal_time) for part in self._parts)
        return next((due for due in dues if due is not None), None)

    def revised(self) -> RevisedSchedule | None:
        """The schedules of all spans as one, for starts by name, pauses or not.

        The first one names what lies before its span too. None if the last has no schedule.
        """
        if not self._parts or self._parts[-1].span.schedule is None:
            return None
        first, *later = self._parts
        return RevisedSchedule([first.named(CALENDAR_START), *(part.named() for part in later)])

    def _above_horizon(self, found: Iterator[Sequence[int]]) -> Iterator[Sequence[int]]:
        return found if self._horizon is None else _from(to_us(self._horizon) + 1, found)

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
            start = pause_end
        if start < end:
            yield start, end


@dataclass(frozen=True, slots=True)
class _Part:
    """A span, and what the spans before it leave to it (PROTOCOL 24).

    Attributes:
        floor: The nominal time before which earlier spans expected already; None if none did.
        owed: The nominal times that the span before it had not started yet, and that the new
            schedule would have started before it was in force: they are due at the span's start.
    """

    span: Span
    floor: datetime | None = None
    owed: tuple[datetime, ...] = ()

    def stretches(self, start: datetime, end: datetime) -> Iterator[Sequence[int]]:
        """The nominal times whose due time is in [*start*, *end*), a part of the span."""
        if start == self.span.start and self.owed:
            yield [to_us(nominal_time) for nominal_time in self.owed]
        schedule = self.span.schedule
        if schedule is None:
            return
        found: Iterator[Sequence[int]]
        if isinstance(schedule, PeriodSchedule):
            found = ([to_us(at)] for at in _due_between(schedule, start, end))
        else:
            found = stretches(schedule, start, end)
        yield from found if self.floor is None else _from(to_us(self.floor), found)

    def due_time(self, nominal_time: datetime) -> datetime | None:
        """When a nominal time is due; None if this span does not expect it."""
        if nominal_time in self.owed:
            return self.span.start
        schedule = self.span.schedule
        if schedule is None or (self.floor is not None and nominal_time < self.floor):
            return None
        due: datetime | None = nominal_time
        if isinstance(schedule, PeriodSchedule):
            due = schedule.due_time(nominal_time)
        if due is None or not self.span.start <= due < self.span.end:
            return None
        if due is nominal_time and schedule.previous(nominal_time) != nominal_time:
            return None
        return due

    def named(self, start: datetime | None = None) -> Part:
        """The share of a schedule that was edited, from *start* on or from the span's."""
        schedule = self.span.schedule
        if start is None:
            start = self.span.start
            if self.owed:
                start = min(start, due_time(schedule, self.owed[0]))
        return Part(schedule, start, self.span.end, self.floor)

    def floor_after(self) -> datetime | None:
        """The nominal time before which this span or an earlier one expected already."""
        schedule, end = self.span.schedule, self.span.end
        if schedule is None:
            return self.floor
        last = newest_due(schedule, _earlier(end))
        if last is None or self.due_time(last) is None:
            return self.floor
        if isinstance(schedule, PeriodSchedule):
            return schedule.interval(last)[1]
        return _later(last)


def _part(span: Span, before: _Part | None) -> _Part:
    if before is None:
        return _Part(span)
    floor = before.floor_after()
    if before.span.end != span.start:
        return _Part(span, floor)
    return _Part(span, floor, tuple(_owed(before.span.schedule, span, floor)))


def _owed(old: Schedule | None, span: Span, floor: datetime | None) -> Iterator[datetime]:
    """The periods that an edit would lose, each once.

    The old schedule was still to start them, and the new one starts them at an earlier time of
    day, which has passed. What the old one never started is not owed: the past stays as it was.
    """
    new = span.schedule
    if not isinstance(old, PeriodSchedule) or not isinstance(new, PeriodSchedule):
        return
    waiting = next(_due_between(old, span.start, CALENDAR_END), None)
    while waiting is not None and floor is not None and waiting < floor:
        waiting = old.next(waiting)
    if waiting is None:
        return
    found = new.previous(waiting)
    if found is None or found < (floor or waiting):
        found = new.next(_earlier(floor or waiting))
    while found is not None and due_time(new, found) < span.start:
        if new.interval(found)[1] > waiting:
            yield found
        found = new.next(found)


def _due_between(schedule: PeriodSchedule, start: datetime, end: datetime) -> Iterator[datetime]:
    """The periods whose due time is in [*start*, *end*)."""
    # A second start in one period is none (PeriodSchedule), wherever the span begins.
    newest = newest_due(schedule, _earlier(start))
    for due in schedule.schedule.between(start, end):
        nominal_time = schedule.of_due(due)
        if nominal_time is not None and (newest is None or nominal_time > newest):
            yield nominal_time
            newest = nominal_time


def _from(least_us: int, found: Iterator[Sequence[int]]) -> Iterator[Sequence[int]]:
    """Of increasing times, those from the least on."""
    for stretch in found:
        kept = stretch[bisect_left(stretch, least_us) :]
        if kept:
            yield kept


def _later(instant: datetime) -> datetime:
    return min(instant, CALENDAR_END - MICROSECOND) + MICROSECOND


def _earlier(instant: datetime) -> datetime:
    return max(instant, CALENDAR_START + MICROSECOND) - MICROSECOND
