"""Calendar events of systemd as sets of wall times in a zone.

Decides which days and times an event names, and what happens at a switch of the zone: the rule
of `cron.py`, so that a job means the same whichever text it is written in. Must never copy what
systemd loses: 00:00 of `*:00/7`, the day of a time in a gap, the repeated hour.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly._core.schedules.wall import WallSchedule
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from zoneinfo import ZoneInfo

    from duly._core.schedules.on_calendar_event import CalendarEvent
    from duly._core.wall_time import Fold, Gap

__all__ = ["OnCalendarSchedule"]

# Before every year that a text can name.
BEFORE: Final = datetime(1969, 1, 1, tzinfo=UTC)


class OnCalendarSchedule(WallSchedule):
    """A calendar event, evaluated on the wall clock of one zone.

    Attributes:
        event: The fields.
    """

    def __init__(
        self,
        event: CalendarEvent,
        zone: ZoneInfo,
        *,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Take the event.

        Args:
            event: The fields, as `on_calendar_fields.parse` reads them.
            zone: A zone with a `key`.
            gap: By default cron's rule: `skip` if the hour, the minute or the second starts
                with `*` or repeats without end from 0, otherwise `next`.
            fold: By default cron's rule: `both` in those cases, otherwise `first`.

        Raises:
            ScheduleInvalid: A policy is unknown, or every time lies in a gap of the zone and is
                skipped.
        """
        elapsed = event.hour.starred or event.minute.starred or event.second.starred
        self.event = event
        super().__init__(
            _Days(event),
            zone,
            gap=gap if gap is not None else ("skip" if elapsed else "next"),
            fold=fold if fold is not None else ("both" if elapsed else "first"),
        )
        # Where the years end, all times can lie in gaps; a search without end would not tell.
        if event.last_year is not None and self.next(BEFORE) is None:
            raise ScheduleInvalid(
                f"OnCalendar {event.text} never fires: each time that it names lies in a gap of "
                f'{zone.key}, and gap is skip; choose another time, or gap="next"'
            )

    @property
    def expression(self) -> str:
        """The normal form of the event, without its zone."""
        return self.event.text

    @property
    def text(self) -> str:
        """The canonical text: `oncalendar *-*-* 02:00:00; zone=UTC; gap=next; fold=first`."""
        return (
            f"oncalendar {self.expression}; zone={self.zone.key}; gap={self.gap}; fold={self.fold}"
        )

    def __repr__(self) -> str:
        return (
            f"OnCalendar({self.expression!r}, timezone={self.zone.key!r}, "
            f"gap={self.gap!r}, fold={self.fold!r})"
        )


class _Days:
    """The days that an event names; each has the same times."""

    def __init__(self, event: CalendarEvent) -> None:
        self._event = event
        self._years = event.years
        self._months = event.month.values()
        self._known: dict[tuple[int, int], list[int]] = {}
        # Adding is several times faster than making: there may be one a second.
        hours = [timedelta(hours=hour) for hour in event.hour.values()]
        minutes = [timedelta(minutes=minute) for minute in event.minute.values()]
        seconds = [timedelta(microseconds=second) for second in event.second.values()]
        starts = [hour + minute for hour in hours for minute in minutes]
        self._times = [start + second for start in starts for second in seconds]

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *first* on, to the last year named, the year 9999 at most."""
        for year in self._years[bisect_left(self._years, first.year) :]:
            for month in self._months:
                if year == first.year and month < first.month:
                    continue
                for day in self._of_month(year, month):
                    midnight = datetime(year, month, day)
                    if midnight >= first:
                        yield midnight, self._times

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *last* back, to the first year named, the year 1 at least."""
        for year in reversed(self._years[: bisect_right(self._years, last.year)]):
            for month in reversed(self._months):
                if year == last.year and month > last.month:
                    continue
                for day in reversed(self._of_month(year, month)):
                    midnight = datetime(year, month, day)
                    if midnight <= last:
                        yield midnight, self._times

    def _of_month(self, year: int, month: int) -> list[int]:
        """The days of one month; a month is known by its first weekday and its length."""
        shape = monthrange(year, month)
        if shape not in self._known:
            self._known[shape] = self._event.days_of(*shape)
        return self._known[shape]
