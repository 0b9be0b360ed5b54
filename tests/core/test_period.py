"""Business periods: the period is the identity, whatever time of day starts it."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core import timing
from duly._core.schedules.period import PERIODS
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Cron, Every, from_text
from duly.schedules.period import Periods

VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
POLICIES: dict[str, dict[str, Any]] = {
    "vixie": {},
    "literal": {"gap": "skip", "fold": "both"},
    "skip_first": {"gap": "skip", "fold": "first"},
}
# One due time in each period, at an hour that many zones skip or repeat.
ONCE = {
    "hour": "20 * * * *",
    "day": "30 2 * * *",
    "week": "30 0 * * SUN",
    "month": "30 23 28 * *",
    "quarter": "30 1 28 3,6,9,10 *",
    "year": "30 2 25 10 *",
}
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Pacific/Apia")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def made(period: Any, expression: str, zone: str = "Europe/Berlin", offset: int = 0) -> Any:
    return Periods(Cron(expression, zone), period, offset=offset, timezone=zone)


@pytest.mark.parametrize(
    "row", [r for r in VECTORS["other"] if r["kind"] == "period"], ids=lambda row: row["id"]
)
def test_interval_without_a_period_is_that_of_its_vector(row: dict[str, Any]) -> None:
    """Without `period=` an occurrence is about the time since the one before it."""
    about = row["input"]
    schedule = Cron(about["expr"], about["zone"], **POLICIES[about["policy"]])
    _, *found = schedule.between(utc(about["start"]), utc(about["end"]))

    intervals = [timing.interval(schedule, nominal_time) for nominal_time in found]

    expected = [[utc(bound) for bound in bounds] for bounds in row["expect"]["periods"]]
    assert [[i.start, i.end] for i in intervals if i] == expected
    hours = [(i.end - i.start).total_seconds() / 3600 for i in intervals if i]
    assert hours == row["expect"]["hours"]


def test_first_nominal_time_has_no_interval() -> None:
    """Before an anchor there is nothing that an interval could start from."""
    anchor = utc("2026-01-01T00:00Z")

    assert timing.interval(Every(timedelta(hours=1), anchor=anchor), anchor) is None


@pytest.mark.parametrize(
    ("period", "expression", "now", "nominal", "end"),
    [
        ("hour", "5 * * * *", "2026-10-25T12:30Z", "2026-10-25T11:00Z", "2026-10-25T12:00Z"),
        ("day", "15 2 * * *", "2026-03-30T09:00Z", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("day", "15 2 * * *", "2026-03-29T00:59Z", "2026-03-26T23:00Z", "2026-03-27T23:00Z"),
        ("week", "0 9 * * MON", "2026-10-26T12:00Z", "2026-10-18T22:00Z", "2026-10-25T23:00Z"),
        ("month", "0 9 1 * *", "2026-11-01T08:00Z", "2026-09-30T22:00Z", "2026-10-31T23:00Z"),
        ("quarter", "0 9 5 */3 *", "2026-10-06T00:00Z", "2026-06-30T22:00Z", "2026-09-30T22:00Z"),
        ("year", "0 9 1 2 *", "2026-10-06T00:00Z", "2024-12-31T23:00Z", "2025-12-31T23:00Z"),
    ],
)
def test_period_before_the_due_time_is_the_nominal_time(
    period: Any, expression: str, now: str, nominal: str, end: str
) -> None:
    """With an offset of -1 a start is for the period that has just ended, in local days."""
    schedule = made(period, expression, offset=-1)

    newest = timing.newest_due(schedule, utc(now))

    assert newest == utc(nominal)
    assert timing.interval(schedule, utc(nominal)) == timing.Interval(utc(nominal), utc(end))


def test_moving_the_time_of_day_moves_no_nominal_time() -> None:
    """The day is credited once, whether it is started at 01:15 or at 02:15."""
    start, end = utc("2026-03-01T00:00Z"), utc("2026-12-01T00:00Z")

    early = list(made("day", "15 1 * * *", offset=-1).between(start, end))
    later = list(made("day", "15 2 * * *", offset=-1).between(start, end))

    assert early == later
    assert len(early) == 275


def test_due_time_is_when_the_schedule_starts_the_period() -> None:
    """A day that is for the day before is due the next morning, also after a switch."""
    schedule = made("day", "30 2 * * *", offset=-1)

    assert timing.due_time(schedule, utc("2026-03-27T23:00Z")) == utc("2026-03-29T01:00Z")
    assert timing.due_time(schedule, utc("2026-03-28T23:00Z")) == utc("2026-03-30T00:30Z")
    assert timing.shifted(schedule, utc("2026-03-27T23:00Z"))
    assert not timing.shifted(schedule, utc("2026-03-28T23:00Z"))


def test_time_that_a_gap_shifts_past_midnight_is_for_the_day_that_named_it() -> None:
    """23:30 did not exist on a Saturday in Greenland; Sunday's start is still Sunday's."""
    zone = "America/Scoresbysund"
    schedule = made("day", "30 23 * * *", zone)
    start, end = utc("2025-03-28T00:00Z"), utc("2025-04-01T12:00Z")

    days = [timing.local_date(schedule, zones.load(zone), t) for t in schedule.between(start, end)]

    assert [day.isoformat() for day in days] == [
        "2025-03-28", "2025-03-29", "2025-03-30", "2025-03-31", "2025-04-01",
    ]  # fmt: skip


@given(
    st.sampled_from(PERIODS),
    st.sampled_from(ZONES),
    st.integers(-3, 3),
    st.datetimes(datetime(1995, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),
    st.integers(1, 12),
)
def test_period_is_one_set_however_it_is_asked(
    period: Any, zone: str, offset: int, start: datetime, count: int
) -> None:
    """Walking forward, walking back and listing a span find the same, strictly increasing."""
    schedule = made(period, ONCE[period], zone, offset)

    forward = [start]
    for _ in range(count):
        forward.append(schedule.next(forward[-1]))
    del forward[0]
    back = [schedule.previous(forward[-1])]
    while len(back) < count:
        back.append(schedule.previous(back[-1] - timedelta(microseconds=1)))

    assert all(one < other for one, other in pairwise(forward))
    assert back[::-1] == forward
    span = schedule.between(start + timedelta(microseconds=1), forward[-1])
    assert [*span, forward[-1]] == forward
    for nominal_time in forward:
        due = schedule.due_time(nominal_time)
        assert schedule.schedule.previous(due) == due
        assert schedule.of_due(due) == nominal_time
        first, end = schedule.interval(nominal_time)
        assert first == nominal_time < end
        if offset == 0:
            assert first <= due < end or timing.shifted(schedule, nominal_time)


def test_each_repeated_hour_is_a_period_of_its_own() -> None:
    """A day of 25 hours has 25 hourly periods."""
    schedule = made("hour", "20 * * * *")

    found = list(schedule.between(utc("2026-10-24T22:00Z"), utc("2026-10-25T23:00Z")))

    assert len(found) == 25
    assert all(other - one == timedelta(hours=1) for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("period", "schedule", "message"),
    [
        (
            "day",
            Cron("0 2,14 * * *"),
            r"once in a day.* at 2000-01-01T02:00:00Z and at 2000-01-01T14",
        ),
        ("week", Cron("0 9 * * MON,FRI"), "fires once in a week"),
        ("month", Cron("0 9 1,15 * *"), "fires once in a month"),
        ("quarter", Cron("0 9 1 * *"), "fires once in a quarter"),
        ("year", Cron("0 9 1 */6 *"), "fires once in a year"),
        ("hour", Cron("*/30 * * * *"), "fires once in an hour"),
        ("day", Cron("30 2 * * *", fold="both"), 'where the clock is set back; .*fold="first"'),
        ("day", Every(timedelta(hours=23), anchor=utc("2026-01-01T00:30Z")), "once in a day"),
        ("decade", Cron("0 0 1 1 *"), "allowed are hour, day, week, month, quarter, year"),
    ],
)
def test_period_that_does_not_fit_its_schedule_is_refused(
    period: Any, schedule: Any, message: str
) -> None:
    """Two due times in one period would be one occurrence started twice."""
    with pytest.raises(ScheduleInvalid, match=message):
        Periods(schedule, period, timezone="UTC")


@pytest.mark.parametrize("offset", [401, -401, 1.0, True, "1", None])
def test_period_offset_out_of_bounds_is_refused(offset: Any) -> None:
    """An offset is a small whole number of periods."""
    with pytest.raises(ScheduleInvalid, match=r"period_offset .* is not allowed; give 0 for"):
        made("day", "0 0 * * *", offset=offset)


@pytest.mark.parametrize("period", PERIODS)
@pytest.mark.parametrize("offset", [-400, -1, 0, 1, 400])
def test_period_at_the_ends_of_the_calendar_ends(period: Any, offset: int) -> None:
    """Nothing is searched beyond the years 1 and 9999."""
    for zone in ("Pacific/Auckland", "UTC", "America/Los_Angeles"):
        schedule = made(period, ONCE[period], zone, offset)
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

        newest, oldest = schedule.previous(last), schedule.next(first)

        assert newest is not None
        assert newest.year >= 9998 - 400
        assert oldest is not None
        assert oldest.year <= 2 + 400
        assert schedule.next(last) is None
        assert schedule.previous(first) in {None, first}


def test_period_survives_text_and_pickling() -> None:
    """The text that a ledger keeps makes the schedule again."""
    schedule = made("day", "15 2 * * *", offset=-1)

    assert schedule.text == (
        "period day -1; zone=Europe/Berlin; "
        "of=cron 15 2 * * *; zone=Europe/Berlin; gap=next; fold=first"
    )
    assert from_text(schedule.text) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes
    assert hash(from_text(schedule.text)) == hash(schedule)


@pytest.mark.parametrize("ask", ["between", "next", "previous"])
def test_period_asked_with_a_naive_time_refuses_at_once(ask: str) -> None:
    """A naive time names no instant."""
    schedule = made("day", "15 2 * * *")
    naive = datetime(2026, 1, 1)

    with pytest.raises(NominalTimeInvalid, match="is naive"):
        getattr(schedule, ask)(*([naive, naive] if ask == "between" else [naive]))
