"""Business days: where a calendar sends the days of another schedule."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duly._core.schedules.business import SEARCH_MAX, SHIFTS, BusinessSchedule
from duly.calendars import Calendar, load
from duly.errors import ScheduleInvalid
from duly.schedules import Cron, Every, from_text
from duly.schedules.business import BusinessDays
from duly.schedules.dates import Dates
from duly.schedules.on_calendar import OnCalendar
from duly.schedules.rrule import RRule

if TYPE_CHECKING:
    from duly._core.schedules import Schedule
    from duly._core.schedules.wall import WallSchedule

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def listed(schedule: WallSchedule, start: str, end: str) -> list[str]:
    """The local wall times of the nominal times in a window."""
    return [
        f"{found.astimezone(schedule.zone):%Y-%m-%d %H:%M}"
        for found in schedule.between(utc(start), utc(end))
    ]


@pytest.mark.parametrize(
    "row",
    [row for row in VECTORS["other"] if row["kind"] == "business"],
    ids=lambda row: row["id"],
)
def test_business_day_is_that_of_its_vector(row: dict[str, Any]) -> None:
    """The calendar's own answer and the schedule's are the vector's day."""
    asked, expected = row["input"], date.fromisoformat(row["expect"])
    calendar = load(asked["calendar"])
    if "after" in asked:
        after = date.fromisoformat(asked["after"])
        schedule = BusinessDays("0 0 * * *", calendar)
    else:
        after = date.fromisoformat(f"{asked['month']}-01") - DAY
        schedule = BusinessDays("0 0 1 * *", calendar, shift="next")
    found = schedule.next(datetime(after.year, after.month, after.day, tzinfo=UTC))

    assert calendar.next_business_day(after) == expected
    assert found is not None
    assert found.date() == expected


def test_business_vectors_are_all_there() -> None:
    """The three vectors of the kind are found, so that none passes by being absent."""
    assert {row["id"] for row in VECTORS["other"] if row["kind"] == "business"} == {
        "xnys-after-2026-07-02",
        "xnys-after-2025-12-24",
        "de-first-bd-2026-01",
    }


def test_first_business_day_of_the_month_keeps_its_time_of_day() -> None:
    """The first moves over a holiday and a weekend, with its wall time, in winter and summer."""
    schedule = BusinessDays("0 9 1 * *", calendar="DE", shift="next", timezone="Europe/Berlin")

    assert listed(schedule, "2026-01-01T00:00Z", "2026-09-01T00:00Z") == [
        "2026-01-02 09:00",
        "2026-02-02 09:00",
        "2026-03-02 09:00",
        "2026-04-01 09:00",
        "2026-05-04 09:00",
        "2026-06-01 09:00",
        "2026-07-01 09:00",
        "2026-08-03 09:00",
    ]


def test_last_business_day_of_the_month_moves_back_within_it() -> None:
    """Month ends on a weekend or a holiday move back; the year's end does not leave the year."""
    ends = "31 1,3,5,7,8,10,12"
    schedule = BusinessDays(f"0 18 {ends} *", "XNYS", "previous", "America/New_York")

    assert listed(schedule, "2027-01-01T00:00Z", "2028-01-02T00:00Z") == [
        "2027-01-29 18:00",
        "2027-03-31 18:00",
        "2027-05-28 18:00",
        "2027-07-30 18:00",
        "2027-08-31 18:00",
        "2027-10-29 18:00",
        "2027-12-31 18:00",
    ]


def test_last_business_day_by_the_word_of_cron_for_a_last_day() -> None:
    """`L` with `previous` is the last business day of each month."""
    schedule = BusinessDays("0 18 L * *", "DE", "previous", "Europe/Berlin")

    assert listed(schedule, "2026-01-01T00:00Z", "2026-07-01T00:00Z") == [
        "2026-01-30 18:00",
        "2026-02-27 18:00",
        "2026-03-31 18:00",
        "2026-04-30 18:00",
        "2026-05-29 18:00",
        "2026-06-30 18:00",
    ]


