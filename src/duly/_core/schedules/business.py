"""Business days: the days of another schedule, dropped or moved by a calendar.

Decides where a day goes that is no business day. A day moves whole, with its times, and the
zone's rules are those of the schedule it comes from. Must never guess about a year that the
calendar does not know: such a day names nothing, and neither does one that would move there.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from duly._core.schedules.wall import WallSchedule
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta

    from duly._core.schedules import Schedule
    from duly._core.schedules.wall import WallDays

__all__ = ["SHIFTS", "BusinessCalendar", "BusinessSchedule", "Shift"]

# What a day does that is no business day: it is dropped, or moves to the nearest one before or
# after it.
Shift: TypeAlias = Literal["skip", "previous", "next"]
SHIFTS: Final[tuple[Shift, ...]] = ("skip", "previous", "next")

# No calendar that duly makes is closed for so long; the bound ends the search in any other.
SEARCH_MAX: Final = 500

NOWHERE: Final = 0  # date.toordinal() starts at 1


class BusinessCalendar(Protocol):
    """Which days are business days, in the years that the calendar knows."""

    @property
    def text(self) -> str:
        """How a canonical text names the calendar: enough to rebuild it."""
        ...

    @property
    def first_year(self) -> int:
        """The first year that it knows, 1 at least."""
        ...

    @property
    def last_year(self) -> int:
        """The last year that it knows, 9999 at most."""
        ...

    def is_business_day(self, day: date) -> bool:
        """Whether *day*, in a known year, is a business day."""
        ...


class BusinessSchedule(WallSchedule):
    """The wall times of another schedule, on business days only.

    Attributes:
        schedule: The schedule whose days are dropped or moved.
        calendar: Which days are business days.
        shift: Where the others go; days that meet on one business day are one day.
    """

    def __init__(self, schedule: Schedule, calendar: BusinessCalendar, *, shift: Shift) -> None:
        """Take the schedule's days, zone and rules.

        Raises:
            ScheduleInvalid: The schedule has no wall times or never fires on a business day, or
                *shift* is unknown.
        """
        _check_shift(shift)
        if not isinstance(schedule, WallSchedule):
            raise ScheduleInvalid(
                f"business days are taken from a schedule in local time, not {shown(schedule)}; "
                'give cron text such as "0 9 * * *", or a Cron, OnCalendar, RRule or Dates'
            )
        self.schedule = schedule
        self.calendar = calendar
        self.shift: Shift = shift
        super().__init__(
            _Days(schedule.days, calendar, shift),
            schedule.zone,
            gap=schedule.gap,
            fold=schedule.fold,
        )
        self._must_fire()

    @property
    def text(self) -> str:
        """The canonical description, such as `business DE next; of=cron 0 9 1 * *; zone=UTC; …`."""
        return f"business {self.calendar.text} {self.shift}; of={self.schedule.text}"

    def _must_fire(self) -> None:
        if not any(times for _, times in self.days.forward(datetime(1, 1, 1))):
            raise ScheduleInvalid(
                f"{shown(self.schedule.text)} never fires on a business day of calendar "
                f"{shown(self.calendar.text)} from {self.calendar.first_year} to "
                f'{self.calendar.last_year}; use shift="next" or "previous", or other days'
            )


class _Days:
    """The days of another schedule, each where the calendar sends it.

    Where days go never changes their order, so those that meet on one business day are
    neighbours, and the search in either direction is one walk over the other schedule's days.
    """

    def __init__(self, inner: WallDays, calendar: BusinessCalendar, shift: Shift) -> None:
        self._inner = inner
        self._goes_to = _Targets(calendar, shift)
        self._first = datetime(calendar.first_year, 1, 1)
        self._last = datetime(calendar.last_year, 12, 31)

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *first* on, to the last year that the calendar knows."""
        if first > self._last:
            return
        first = max(first, self._first)
        for target, times in self._walk(self._inner.forward(self._start(first, step=-1)), step=1):
            if target >= first.toordinal():
                yield datetime.fromordinal(target), times

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        """From *last* back, to the first year that the calendar knows."""
        if last < self._first:
            return
        last = min(last, self._last)
        for target, times in self._walk(self._inner.backward(self._start(last, step=1)), step=-1):
            if target <= last.toordinal():
                yield datetime.fromordinal(target), times

    def _start(self, bound: datetime, *, step: int) -> datetime:
        """The farthest day, against the walk's direction, that goes to *bound* or past it."""
        goes_to, at = self._goes_to, bound.toordinal()
        day = at
        while (target := goes_to(day + step)) != NOWHERE and (target - at) * step <= 0:
            day += step
        return datetime.fromordinal(day)

    def _walk(
        self, days: Iterable[tuple[datetime, Sequence[timedelta]]], *, step: int
    ) -> Iterator[tuple[int, Sequence[timedelta]]]:
        """The business days that *days* go to, in the same order, each with all its times."""
        goes_to = self._goes_to
        meeting: list[Sequence[timedelta]] = []
        meets_on = NOWHERE
        for midnight, times in days:
            if not self._first <= midnight <= self._last:
                break
            day = midnight.toordinal()
            target = goes_to(day)
            if meeting and target != meets_on:
                yield meets_on, _merged(meeting)
                meeting = []
            if target == NOWHERE:
                continue
            meeting.append(times)
            meets_on = target
            # Known to be the last that goes there: the other schedule's next may be years away.
            if goes_to(day + step) != target:
                yield target, _merged(meeting)
                meeting = []
        if meeting:
            yield meets_on, _merged(meeting)


