"""A fixed interval of elapsed time from an anchor.

Decides that the nominal times are anchor + k * interval for every whole k from 0 on. Must
never count from the last run, from the start of a process, or in local days: 24 hours and one
day differ at every switch of a zone.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from duly._core.instants import US_MAX, as_span, as_utc, format_instant, from_us, to_us
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Every"]

MICROSECOND = timedelta(microseconds=1)


class Every:
    """Every *interval* of elapsed time, counted from *anchor*, which is the first nominal time.

    Attributes:
        interval: The time from one nominal time to the next.
        anchor: The first nominal time, aware UTC.
    """

    __slots__ = ("_anchor_us", "_step_us", "anchor", "interval")

    def __init__(self, interval: timedelta, *, anchor: datetime | None = None) -> None:
        """Check the definition.

        Args:
            interval: Positive, whole microseconds.
            anchor: An aware datetime in any zone.

        Raises:
            ScheduleInvalid: The interval is no positive timedelta, or the anchor is missing,
                naive or no datetime.
        """
        self.interval = _interval(interval)
        self.anchor = _anchor(anchor)
        self._step_us = self.interval // MICROSECOND
        self._anchor_us = to_us(self.anchor)

    @property
    def text(self) -> str:
        """The canonical description, such as `every 900s; anchor=2026-01-01T00:00:00Z`."""
        seconds, us = divmod(self._step_us, 1_000_000)
        fraction = f".{us:06d}" if us else ""
        return f"every {seconds}{fraction}s; anchor={format_instant(self.anchor)}"

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*): lazy, aware UTC, strictly increasing.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        start, end = as_span(start, end)
        return self._between(self._at_or_after(to_us(start)), end)

    def stretches(self, start: datetime, end: datetime) -> Iterator[range]:
        """As `between`, in microseconds: all of them are one range.

        Raises:
            NominalTimeInvalid: A bound is naive, or *start* is after *end*.
        """
        start, end = as_span(start, end)
        found = range(self._at_or_after(to_us(start)), to_us(end), self._step_us)
        if found:
            yield found

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None past the year 9999.

        Raises:
            NominalTimeInvalid: *after* is naive.
        """
        next_us = self._at_or_after(to_us(as_utc(after, name="after")) + 1)
        return from_us(next_us) if next_us <= US_MAX else None

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the anchor.

        Raises:
            NominalTimeInvalid: *at* is naive.
        """
        at_us = to_us(as_utc(at, name="at"))
        if at_us < self._anchor_us:
            return None
        return from_us(at_us - (at_us - self._anchor_us) % self._step_us)

    def _between(self, first_us: int, end: datetime) -> Iterator[datetime]:
        at, interval = (from_us(first_us) if first_us <= US_MAX else end), self.interval
        try:
            while at < end:
                yield at
                at += interval
        except OverflowError:
            return

    def _at_or_after(self, us: int) -> int:
        steps = max(0, -((self._anchor_us - us) // self._step_us))
        return self._anchor_us + steps * self._step_us

    def __repr__(self) -> str:
        return f"Every({self.interval!r}, anchor={self.anchor!r})"

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Every) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)


def _interval(interval: object) -> timedelta:
    if not isinstance(interval, timedelta):
        raise ScheduleInvalid(
            f"an interval must be a timedelta, not {shown(interval)}; "
            "give whole microseconds, such as timedelta(minutes=15)"
        )
    if interval < MICROSECOND:
        raise ScheduleInvalid(
            f"an interval must be positive, not {interval}; give one such as timedelta(minutes=15)"
        )
    return timedelta(interval.days, interval.seconds, interval.microseconds)


def _anchor(anchor: object) -> datetime:
    if anchor is None:
        raise ScheduleInvalid(
            "Every needs an anchor: without a fixed first nominal time each process would count "
            "from its own start and two would never agree on a key; "
            "give anchor=datetime(2026, 1, 1, tzinfo=timezone.utc) or another fixed instant"
        )
    if not isinstance(anchor, datetime):
        raise ScheduleInvalid(
            f"an anchor must be an aware datetime, not {shown(anchor)}; "
            "give one such as datetime(2026, 1, 1, tzinfo=timezone.utc)"
        )
    try:
        return as_utc(anchor, name="anchor")
    except NominalTimeInvalid as error:
        raise ScheduleInvalid(str(error)) from None