@pytest.mark.parametrize(
    "inner",
    [
        Cron("0 9 1 * *", "Europe/Berlin"),
        OnCalendar("*-*-01 09:00 Europe/Berlin"),
        RRule("FREQ=MONTHLY", start="2026-04-01T09:00:00", timezone="Europe/Berlin"),
        Dates(["2026-04-01", "2026-05-01", "2026-06-01"], at="09:00", timezone="Europe/Berlin"),
    ],
    ids=lambda inner: inner.text.partition(" ")[0],
)
def test_business_days_of_every_kind_in_local_time(inner: Schedule) -> None:
    """Whatever text named the days, they move alike, and the whole is read again."""
    schedule = BusinessDays(inner, "DE", "next")

    assert listed(schedule, "2026-03-31T00:00Z", "2026-06-30T00:00Z") == [
        "2026-04-01 09:00",
        "2026-05-04 09:00",
        "2026-06-01 09:00",
    ]
    assert from_text(schedule.text) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes


def test_every_business_day_leaves_out_weekends_and_holidays() -> None:
    """With `skip` a day is named or it is not; none moves."""
    schedule = BusinessDays("0 9 * * *", calendar="DE", timezone="Europe/Berlin")

    assert schedule.shift == "skip"
    assert listed(schedule, "2026-12-22T00:00Z", "2027-01-05T00:00Z") == [
        "2026-12-22 09:00",
        "2026-12-23 09:00",
        "2026-12-24 09:00",
        "2026-12-28 09:00",
        "2026-12-29 09:00",
        "2026-12-30 09:00",
        "2026-12-31 09:00",
        "2027-01-04 09:00",
    ]


def test_moved_day_obeys_the_zone_on_the_day_that_it_moves_to() -> None:
    """A time that moves onto a switch day is in its gap there; the wall time is the moved one."""
    # Saturday's 02:30 on Sunday 2026-03-29, when the clocks of Berlin skip it.
    calendar = Calendar("sundays", weekend=("SAT",))
    inner = Cron("30 2 28 3 *", "Europe/Berlin")
    schedule = BusinessDays(inner, calendar, "next")

    found = schedule.next(utc("2026-03-01T00:00Z"))

    assert found == utc("2026-03-29T01:00Z")
    assert schedule.wall_times(found) == (datetime(2026, 3, 29, 2, 30),)
    skipped = BusinessDays(Cron("30 2 28 3 *", "Europe/Berlin", gap="skip"), calendar, "next")
    assert skipped.next(utc("2026-03-01T00:00Z")) != found


@pytest.mark.parametrize("shift", SHIFTS)
def test_business_days_outside_the_years_known_name_nothing(shift: Any) -> None:
    """Neither a day of an unknown year nor one that would move there is named, in any direction."""
    # The first and the last day of the two years are holidays; Friday to Sunday is the weekend.
    calendar = Calendar(
        "two-years", holidays=["2026-01-01", "2027-12-30"], weekend=("FRI", "SAT", "SUN")
    )
    schedule = BusinessDays("0 12 * * *", calendar, shift)
    first, last = utc("2026-01-05T12:00Z"), utc("2027-12-29T12:00Z")

    found = list(schedule.between(utc("2020-01-01T00:00Z"), utc("2040-01-01T00:00Z")))

    assert (found[0], found[-1]) == (first, last)
    assert schedule.next(first - 3000 * DAY) == first
    assert schedule.next(last) is None
    assert schedule.next(last + 3000 * DAY) is None
    assert schedule.previous(first - MICROSECOND) is None
    assert schedule.previous(last + 3000 * DAY) == last


def test_schedule_on_a_calendar_of_the_library_ends_with_its_last_year() -> None:
    """Past the last year of the data there is nothing, rather than holidays taken for work."""
    schedule = BusinessDays("0 9 * * *", calendar="LK")
    end = datetime(schedule.calendar.last_year + 1, 1, 1, tzinfo=UTC)
    last = schedule.previous(end + 1000 * DAY)

    assert last is not None
    assert end - 20 * DAY < last < end
    assert schedule.next(last) is None
    assert list(schedule.between(end, end + 1000 * DAY)) == []


