"""A zone as it was: its transitions over some years, kept with a revision.

Decides whether two versions of the zone data agree about a zone, and answers for the version
that is not installed any more. Must never guess past its record without saying where it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["RecordedZone", "ZoneRecord"]

SECOND: Final = timedelta(seconds=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Whole years, so that the records of jobs defined in one year are found once (they are equal).
YEARS_BEFORE: Final = 1
YEARS_AFTER: Final = 11
# The zone data has no two switches within five days of each other (tests/core/test_wall_time.py).
STRIDE: Final = 4 * 86_400


class ZoneRecord:
    """The offsets of one zone over a span.

    Attributes:
        key: The zone's name.
        start, end: The span, in whole seconds since 1970, half-open.
        offsets: (second since 1970, offset in seconds from then on), ascending; the first
            holds at *start*.
    """

    __slots__ = ("end", "key", "offsets", "start")

    def __init__(self, key: str, start: int, end: int, offsets: list[tuple[int, int]]) -> None:
        self.key = key
        self.start = start
        self.end = end
        self.offsets = offsets

    @classmethod
    def around(cls, zone: Any, now: datetime, *, since: datetime | None = None) -> ZoneRecord:
        """The record of *zone* over whole years of UTC.

        Args:
            zone: A zone with a `key`.
            now: The record reaches from the year before it to ten years after it.
            since: An earlier instant, from the year before which on it reaches.
        """
        first = (now if since is None else min(since, now)).year - YEARS_BEFORE
        start = _second(datetime(max(first, MINYEAR), 1, 1, tzinfo=UTC))
        last = min(now.year + YEARS_AFTER, MAXYEAR)
        end = _second(datetime(last, 1, 1, tzinfo=UTC))
        return cls(zone.key, start, end, list(_offsets(zone, start, end)))

    @classmethod
    def read(cls, text: str) -> ZoneRecord:
        """The record of a stored text."""
        try:
            key, span, changes = text.split("; ")
            start, end = map(int, span.split(".."))
            offsets = [
                (int(second), int(offset))
                for second, _, offset in (change.partition("=") for change in changes.split(","))
            ]
        except ValueError:
            raise ScheduleInvalid(
                f"{shown(text)} is no record of a zone; run the duly that wrote it"
            ) from None
        return cls(key, start, end, offsets)

    @property
    def text(self) -> str:
        """The stored form, such as `UTC; 1735689600..2114380800; 1735689600=0`."""
        changes = ",".join(f"{second}={offset}" for second, offset in self.offsets)
        return f"{self.key}; {self.start}..{self.end}; {changes}"

    def agrees(self, zone: tzinfo) -> bool:
        """Whether *zone*, of whatever version, has the same offsets over the span."""
        return [*_offsets(zone, self.start, self.end)] == self.offsets

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, ZoneRecord) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


class RecordedZone(tzinfo):
    """A zone that answers from a record; before and after it, its first and last offsets hold."""

    def __init__(self, record: ZoneRecord) -> None:
        self.key = record.key
        self.record = record
        self._starts = [second for second, _ in record.offsets]
        self._offsets = [timedelta(seconds=offset) for _, offset in record.offsets]
        # Before a change the old offset rules the clock, after it the new; in between both do
        # (a repeated hour) or neither does (a gap), and `fold` decides.
        changes = [(at, old, new) for (_, old), (at, new) in pairwise(record.offsets)]
        self._walls = (
            [at + max(old, new) for at, old, new in changes],
            [at + min(old, new) for at, old, new in changes],
        )

    def utcoffset(self, local: datetime | None) -> timedelta | None:
        """The offset of a wall time; `fold` tells the second of a repeated one (PEP 495)."""
        if local is None:
            return None
        wall = (local.replace(tzinfo=UTC) - EPOCH) // SECOND
        return self._offsets[bisect_right(self._walls[local.fold], wall)]

    def dst(self, _local: datetime | None) -> timedelta:
        """Not recorded: nothing in duly asks."""
        return timedelta(0)

    def tzname(self, _local: datetime | None) -> str:
        """The zone's name; abbreviations are not recorded."""
        return self.key

    def fromutc(self, instant: datetime) -> datetime:
        """The wall time of an instant."""
        second = (instant.replace(tzinfo=UTC) - EPOCH) // SECOND
        index = max(0, bisect_right(self._starts, second) - 1)
        local = instant + self._offsets[index]
        if index:
            back = self._offsets[index - 1] - self._offsets[index]
            since = timedelta(seconds=second - self._starts[index])
            if timedelta(0) <= since < back:
                return local.replace(fold=1)
        return local


@lru_cache(maxsize=1024)
def _offsets(zone: tzinfo, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Every offset of a span; remembered, since a thousand jobs may ask for one zone's."""
    return tuple(_found(zone, start, end))


def _found(zone: tzinfo, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Every offset of a span, found by some days and then by halves."""
    before, offset = start, _offset(zone, start)
    yield start, offset
    for at in [*range(start + STRIDE, end, STRIDE), end - 1]:
        if (new := _offset(zone, at)) != offset:
            low, high = before, at
            while high - low > 1:
                middle = (low + high) // 2
                if _offset(zone, middle) == offset:
                    low = middle
                else:
                    high = middle
            yield high, new
            offset = new
        before = at


def _offset(zone: tzinfo, second: int) -> int:
    local = (EPOCH + second * SECOND).astimezone(zone)
    offset = local.utcoffset()
    assert offset is not None
    return offset // SECOND


def _second(instant: datetime) -> int:
    return (instant - EPOCH) // SECOND
