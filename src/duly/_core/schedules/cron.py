"""Cron expressions as sets of wall times in a zone.

Decides which days and times an expression names, and the two rules of Vixie cron: how the two
day fields combine, and what happens at a switch of the zone (crontab(5), cron(8)). Must never
use a library's evaluator: the nominal time is the identity, and a library's change of mind
would change keys.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duly._core.schedules.cron_fields import Expression, parse
from duly._core.schedules.wall import WallSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

    from duly._core.wall_time import Fold, Gap

__all__ = ["CronSchedule"]


class CronSchedule(WallSchedule):
    """A cron expression, evaluated on the wall clock of one zone.

    Attributes:
        expression: The five fields in canonical text.
    """

    def __init__(
        self,
        expression: str,
        zone: ZoneInfo,
        *,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Read the expression.

        Args:
            expression: Five fields, or a word such as `@daily`.
            zone: A zone with a `key`.
            gap: By default cron's rule: `skip` if the minute or the hour starts with `*`,
                otherwise `next`.
            fold: By default cron's rule: `both` if the minute or the hour starts with `*`,
                otherwise `first`.

        Raises:
            ScheduleInvalid: The expression cannot be read or never fires, or a policy is
                unknown.
        """
        parsed = parse(expression)
        elapsed = parsed.minute.starred or parsed.hour.starred
        self.expression = parsed.text
        super().__init__(
            _Days(parsed),
            zone,
            gap=gap if gap is not None else ("skip" if elapsed else "next"),
            fold=fold if fold is not None else ("both" if elapsed else "first"),
        )

    @property
    def text(self) -> str:
        """The canonical description, such as `cron 0 2 * * *; zone=UTC; gap=next; fold=first`."""
        return f"cron {self.expression}; zone={self.zone.key}; gap={self.gap}; fold={self.fold}"

    def __repr__(self) -> str:
        return (
            f"Cron({self.expression!r}, timezone={self.zone.key!r}, "
            f"gap={self.gap!r}, fold={self.fold!r})"
        )


class _Days:
    """The days that an expression names; each has the same times."""

    def __init__(self, expression: Expression) -> None:
        self._months = sorted(expression.month.values)
        self._day = expression.day
        self._weekday = expression.weekday
        self._known: dict[tuple[int, int], list[int]] = {}
        self._times = [
            timedelta(hours=hour, minutes=minute)
            for hour in sorted(expression.hour.values)
            for minute in sorted(expression.minute.values)
        ]

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

    def _of_month(self, year: int, month: int) -> list[int]:
        """The days of one month; a month is known by its first weekday and its length."""
        shape = monthrange(year, month)
        if shape not in self._known:
            first_weekday, length = shape
            self._known[shape] = [
                day
                for day in range(1, length + 1)
                if self._matches(day, (first_weekday + day) % 7)  # Monday is 0 there, 1 here
            ]
        return self._known[shape]

    def _matches(self, day: int, weekday: int) -> bool:
        by_day, by_weekday = day in self._day.values, weekday in self._weekday.values
        if self._day.starred or self._weekday.starred:
            return by_day and by_weekday
        return by_day or by_weekday
