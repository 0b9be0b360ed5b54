"""Schedules of wall times: which instants they name in a zone.

Decides how days with their times of day become instants, whatever kind of text named the
days. Must never search without end, and must never let an instant depend on where the search
began: what is asked twice, from anywhere, is the same set.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, Protocol

from duly._core.instants import as_span, as_utc
from duly._core.wall_time import FOLDS, GAPS, Fold, Gap, instants, plain_offset
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

__all__ = ["REACH", "WallDays", "WallSchedule"]

DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)

# No zone ever moved its clocks by more than a day, so a wall time's instant never lies further
# than this from its own day on the zone's calendar.
REACH: Final = 2 * DAY


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

    @property
    def text(self) -> str:
        """The canonical description, which `duly.schedules.from_text` reads."""
        raise NotImplementedError

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        return self._until(*as_span(start, end))

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None past the year 9999.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        try:
            start = as_utc(after, name="after") + MICROSECOND
        except OverflowError:
            return None
        return next(self._from(start), None)

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the year 1.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        at = as_utc(at, name="at")
        # Where a repeated hour crosses midnight, the next day's first minutes come before it.
        today = self._midnight(at)
        newest: datetime | None = None
        found_on = today
        for midnight, times in self._days.backward(shifted(today, DAY)):
            # An earlier day can hold a later instant, where a gap shifts its times past midnight.
            if newest is not None and found_on - midnight > REACH:
                break
            found = self._newest_of_day(midnight, times, at)
            if found is not None and (newest is None or found > newest):
                newest, found_on = found, midnight
        return newest

    def wall_times(self, nominal_time: datetime) -> tuple[datetime, ...]:
        """The wall times that name *nominal_time*: naive, ascending; none if it is off schedule.

        One that differs from what the clock shows then lay in a gap, and was shifted.

        Raises:
            NominalTimeInvalid: *nominal_time* is naive.
        """
        nominal_time = as_utc(nominal_time, name="nominal_time")
        today = self._midnight(nominal_time)
        first = shifted(today, -REACH)
        offset = plain_offset(first, self.zone, days=4)
        if offset is not None:
            wall = (nominal_time + offset).replace(tzinfo=None)
            return tuple(self.walls(wall, wall + MICROSECOND))
        return tuple(
            wall
            for wall in self.walls(first, shifted(today, REACH + DAY))
            if nominal_time in instants(wall, self.zone, gap=self.gap, fold=self.fold)
        )

    def walls(self, first: datetime, last: datetime) -> Iterator[datetime]:
        """The wall times named in [*first*, *last*), naive, ascending, whatever the zone does."""
        midnight = datetime(first.year, first.month, first.day)
        for day, times in takewhile(lambda day: day[0] < last, self._days.forward(midnight)):
            for time in times:
                if first <= day + time < last:
                    yield day + time

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        if start >= end:
            return
        for nominal_time in self._from(start):
            if nominal_time >= end:
                return
            yield nominal_time

    def _from(self, start: datetime) -> Iterator[datetime]:
        """Every nominal time at or after *start*, strictly increasing, to the year 9999."""
        zone = self.zone
        held: set[datetime] = set()  # of days at a switch, where instants can change places
        switch: datetime | None = None
        for midnight, times in self._days.forward(self._first_day(start)):
            if switch is not None and midnight - switch > DAY:
                yield from sorted(held)
                held.clear()
                switch = None
            offset = plain_offset(midnight, zone)
            if offset is None:
                switch = midnight
            if offset is None or switch is not None:
                held.update(t for t in self._of_switch_day(midnight, times) if t >= start)
                continue
            base = midnight.replace(tzinfo=UTC) - offset
            first = bisect_left(times, start - base) if base < start else 0
            for time in times[first:] if first else times:
                yield base + time
        yield from sorted(held)

    def _first_day(self, start: datetime) -> datetime:
        """The first day whose wall times can have an instant at or after *start*."""
        today = self._midnight(start)
        reach = shifted(today, -REACH)
        return reach if plain_offset(reach, self.zone, days=REACH.days) is None else today

    def _newest_of_day(
        self, midnight: datetime, times: Sequence[timedelta], at: datetime
    ) -> datetime | None:
        offset = plain_offset(midnight, self.zone)
        if offset is None:
            return max((t for t in self._of_switch_day(midnight, times) if t <= at), default=None)
        base = midnight.replace(tzinfo=UTC) - offset
        index = bisect_right(times, at - base)
        return base + times[index - 1] if index else None

    def _of_switch_day(self, midnight: datetime, times: Sequence[timedelta]) -> Iterator[datetime]:
        for time in times:
            yield from instants(midnight + time, self.zone, gap=self.gap, fold=self.fold)

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


def _check_policy(name: str, given: Any, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ScheduleInvalid(
            f"{name} {shown(given)} is not allowed; allowed are {', '.join(allowed)}"
        )
