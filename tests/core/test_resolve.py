"""Resolving: which nominal time a start means, and what is said when it means none."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core.instants import parse_instant
from duly._core.resolve import Nominal, nominal_time
from duly.errors import NominalTimeInvalid, NotDue, OffSchedule
from duly.schedules import Cron, Every

if TYPE_CHECKING:
    from collections.abc import Iterator

BERLIN = zones.load("Europe/Berlin")
DAILY = Cron("30 2 * * *", "Europe/Berlin")
NOW = datetime(2026, 9, 13, 12, tzinfo=UTC)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
FLOORS = [row for row in VECTORS["other"] if row["kind"] == "resolve" and "actual" in row["input"]]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def resolved(at: Any, schedule: Any = DAILY, **others: Any) -> Nominal:
    arguments: dict[str, Any] = {"zone": BERLIN, "now": NOW, **others}
    return nominal_time(at, schedule, **arguments)


@pytest.mark.parametrize("row", FLOORS, ids=lambda row: row["id"])
def test_start_without_at_floors_as_its_vector_says(row: dict[str, Any]) -> None:
    """However late or early a starter is, floor(now) on the schedule is the nominal time."""
    given_ = row["input"]

    found = resolved(
        None,
        Cron(given_["expr"], given_["zone"]),
        now=utc(given_["actual"]),
        tolerance=timedelta(seconds=given_["early_tolerance_s"]),
    )

    assert found == Nominal(
        utc(row["expect"]["nominal"]), "schedule", utc(row["expect"]["nominal"])
    )


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2016-12-31T23:59:58.999999Z", "2016-12-01T00:00Z"),
        ("2016-12-31T23:59:59Z", "2017-01-01T00:00Z"),
        ("2016-12-31T23:59:59.600Z", "2017-01-01T00:00Z"),
        ("2017-01-01T00:00:00Z", "2017-01-01T00:00Z"),
    ],
)
def test_start_up_to_a_second_early_means_the_period_it_came_for(now: str, expected: str) -> None:
    """A clock that is being set, or a leap second, does not give the previous period."""
    assert resolved(None, Cron("0 0 1 * *"), now=utc(now)).time == utc(expected)


def test_start_without_at_and_schedule_says_that_at_is_required() -> None:
    """A job without a schedule is never due by itself."""
    with pytest.raises(
        NominalTimeInvalid, match=r"no schedule.* give at= \(--at\) an aware instant"
    ):
        resolved(None, None)


def test_start_before_anything_is_due_names_the_first() -> None:
    """Nothing is due before the anchor, and the message says when it will be."""
    schedule = Every(timedelta(hours=1), anchor=NOW + timedelta(hours=1))

    with pytest.raises(NotDue, match=r"the first is 2026-09-13T13:00:00Z; start it then") as caught:
        resolved(None, schedule)

    assert caught.value.details["due_at"] == "2026-09-13T13:00:00Z"


@pytest.mark.parametrize(
    "at",
    [
        utc("2026-09-13T00:30Z"),
        datetime(2026, 9, 13, 2, 30, tzinfo=BERLIN),
        "2026-09-13T00:30:00Z",
        "2026-09-13T00:30:00.000000Z",
        "2026-09-13T00:30:00.0Z",
        "2026-09-13T02:30:00+02:00",
        "2026-09-12T19:30:00-05:00",
        "2026-09-13T00:30:00-00:00",
        "2026-09-13",
        date(2026, 9, 13),
    ],
)
def test_start_with_one_instant_in_any_form_gives_one_nominal_time(at: Any) -> None:
    """A datetime, text with any offset, and the local date name the same occurrence."""
    assert resolved(at) == Nominal(utc("2026-09-13T00:30Z"), "explicit", utc("2026-09-13T00:30Z"))


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("2026-09-13T00:30:00", r"has no offset.* add Z, or an offset such as \+02:00"),
        (datetime(2026, 9, 13, 0, 30), r"is naive"),
        ("2026-09-13t00:30:00Z", r"lower-case t or z; write T and Z"),
        ("2026-09-13T00:30:00z", r"lower-case t or z; write T and Z"),
        ("2026-09-13 00:30:00Z", r"by a space; write T between them"),
        ("2026-09-13T00:30Z", r"is not RFC 3339 text; write it as 2026-09-13T00:00:00Z"),
        ("2026-09-13T00:30:00.1234567Z", r"more than six digits"),
        ("2026-09-13T00:30:00,5Z", r"is not RFC 3339"),
        ("2026-09-13T00:30:00.Z", r"is not RFC 3339"),
        ("2026-09-13T00:30:60Z", r"is a leap second"),
        ("2016-12-31T23:59:60Z", r"is a leap second"),
        ("2026-09-13T24:00:00Z", r"has the hour 24; write 00:00:00 of the next day"),
        ("2026-09-13T25:00:00Z", r"is no date and time of the calendar"),
        ("2026-02-30T00:00:00Z", r"is no date and time of the calendar"),
        ("2026-09-13T00:30:00+2:00", r"is not RFC 3339"),
        ("2026-09-13T00:30:00+0200", r"is not RFC 3339"),
        ("2026-09-13T00:30:00+24:00", r"offset beyond 23:59"),
        ("2026-09-13T00:30:00+02:60", r"offset beyond 23:59"),
        ("0001-01-01T00:00:00+01:00", r"within the years 1 to 9999"),
        ("2026-09-13T00:30:00Z\n", r"is not RFC 3339"),
        ("\u0662026-09-13T00:30:00Z", r"is not RFC 3339"),
        ("2026-02-30", r"is no date of the calendar"),
        ("2026-13-01", r"is no date of the calendar"),
        ("13.09.2026", r"is not RFC 3339"),
        ("yesterday", r"is not RFC 3339"),
        ("", r"is not RFC 3339"),
        ("9" * 5_000, r"is not RFC 3339"),
        (1_789_259_400, r"must be an instant or a date, not 1789259400"),
        (b"2026-09-13", r"must be an instant or a date"),
    ],
)
def test_start_with_text_that_names_no_instant_is_refused(at: Any, message: str) -> None:
    """Nothing is guessed; the message is one line that says what to write."""
    with pytest.raises(NominalTimeInvalid, match=message) as caught:
        resolved(at, None)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


@given(st.datetimes(timezones=st.just(UTC)))
def test_instant_written_by_python_in_utc_is_read_back(instant: datetime) -> None:
    """What isoformat writes for an instant in UTC is RFC 3339 text."""
    assert parse_instant(instant.isoformat()) == instant


def test_start_off_the_schedule_is_refused_with_both_neighbours() -> None:
    """A wrong minute would settle a key that no schedule expects."""
    with pytest.raises(OffSchedule) as caught:
        resolved("2026-09-13T00:31:00Z")

    assert caught.value.message == (
        "2026-09-13T00:31:00Z is not a nominal time of cron 30 2 * * *; zone=Europe/Berlin; "
        "gap=next; fold=first; the nearest are 2026-09-13T00:30:00Z and 2026-09-14T00:30:00Z, "
        "or pass off_schedule=True (--off-schedule)"
    )
    assert caught.value.details == {
        "before": "2026-09-13T00:30:00Z",
        "after": "2026-09-14T00:30:00Z",
    }


def test_start_one_microsecond_off_the_schedule_is_refused() -> None:
    """An instant is on the schedule exactly or not at all."""
    with pytest.raises(OffSchedule):
        resolved(utc("2026-09-13T00:30:00.000001Z"))


def test_start_off_the_schedule_on_purpose_keeps_its_instant() -> None:
    """With off_schedule the instant is taken as it was given."""
    at = utc("2026-09-13T00:31Z")

    assert resolved(at, off_schedule=True) == Nominal(at, "explicit", at)


def test_start_of_the_second_repeated_hour_is_off_a_schedule_that_runs_once() -> None:
    """The second 02:30 of a repeated hour is no nominal time of its own."""
    with pytest.raises(OffSchedule, match=r"2026-10-25T00:30:00Z and 2026-10-26T01:30:00Z"):
        resolved("2026-10-25T01:30:00Z", now=utc("2026-10-26T00:00Z"))


def test_start_in_the_future_is_refused_with_the_time_it_is_due() -> None:
    """A start that comes too soon must not use up tomorrow's key."""
    with pytest.raises(NotDue, match=r"start it from 2026-09-14T00:30:00Z on") as caught:
        resolved("2026-09-14T00:30:00Z")

    assert caught.value.details["due_at"] == "2026-09-14T00:30:00Z"
    assert resolved("2026-09-14T00:30:00Z", early=True).time == utc("2026-09-14T00:30Z")