class _Targets:
    """Where each day goes, by `date.toordinal()`; made a year at a time, and kept."""

    def __init__(self, calendar: BusinessCalendar, shift: Shift) -> None:
        self._calendar = calendar
        self._shift = shift
        self._first = date(calendar.first_year, 1, 1).toordinal()
        self._last = date(calendar.last_year, 12, 31).toordinal()
        self._known: dict[int, tuple[int, list[int]]] = {}

    def __call__(self, day: int) -> int:
        """The business day that *day* goes to, or `NOWHERE`."""
        if not self._first <= day <= self._last:
            return NOWHERE
        year = date.fromordinal(day).year
        first, targets = self._known.get(year) or self._of_year(year)
        return targets[day - first]

    def _of_year(self, year: int) -> tuple[int, list[int]]:
        first, last = date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
        days = range(first, last + 1)
        if self._shift == "next":
            targets = self._nearest(reversed(days), beyond=last + 1, step=1)[::-1]
        elif self._shift == "previous":
            targets = self._nearest(days, beyond=first - 1, step=-1)
        else:
            targets = [day if self._is_business_day(day) else NOWHERE for day in days]
        self._known[year] = first, targets
        return first, targets

    def _nearest(self, days: Iterable[int], *, beyond: int, step: int) -> list[int]:
        """Where each of *days* goes, walked from the side on which the business days lie."""
        targets: list[int] = []
        nearest: int | None = None  # the other year is asked only if a day needs it
        for day in days:
            if self._is_business_day(day):
                nearest = day
            elif nearest is None:
                nearest = self._search(beyond, step)
            targets.append(nearest)
        return targets

    def _search(self, day: int, step: int) -> int:
        """The first business day from *day* on; `NOWHERE` if the known years end before it."""
        for candidate in range(day, day + step * SEARCH_MAX, step):
            if not self._first <= candidate <= self._last:
                return NOWHERE
            if self._is_business_day(candidate):
                return candidate
        raise ScheduleInvalid(
            f"calendar {shown(self._calendar.text)} has no business day within {SEARCH_MAX} days "
            f'of {date.fromordinal(day)}; use shift="skip", or a calendar with business days'
        )

    def _is_business_day(self, day: int) -> bool:
        return self._calendar.is_business_day(date.fromordinal(day))


def _merged(meeting: list[Sequence[timedelta]]) -> Sequence[timedelta]:
    """The times of all days that meet, ascending, each once."""
    if len(meeting) == 1 or all(times is meeting[0] for times in meeting):
        return meeting[0]
    return sorted(set().union(*meeting))


def _check_shift(given: Any) -> None:
    if given not in SHIFTS:
        raise ScheduleInvalid(
            f"shift {shown(given)} is not allowed; allowed are {', '.join(SHIFTS)}"
        )
