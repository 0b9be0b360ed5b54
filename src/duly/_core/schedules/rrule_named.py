"""The days of a year or a month that the BY parts of a recurrence rule name.

Decides them by `dateutil`, and the numbers of weeks by itself: 2.9.0 counts the weeks 52 and 53
of some years wrongly, and finds nothing for BYDAY with and without an ordinal. Must never let
`dateutil` walk on from a period, read a clock or this process's `calendar`.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from dateutil.rrule import MONTHLY, YEARLY, rrule, weekday

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NamedDays"]

ALL_DAYS: Final = tuple(range(1, 32))

# `dateutil` stops where the next year would be past 9999: with such an interval, after one.
ONE_YEAR: Final = 9_999


class NamedDays:
    """The named days; they depend on the shape of the year alone, so few are ever asked for."""

    def __init__(
        self,
        by: dict[str, tuple[int, ...]],
        weekdays: tuple[tuple[int, int], ...],
        wkst: int,
    ) -> None:
        """Take the parts of a rule, none of them left to its start."""
        self._months = by.get("BYMONTH")
        self._month_days = by.get("BYMONTHDAY")
        self._year_days = by.get("BYYEARDAY")
        self._weeks = by.get("BYWEEKNO")
        self._weekdays = weekdays
        self._wkst = wkst
        self._years: dict[tuple[int, ...], list[int]] = {}
        self._of_months: dict[tuple[int, ...], list[int]] = {}

    def of_year(self, year: int) -> list[int]:
        """Days since the first of January, ascending."""
        first = datetime(year, 1, 1)
        around = (year - 1, year, year + 1) if self._weeks else (year,)
        shape = (first.weekday(), *map(isleap, around))
        if shape not in self._years:
            self._years[shape] = [(day - first).days for day in self._ask(YEARLY, first)]
        return self._years[shape]

    def of_month(self, year: int, month: int) -> list[int]:
        """Days of the month, ascending."""
        shape = (month, monthrange(year, month)[0], isleap(year))
        if shape not in self._of_months:
            first = datetime(year, month, 1)
            self._of_months[shape] = [day.day for day in self._ask(MONTHLY, first)]
        return self._of_months[shape]

    def _ask(self, freq: Literal[0, 1], first: datetime) -> list[datetime]:
        year_days = self._year_days
        if self._weeks:
            year_days = tuple(self._days_of_weeks(first.year, self._weeks))
            if not year_days:
                return []
        month_days = self._month_days
        if not (month_days or year_days or self._weekdays):
            month_days = ALL_DAYS  # where it would take the day of *first*
        of_month = freq == MONTHLY or self._months
        return list(
            rrule(
                freq,
                dtstart=first,
                interval=ONE_YEAR if freq == YEARLY else 12 * ONE_YEAR,
                wkst=0,  # it would ask `calendar`, whose setting is the process's
                bymonth=self._months,
                bymonthday=month_days,
                byyearday=year_days,
                byweekday=_alike(self._weekdays, 5 if of_month else 53),
                byhour=0,
                byminute=0,
                bysecond=0,
            )
        )

    def _days_of_weeks(self, year: int, weeks: tuple[int, ...]) -> Iterator[int]:
        """The days of a year, from 1, whose week is listed, and which BYYEARDAY names too.

        The week 1 is the first with four days in its year; so a week is of the year, and has
        the number, that its fourth day gives.
        """
        length = _length(year)
        start = datetime(year, 1, 1).weekday() - self._wkst
        for day in range(length):
            fourth, of = day - (start + day) % 7 + 3, length
            if fourth < 0:
                of = _length(year - 1)
                fourth += of
            elif fourth >= length:
                of = _length(year + 1)
                fourth -= length
            number = fourth // 7 + 1
            from_last = -1 - (of - 1 - fourth) // 7
            if (number in weeks or from_last in weeks) and (
                self._year_days is None
                or day + 1 in self._year_days
                or day - length in self._year_days
            ):
                yield day + 1


def _length(year: int) -> int:
    return 366 if isleap(year) else 365


def _alike(weekdays: tuple[tuple[int, int], ...], high: int) -> list[weekday] | None:
    """All without an ordinal, or all with one: each Monday is the first to the last of them."""
    mixed = len({ordinal == 0 for ordinal, _ in weekdays}) == 2
    return [
        weekday(day, n or None)
        for ordinal, day in weekdays
        for n in (range(1, high + 1) if mixed and not ordinal else [ordinal])
    ] or None
