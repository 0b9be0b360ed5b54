"""Where a recurrence ends, and the single dates that it adds or leaves out.

Decides what COUNT counts, what UNTIL includes, and what RDATE and EXDATE change. Must never
count a time that the zone skips (RFC 5545, section 3.3.10), nor count twice.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from functools import cached_property
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from duly._core.schedules.wall import REACH, shifted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from zoneinfo import ZoneInfo

    from duly._core.schedules.rrule_parts import Until
    from duly._core.schedules.wall import WallDays

    Day: TypeAlias = tuple[datetime, Sequence[timedelta]]
    Instants: TypeAlias = Callable[[datetime], tuple[datetime, ...]]

__all__ = ["CountedDays", "DatedDays", "EndedDays", "ListedDays", "as_utc_until"]

DAY: Final = timedelta(days=1)
FIRST_DAY: Final = datetime(1, 1, 1)
MIDNIGHT: Final = itemgetter(0)


class ListedDays:
    """Days in a list."""

    def __init__(self, days: list[Day]) -> None:
        """Take the days, ascending."""
        self._days = days

    @classmethod
    def of(cls, walls: Iterable[datetime]) -> ListedDays:
        """The days of naive wall times that ascend strictly."""
        midnights = ((datetime(wall.year, wall.month, wall.day), wall) for wall in walls)
        return cls(
            [
                (midnight, [wall - midnight for _, wall in day])
                for midnight, day in groupby(midnights, MIDNIGHT)
            ]
        )

    def forward(self, first: datetime) -> Iterator[Day]:
        """From *first* on."""
        for index in range(bisect_left(self._days, first, key=MIDNIGHT), len(self._days)):
            yield self._days[index]

    def backward(self, last: datetime) -> Iterator[Day]:
        """From *last* back."""
        for index in range(bisect_right(self._days, last, key=MIDNIGHT) - 1, -1, -1):
            yield self._days[index]


class CountedDays:
    """The first times of a rule: COUNT. They are listed once, when first asked for."""

    def __init__(self, days: WallDays, count: int, zone: ZoneInfo, instants: Instants) -> None:
        """Take the days, and what tells which instants a wall time has."""
        self._all = days
        self._count = count
        self._zone = zone
        self._instants = instants

    def forward(self, first: datetime) -> Iterator[Day]:
        """From *first* on."""
        return self._listed.forward(first)

    def backward(self, last: datetime) -> Iterator[Day]:
        """From *last* back."""
        return self._listed.backward(last)

    @cached_property
    def _listed(self) -> ListedDays:
        days: list[Day] = []
        left = self._count
        for midnight, times in self._all.forward(FIRST_DAY):
            counted = self._existing(midnight, times)[:left]
            days.append((midnight, counted))
            left -= len(counted)
            if not left:
                break
        return ListedDays(days)

    def _existing(self, midnight: datetime, times: Sequence[timedelta]) -> Sequence[timedelta]:
        ends = (midnight, shifted(midnight, DAY))
        if len({end.replace(tzinfo=self._zone).utcoffset() for end in ends}) == 1:
            return times
        return [time for time in times if self._instants(midnight + time)]


class EndedDays:
    """The times of a rule to a last moment: UNTIL.

    A time belongs to the rule if its first instant is not after an UNTIL in UTC.
    """

    def __init__(self, days: WallDays, until: Until, zone: ZoneInfo, instants: Instants) -> None:
        """Take the days, and what tells which instants a wall time has."""
        self._all = days
        self._instants = instants
        self._until = as_utc_until(until)
        self._wall = until.at
        self._plain = True
        if self._until is not None:
            around = (shifted(self._until, -REACH), self._until, shifted(self._until, REACH))
            locals_ = [_local(instant, zone) for instant in around]
            self._wall = locals_[1].replace(tzinfo=None, fold=0)
            self._plain = len({local.utcoffset() for local in locals_}) == 1

    def forward(self, first: datetime) -> Iterator[Day]:
        """From *first* on."""
        end = self._wall if self._plain else shifted(self._wall, REACH)
        for midnight, times in self._all.forward(first):
            if midnight > end:
                return
            yield midnight, self._kept(midnight, times)

    def backward(self, last: datetime) -> Iterator[Day]:
        """From *last* back."""
        end = self._wall if self._plain else shifted(self._wall, REACH)
        last = min(last, datetime(end.year, end.month, end.day))
        for midnight, times in self._all.backward(last):
            yield midnight, self._kept(midnight, times)

    def _kept(self, midnight: datetime, times: Sequence[timedelta]) -> Sequence[timedelta]:
        if self._plain or self._until is None:
            return times[: bisect_right(times, self._wall - midnight)]
        if self._wall - midnight > REACH + DAY:
            return times
        until = self._until
        return [
            time for time in times if any(at <= until for at in self._instants(midnight + time))
        ]


class DatedDays:
    """Days with single wall times added and left out: RDATE and EXDATE."""

    def __init__(
        self, days: WallDays, added: Iterable[datetime], excluded: Iterable[datetime]
    ) -> None:
        """Take the days, and naive wall times that ascend strictly."""
        self._all = days
        self._added = ListedDays.of(added)
        self._excluded: dict[datetime, set[timedelta]] = defaultdict(set)
        for midnight, times in ListedDays.of(excluded).forward(FIRST_DAY):
            self._excluded[midnight].update(times)

    def forward(self, first: datetime) -> Iterator[Day]:
        """From *first* on."""
        both = merge(self._all.forward(first), self._added.forward(first), key=MIDNIGHT)
        return self._united(both)

    def backward(self, last: datetime) -> Iterator[Day]:
        """From *last* back."""
        both = (self._all.backward(last), self._added.backward(last))
        return self._united(merge(*both, key=MIDNIGHT, reverse=True))

    def _united(self, days: Iterable[Day]) -> Iterator[Day]:
        for midnight, same in groupby(days, MIDNIGHT):
            lists = [times for _, times in same]
            excluded = self._excluded.get(midnight)
            if len(lists) == 1 and excluded is None:
                yield midnight, lists[0]
            else:
                yield midnight, sorted(set().union(*lists) - (excluded or set()))


def as_utc_until(until: Until) -> datetime | None:
    """The instant of an UNTIL in UTC; None for one on the wall clock."""
    return until.at.replace(tzinfo=UTC) if until.form == "utc" else None


def _local(instant: datetime, zone: ZoneInfo) -> datetime:
    try:
        return instant.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        return instant.replace(tzinfo=zone)
