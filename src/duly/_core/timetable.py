"""What a person sees of a schedule: its times one after the other, and what a switch did to each.

Decides which line stands for a nominal time, which for wall times that the zone skips and that
the schedule leaves out, and what is noted beside them. Must never find nominal times of its
own: the lines are those of `between`, and a note is read from the zone and from the wall times
that the schedule names.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from duly._core.instants import as_span
from duly._core.schedules.period import PeriodSchedule
from duly._core.schedules.wall import WallSchedule
from duly._core.timing import Interval, due_time, interval
from duly._core.wall_time import instants

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core.schedules import Schedule

__all__ = ["Kind", "Line", "Note", "lines", "walls_of"]

# What happened to a wall time. It does not exist, and nothing runs (`skipped`) or it runs later
# (`moved`); or it comes twice, and this is the one that runs (`only_first`, `only_last`) or one
# of both.
Kind: TypeAlias = Literal[
    "skipped", "moved", "only_first", "only_last", "first_of_both", "last_of_both"
]

MICROSECOND: Final = timedelta(microseconds=1)
CALENDAR_START: Final = datetime.min.replace(tzinfo=UTC)
CALENDAR_END: Final = datetime.max.replace(tzinfo=UTC)
FIRST_WALL: Final = CALENDAR_START.replace(tzinfo=None)
LAST_WALL: Final = CALENDAR_END.replace(tzinfo=None)

# Before a switch by this much the old offset holds: no zone switches twice within five days
# (tests/core/test_wall_time.py), and none by more than a day.
BEFORE: Final = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class Note:
    """What a switch of the zone did to wall times that the schedule names.

    Attributes:
        kind: What happened.
        of: Whether they name the due time or, of a business period, its start.
        first: The first of them, naive.
        last: The last of them, naive; the same one if there is only one.
        count: How many the schedule names from *first* to *last*.
        other: The instant that the wall time also has, where it comes twice; else None.
        beside: Whether the schedule also names the wall time that they moved to.
    """

    kind: Kind
    of: Literal["due", "period"]
    first: datetime
    last: datetime
    count: int = 1
    other: datetime | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the timetable.

    Attributes:
        nominal_time: Aware UTC; None where wall times are skipped and nothing runs.
        due_at: When the schedule starts it, aware UTC; None with *nominal_time*.
        local: What the zone's clock shows at the nominal time, naive; where nothing runs, the
            first wall time that is skipped.
        offset: The zone's offset from UTC at the nominal time; None with *nominal_time*.
        interval: What it is about; None for the first nominal time, and where nothing runs.
        notes: What a switch did to it.
    """

    nominal_time: datetime | None
    due_at: datetime | None
    local: datetime
    offset: timedelta | None
    interval: Interval | None
    notes: tuple[Note, ...]


def lines(
    schedule: Schedule,
    zone: tzinfo,
    start: datetime,
    *,
    until: datetime | None = None,
    limit: int,
) -> Iterator[Line]:
    """The nominal times in [*start*, *until*), and the wall times skipped among them, lazily.

    Wall times of one gap that nothing runs for are one line, before whatever comes at or after
    the end of that gap.

    Args:
        schedule: Any kind.
        zone: Whose clock `Line.local` and `Line.offset` show.
        start: Aware.
        until: Aware; None for the end of the calendar.
        limit: The most lines.

    Raises:
        NominalTimeInvalid: A bound is naive, or *start* is after *until*.
    """
    start, until = as_span(start, CALENDAR_END if until is None else until)
    return islice(_lines(schedule, zone, start, until), limit)


def walls_of(schedule: Schedule) -> WallSchedule | None:
    """The wall times that a schedule starts at; None if it counts elapsed time or instants."""
    inner = schedule.schedule if isinstance(schedule, PeriodSchedule) else schedule
    return inner if isinstance(inner, WallSchedule) else None


def _lines(schedule: Schedule, zone: tzinfo, start: datetime, until: datetime) -> Iterator[Line]:
    if start == until:
        return
    skipped = _Skipped(schedule, start, until)
    before: datetime | None = None
    for nominal_time in schedule.between(start, until):
        due_at = due_time(schedule, nominal_time)
        yield from skipped.before(due_at)
        local, offset = _clock(nominal_time, zone)
        notes = tuple(_notes(schedule, nominal_time, due_at))
        about = _interval(schedule, nominal_time, before)
        yield Line(nominal_time, due_at, local, offset, about, notes)
        before = nominal_time
    yield from skipped.rest()


class _Skipped:
    """The wall times in gaps that nothing runs for, handed out in the order of their instants."""

    def __init__(self, schedule: Schedule, start: datetime, until: datetime) -> None:
        self._schedule = schedule
        self._start, self._until = start, until
        walls = walls_of(schedule)
        self._walls = walls if walls is not None and walls.gap == "skip" else None
        self._coming: Iterator[datetime] = iter(())
        self._next: datetime | None = None
        if self._walls is not None:
            since = _due_from(schedule, start)
            # At the very end of a gap its wall times lie before what the clock shows.
            first = min(_local(since, self._walls.zone), _with_old_offset(since, self._walls.zone))
            self._coming = self._walls.walls(first, LAST_WALL)
            self._next = next(self._coming, None)

    def before(self, due_at: datetime) -> Iterator[Line]:
        """Those of gaps that end at or before *due_at* and were not handed out yet."""
        if self._walls is None:
            return
        # A gap that has ended has only wall times before what the clock shows now, and one
        # that has not has none.
        clock = _local(due_at, self._walls.zone)
        gap: list[datetime] = []
        end: datetime | None = None
        shown_then = FIRST_WALL  # what the clock shows at *end*
        while self._next is not None and self._next < clock:
            wall = self._next
            self._next = next(self._coming, None)
            if wall >= shown_then:
                if end is not None:
                    yield from self._line(gap, end)
                gap, end = [], _end_of_gap(wall, self._walls.zone)
                shown_then = FIRST_WALL if end is None else _local(end, self._walls.zone)
            if end is not None:
                gap.append(wall)
        if end is not None:
            yield from self._line(gap, end)

    def rest(self) -> Iterator[Line]:
        """Those up to the end of the span."""
        if self._walls is not None:
            yield from self.before(_due_until(self._schedule, self._until))

    def _line(self, gap: list[datetime], end: datetime) -> Iterator[Line]:
        nominal_time = _would_be(self._schedule, gap[0], end)
        if nominal_time is not None and self._start <= nominal_time < self._until:
            note = Note("skipped", "due", gap[0], gap[-1], len(gap))
            yield Line(None, None, gap[0], None, None, (note,))


