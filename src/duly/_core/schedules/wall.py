"""Schedules of wall times: which instants they name in a zone.

Decides how days with their times of day become instants, whatever kind of text named the
days. Must never search without end, and must never let an instant depend on where the search
began: what is asked twice, from anywhere, is the same set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol

from duly._core.instants import as_span, as_utc, to_us
from duly._core.wall_time import FOLDS, GAPS, Fold, Gap, instants, offset_bounds
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

__all__ = ["REACH", "WallDays", "WallSchedule"]

DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)
AT_ONCE: Final = (timedelta(0),)

# No zone ever moved its clocks by more than a day, so a wall time's instant never lies further
# than this from its own day on the zone's calendar.
REACH: Final = 2 * DAY

FIRST_MOMENT: Final = datetime(1, 1, 1)
LAST_MOMENT: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999)


class WallDays(Protocol):
    """The wall times that a schedule names, a day at a time.

    A day is its naive midnight and its times since that midnight, strictly ascending and below
    24 hours. A day may be given with no times; no day is given twice.
    """

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """The days from the midnight *first* on, ascending, to the year 9999 at most."""
        ...

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """The days from the midnight *last* back, descending, to the year 1 at most."""
        ...


class WallSchedule:
    """Wall times in one zone; the base of every kind that is written in local time.

    A kind adds its `text`, and nothing of its own to the searches.

    Attributes:
        zone: The zone; its `key` names it.
        gap: What a wall time that the zone skips does.
        fold: What a wall time that the zone repeats does.
    """

    def __init__(self, days: WallDays, zone: ZoneInfo, *, gap: Gap, fold: Fold) -> None:
        """Take the days.

        Raises:
            ScheduleInvalid: A policy is unknown.
        """
        _check_policy("gap", gap, GAPS)
        _check_policy("fold", fold, FOLDS)
        self.zone = zone
        self.gap: Gap = gap
        self.fold: Fold = fold
        self._days = days
        self._even: tuple[Sequence[timedelta], int | None] = ((), None)

    @property
    def days(self) -> WallDays:
        """The wall times themselves, for a kind that is made of another's days."""
        return self._days

    @property
    def text(self) -> str:
        """The canonical description, which `duly.schedules.from_text` reads."""
        raise NotImplementedError

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        return self._from(*as_span(start, end))

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None past the year 9999.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        try:
            start = as_utc(after, name="after") + MICROSECOND
        except OverflowError:
            return None
        return next(self._from(start, None), None)

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the year 1.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        at = as_utc(at, name="at")
        today = self._midnight(at)
        around_today = self._bounds_around(today)
        # Where a repeated hour crosses midnight, the next day's first minutes come before it.
        last = today if around_today[0] == around_today[1] else shifted(today, DAY)
        newest: datetime | None = None
        found_on = today
        for midnight, times in self._days.backward(last):
            # An earlier day can hold a later instant, where a gap shifts its times past midnight.
            if newest is not None and found_on - midnight > REACH:
                break
            bounds = around_today if midnight == today else self._bounds_around(midnight)
            found = self._newest_of_day(midnight.replace(tzinfo=UTC), times, at, bounds)
            if found is None:
                continue
            if newest is None or found > newest:
                newest, found_on = found, midnight
            if bounds[0] == bounds[1]:
                break
        return newest

    def wall_times(self, nominal_time: datetime) -> tuple[datetime, ...]:
        """The wall times that name *nominal_time*: naive, ascending; none if it is off schedule.

        One that differs from what the clock shows then lay in a gap, and was shifted.

        Raises:
            NominalTimeInvalid: *nominal_time* is naive.
        """
        nominal_time = as_utc(nominal_time, name="nominal_time")
        low, high = self._bounds_around(self._midnight(nominal_time))
        as_if_wall = nominal_time.replace(tzinfo=None)
        return tuple(
            wall
            for wall in self.walls(_moved(as_if_wall, low), _moved(as_if_wall, high + MICROSECOND))
            if nominal_time in instants(wall, self.zone, gap=self.gap, fold=self.fold)
        )

    def walls(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The wall times named in [*first*, *last*), naive, ascending, whatever the zone does."""
        midnight = datetime(first.year, first.month, first.day)
        for day, times in takewhile(lambda day: day[0] < last, self._days.forward(midnight)):
            for position in range(bisect_left(times, first - day), len(times)):
                wall = day + times[position]
                if wall >= last:
                    return
                yield wall

    def stretches(self, start: datetime, end: datetime) -> Iterator[Sequence[int]]:
        """As `between`, in microseconds and by the day: a range where one step tells them all.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        for base, times, first, stop in self._pieces(*as_span(start, end)):
            if first < stop:
                yield self._stretch(to_us(base), times, first, stop)

    def _from(self, start: datetime, end: datetime | None) -> Iterator[datetime]:
        """The nominal times from *start* on and before *end*, strictly increasing."""
        for base, times, first, stop in self._pieces(start, end):
            if first == 0 and stop == len(times):
                yield from map(base.__add__, times)
                continue
            for position in range(first, stop):
                yield base + times[position]

    def _pieces(
        self, start: datetime, end: datetime | None
    ) -> Iterator[tuple[datetime, Sequence[timedelta], int, int]]:
        """The nominal times, as an instant with times since it, of which first to stop count."""
        today = self._midnight(start)
        low, high = self._bounds_around(today)
        if low == high:
            first, known_until = today, shifted(today, REACH)
        else:
            first = known_until = shifted(today, -REACH)
        # At a switch instants change places: they are held until no earlier one can come.
        held: list[datetime] = []
        for midnight, times in self._days.forward(first):
            if midnight >= known_until:
                low, high, known_until = self._bounds_from(midnight)
            day = midnight.replace(tzinfo=UTC)
            if end is not None and day - end >= high:
                break
            if held:
                yield from _alone(_settled(held, day, -high))
            if held or low != high:
                switched = self._of_switch_day(day, times, (low, high), (start, end), held)
                yield from _alone(switched)
                continue
            base = day - low
            begin = 0 if base >= start else bisect_left(times, start - base)
            stop = len(times)
            if end is not None and end - base < DAY:
                stop = bisect_left(times, end - base)
            yield base, times, begin, stop
        yield from _alone(_settled(held, start, timedelta.max))

    def _stretch(
        self, base_us: int, times: Sequence[timedelta], first: int, stop: int
    ) -> Sequence[int]:
        """Times since an instant, as microseconds."""
        if times is not self._even[0]:  # the days of most kinds share their times
            self._even = times, _even_step(times)
        step = self._even[1]
        if step is None:
            return [base_us + times[position] // MICROSECOND for position in range(first, stop)]
        first_us = base_us + times[first] // MICROSECOND
        return range(first_us, first_us + (stop - first) * step, step)

    def _of_switch_day(
        self,
        day: datetime,
        times: Sequence[timedelta],
        bounds: tuple[timedelta, timedelta],
        span: tuple[datetime, datetime | None],
        held: list[datetime],
    ) -> Iterator[datetime]:
        """The instants that no later one of the day can precede; the others stay *held*."""
        (low, high), (start, end) = bounds, span
        for position in range(bisect_left(times, start - day + low), len(times)):
            time = times[position]
            yield from _settled(held, day, time - high)
            for found in self._instants(day, time):
                if found >= start and (end is None or found < end):
                    heappush(held, found)

    def _newest_of_day(
        self,
        day: datetime,
        times: Sequence[timedelta],
        at: datetime,
        bounds: tuple[timedelta, timedelta],
    ) -> datetime | None:
        """The last instant of the day at or before *at*."""
        low, high = bounds
        stop = bisect_right(times, at - day + high)
        if low == high:
            return day - low + times[stop - 1] if stop else None
        newest: datetime | None = None
        for position in range(stop - 1, -1, -1):
            time = times[position]
            if newest is not None and newest - day >= time - low:
                break  # nothing of an earlier wall time is later
            for found in self._instants(day, time):
                if found <= at and (newest is None or found > newest):
                    newest = found
        return newest

    def _instants(self, day: datetime, time: timedelta) -> tuple[datetime, ...]:
        wall = (day + time).replace(tzinfo=None)
        return instants(wall, self.zone, gap=self.gap, fold=self.fold)

    def _bounds_from(self, midnight: datetime) -> tuple[timedelta, timedelta, datetime]:
        """The offsets of the day, and the midnight up to which they are known."""
        low, high = offset_bounds(midnight, self.zone, days=4)
        if low == high:
            return low, high, midnight + 2 * REACH
        return *offset_bounds(midnight, self.zone), midnight

    def _bounds_around(self, midnight: datetime) -> tuple[timedelta, timedelta]:
        """The offsets of the day, of two days before it and of one after it."""
        return offset_bounds(shifted(midnight, -REACH), self.zone, days=4)

    def _midnight(self, instant: datetime) -> datetime:
        """The start of the instant's day on the zone's calendar, naive."""
        try:
            local = instant.astimezone(self.zone)
        except OverflowError:  # a local year 0 or 10000: the nearest day that exists
            local = instant
        return datetime(local.year, local.month, local.day)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, WallSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def shifted(midnight: datetime, by: timedelta) -> datetime:
    """That much earlier or later, or the end of the calendar."""
    try:
        return midnight + by
    except OverflowError:
        return midnight


def _moved(wall: datetime, by: timedelta) -> datetime:
    """That much earlier or later, or the first or last moment of the calendar."""
    try:
        return wall + by
    except OverflowError:
        return LAST_MOMENT if by > timedelta(0) else FIRST_MOMENT


def _settled(held: list[datetime], day: datetime, before: timedelta) -> Iterator[datetime]:
    """Take what is held before that time of the day off the heap, each instant once."""
    while held and held[0] - day < before:
        found = heappop(held)
        while held and held[0] == found:
            heappop(held)
        yield found


def _alone(
    found: Iterator[datetime],
) -> Iterator[tuple[datetime, Sequence[timedelta], int, int]]:
    """Each instant as a piece of its own."""
    for instant in found:
        yield instant, AT_ONCE, 0, 1


def _even_step(times: Sequence[timedelta]) -> int | None:
    """The one distance of each time to the next, in microseconds; None if they differ."""
    if len(times) < 2:
        return DAY // MICROSECOND
    step = times[1] - times[0]
    is_even = all(later - one == step for one, later in pairwise(times))
    return step // MICROSECOND if is_even else None


def _check_policy(name: str, given: Any, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ScheduleInvalid(
            f"{name} {shown(given)} is not allowed; allowed are {', '.join(allowed)}"
        )