@pytest.mark.parametrize(
    ("now", "due"),
    [
        ("2026-09-13T00:29:58.999999Z", False),
        ("2026-09-13T00:29:59Z", True),
        ("2026-09-13T00:30:00Z", True),
    ],
)
def test_start_within_the_tolerance_is_due(now: str, due: bool) -> None:
    """Up to the tolerance an instant that was given is as due as the schedule's own."""
    if due:
        assert resolved("2026-09-13", now=utc(now)).time == utc("2026-09-13T00:30Z")
    else:
        with pytest.raises(NotDue):
            resolved("2026-09-13", now=utc(now))


def test_start_in_the_future_and_off_the_schedule_is_off_the_schedule_first() -> None:
    """Early alone does not make an instant a nominal time."""
    with pytest.raises(OffSchedule):
        resolved("2026-09-14T00:31:00Z", early=True)
    with pytest.raises(NotDue):
        resolved("2026-09-14T00:31:00Z", off_schedule=True)


def test_start_of_a_job_without_a_schedule_takes_any_instant_of_the_past() -> None:
    """Without a schedule any aware instant is a nominal time, but not one in the future."""
    at = utc("2026-09-13T00:31:07.000001Z")

    assert resolved(at, None) == Nominal(at, "explicit", at)
    with pytest.raises(NotDue):
        resolved(NOW + timedelta(seconds=2), None)
    with pytest.raises(NominalTimeInvalid, match=r"no schedule, so the date 2026-09-13"):
        resolved("2026-09-13", None)


