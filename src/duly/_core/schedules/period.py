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

__all__ = ["OFFSET_MAX", "PERIODS", "Period", "PeriodSchedule"]

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

    def __init__(self, schedule: Schedule, period: Period, *, offset: int, zone: ZoneInfo) -> None:
        """Check the definition.

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
        period_start = self.grid.previous(at)
        due_period = None if period_start is None else self._step(period_start, -self.offset)
        if due_period is None:
            return None
        due = self.schedule.previous(_shifted(self._end(due_period), DAY))
        while due is not None:
            nominal_time = self.of_due(due)
            if nominal_time is not None and nominal_time <= at:
                return nominal_time
            due = self.schedule.previous(_shifted(due, -MICROSECOND))
        return None

    def due_time(self, nominal_time: datetime) -> datetime | None:
        """When the schedule starts the period; None if it never does."""
        due_period = self._step(as_utc(nominal_time), -self.offset)
        if due_period is None:
            return None
        dues = self.schedule.between(
            _shifted(due_period, -DAY), _shifted(self._end(due_period), DAY)
        )
        return next((due for due in dues if self.of_due(due) == nominal_time), None)

    def newest_due(self, until: datetime) -> datetime | None:
        """The nominal time of the last due time at or before *until*; None if there is none."""
        due = self.schedule.previous(until)
        return None if due is None else self.of_due(due)

    def interval(self, nominal_time: datetime) -> tuple[datetime, datetime]:
        """The period that starts at *nominal_time*, half-open."""
        nominal_time = as_utc(nominal_time)
        return nominal_time, self._end(nominal_time)

    def of_due(self, due: datetime) -> datetime | None:
        """The nominal time of a due time; None off the calendar."""
        period_start = self.grid.previous(self._anchor(due))
        return None if period_start is None else self._step(period_start, self.offset)

    def _until(self, start: datetime, end: datetime) -> Iterator[datetime]:
        if start >= end:
            return
        # The schedule names a day; what a gap made of it can lie a day later.
        first = self._step(self.grid.previous(start) or start, -self.offset) or CALENDAR_START
        newest: datetime | None = None
        for due in self.schedule.between(_shifted(first, -DAY), CALENDAR_END):
            nominal_time = self.of_due(due)
            if nominal_time is None or nominal_time < start:
                continue
            if nominal_time >= end:
                return
            if newest is None or nominal_time > newest:
                yield nominal_time
                newest = nominal_time

    def _anchor(self, due: datetime) -> datetime:
        """An instant in the period that the due time was named for.

        A time that a gap shifted past midnight belongs to the day that named it.
        """
        if self.period == "hour":
            return due
        wall = _named(self.schedule, due, self.zone)
        midnight = datetime(wall.year, wall.month, wall.day)
        return next(iter(instants(midnight, self.zone, gap="next", fold="first")), due)

    def _step(self, period_start: datetime, steps: int) -> datetime | None:
        found: datetime | None = period_start
        for _ in range(abs(steps)):
            if found is None:
                return None
            if steps > 0:
                found = self.grid.next(found)
            else:
                found = self.grid.previous(_shifted(found, -MICROSECOND))
        return found

    def _end(self, period_start: datetime) -> datetime:
        return self.grid.next(period_start) or CALENDAR_END

    def _must_fire_once(self) -> None:
        """Refuse a schedule that fires twice in one period, as far as can be seen.

        Where it cannot be seen, the second start in a period is a duplicate of the first.
        """
        schedule = self.schedule
        if self.period != "hour" and isinstance(schedule, WallSchedule) and schedule.fold == "both":
            raise ScheduleInvalid(
                f'period="{self.period}" needs a schedule that fires once in a {self.period}, and '
                f"{schedule.text} fires twice where the clock is set back; "
                'give a fixed time of day, or fold="first"'
            )
        first = schedule.next(LOOKED_FROM) or schedule.next(CALENDAR_START)
        if first is None:
            return
        before: tuple[datetime, tuple[object, ...]] | None = None
        for due in islice(schedule.between(first, CALENDAR_END), LOOKED_AT):
            label = self._label(due)
            if before is not None and before[1] == label:
                raise ScheduleInvalid(
                    f'period="{self.period}" needs a schedule that fires once in a {self.period}, '
                    f"and {schedule.text} fires at {format_instant(before[0])} and at "
                    f"{format_instant(due)}; give another schedule or a shorter period"
                )
            before = due, label

    def _label(self, due: datetime) -> tuple[object, ...]:
        """What two due times of one period have in common, and no others."""
        if self.period == "hour":
            return (self.grid.previous(due),)
        day = _named(self.schedule, due, self.zone).date()
        return {
            "day": (day,),
            "week": day.isocalendar()[:2],
            "month": (day.year, day.month),
            "quarter": (day.year, (day.month - 1) // 3),
            "year": (day.year,),
        }[self.period]

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, PeriodSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def _named(schedule: Schedule, due: datetime, zone: ZoneInfo) -> datetime:
    """The wall time that the schedule named a due time by; what the clock shows, if by none."""
    local = due.astimezone(zone).replace(tzinfo=None)
    if not isinstance(schedule, WallSchedule):
        return local
    named = schedule.wall_times(due)
    return local if not named or local in named else named[-1]


def _is_offset(offset: object) -> bool:
    return isinstance(offset, int) and not isinstance(offset, bool) and abs(offset) <= OFFSET_MAX


def _shifted(instant: datetime, by: timedelta) -> datetime:
    try:
        return instant + by
    except OverflowError:
        return CALENDAR_END if by > timedelta(0) else CALENDAR_START
