"""The days and times of day that a cron expression names.

Decides how the two day fields combine (the rule of Vixie cron, crontab(5)) and what `L` and
`#` mean in a month. Must never ask a zone, and must never give up on a day that exists: a
month's days follow from its first weekday and its length alone, so whether any month ever has
one is known before the search.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, overload

from duly._core.schedules.cron_fields import LAST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core.schedules.cron_fields import Expression

__all__ = ["CronDays"]

# The lengths that each month can have.
LENGTHS: Final = (
    (31,),
    (28, 29),
    (31,),
    (30,),
    (31,),
    (30,),
    (31,),
    (31,),
    (30,),
    (31,),
    (30,),
    (31,),
)

WEEK: Final = 7


class CronDays:
    """The days that an expression names; each has the same times."""

    def __init__(self, expression: Expression) -> None:
        """Prepare the search; no day or time is made yet that is not asked for."""
        self._months = sorted(expression.month.values)
        self._day = expression.day
        self._weekday = expression.weekday
        self._known: dict[tuple[int, int], list[int]] = {}
        self._times = _times(expression)

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *first* on, to the year 9999."""
        for year in range(first.year, 10_000):
            for month in self._months:
                if year == first.year and month < first.month:
                    continue
                for day in self._of_month(year, month):
                    midnight = datetime(year, month, day)
                    if midnight >= first:
                        yield midnight, self._times

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *last* back, to the year 1."""
        for year in range(last.year, 0, -1):
            for month in reversed(self._months):
                if year == last.year and month > last.month:
                    continue
                for day in reversed(self._of_month(year, month)):
                    midnight = datetime(year, month, day)
                    if midnight <= last:
                        yield midnight, self._times

    def fires(self) -> bool:
        """Whether any month ever has a day that is named.

        In the 400 years after which the calendar repeats, each month of each of its lengths
        starts on each weekday (tests/core/test_cron.py).
        """
        return any(
            self._of_shape((first_weekday, length))
            for month in self._months
            for length in LENGTHS[month - 1]
            for first_weekday in range(WEEK)
        )

    def _of_month(self, year: int, month: int) -> list[int]:
        return self._of_shape(monthrange(year, month))

    def _of_shape(self, shape: tuple[int, int]) -> list[int]:
        """The days of a month, by its first weekday (Monday is 0) and its length."""
        if shape not in self._known:
            first_weekday, length = shape
            self._known[shape] = [
                day
                for day in range(1, length + 1)
                if self._matches(day, (first_weekday + day) % WEEK, length)  # Monday is 1 here
            ]
        return self._known[shape]

    def _matches(self, day: int, weekday: int, length: int) -> bool:
        by_day = day in self._day.values or length - day in self._day.before_last
        by_weekday = (
            weekday in self._weekday.values
            or (weekday, (day - 1) // WEEK + 1) in self._weekday.ordinals
            or (day + WEEK > length and (weekday, LAST) in self._weekday.ordinals)
        )
        if self._day.starred or self._weekday.starred:
            return by_day and by_weekday
        return by_day or by_weekday


class _SecondTimes(Sequence[timedelta]):
    """Several seconds of each minute: up to 86,400 times, each made when it is asked for."""

    def __init__(self, minutes: list[timedelta], seconds: list[timedelta]) -> None:
        self._minutes = minutes
        self._seconds = seconds

    def __len__(self) -> int:
        return len(self._minutes) * len(self._seconds)

    @overload
    def __getitem__(self, index: int) -> timedelta: ...
    @overload
    def __getitem__(self, index: slice) -> list[timedelta]: ...
    def __getitem__(self, index: int | slice) -> timedelta | list[timedelta]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        minute, second = divmod(range(len(self))[index], len(self._seconds))
        return self._minutes[minute] + self._seconds[second]

    def __iter__(self) -> Iterator[timedelta]:
        for minute in self._minutes:
            for second in self._seconds:
                yield minute + second


def _times(expression: Expression) -> Sequence[timedelta]:
    minutes = [timedelta(0, minute * 60) for minute in sorted(expression.minute.values)]
    seconds = [timedelta(0, second) for second in sorted(expression.second.values)]
    hours = [timedelta(0, hour * 3_600) for hour in sorted(expression.hour.values)]
    if len(seconds) > 1:
        return _SecondTimes([hour + minute for hour in hours for minute in minutes], seconds)
    within = [minute + seconds[0] for minute in minutes]
    return [hour + time for hour in hours for time in within]