def test_start_with_a_date_of_several_nominal_times_lists_five_and_the_count() -> None:
    """A date that names several is refused with the choices."""
    with pytest.raises(NominalTimeInvalid) as caught:
        resolved("2026-10-25", Cron("0 * * * *", "Europe/Berlin"), now=utc("2026-10-27T00:00Z"))

    assert caught.value.message == (
        "2026-10-25 has 25 nominal times of cron 0 * * * *; zone=Europe/Berlin; gap=skip; "
        "fold=both; give one of 2026-10-24T22:00:00Z, 2026-10-24T23:00:00Z, "
        "2026-10-25T00:00:00Z, 2026-10-25T01:00:00Z, 2026-10-25T02:00:00Z, …"
    )
    assert caught.value.details["count"] == 25
    assert len(caught.value.details["choices"]) == 5


def test_start_with_a_date_of_two_nominal_times_lists_both() -> None:
    """A short list of choices is complete."""
    with pytest.raises(NominalTimeInvalid, match=r"has 2 .*T04:00:00Z, 2026-09-13T16:00:00Z$"):
        resolved("2026-09-13", Cron("0 6,18 * * *", "Europe/Berlin"))


def test_start_with_a_date_of_very_many_nominal_times_ends() -> None:
    """Counting the choices is bounded."""
    schedule = Every(timedelta(microseconds=1), anchor=utc("2020-01-01T00:00Z"))

    with pytest.raises(NominalTimeInvalid, match="has over 1000 nominal times"):
        resolved("2026-09-13", schedule)


def test_start_with_a_date_of_no_nominal_time_names_the_neighbours() -> None:
    """A Sunday of a weekday job names nothing, and the message says what is near."""
    with pytest.raises(
        NominalTimeInvalid,
        match=r"no nominal time on 2026-09-13; the nearest are 2026-09-11.* and 2026-09-14",
    ):
        resolved("2026-09-13", Cron("0 9 * * 1-5", "Europe/Berlin"))


