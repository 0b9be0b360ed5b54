"""Dates: an explicit list of dates in a zone, or of instants."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import duly
from duly import zones
from duly._core import timing
from duly._core.schedules import Schedule
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import from_text
from duly.schedules.dates import Dates

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECOND = timedelta(microseconds=1)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def all_of(schedule: Schedule) -> list[datetime]:
    return list(schedule.between(FIRST, LAST))


def test_dates_at_a_time_of_day_are_instants_in_their_zone() -> None:
    """The order of the list does not matter, and the zone's offset is the day's own."""
    schedule = Dates(["2026-07-31", date(2026, 1, 31)], at="09:30", timezone="Europe/Berlin")

    assert all_of(schedule) == [utc("2026-01-31T08:30Z"), utc("2026-07-31T07:30Z")]


def test_dates_without_a_time_of_day_are_midnights_in_utc() -> None:
    """What is left out is midnight and UTC."""
    assert all_of(Dates(["2026-01-31"])) == [utc("2026-01-31T00:00Z")]
    assert all_of(Dates({date(2026, 1, 31)}, at="23:59:59")) == [utc("2026-01-31T23:59:59Z")]


def test_dates_as_instants_stand_for_themselves() -> None:
    """Aware datetimes and RFC 3339 texts mix: both are instants."""
    other = datetime(2026, 1, 31, 9, tzinfo=timezone(timedelta(hours=1)))
    schedule = Dates(["2026-03-01T00:00:00.5-08:00", other])

    assert all_of(schedule) == [utc("2026-01-31T08:00Z"), utc("2026-03-01T08:00:00.500000Z")]
    assert schedule.text == "dates 2026-01-31T08:00:00Z,2026-03-01T08:00:00.500000Z"


@pytest.mark.parametrize(
    ("day", "policy", "expected"),
    [
        ("2026-03-29", {}, ["2026-03-29T01:00Z"]),
        ("2026-03-29", {"gap": "next"}, ["2026-03-29T01:00Z"]),
        ("2026-03-29", {"gap": "shift"}, ["2026-03-29T01:30Z"]),
        ("2026-03-29", {"gap": "skip"}, []),
        ("2026-10-25", {}, ["2026-10-25T00:30Z"]),
        ("2026-10-25", {"fold": "last"}, ["2026-10-25T01:30Z"]),
        ("2026-10-25", {"fold": "both"}, ["2026-10-25T00:30Z", "2026-10-25T01:30Z"]),
    ],
)
def test_dates_at_a_switch_follow_their_policy(
    day: str, policy: dict[str, Any], expected: list[str]
) -> None:
    """A listed date is not lost by default, and runs once."""
    schedule = Dates([day, "2030-01-01"], at="02:30", timezone="Europe/Berlin", **policy)

    assert all_of(schedule) == [*map(utc, expected), utc("2030-01-01T01:30Z")]


def test_dates_as_instants_have_the_local_date_of_the_job() -> None:
    """A list of instants has no zone of its own, so a job may give any."""
    schedule = Dates(["2026-01-31T23:30:00Z", "2026-10-25T01:30:00Z"])
    berlin = zones.load("Europe/Berlin")

    assert timing.local_date(schedule, berlin, utc("2026-01-31T23:30Z")) == date(2026, 2, 1)
    # The second 02:30 of that night alone is listed.
    assert list(timing.on_date(schedule, berlin, date(2026, 10, 25))) == [utc("2026-10-25T01:30Z")]


days = st.lists(st.dates(date(1900, 1, 1), date(2100, 1, 1)), min_size=1, unique=True)
moments = st.lists(
    st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    min_size=1,
    unique=True,
)
policies = st.fixed_dictionaries(
    {"gap": st.sampled_from(["next", "shift"]), "fold": st.sampled_from(["first", "last", "both"])}
    | {"timezone": st.sampled_from(sorted(zones.names()))}
    | {"at": st.times().map(lambda at: at.replace(microsecond=0).isoformat())}
)


@given(st.tuples(days, policies) | st.tuples(moments, st.just({})))
def test_dates_are_one_set_however_they_are_asked(listed: tuple[Any, dict[str, Any]]) -> None:
    """Enumerating, stepping forward and stepping back agree, and text gives the same again."""
    schedule = Dates(listed[0], **listed[1])
    found = all_of(schedule)

    assert all(earlier < later for earlier, later in pairwise(found))
    if listed[1].get("timezone", "UTC") == "UTC":
        assert len(found) == len(listed[0])
    assert schedule.next(FIRST) == found[0]
    assert schedule.previous(LAST) == found[-1]
    assert schedule.next(found[-1]) is None
    assert schedule.previous(found[0] - MICROSECOND) is None
    for earlier, later in pairwise(found):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
        assert schedule.previous(later) == later
    assert list(schedule.between(found[0], found[-1])) == found[:-1]
    assert from_text(schedule.text) == schedule


@pytest.mark.parametrize(
    "schedule",
    [
        Dates(["2026-02-28", "2026-01-31"], at="09:00", timezone="Europe/Berlin", gap="skip"),
        Dates([datetime(2026, 1, 31, 9, tzinfo=UTC)]),
    ],
)
def test_dates_are_a_schedule_that_survives_text_and_pickling(schedule: Dates) -> None:
    """What is stored or sent to a worker is the same schedule again."""
    assert isinstance(schedule, Schedule)
    assert isinstance(schedule, Dates)
    assert from_text(schedule.text) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes
    assert eval(repr(schedule)) == schedule  # noqa: S307 - our own text
    assert hash(from_text(schedule.text)) == hash(schedule)
    assert schedule != Dates(["2026-02-28"])
    assert duly.Dates is Dates


def test_dates_have_one_text_whatever_their_order_and_sort() -> None:
    """Sorted, with every rule written out."""
    schedule = Dates([date(2026, 2, 28), "2026-01-31"], at="09:00", timezone="Europe/Berlin")

    assert schedule.text == (
        "dates 2026-01-31,2026-02-28; at=09:00:00; zone=Europe/Berlin; gap=next; fold=first"
    )
    assert schedule == Dates(("2026-01-31", "2026-02-28"), at="09:00:00", timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("dates", "options", "message"),
    [
        ([], {}, r"list of dates is empty, so it never fires; list at least one"),
        ("2026-01-31", {}, r"dates must be a list, not '2026-01-31'; write \[\"2026"),
        (None, {}, r"dates must be a list, not None"),
        ((day for day in ["2026-01-31"]), {}, r"dates must be a list, not a value of type gen"),
        (["2026-02-30"], {}, r"'2026-02-30' is no date of the calendar; give a date, or text"),
        (["2026-1-31"], {}, r"'2026-1-31' is no date of the calendar"),
        (["20260131"], {}, r"'20260131' is no date of the calendar"),
        ([20260131], {}, r"20260131 is no date"),
        (["2026-01-31", "2026-01-31"], {}, r"^2026-01-31 is listed twice; list it once"),
        (["2026-01-31", date(2026, 1, 31)], {}, r"^2026-01-31 is listed twice"),
        (
            ["2026-01-31T09:00:00+01:00", "2026-01-31T08:00:00Z"], {},
            r"^2026-01-31T08:00:00Z is listed twice",
        ),
        (["2026-01-31", "2026-01-31T08:00:00Z"], {}, r"T08:00:00Z' is an instant in a list of dat"),
        (["2026-01-31T08:00:00Z", "2026-01-31"], {}, r"'2026-01-31' is no instant, in a list of"),
        (["2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)], {}, r"is an instant in a list of"),
        ([datetime(2026, 1, 31, tzinfo=UTC), date(2026, 1, 31)], {}, r"is no instant, in a list"),
        ([datetime(2026, 1, 31)], {}, r"date 2026-01-31T00:00:00 is naive"),
        (["2026-01-31T09:00:00"], {}, r"has no offset, so it names no instant; add Z"),
        (["2026-01-31T25:00:00Z"], {}, r"no date and time of the calendar"),
        ([date.fromordinal(n) for n in range(1, 10_002)], {}, r"10001 dates are too many"),
        (["2026-01-31"], {"at": "9:00"}, r"at '9:00' is no time of day; write HH:MM or HH:MM:SS"),
        (["2026-01-31"], {"at": "24:00"}, r"at '24:00' is no time of day"),
        (["2026-01-31"], {"at": 9}, r"at 9 is no time of day"),
        (["2026-01-31"], {"timezone": "EST"}, r"abbreviation"),
        (["2026-01-31"], {"gap": "jump"}, r"gap 'jump' is not allowed"),
        (["2026-01-31"], {"fold": "twice"}, r"fold 'twice' is not allowed"),
        (["2026-01-31T08:00:00Z"], {"at": "09:00"}, r"at='09:00' is for dates, and the list has"),
        (["2026-01-31T08:00:00Z"], {"timezone": "Europe/Berlin"}, r"^timezone='Europe/Berlin' is"),
        (["2026-01-31T08:00:00Z"], {"gap": "skip"}, r"^gap='skip' is for dates"),
        (
            ["2026-03-29", "2027-03-28"],
            {"at": "02:30", "timezone": "Europe/Berlin", "gap": "skip"},
            r"Europe/Berlin skips 02:30:00 on each of the dates; give another at=, or gap='next'",
        ),
    ],
)  # fmt: skip
def test_dates_that_cannot_be_read_are_refused_by_name(
    dates: Any, options: dict[str, Any], message: str
) -> None:
    """A refusal is one line: what was listed, what is wrong with it, and what is allowed."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        Dates(dates, **options)

    assert "\n" not in caught.value.message


def test_dates_at_the_bound_are_taken() -> None:
    """Ten thousand dates make a schedule, whose text makes it again."""
    schedule = Dates([date.fromordinal(700_000 + n) for n in range(10_000)])

    assert len(all_of(schedule)) == 10_000
    assert from_text(schedule.text) == schedule


@pytest.mark.parametrize("listed", ["2026-01-31", "2026-01-31T08:00:00Z"])
@pytest.mark.parametrize("ask", ["start", "end", "after", "at"])
def test_dates_asked_with_a_naive_time_refuse_at_once(ask: str, listed: str) -> None:
    """A naive time is refused by its name."""
    schedule, aware = Dates([listed]), utc("2026-01-01T00:00Z")
    naive = aware.replace(tzinfo=None)
    calls: dict[str, Callable[[], object]] = {
        "start": lambda: schedule.between(naive, aware),
        "end": lambda: schedule.between(aware, naive),
        "after": lambda: schedule.next(naive),
        "at": lambda: schedule.previous(naive),
    }

    with pytest.raises(NominalTimeInvalid, match=f"^{ask} .* naive"):
        calls[ask]()
