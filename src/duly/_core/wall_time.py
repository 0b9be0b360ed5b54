"""Wall times to instants: what a gap or a repeated hour of a zone does.

Decides which instants, none, one or two, a wall-clock time names under a policy. Must never
load a zone or guess one: the zone is handed in, and its offsets are all that is asked.

Where `utcoffset` differs between `fold=0` and `fold=1` (PEP 495), the wall time lies at a
switch: in a gap if the offset grows, in a repeated hour if it shrinks.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, Literal, TypeAlias

from duly.errors import ScheduleInvalid

__all__ = ["FOLDS", "GAPS", "Fold", "Gap", "instants", "offset_bounds", "plain_offset"]

# A wall time that the zone skips: it has no instant; the first instant after the gap; or the
# instant that the offset before the gap gives, which is later by the length of the gap.
Gap: TypeAlias = Literal["skip", "next", "shift"]
GAPS: Final[tuple[Gap, ...]] = ("skip", "next", "shift")

# A wall time that the zone repeats: its first instant, its last, or both.
Fold: TypeAlias = Literal["first", "last", "both"]
FOLDS: Final[tuple[Fold, ...]] = ("first", "last", "both")

DAY: Final = timedelta(days=1)
SECOND: Final = timedelta(seconds=1)
FIRST_DAY: Final = datetime(1, 1, 1)
LAST_DAY: Final = datetime(9999, 12, 31)

# By their number: some days, and the last midnight that they can start at.
DAYS: Final = tuple(days * DAY for days in range(5))
LAST_STARTS: Final = tuple(LAST_DAY - days for days in DAYS)


def instants(wall: datetime, zone: tzinfo, *, gap: Gap, fold: Fold) -> tuple[datetime, ...]:
    """The instants that a wall time names, aware UTC, strictly increasing, at most two.

    Args:
        wall: A naive datetime: what the clocks of *zone* show.
        zone: The zone, with PEP 495 `fold` semantics.
        gap: What a skipped wall time does.
        fold: What a repeated wall time does.

    Returns:
        The instants; none for a skipped wall time under `skip`, and none outside the years
        1 to 9999.
    """
    earlier, later = _offsets(wall, zone)
    as_if_utc = wall.replace(tzinfo=UTC)
    try:
        if earlier == later:
            return (as_if_utc - earlier,)
        if earlier > later:
            both = (as_if_utc - earlier, as_if_utc - later)
            return {"first": both[:1], "last": both[1:], "both": both}[fold]
        if gap == "skip":
            return ()
        if gap == "shift":
            return (as_if_utc - earlier,)
        return (_switch(as_if_utc - later, as_if_utc - earlier, zone),)
    except OverflowError:
        return ()


def plain_offset(midnight: datetime, zone: tzinfo, *, days: int = 1) -> timedelta | None:
    """The one offset of a day, or of some days, that no switch touches to the last midnight.

    Args:
        midnight: Naive, the start of the first day.
        zone: The zone, with PEP 495 `fold` semantics.
        days: How many days, at most 4.

    Returns:
        The offset; None where each wall time needs `instants`: at a switch, and at the ends of
        the calendar, whose wall times may have no instant in UTC.
    """
    low, high = offset_bounds(midnight, zone, days=days)
    return low if low == high else None


def offset_bounds(
    midnight: datetime, zone: tzinfo, *, days: int = 1
) -> tuple[timedelta, timedelta]:
    """The least and the greatest offset of a day, or of some days, to the last midnight.

    Every instant of a wall time of these days, under any policy, lies between the wall time
    less the greatest and less the least. Two switches within those days that cancel out would
    be missed; the zone data has none within five days of each other
    (tests/core/test_wall_time.py).

    Args:
        midnight: Naive, the start of the first day.
        zone: The zone, with PEP 495 `fold` semantics.
        days: How many days, at most 4.

    Returns:
        Both bounds. They are equal where no switch touches the days, but never at the ends of
        the calendar, whose wall times may have no instant in UTC.
    """
    if midnight == FIRST_DAY or midnight > LAST_STARTS[days]:
        last = min(midnight, LAST_STARTS[days]) + DAYS[days]
        found = *_offsets(midnight, zone), *_offsets(last, zone)
        return min(found) - SECOND, max(found) + SECOND
    # A switch at the first midnight shows too: the last one then has the other offset.
    first = _offset(midnight.replace(tzinfo=zone))
    earlier, later = _offsets(midnight + DAYS[days], zone)
    if first == earlier == later:
        return first, first
    again = _offset(midnight.replace(tzinfo=zone, fold=1))
    return min(first, again, earlier, later), max(first, again, earlier, later)


def _offsets(wall: datetime, zone: tzinfo) -> tuple[timedelta, timedelta]:
    """The offsets of a wall time read as the first and as the second of its kind."""
    local = wall.replace(tzinfo=zone)
    return _offset(local), _offset(local.replace(fold=1))


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    if offset is None:
        raise ScheduleInvalid(f"zone {local.tzinfo} gives no offset; load it by its IANA name")
    return offset


def _switch(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """The first instant with the later offset, between one that may have the old one and one after.

    Zone data switches at whole seconds, so halving an interval of a day takes 17 steps.
    """
    new_offset = after.astimezone(zone).utcoffset()
    seconds = (after - before) // SECOND
    low, high = 0, seconds  # *low* seconds before *after* the new offset holds, past *high* not
    while low < high:
        middle = (low + high + 1) // 2
        if (after - middle * SECOND).astimezone(zone).utcoffset() == new_offset:
            low = middle
        else:
            high = middle - 1
    found = after - low * SECOND
    return found.replace(microsecond=0)
