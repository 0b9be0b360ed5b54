"""The wall times of a recurrence rule, a period at a time.

Decides which times of which days a rule names (RFC 5545, section 3.3.10). A period is reached by
counting, never by a walk from the start, so a question costs the same however far away it is
asked. Must never search without end: the calendar ends with the year 9999, and no more than
its 120,000 months are looked at, or its weeks, or the periods of the rule.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, product
from math import gcd
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from duly._core.schedules.rrule_named import NamedDays

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly._core.schedules.rrule_parts import Rule

    Day: TypeAlias = tuple[datetime, Sequence[timedelta]]

__all__ = ["RuleDays"]

DAY: Final = timedelta(days=1)
DAY_SECONDS: Final = 86_400
LAST_DAY: Final = datetime(9999, 12, 31)
LAST_ORDINAL: Final = LAST_DAY.toordinal()

# The length of one period of the kinds that count wall time, in seconds.
UNITS: Final = {"DAILY": DAY_SECONDS, "HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}

# After 400 years dates fall on the same weekdays again.
CALENDAR_DAYS: Final = 146_097

# Past this step a rule is followed from one of its days to the next, else from month to month.
LONG_STEP: Final = 1_000 * DAY_SECONDS
PHASES_KEPT: Final = 64


class RuleDays:
    """The days of a rule from its start on, without regard to COUNT and UNTIL."""

    def __init__(self, rule: Rule, start: datetime) -> None:
        """Make the parts that the rule leaves to its start explicit."""
        self._start = start
        self._midnight = datetime(start.year, start.month, start.day)
        self._periods = _periods(rule, start)
        self._first = self._periods.of_day(self._midnight)

    def fires(self) -> bool:
        """Whether there is a day at all, looking at no more periods than differ."""
        numbers = range(self._first, self._periods.of_day(LAST_DAY) + 1, self._periods.step)
        return any(self._days(number) for number in islice(numbers, self._periods.cycle + 1))

    def forward(self, first: datetime) -> Iterator[Day]:
        """From *first* on, to the year 9999."""
        first = max(first, self._midnight)
        step = self._periods.step
        period = self._periods.of_day(first)
        period += (self._first - period) % step
        for number in range(period, self._periods.of_day(LAST_DAY) + 1, step):
            for midnight, times in self._days(number):
                if midnight >= first:
                    yield midnight, times

    def backward(self, last: datetime) -> Iterator[Day]:
        """From *last* back, to the start."""
        step = self._periods.step
        period = self._periods.of_day(last)
        period -= (period - self._first) % step
        for number in range(period, self._first - 1, -step):
            for midnight, times in reversed(self._days(number)):
                if midnight <= last:
                    yield midnight, times

    def _days(self, number: int) -> list[Day]:
        days = self._periods.days(number)
        if number > self._first:
            return days
        return [
            (midnight, kept)
            for midnight, times in days
            if (kept := [time for time in times if midnight + time >= self._start])
        ]


class _Periods(Protocol):
    """The periods of a rule, numbered along the calendar, whether or not INTERVAL skips them.

    Attributes:
        step: From the number of one period of the rule to the next.
        cycle: How many periods of the rule there are before their days repeat; 0 if none has
            any.
    """

    step: int
    cycle: int

    def of_day(self, day: datetime) -> int:
        """The period that a day lies in, or the last one before it."""
        ...

    def days(self, number: int) -> list[Day]:
        """The days of one period, ascending."""
        ...


class _Years:
    cycle = 400

    def __init__(self, rule: Rule, named: NamedDays, times: _Times) -> None:
        self.step = rule.interval
        self._named = named
        self._times = times

    def of_day(self, day: datetime) -> int:
        return day.year

    def days(self, number: int) -> list[Day]:
        first = datetime(number, 1, 1)
        return self._times.on([first + offset * DAY for offset in self._named.of_year(number)])


class _Months:
    cycle = 4_800

    def __init__(self, rule: Rule, named: NamedDays, times: _Times) -> None:
        self.step = rule.interval
        self._named = named
        self._times = times

    def of_day(self, day: datetime) -> int:
        return day.year * 12 + day.month - 1

    def days(self, number: int) -> list[Day]:
        year, month = number // 12, number % 12 + 1
        return self._times.on(
            [datetime(year, month, day) for day in self._named.of_month(year, month)]
        )


class _Weeks:
    cycle = 20_871

    def __init__(self, rule: Rule, weekdays: set[int], times: _Times) -> None:
        self.step = rule.interval
        self._wkst = rule.wkst
        self._offsets = sorted((weekday - rule.wkst) % 7 for weekday in weekdays)
        self._months = rule.by.get("BYMONTH", range(1, 13))
        self._times = times

    def of_day(self, day: datetime) -> int:
        return (day.toordinal() - 1 - self._wkst) // 7  # the ordinal 1 is a Monday

    def days(self, number: int) -> list[Day]:
        first = number * 7 + 1 + self._wkst
        days = [
            datetime.fromordinal(first + offset)
            for offset in self._offsets
            if 1 <= first + offset <= LAST_ORDINAL
        ]
        return self._times.on([day for day in days if day.month in self._months])


class _Ticks:
    """DAILY to SECONDLY: a tick every INTERVAL units of wall time from the start's own unit.

    The days are looked at a month at a time, so that a rule of few days is searched fast.
    """

    step = 1

    def __init__(self, rule: Rule, start: datetime, named: NamedDays, times: _Times) -> None:
        unit = UNITS[rule.freq]
        self.seconds = rule.interval * unit
        self._named = named
        self._times = times
        self._midnight = datetime(start.year, start.month, start.day)
        self._second = (start - self._midnight).seconds // unit * unit
        by = rule.by if rule.freq != "DAILY" else {}  # whose times lie within the tick
        self._hours = by.get("BYHOUR", range(24))
        self._minutes = by.get("BYMINUTE", range(60)) if unit <= 60 else range(60)
        self._seconds = by.get("BYSECOND", range(60)) if unit == 1 else range(60)
        self._known: dict[int, list[timedelta]] = {}
        # The second of the day of a tick moves with the days in steps of this.
        shift = gcd(self.seconds, DAY_SECONDS)
        ever = range(self._second % shift, DAY_SECONDS, shift)
        meets = bool(times.once) and any(map(self._is_named, ever))
        repeats = self.seconds // shift  # after so many days a day has the same ticks
        self.cycle = 4_800 * repeats // gcd(repeats, CALENDAR_DAYS) if meets else 0

    def of_day(self, day: datetime) -> int:
        return day.year * 12 + day.month - 1

    def days(self, number: int) -> list[Day]:
        year, month = number // 12, number % 12 + 1
        found: list[Day] = []
        for day in self._named.of_month(year, month):
            midnight = datetime(year, month, day)
            elapsed = (midnight - self._midnight).days * DAY_SECONDS - self._second
            if times := self._from(-elapsed % self.seconds):
                found.append((midnight, times))
        return found

    def _from(self, second: int) -> list[timedelta]:
        """The times of a day whose first tick is at that second."""
        if second >= DAY_SECONDS:
            return []
        if second not in self._known:
            if len(self._known) >= PHASES_KEPT:
                self._known.clear()
            self._known[second] = [
                timedelta(seconds=tick) + time
                for tick in range(second, DAY_SECONDS, self.seconds)
                if self._is_named(tick)
                for time in self._times.once
            ]
        return self._known[second]

    def _is_named(self, tick: int) -> bool:
        return (
            tick // 3600 in self._hours
            and tick // 60 % 60 in self._minutes
            and tick % 60 in self._seconds
        )


class _LongTicks(_Ticks):
    """Ticks that are years apart: a period is one tick."""

    def of_day(self, day: datetime) -> int:
        end = (day.toordinal() - self._midnight.toordinal() + 1) * DAY_SECONDS
        return (end - 1 - self._second) // self.seconds

    def days(self, number: int) -> list[Day]:
        day, second = divmod(self._second + number * self.seconds, DAY_SECONDS)
        midnight = self._midnight + day * DAY
        if midnight.day not in self._named.of_month(midnight.year, midnight.month):
            return []
        times = self._from(second)
        return [(midnight, times)] if times else []


class _Times:
    """The times of a day, and BYSETPOS, which picks among all times of a period."""

    def __init__(self, seconds: list[int], positions: tuple[int, ...]) -> None:
        self._times = [timedelta(seconds=second) for second in seconds]
        self._positions = positions
        self.once = (
            self._times
            if not positions
            else [self._times[index] for index in self._picked(len(self._times))]
        )

    def on(self, midnights: list[datetime]) -> list[Day]:
        """The days of one period, each with its times."""
        if not self._positions:
            return [(midnight, self._times) for midnight in midnights]
        picked: dict[datetime, list[timedelta]] = {}
        for index in self._picked(len(midnights) * len(self._times)):
            day, time = divmod(index, len(self._times))
            picked.setdefault(midnights[day], []).append(self._times[time])
        return list(picked.items())

    def _picked(self, length: int) -> list[int]:
        indices = {p - 1 if p > 0 else length + p for p in self._positions}
        return sorted(index for index in indices if 0 <= index < length)


def _periods(rule: Rule, start: datetime) -> _Periods:
    """The periods of a rule, with what it leaves to its start made explicit."""
    by, weekdays = dict(rule.by), rule.weekdays
    named = {"BYWEEKNO", "BYYEARDAY", "BYMONTHDAY"} & by.keys() or weekdays
    if rule.freq in ("YEARLY", "MONTHLY") and not named:
        by["BYMONTHDAY"] = (start.day,)
        if rule.freq == "YEARLY":
            by.setdefault("BYMONTH", (start.month,))
    times = _Times(_seconds(rule, start), by.get("BYSETPOS", ()))
    if rule.freq == "WEEKLY":
        return _Weeks(rule, {day for _, day in weekdays} or {start.weekday()}, times)
    days = NamedDays(by, weekdays, rule.wkst)
    if rule.freq == "YEARLY":
        return _Years(rule, days, times)
    if rule.freq == "MONTHLY":
        return _Months(rule, days, times)
    ticks = _LongTicks if rule.interval * UNITS[rule.freq] > LONG_STEP else _Ticks
    return ticks(rule, start, days, times)


def _seconds(rule: Rule, start: datetime) -> list[int]:
    """The seconds of a day, or of a tick that is shorter, at which the rule fires."""
    unit = UNITS.get(rule.freq, DAY_SECONDS)
    hours = rule.by.get("BYHOUR", (start.hour,)) if unit == DAY_SECONDS else (0,)
    minutes = rule.by.get("BYMINUTE", (start.minute,)) if unit > 60 else (0,)
    seconds = rule.by.get("BYSECOND", (start.second,)) if unit > 1 else (0,)
    return [
        hour * 3_600 + minute * 60 + second
        for hour, minute, second in product(hours, minutes, seconds)
    ]