@pytest.mark.parametrize(
    ("zone", "expression", "day", "expected"),
    [
        ("Pacific/Auckland", "0 1 * * *", "2026-09-13", "2026-09-12T13:00Z"),
        ("America/Los_Angeles", "0 23 * * *", "2026-09-12", "2026-09-13T06:00Z"),
        ("America/Sao_Paulo", "@daily", "2018-11-04", "2018-11-04T03:00Z"),
        ("Asia/Almaty", "30 23 * * *", "2024-02-29", "2024-02-29T17:30Z"),
        ("America/St_Johns", "30 23 * * *", "2007-11-03", "2007-11-04T02:00Z"),
        ("America/St_Johns", "0 0 * * *", "2007-11-03", "2007-11-03T02:30Z"),
        ("America/St_Johns", "0 0 * * *", "2007-11-04", "2007-11-04T02:30Z"),
        ("Europe/Berlin", "30 2 * * *", "2026-03-29", "2026-03-29T01:00Z"),
    ],
)
def test_start_with_a_local_date_is_read_in_the_zone_of_the_job(
    zone: str, expression: str, day: str, expected: str
) -> None:
    """A date is the job's own calendar day, at switches and across midnight too."""
    found = resolved(day, Cron(expression, zone), zone=zones.load(zone))

    assert found == Nominal(utc(expected), "explicit", utc(expected))


def test_start_with_a_second_fold_is_found_on_its_own_date() -> None:
    """A repeated hour before midnight belongs to the date that its clock shows."""
    schedule = Cron("30 23 * * *", "America/St_Johns", fold="last")

    found = resolved("2007-11-03", schedule, zone=zones.load("America/St_Johns"))

    assert found.time == utc("2007-11-04T03:00Z")


@pytest.mark.parametrize(
    ("gap", "expected"), [("next", "2011-12-30T10:00Z"), ("shift", "2011-12-30T19:00Z")]
)
def test_start_with_a_date_that_the_zone_skipped_means_what_the_schedule_made_of_it(
    gap: Any, expected: str
) -> None:
    """Samoa had no 30 December 2011; its 09:00 was moved, not forgotten."""
    apia = zones.load("Pacific/Apia")

    found = resolved("2011-12-30", Cron("0 9 * * *", "Pacific/Apia", gap=gap), zone=apia)

    assert found.time == utc(expected)


def test_start_with_a_date_that_the_schedule_skipped_names_nothing() -> None:
    """With gap="skip" nothing was named on the day that Samoa did not have."""
    apia = zones.load("Pacific/Apia")

    with pytest.raises(NominalTimeInvalid, match="no nominal time on 2011-12-30"):
        resolved("2011-12-30", Cron("0 9 * * *", "Pacific/Apia", gap="skip"), zone=apia)


@pytest.mark.parametrize(
    ("zone", "day"), [("America/Sao_Paulo", "2018-11-04"), ("America/St_Johns", "2007-11-03")]
)
def test_start_with_a_date_asks_the_schedule_for_that_day_alone(zone: str, day: str) -> None:
    """A date at a switch does not make a schedule count from the year 1."""
    asked = []

    class Watched(Cron):
        def walls(self, first: datetime, last: datetime) -> Iterator[datetime]:
            asked.append(last - first)
            return super().walls(first, last)

    resolved(day, Watched("0 12 * * *", zone), zone=zones.load(zone))

    assert len(asked) == 1
    assert asked[0] < timedelta(days=1)


@pytest.mark.parametrize("day", ["0001-01-01", "9999-12-31"])
def test_start_with_a_date_at_the_end_of_the_calendar_does_not_break(day: str) -> None:
    """The first and the last date are dates like any other."""
    for name in ("UTC", "Asia/Tokyo", "America/New_York"):
        zone = zones.load(name)
        found = resolved(day, Cron("0 12 * * *", name), zone=zone, early=True)
        assert found.time.astimezone(zone).date() == date.fromisoformat(day)


def test_start_with_a_naive_now_is_refused() -> None:
    """The caller's clock is an instant."""
    with pytest.raises(NominalTimeInvalid, match=r"^now .* naive"):
        resolved(None, now=NOW.replace(tzinfo=None))