def _interval(
    schedule: Schedule, nominal_time: datetime, before: datetime | None
) -> Interval | None:
    """What a line is about; *before* is the line before it, which saves the search for it."""
    if before is None or isinstance(schedule, PeriodSchedule):
        return interval(schedule, nominal_time)
    return Interval(before, nominal_time)


def _notes(schedule: Schedule, nominal_time: datetime, due_at: datetime) -> Iterator[Note]:
    if isinstance(schedule, PeriodSchedule):
        yield from _notes_of(schedule.grid, nominal_time, "period")
    if (walls := walls_of(schedule)) is not None:
        yield from _notes_of(walls, due_at, "due")


def _notes_of(walls: WallSchedule, at: datetime, of: Literal["due", "period"]) -> Iterator[Note]:
    """What a switch did to the wall times that name *at*, an instant of *walls*."""
    local = _local(at, walls.zone)
    both = instants(local, walls.zone, gap="skip", fold="both")
    if len(both) == 2:
        first = at == both[0]
        kinds: dict[str, Kind] = {
            "first": "only_first",
            "last": "only_last",
            "both": "first_of_both" if first else "last_of_both",
        }
        yield Note(kinds[walls.fold], of, local, local, other=both[1] if first else both[0])
        return
    moved = list(_moved(walls, at, local))
    if moved:
        beside = next(walls.walls(local, _later(local, MICROSECOND)), None) is not None
        yield Note("moved", of, moved[0], moved[-1], len(moved), beside=beside)


def _moved(walls: WallSchedule, at: datetime, local: datetime) -> Iterator[datetime]:
    """The wall times in a gap that run at *at*, which the clock shows as *local*."""
    wall = _with_old_offset(at, walls.zone)
    if wall >= local or _end_of_gap(wall, walls.zone) is None:
        return
    if instants(wall, walls.zone, gap=walls.gap, fold="first") == (at,):
        # At the end of a gap the old offset shows its start, and every wall time of it is meant.
        last = local if walls.gap == "next" else _later(wall, MICROSECOND)
        yield from walls.walls(wall, last)


def _end_of_gap(wall: datetime, zone: tzinfo) -> datetime | None:
    """The first instant after the gap that *wall* lies in; None if it lies in none."""
    if instants(wall, zone, gap="skip", fold="first"):
        return None
    return next(iter(instants(wall, zone, gap="next", fold="first")), None)


def _due_from(schedule: Schedule, start: datetime) -> datetime:
    """An instant that no due time of a nominal time at or after *start* lies before."""
    if not isinstance(schedule, PeriodSchedule):
        return start
    before = None if start == CALENDAR_START else schedule.previous(start - MICROSECOND)
    first = schedule.next(start) if before is None else before
    return start if first is None else due_time(schedule, first)


def _due_until(schedule: Schedule, until: datetime) -> datetime:
    """An instant that no due time of a nominal time before *until* lies after."""
    if not isinstance(schedule, PeriodSchedule) or until == CALENDAR_END:
        return until
    after = schedule.next(until - MICROSECOND)
    return CALENDAR_END if after is None else due_time(schedule, after)


def _would_be(schedule: Schedule, wall: datetime, end: datetime) -> datetime | None:
    """The nominal time of *wall*, in a gap that ends at *end*, if it ran at all."""
    if not isinstance(schedule, PeriodSchedule):
        return end
    if schedule.period == "hour":
        return schedule.of_due(end)
    # The day that named it counts, though a gap may end on the next one; of a day that does not
    # exist at all, the next.
    midnight = datetime(wall.year, wall.month, wall.day)
    starts = instants(midnight, schedule.zone, gap="next", fold="first")
    return schedule.of_due(starts[0] if starts else end)


def _clock(at: datetime, zone: tzinfo) -> tuple[datetime, timedelta]:
    """What the clock shows, naive, and its offset; UTC where the zone's year would be 10000."""
    try:
        local = at.astimezone(zone)
    except OverflowError:
        local = at
    return local.replace(tzinfo=None, fold=0), local.utcoffset() or timedelta(0)


def _local(at: datetime, zone: tzinfo) -> datetime:
    """What the clock shows, naive; at the ends of the calendar the last thing that it can."""
    try:
        return at.astimezone(zone).replace(tzinfo=None, fold=0)
    except OverflowError:
        return LAST_WALL if at.year > 1 else FIRST_WALL


def _with_old_offset(at: datetime, zone: tzinfo) -> datetime:
    """What the clock would show if no switch had come in the last two days, naive."""
    try:
        offset = (at - BEFORE).astimezone(zone).utcoffset()
        return (at + (offset or timedelta(0))).replace(tzinfo=None)
    except OverflowError:
        return _local(at, zone)


def _later(wall: datetime, by: timedelta) -> datetime:
    try:
        return wall + by
    except OverflowError:
        return LAST_WALL