@pytest.mark.parametrize(
    ("calendar", "name"),
    [
        ("DE", "DE"),
        ("AU-NSW Western", "AU-NSW Western"),
        (Calendar("DE", base="DE"), "DE"),
        (
            Calendar("bank", base="DE-BY", holidays=["2026-12-24"], workdays=["2026-12-26"]),
            "bank(base=DE-BY; holidays=2026-12-24; workdays=2026-12-26)",
        ),
        (
            Calendar("x", weekend=("SUN", "FRI"), holidays=[date(2026, 5, 4), "2027-05-04"]),
            "x(weekend=FRI,SUN; holidays=2026-05-04,2027-05-04; years=2026-2027)",
        ),
        (Calendar("x", weekend=()), "x(weekend=; years=1901-2100)"),
    ],
)
@pytest.mark.parametrize("shift", SHIFTS)
def test_business_days_survive_text_pickling_and_repr(calendar: Any, name: str, shift: Any) -> None:
    """What is stored or sent to a worker is the same schedule again, calendar and all."""
    schedule = BusinessDays(Cron("0 9 1 * *", "Europe/Berlin"), calendar, shift)

    assert schedule.text == (
        f"business {name} {shift}; of=cron 0 9 1 * *; zone=Europe/Berlin; gap=next; fold=first"
    )
    rebuilt: tuple[Any, ...] = (
        from_text(schedule.text),
        pickle.loads(pickle.dumps(schedule)),  # noqa: S301 - our own bytes
        eval(repr(schedule)),  # noqa: S307 - our own text
    )
    for again in rebuilt:
        assert again == schedule
        assert again.calendar == schedule.calendar
        assert again.next(utc("2026-04-28T00:00Z")) == schedule.next(utc("2026-04-28T00:00Z"))


def test_business_days_of_business_days_obey_both_calendars() -> None:
    """A day must be one of both, and the text of both is read again."""
    both = BusinessDays(BusinessDays("0 9 * * *", "DE"), "XNYS")

    assert from_text(both.text) == both
    found = listed(both, "2026-04-30T00:00Z", "2026-05-05T00:00Z")
    assert found == ["2026-04-30 09:00", "2026-05-04 09:00"]
    assert listed(both, "2026-05-25T00:00Z", "2026-05-27T00:00Z") == ["2026-05-26 09:00"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0 9 * * *", "DE", "before"), r"shift 'before' is not allowed; .* skip, previous, next"),
        (("0 9 * * *", "DE", None), r"shift None is not allowed"),
        (("0 9 * * *", "de"), r"calendar 'de' is spelt otherwise; write DE"),
        (("0 9 * *", "DE"), r"4 fields"),
        (("0 9 * * *", None), r"a calendar is a name or a duly.Calendar, not None"),
        ((None, "DE"), r"taken from a schedule in local time, not None; give cron text"),
        (
            (Every(DAY, anchor=datetime(2026, 1, 1, tzinfo=UTC)), "DE"),
            r"taken from a schedule in local time, not a value of type Every",
        ),
        ((Dates(["2026-01-01T00:00:00Z"]), "DE"), r"in local time, not a value of type"),
        ((Cron("0 9 * * *"), "DE", "skip", "UTC"), r"timezone 'UTC' is given twice"),
        (("0 9 * * *", "DE", "skip", "EST"), r"abbreviation"),
        (("0 9 25 12 *", "DE"), r"never fires on a business day of calendar 'DE' from 1991 to"),
    ],
)
def test_business_days_that_cannot_be_read_are_refused(
    arguments: tuple[Any, ...], message: str
) -> None:
    """A refusal is one line with what is allowed."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        BusinessDays(*arguments)

    assert "\n" not in caught.value.message


def test_search_without_a_business_day_ends() -> None:
    """A calendar that closes for years is refused by the search, which is bounded."""

    class Closed:
        text, first_year, last_year = "closed", 2020, 2030

        def is_business_day(self, day: date) -> bool:
            self.asked = getattr(self, "asked", 0) + 1
            return day.year < 2021

    calendar = Closed()
    schedule = BusinessSchedule(Cron("0 9 * * *"), calendar, shift="next")

    with pytest.raises(ScheduleInvalid, match=rf"no business day within {SEARCH_MAX} days"):
        schedule.next(utc("2022-01-01T00:00Z"))
    assert calendar.asked < 3 * 366 + SEARCH_MAX
