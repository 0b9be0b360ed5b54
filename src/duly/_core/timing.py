"""What a schedule knows of one nominal time: when it is due, what it is about, how it was named.

Decides nothing about the set of nominal times; it reads it. Must never depend on when it asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import TYPE_CHECKING, Final

from duly._core.schedules.period import PeriodSchedule, due_of, newest_due_of
from duly._core.schedules.revised import RevisedSchedule
from duly._core.schedules.wall import WallSchedule
from duly._core.wall_time import instants, plain_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core.schedules import Schedule

__all__ = [
    "Interval",
    "bounds",
    "due_time",
    "interval",
    "local_date",
    "newest_due",
    "on_date",
    "shifted",
]

DAY: Final = timedelta(days=1)
MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Interval:
    """The half-open span [start, end) an occurrence is about, aware UTC."""

    start: datetime
    end: datetime


def due_time(schedule: Schedule | None, nominal_time: datetime) -> datetime:
    """When *schedule* starts *nominal_time*: that instant, except with a period."""
    own = _own(schedule, nominal_time)
    return nominal_time if own is None else due_of(own, nominal_time)


def newest_due(schedule: Schedule, until: datetime) -> datetime | None:
    """The nominal time that fell due last, at or before *until*; None if none has."""
    if isinstance(schedule, RevisedSchedule):
        return schedule.newest_due(until)
    return newest_due_of(schedule, until)


def interval(schedule: Schedule, nominal_time: datetime) -> Interval | None:
    """The span that *nominal_time* is about.

    Returns:
        The period; without one, from the previous nominal time to this one, and None for the
        first.
    """
    own = _own(schedule, nominal_time)
    if isinstance(own, PeriodSchedule):
        return Interval(*own.interval(nominal_time))
    try:
        before = schedule.previous(nominal_time - MICROSECOND)
    except OverflowError:
        return None
    return None if before is None else Interval(before, nominal_time)


def local_date(schedule: Schedule | None, zone: tzinfo, nominal_time: datetime) -> date:
    """The date on the zone's calendar that *nominal_time* was named for.

    It is not always the date that the clock shows: a gap can shift a time past midnight.
    """
    try:
        local = nominal_time.astimezone(zone).replace(tzinfo=None)
    except OverflowError:  # a local year 0 or 10000: the nearest date that exists
        local = nominal_time.replace(tzinfo=None)
    named = _named(schedule, nominal_time)
    return (local if not named or local in named else named[-1]).date()


def shifted(schedule: Schedule | None, nominal_time: datetime) -> bool:
    """Whether the wall time of its due time lay in a gap, so that it starts at another."""
    due = due_time(schedule, nominal_time)
    own = _own(schedule, nominal_time)
    walls = own.schedule if isinstance(own, PeriodSchedule) else own
    if not isinstance(walls, WallSchedule):
        return False
    named = walls.wall_times(due)
    return bool(named) and due.astimezone(walls.zone).replace(tzinfo=None) not in named


def on_date(schedule: Schedule, zone: tzinfo, day: date) -> Iterator[datetime]:
    """The nominal times that were named for a date on the zone's calendar, ascending, lazy."""
    if not isinstance(schedule, WallSchedule):
        found = schedule.between(*bounds(day, zone))
        yield from (t for t in found if local_date(schedule, zone, t) == day)
        return
    midnight = datetime.combine(day, time.min)
    walls = schedule.walls(midnight, datetime.combine(day, time.max))
    named: Iterator[datetime] = (
        found
        for wall in walls
        for found in instants(wall, schedule.zone, gap=schedule.gap, fold=schedule.fold)
    )
    if plain_offset(midnight, schedule.zone) is None:
        named = iter(sorted(set(named)))  # at a switch instants change places, or coincide
    yield from named


def bounds(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """A span [start, end) that holds every instant of a local date, whatever switches there."""
    midnight = datetime(day.year, day.month, day.day)
    first = instants(midnight, zone, gap="next", fold="first")
    start = first[0] if first else datetime.min.replace(tzinfo=UTC)
    if day == date.max:
        return start, datetime.max.replace(tzinfo=UTC)
    last = instants(midnight + DAY, zone, gap="next", fold="last")
    return start, last[0] if last else datetime.max.replace(tzinfo=UTC)


def _named(schedule: Schedule | None, nominal_time: datetime) -> tuple[datetime, ...]:
    own = _own(schedule, nominal_time)
    if isinstance(own, PeriodSchedule):
        return own.grid.wall_times(nominal_time)
    return own.wall_times(nominal_time) if isinstance(own, WallSchedule) else ()


def _own(schedule: Schedule | None, nominal_time: datetime) -> Schedule | None:
    """The schedule that names *nominal_time*, of those that a job had."""
    return schedule.of(nominal_time) if isinstance(schedule, RevisedSchedule) else schedule
