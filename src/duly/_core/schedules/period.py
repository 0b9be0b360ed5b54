"""Business periods: one nominal time a period, whatever time of day the schedule starts it.

Decides which period a due time is for. The period's start is the identity, so an edit of the
time of day moves no key. Must never let two due times of one period pass as two occurrences.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from duly._core.instants import as_span, as_utc, format_instant
from duly._core.schedules.cron import CronSchedule
from duly._core.schedules.wall import WallSchedule
from duly._core.wall_time import instants
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

    from duly._core.schedules import Schedule

__all__ = ["OFFSET_MAX", "PERIODS", "Period", "PeriodSchedule", "due_of", "newest_due_of"]

Period: TypeAlias = Literal["hour", "day", "week", "month", "quarter", "year"]

# Where each period starts. Weeks start on Monday (ISO 8601).
STARTS: Final[dict[Period, str]] = {
    "hour": "0 * * * *",
    "day": "0 0 * * *",
    "week": "0 0 * * MON",
    "month": "0 0 1 * *",
    "quarter": "0 0 1 1,4,7,10 *",
    "year": "0 0 1 1 *",
}
PERIODS: Final = tuple(STARTS)
MONTHS: Final[dict[Period, int]] = {"month": 1, "quarter": 3, "year": 12}
OFFSET_MAX: Final = 400

# Due times that are looked at to see whether two fall into one period: more than a year of days.
LOOKED_AT: Final = 400
LOOKED_FROM: Final = datetime(2000, 1, 1, tzinfo=UTC)

DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)
CALENDAR_START: Final = datetime.min.replace(tzinfo=UTC)
CALENDAR_END: Final = datetime.max.replace(tzinfo=UTC)


class PeriodSchedule:
    """A schedule whose nominal times are the starts of business periods.

    Attributes:
        schedule: The schedule that starts them; its times are the due times.
        period: One of `PERIODS`.
        offset: 0 if a due time is for the period it lies in, -1 for the one before.
        zone: The zone whose calendar has the periods.
        grid: The starts of all periods.
    """

    def __init__(
        self,
        schedule: Schedule,
        period: Period,
        *,
        offset: int,
        zone: ZoneInfo,
        is_checked: bool = False,
    ) -> None:
        """Check the definition.

        Args:
            schedule: What starts the periods.
            period: One of `PERIODS`.
            offset: 0 for the period that a due time lies in, -1 for the one before.
            zone: Whose calendar has the periods.
            is_checked: It was found to start each period once before: to look again costs more
                than all else that a tick does with a stored one.

        Raises:
            ScheduleInvalid: An unknown period, an offset out of bounds, or a schedule that
                fires twice in one period.
        """
        if period not in STARTS:
            raise ScheduleInvalid(
                f"period {shown(period)} is not allowed; allowed are {', '.join(PERIODS)}"
            )
        if not _is_offset(offset):
            raise ScheduleInvalid(
                f"period_offset {shown(offset)} is not allowed; give 0 for the period of the due "
                f"time, -1 for the one before, at most {OFFSET_MAX} either way"
            )
        self.schedule = schedule
        self.period: Period = period
        self.offset = offset
        self.zone = zone
        by_hour = period == "hour"  # an hour that the clock repeats is two hours
        self.grid: WallSchedule = CronSchedule(
            STARTS[period],
            zone,
            gap="skip" if by_hour else "next",
            fold="both" if by_hour else "first",
        )
        if not is_checked:
            self._must_fire_once()

    @property
    def text(self) -> str:
        """The canonical description, such as `period day -1; zone=UTC; of=cron 15 2 * * *; …`."""
        return f"period {self.period} {self.offset}; zone={self.zone.key}; of={self.schedule.text}"

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
        after = as_utc(after, name="after")
        if after == CALENDAR_END:
            return None
        return next(self._until(after + MICROSECOND, CALENDAR_END), None)

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the first.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        at = as_utc(at, name="at")
        period_start = self._start_of(at)
        due = self.schedule.previous(self._dues_for(period_start)[1])
        while due is not None:
            nominal_time = self.of_due(due)
            if nominal_time is not None and nominal_time <= at:
                return nominal_time
            due = self.schedule.previous(_shifted(due, -MICROSECOND))
        return None

    def due_time(self, nominal_time: datetime) -> datetime | None:
        """When the schedule starts the period; None if it never does."""
        nominal_time = as_utc(nominal_time, name="nominal_time")
        dues = self.schedule.between(*self._dues_for(nominal_time))
        return next((due for due in dues if self.of_due(due) == nominal_time), None)

    def newest_due(self, until: datetime) -> datetime | None:
        """The nominal time of the last due time at or before *until*; None if there is none."""
        due = self.schedule.previous(until)
        return None if due is None else self.of_due(due)

    def interval(self, nominal_time: datetime) -> tuple[datetime, datetime]:
        """The period that starts at *nominal_time*, half-open."""
        nominal_time = as_utc(nominal_time, name="nominal_time")
        return nominal_time, self._moved(nominal_time, 1) or CALENDAR_END

    def of_due(self, due: datetime) -> datetime | None:
        """The nominal time of a due time; None off the calendar.

        A time that a gap shifted past midnight is for the day that named it.
        """
        if self.period == "hour":
            return self._moved(self._start_of(due), self.offset)
        return self._instant(self._first_day(self._named(due), self.offset))

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        first, _ = self._dues_for(self._start_of(start))
        newest: datetime | None = None
        for due in self.schedule.between(first, CALENDAR_END):
            nominal_time = self.of_due(due)
            if nominal_time is None or nominal_time < start:
                continue
            if nominal_time >= end:
                return
            if newest is None or nominal_time > newest:
                yield nominal_time
                newest = nominal_time

    def _dues_for(self, period_start: datetime | None) -> tuple[datetime, datetime]:
        """A span that holds every due time for one period; None is the first of the calendar.

        The schedule names a day; what a gap made of it can lie a day later.
        """
        if period_start is None:
            return CALENDAR_START, CALENDAR_START + 2 * DAY
        first = self._moved(period_start, -self.offset)
        if first is None:  # off the calendar: nothing is due, beyond the end that lies that way
            end = CALENDAR_END if self.offset < 0 else CALENDAR_START
            return end, end
        last = self._moved(first, 1) or CALENDAR_END
        if self.period == "hour":  # an hour is of the instant, not of the wall time that named it
            return first, last
        return _shifted(first, -DAY), _shifted(last, DAY)

    def _start_of(self, instant: datetime) -> datetime | None:
        """The start of the period that holds an instant."""
        if self.period == "hour":
            return self.grid.previous(instant)
        return self._instant(self._first_day(self._wall(instant), 0))

    def _moved(self, period_start: datetime | None, steps: int) -> datetime | None:
        """The start of the period that many later; None off the calendar."""
        if self.period != "hour" and period_start is not None:
            return self._instant(self._first_day(self._wall(period_start), steps))
        found = period_start
        for _ in range(abs(steps)):
            if found is None:
                return None
            earlier = _shifted(found, -MICROSECOND)
            found = self.grid.next(found) if steps > 0 else self.grid.previous(earlier)
        return found

    def _first_day(self, wall: datetime, steps: int) -> datetime | None:
        """The midnight at which the period of a wall time starts, or one that many later."""
        midnight = datetime(wall.year, wall.month, wall.day)
        try:
            if self.period == "day":
                return midnight + steps * DAY
            if self.period == "week":
                return midnight + (7 * steps - midnight.weekday()) * DAY
            length = MONTHS[self.period]
            month = 12 * wall.year + wall.month - 1
            year, month = divmod((month // length + steps) * length, 12)
            return datetime(year, month + 1, 1)
        except (OverflowError, ValueError):
            return None

    def _named(self, due: datetime) -> datetime:
        """The wall time that the schedule named a due time by; what the clock shows, if none."""
        wall = self._wall(due)
        if not isinstance(self.schedule, WallSchedule):
            return wall
        named = self.schedule.wall_times(due)
        return wall if not named or wall in named else named[-1]

    def _wall(self, instant: datetime) -> datetime:
        """What the zone's clock shows, or the nearest that the calendar has."""
        try:
            return instant.astimezone(self.zone).replace(tzinfo=None)
        except OverflowError:
            return instant.replace(tzinfo=None)

    def _instant(self, midnight: datetime | None) -> datetime | None:
        if midnight is None:
            return None
        return next(iter(instants(midnight, self.zone, gap="next", fold="first")), None)

    def _must_fire_once(self) -> None:
        """Refuse a schedule that fires twice in one period, as far as can be seen.

        Where it cannot be seen, the second start in a period is a duplicate of the first.
        """
        schedule = self.schedule
        if self.period != "hour" and isinstance(schedule, WallSchedule) and schedule.fold == "both":
            raise ScheduleInvalid(
                f'period="{self.period}" needs a schedule that fires once in {self._a_period}, and '
                f"{schedule.text} fires twice where the clock is set back; "
                'give a fixed time of day, or fold="first"'
            )
        first = schedule.next(LOOKED_FROM) or schedule.next(CALENDAR_START)
        if first is None:
            return
        before: tuple[datetime, datetime | None] | None = None
        for due in islice(schedule.between(first, CALENDAR_END), LOOKED_AT):
            nominal_time = self.of_due(due)
            if before is not None and before[1] == nominal_time:
                raise ScheduleInvalid(
                    f'period="{self.period}" needs a schedule that fires once in {self._a_period}, '
                    f"and {schedule.text} fires at {format_instant(before[0])} and at "
                    f"{format_instant(due)}; give another schedule or a shorter period"
                )
            before = due, nominal_time

    @property
    def _a_period(self) -> str:
        return f"an {self.period}" if self.period == "hour" else f"a {self.period}"

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, PeriodSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def due_of(schedule: Schedule, nominal_time: datetime) -> datetime:
    """When *schedule* starts *nominal_time*: that instant, except with a period."""
    if isinstance(schedule, PeriodSchedule):
        return schedule.due_time(nominal_time) or nominal_time
    return nominal_time


def newest_due_of(schedule: Schedule, until: datetime) -> datetime | None:
    """The nominal time that fell due last, at or before *until*; None if none has."""
    if isinstance(schedule, PeriodSchedule):
        return schedule.newest_due(until)
    return schedule.previous(until)


def _is_offset(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and abs(offset) <= OFFSET_MAX


def _shifted(instant: datetime, by: timedelta) -> datetime:
    try:
        return instant + by
    except OverflowError:
        return CALENDAR_END if by > timedelta(0) else CALENDAR_START
