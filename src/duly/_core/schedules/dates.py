"""An explicit list of dates, or of instants.

Decides what such a list may hold: dates, each at one time of day of a zone, or instants, never
both. Must never drop one silently that was listed twice, nor guess the zone of a naive time.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duly._core.instants import as_span, as_utc, format_instant, parse_instant
from duly._core.schedules.wall import WallSchedule
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

    from duly._core.wall_time import Fold, Gap

__all__ = ["DATES_MAX", "DateSchedule", "InstantSchedule", "are_instants"]

DATES_MAX: Final = 10_000

DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
AT: Final = re.compile(r"([0-9]{2}):([0-9]{2})(?::([0-9]{2}))?")
MIDNIGHT: Final = time()

T = TypeVar("T", date, datetime)


class DateSchedule(WallSchedule):
    """Dates on the calendar of one zone, each at the same time of day.

    Attributes:
        dates: The dates, ascending.
        at: The time of day on the wall clock.
    """

    def __init__(
        self,
        dates: Collection[date | str],
        at: str,
        zone: ZoneInfo,
        *,
        gap: Gap = "next",
        fold: Fold = "first",
    ) -> None:
        """Check the dates.

        Args:
            dates: At least one and at most 10,000, in any order, no two equal.
            at: `HH:MM` or `HH:MM:SS`.
            zone: The zone, with a `key`.
            gap: By default `next`: a date that is listed is not lost.
            fold: By default `first`.

        Raises:
            ScheduleInvalid: Something listed is no date, or twice there; nothing is listed, or
                too much; the time of day cannot be read, or a policy is unknown.
        """
        self.dates = _each_once([_date(given) for given in _listed(dates)], str)
        self.at = _at(at)
        since = datetime.combine(date.min, self.at) - datetime.combine(date.min, MIDNIGHT)
        super().__init__(_Days(self.dates, since), zone, gap=gap, fold=fold)
        if self.next(datetime.min.replace(tzinfo=UTC)) is None:
            raise ScheduleInvalid(
                f"{zone.key} skips {self.at} on each of the dates; give another at=, or gap='next'"
            )

    @property
    def text(self) -> str:
        """The canonical description.

        Such as `dates 2026-01-31,2026-02-28; at=09:00:00; zone=UTC; gap=next; fold=first`.
        """
        return (
            f"dates {','.join(map(str, self.dates))}; at={self.at.isoformat()}; "
            f"zone={self.zone.key}; gap={self.gap}; fold={self.fold}"
        )

    def __repr__(self) -> str:
        return (
            f"Dates({[str(day) for day in self.dates]!r}, at={self.at.isoformat()!r}, "
            f"timezone={self.zone.key!r}, gap={self.gap!r}, fold={self.fold!r})"
        )


class InstantSchedule:
    """Instants, each one a nominal time as it stands.

    Attributes:
        instants: The instants, aware UTC, ascending.
    """

    def __init__(self, instants: Collection[datetime | str]) -> None:
        """Check the instants.

        Args:
            instants: At least one and at most 10,000, in any order, no two equal: aware
                datetimes in any zone, or RFC 3339 text with an offset.

        Raises:
            ScheduleInvalid: Something listed is no instant, or twice there; nothing is listed,
                or too much.
        """
        self.instants = _each_once([_instant(given) for given in _listed(instants)], format_instant)

    @property
    def text(self) -> str:
        """The canonical description, such as `dates 2026-01-31T08:00:00Z,2026-02-28T08:00:00Z`."""
        return f"dates {','.join(map(format_instant, self.instants))}"

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        start, end = as_span(start, end)
        first, last = (bisect_left(self.instants, bound) for bound in (start, end))
        return iter(self.instants[first:last])

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None past the last.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        index = bisect_right(self.instants, as_utc(after, name="after"))
        return self.instants[index] if index < len(self.instants) else None

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the first.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        index = bisect_right(self.instants, as_utc(at, name="at"))
        return self.instants[index - 1] if index else None

    def __repr__(self) -> str:
        return f"Dates({[format_instant(instant) for instant in self.instants]!r})"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, InstantSchedule) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def are_instants(dates: Collection[date | datetime | str]) -> bool:
    """Whether the list is of instants, judged by its first.

    Raises:
        ScheduleInvalid: It is no list, or nothing is listed.
    """
    first = _listed(dates)[0]
    return isinstance(first, datetime) or (isinstance(first, str) and "T" in first)


class _Days:
    def __init__(self, dates: Sequence[date], since_midnight: timedelta) -> None:
        self._midnights = [datetime.combine(day, MIDNIGHT) for day in dates]
        self._times = [since_midnight]

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        for index in range(bisect_left(self._midnights, first), len(self._midnights)):
            yield self._midnights[index], self._times

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        for index in range(bisect_right(self._midnights, last) - 1, -1, -1):
            yield self._midnights[index], self._times


def _listed(dates: Any) -> list[Any]:
    if isinstance(dates, (str, bytes)) or not isinstance(dates, Collection):
        raise ScheduleInvalid(
            f'dates must be a list, not {shown(dates)}; write ["2026-01-31", "2026-02-28"]'
        )
    if not dates:
        raise ScheduleInvalid("the list of dates is empty, so it never fires; list at least one")
    if len(dates) > DATES_MAX:
        raise ScheduleInvalid(
            f"{len(dates)} dates are too many; list at most {DATES_MAX}, or write a rule"
        )
    return list(dates)


def _date(given: object) -> date:
    if isinstance(given, datetime) or (isinstance(given, str) and "T" in given):
        raise ScheduleInvalid(
            f"{shown(given)} is an instant in a list of dates; list dates alone, with one time "
            "of day as at=, or instants alone"
        )
    if isinstance(given, str) and DATE.fullmatch(given):
        try:
            return date.fromisoformat(given)
        except ValueError:
            pass
    if isinstance(given, date):
        return date(given.year, given.month, given.day)
    raise ScheduleInvalid(
        f"{shown(given)} is no date of the calendar; give a date, or text such as 2026-01-31"
    )


def _instant(given: object) -> datetime:
    if not isinstance(given, (datetime, str)) or (isinstance(given, str) and "T" not in given):
        raise ScheduleInvalid(
            f"{shown(given)} is no instant, in a list of instants; list instants alone, such as "
            "2026-01-31T09:00:00+01:00, or dates alone"
        )
    try:
        if isinstance(given, str):
            return parse_instant(given, name="date")
        return as_utc(given, name="date")
    except NominalTimeInvalid as error:
        raise ScheduleInvalid(str(error)) from None


def _each_once(found: list[T], text: Any) -> tuple[T, ...]:
    ordered = sorted(found)
    for earlier, later in pairwise(ordered):
        if earlier == later:
            raise ScheduleInvalid(f"{text(later)} is listed twice; list it once")
    return tuple(ordered)


def _at(at: object) -> time:
    match = AT.fullmatch(at) if isinstance(at, str) else None
    try:
        if match is not None:
            hour, minute, second = (int(part or 0) for part in match.groups())
            return time(hour, minute, second)
    except ValueError:
        pass
    raise ScheduleInvalid(
        f"at {shown(at)} is no time of day; write HH:MM or HH:MM:SS, from 00:00 to 23:59:59"
    )
