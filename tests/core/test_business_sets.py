"""Business days, against their definition: each day alone, moved a day at a time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from duly import zones
from duly._core.schedules.business import SHIFTS, BusinessSchedule
from duly._core.schedules.wall import WallSchedule
from duly.calendars import Calendar
from duly.errors import ScheduleInvalid
from duly.schedules.business import BusinessDays

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


class Listed(WallSchedule):
    """Days and hours as they are given, in UTC."""

    def __init__(self, days: dict[date, list[int]]) -> None:
        self.given = {
            datetime(day.year, day.month, day.day): [timedelta(hours=hour) for hour in hours]
            for day, hours in sorted(days.items())
        }
        super().__init__(self, zones.load("UTC"), gap="skip", fold="both")

    @property
    def text(self) -> str:
        return "listed"

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        yield from ((day, times) for day, times in self.given.items() if day >= first)

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        yield from ((day, times) for day, times in reversed(self.given.items()) if day <= last)


def test_days_that_meet_on_one_business_day_are_one_day_with_all_times() -> None:
    """Saturday's, Sunday's and Monday's times stand on Monday, each once and in order."""
    calendar = Calendar("weekends", weekend=("SAT", "SUN"))
    inner = Listed({date(2026, 2, 1): [3, 9, 21], date(2026, 2, 2): [9, 21], date(2026, 2, 3): [9]})
    schedule = BusinessSchedule(inner, calendar, shift="next")

    assert list(schedule.between(utc("2026-02-01T00:00Z"), utc("2026-02-05T00:00Z"))) == [
        utc("2026-02-02T03:00Z"),
        utc("2026-02-02T09:00Z"),
        utc("2026-02-02T21:00Z"),
        utc("2026-02-03T09:00Z"),
    ]


some_days = st.dates(date(2025, 11, 20), date(2027, 2, 10))


def closing(off: set[date], weekend: set[str], years: tuple[int, int]) -> Calendar:
    known = [day for day in off if years[0] <= day.year <= years[1]]
    return Calendar("c", holidays=known, weekend=weekend, years=years)


calendars = st.builds(
    closing,
    st.sets(some_days, max_size=40),
    st.sets(st.sampled_from(["MON", "WED", "THU", "FRI", "SAT", "SUN"])),
    st.sampled_from([(2025, 2027), (2026, 2026)]),
)
schedules = st.builds(
    Listed,
    st.dictionaries(
        some_days,
        st.lists(st.sampled_from([0, 9, 23]), unique=True).map(sorted),
        min_size=1,
        max_size=60,
    ),
)


@pytest.mark.parametrize("shift", SHIFTS)
def test_business_days_from_any_day_begin_there(shift: Any) -> None:
    """From a closed day as from an open one, exactly the days on that side are given."""
    calendar = Calendar("c", holidays=["2026-05-14", "2026-05-15", "2026-05-25"])
    first = date(2026, 4, 25)
    inner = Listed({first + n * DAY: [n % 24] for n in range(50)})
    days = BusinessSchedule(inner, calendar, shift=shift).days
    every = named(days.forward(datetime(2026, 1, 1)))

    for n in range(-3, 60):
        bound = datetime(2026, 4, 25) + n * DAY
        assert named(days.forward(bound)) == [day for day in every if day[0] >= bound]
        assert named(days.backward(bound)) == [day for day in every[::-1] if day[0] <= bound]


@pytest.mark.parametrize("years", [(2026, 2026), (2025, 2027)])
def test_search_ends_where_the_calendar_does(years: tuple[int, int]) -> None:
    """A schedule that goes on for ever is not walked past the years that the calendar knows."""
    walked: list[int] = []

    class Endless(Listed):
        def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
            for day in super().forward(first):
                walked.append(day[0].year)
                yield day

        def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
            for day in super().backward(last):
                walked.append(day[0].year)
                yield day

    inner = Endless({date(2000, 1, 1) + n * 7 * DAY: [9] for n in range(3000)})
    schedule = BusinessSchedule(inner, Calendar("c", weekend=(), years=years), shift="next")

    assert schedule.previous(utc(f"{years[0]}-01-01T00:00Z")) is None
    assert schedule.next(utc(f"{years[1]}-12-31T23:00Z")) is None
    assert len(list(schedule.days.forward(datetime(1, 1, 1)))) >= 52
    assert len(list(schedule.days.backward(datetime(9999, 1, 1)))) >= 52
    assert set(walked) <= set(range(years[0] - 1, years[1] + 2))


def moved(inner: Listed, calendar: Calendar, shift: str) -> list[datetime]:
    """What the definition names: each day alone, moved a day at a time."""
    found: set[datetime] = set()
    for midnight, times in inner.given.items():
        day = midnight.date()
        if not calendar.first_year <= day.year <= calendar.last_year:
            continue
        if not calendar.is_business_day(day):
            to = {"next": calendar.next_business_day, "previous": calendar.previous_business_day}
            target = to[shift](day) if shift in to else None
        else:
            target = day
        if target is not None:
            start = datetime(target.year, target.month, target.day, tzinfo=UTC)
            found.update(start + time for time in times)
    return sorted(found)


@settings(deadline=None)  # the library is slow to load
@given(schedules, calendars, st.sampled_from(SHIFTS), some_days, some_days)
def test_business_days_are_one_set_however_they_are_asked(
    inner: Listed, calendar: Calendar, shift: Any, one: date, other: date
) -> None:
    """Listed, stepped and from either side, the days are those that the definition moves."""
    expected = moved(inner, calendar, shift)
    if not expected:
        with pytest.raises(ScheduleInvalid, match="never fires on a business day"):
            BusinessSchedule(inner, calendar, shift=shift)
        return
    schedule = BusinessSchedule(inner, calendar, shift=shift)
    start, end = utc("2025-01-01T00:00Z"), utc("2028-01-01T00:00Z")

    assert list(schedule.between(start, end)) == expected
    assert all(calendar.is_business_day(found.date()) for found in expected)
    for earlier, later in pairwise(expected):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
    assert schedule.previous(end) == expected[-1]
    if shift == "skip":
        assert set(expected) <= set(inner.between(start, end))
    low, high = (datetime(day.year, day.month, day.day) for day in sorted((one, other)))
    assert named(d for d in schedule.days.forward(low) if d[0] <= high) == named(
        reversed([d for d in schedule.days.backward(high) if d[0] >= low])
    )


def named(days: Iterable[tuple[datetime, Sequence[timedelta]]]) -> list[Any]:
    return [(midnight, list(times)) for midnight, times in days]


@settings(deadline=None)  # the library is slow to load
@given(
    st.sampled_from(["DE", "DE-BY", "US", "CN", "XNYS", "AE", "CN", "IL"]),
    st.sampled_from(SHIFTS),
    st.sampled_from(["0 9 1 * *", "30 2 * * *", "0 0 25-31 12 *", "0 */6 1,15 * FRI"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Dubai"]),
    st.datetimes(datetime(1999, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
)
@example("CN", "next", "0 9 1 * *", "Asia/Shanghai", utc("2026-01-01T00:00Z"))
def test_business_days_of_the_library_agree_in_every_direction(
    name: str, shift: Any, expression: str, zone: str, around: datetime
) -> None:
    """Every named day is a business day, and stepping gives what listing gives."""
    schedule = BusinessDays(expression, name, shift, zone)
    found = list(schedule.between(around, around + 70 * DAY))

    for earlier, later in pairwise(found):
        assert earlier < later
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
    for instant in found:
        walls = schedule.wall_times(instant)
        assert walls
        assert all(schedule.calendar.is_business_day(wall.date()) for wall in walls)
