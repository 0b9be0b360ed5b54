"""Cron expressions as sets of instants in a zone.

Decides which instants an expression names, with the two rules of Vixie cron: how the two day
fields combine, and what happens at a switch of the zone (crontab(5), cron(8)). Must never use
a library's evaluator, since the nominal time is the identity and a library's change of mind
would change keys, and must never search without end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly._core.instants import as_utc
from duly._core.schedules.cron_fields import Expression, parse
from duly._core.wall_time import FOLDS, GAPS, Fold, Gap, instants, plain_offset
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

__all__ = ["CronSchedule"]

DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)

# No zone ever moved its clocks by more than a day, so a wall time's instant never lies further
# than this from its own day on the zone's calendar.
REACH: Final = 2 * DAY


class CronSchedule:
    """A cron expression, evaluated on the wall clock of one zone.

    Attributes:
        expression: The five fields in canonical text.
        zone: The zone; its `key` names it.
        gap: What a wall time that the zone skips does.
        fold: What a wall time that the zone repeats does.
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
        self.zone = zone
        self.gap: Gap = gap if gap is not None else ("skip" if elapsed else "next")
        self.fold: Fold = fold if fold is not None else ("both" if elapsed else "first")
        _check_policy("gap", self.gap, GAPS)
        _check_policy("fold", self.fold, FOLDS)
        self._days = _Days(parsed)
        self._times = [
            timedelta(hours=hour, minutes=minute)
            for hour in sorted(parsed.hour.values)
            for minute in sorted(parsed.minute.values)
        ]

    @property
    def text(self) -> str:
        """The canonical description, such as `cron 0 2 * * *; zone=UTC; gap=next; fold=first`."""
        return f"cron {self.expression}; zone={self.zone.key}; gap={self.gap}; fold={self.fold}"

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive.
        """
        return self._until(as_utc(start, name="start"), as_utc(end, name="end"))

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
        for midnight in self._days.backward(_shifted(today, DAY)):
            # An earlier day can hold a later instant, where a gap shifts its times past midnight.
            if newest is not None and found_on - midnight > REACH:
                break
            found = self._newest_of_day(midnight, at)
            if found is not None and (newest is None or found > newest):
                newest, found_on = found, midnight
        return newest

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        if start >= end:
            return
        for nominal_time in self._from(start):
            if nominal_time >= end:
                return
            yield nominal_time

    def _from(self, start: datetime) -> Iterator[datetime]:
        """Every nominal time at or after *start*, strictly increasing, to the year 9999."""
        times, zone = self._times, self.zone
        held: set[datetime] = set()  # of days at a switch, where instants can change places
        switch: datetime | None = None
        for midnight in self._days.forward(self._first_day(start)):
            if switch is not None and midnight - switch > DAY:
                yield from sorted(held)
                held.clear()
                switch = None
            offset = plain_offset(midnight, zone)
            if offset is None:
                switch = midnight
            if offset is None or switch is not None:
                held.update(found for found in self._of_switch_day(midnight) if found >= start)
                continue
            base = midnight.replace(tzinfo=UTC) - offset
            first = bisect_left(times, start - base) if base < start else 0
            for time in times[first:] if first else times:
                yield base + time
        yield from sorted(held)

    def _first_day(self, start: datetime) -> datetime:
        """The first day whose wall times can have an instant at or after *start*."""
        today = self._midnight(start)
        reach = _shifted(today, -REACH)
        return reach if plain_offset(reach, self.zone, days=REACH.days) is None else today

    def _newest_of_day(self, midnight: datetime, at: datetime) -> datetime | None:
        offset = plain_offset(midnight, self.zone)
        if offset is None:
            return max((t for t in self._of_switch_day(midnight) if t <= at), default=None)
        base = midnight.replace(tzinfo=UTC) - offset
        index = bisect_right(self._times, at - base)
        return base + self._times[index - 1] if index else None

    def _of_switch_day(self, midnight: datetime) -> Iterator[datetime]:
        for time in self._times:
            yield from instants(midnight + time, self.zone, gap=self.gap, fold=self.fold)

    def _midnight(self, instant: datetime) -> datetime:
        """The start of the instant's day on the zone's calendar, naive."""
        try:
            local = instant.astimezone(self.zone)
        except OverflowError:  # a local year 0 or 10000: the nearest day that exists
            local = instant
        return datetime(local.year, local.month, local.day)

    def __repr__(self) -> str:
        return (
            f"Cron({self.expression!r}, timezone={self.zone.key!r}, "
            f"gap={self.gap!r}, fold={self.fold!r})"
        )

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, CronSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


class _Days:
    """The days that an expression names, as naive midnights, in either direction."""

    def __init__(self, expression: Expression) -> None:
        self._months = sorted(expression.month.values)
        self._day = expression.day
        self._weekday = expression.weekday
        self._known: dict[tuple[int, int], list[int]] = {}

    def forward(self, first: datetime) -> Iterator[datetime]:
        """From *first* on, to the year 9999."""
        for year in range(first.year, 10_000):
            for month in self._months:
                if year == first.year and month < first.month:
                    continue
                for day in self._of_month(year, month):
                    midnight = datetime(year, month, day)
                    if midnight >= first:
                        yield midnight

    def backward(self, last: datetime) -> Iterator[datetime]:
        """From *last* back, to the year 1."""
        for year in range(last.year, 0, -1):
            for month in reversed(self._months):
                if year == last.year and month > last.month:
                    continue
                for day in reversed(self._of_month(year, month)):
                    midnight = datetime(year, month, day)
                    if midnight <= last:
                        yield midnight

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


def _shifted(midnight: datetime, by: timedelta) -> datetime:
    """That much earlier or later, or the end of the calendar."""
    try:
        return midnight + by
    except OverflowError:
        return midnight


def _check_policy(name: str, given: str, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ScheduleInvalid(
            f"{name} {shown(given)} is not allowed; allowed are {', '.join(allowed)}"
        )
