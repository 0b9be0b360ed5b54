"""Every: a fixed interval of elapsed time from an anchor."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core.schedules import Schedule
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Every, from_text

MICROSECOND = timedelta(microseconds=1)
ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
ELAPSED = [
    row for row in VECTORS["other"] if row["kind"] == "interval" and "every_s" in row["input"]
]

intervals = st.timedeltas(MICROSECOND, timedelta(days=4_000))
times = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize("row", ELAPSED, ids=lambda row: row["id"])
def test_every_across_a_switch_gives_the_instants_of_its_vector(row: dict[str, Any]) -> None:
    """Elapsed time ignores the zone: 24 hours are not one day."""
    given_ = row["input"]
    schedule = Every(timedelta(seconds=given_["every_s"]), anchor=utc(given_["anchor"]))

    found = schedule.between(utc(given_["start"]), utc(given_["end"]))

    assert list(found) == [utc(text) for text in row["expect"]]


@given(intervals, times, st.integers(0, 5_000))
def test_every_nominal_time_is_anchor_plus_a_whole_number_of_steps(
    interval: timedelta, anchor: datetime, count: int
) -> None:
    """A nominal time is computed from the anchor, never from another one."""
    schedule = Every(interval, anchor=anchor)
    try:
        expected = anchor + count * interval
        following = expected + interval
    except OverflowError:
        return

    assert schedule.previous(expected) == expected
    assert schedule.next(expected - MICROSECOND) == expected
    assert schedule.next(expected) == following
    assert schedule.previous(following - MICROSECOND) == expected
    assert list(islice(schedule.between(expected, following), 3)) == [expected]


@given(intervals, times, times)
def test_every_asked_anywhere_brackets_the_instant(
    interval: timedelta, anchor: datetime, at: datetime
) -> None:
    """Previous is at or before, next strictly later, and nothing lies between them."""
    schedule = Every(interval, anchor=anchor)
    before, after = schedule.previous(at), schedule.next(at)

    assert (before is None) == (at < anchor)
    assert before is None or before <= at < before + interval
    assert after is None or after > at
    assert after is None or after == (anchor if before is None else before + interval)


def test_every_before_its_anchor_has_nothing() -> None:
    """The anchor is the first nominal time."""
    schedule = Every(timedelta(hours=1), anchor=ANCHOR)

    assert schedule.previous(ANCHOR - MICROSECOND) is None
    assert schedule.next(ANCHOR - timedelta(days=400)) == ANCHOR
    assert list(schedule.between(ANCHOR - timedelta(days=1), ANCHOR)) == []


def test_every_at_the_end_of_the_calendar_ends() -> None:
    """Past the year 9999 there is nothing, and no error."""
    last = datetime.max.replace(tzinfo=UTC)
    schedule = Every(timedelta(days=1), anchor=ANCHOR)

    assert schedule.next(last) is None
    assert len(list(schedule.between(last - timedelta(days=2), last))) == 2


def test_every_between_is_lazy() -> None:
    """A window of years at one microsecond is not a list in memory."""
    schedule = Every(MICROSECOND, anchor=ANCHOR)
    window = schedule.between(ANCHOR, datetime.max.replace(tzinfo=UTC))

    assert list(islice(window, 2)) == [ANCHOR, ANCHOR + MICROSECOND]


@pytest.mark.parametrize(
    ("interval", "message"),
    [
        (timedelta(0), r"must be positive"),
        (timedelta(seconds=-1), r"must be positive"),
        (timedelta(microseconds=0.4), r"must be positive"),
        (900, r"must be a timedelta, not 900"),
        (True, r"must be a timedelta"),
        ("15m", r"must be a timedelta"),
        (None, r"must be a timedelta"),
    ],
)
def test_every_interval_that_is_no_positive_duration_is_refused(
    interval: Any, message: str
) -> None:
    """An interval is a positive timedelta of whole microseconds."""
    with pytest.raises(ScheduleInvalid, match=message):
        Every(interval, anchor=ANCHOR)


def test_every_without_an_anchor_is_refused_with_the_reason() -> None:
    """Without an anchor each process would count from its own start."""
    with pytest.raises(ScheduleInvalid, match=r"two would never agree on a key; give anchor="):
        Every(timedelta(minutes=15))


@pytest.mark.parametrize(
    ("anchor", "message"),
    [
        (ANCHOR.replace(tzinfo=None), r"anchor .* is naive"),
        ("2026-01-01T00:00:00Z", r"must be an aware datetime"),
        (ANCHOR.date(), r"must be an aware datetime"),
    ],
)
def test_every_anchor_that_is_no_instant_is_refused(anchor: Any, message: str) -> None:
    """An anchor is one fixed instant."""
    with pytest.raises(ScheduleInvalid, match=message):
        Every(timedelta(minutes=15), anchor=anchor)


def test_every_anchor_in_another_zone_is_one_schedule() -> None:
    """The anchor is an instant, whatever zone it was given in."""
    local = ANCHOR.astimezone(zones.load("Europe/Berlin"))

    assert Every(timedelta(hours=1), anchor=local) == Every(timedelta(hours=1), anchor=ANCHOR)
    assert Every(timedelta(hours=1), anchor=local).anchor.tzinfo is UTC


def test_every_asked_with_a_naive_time_refuses_at_once() -> None:
    """A naive time is refused before anything is enumerated."""
    schedule, naive = Every(timedelta(hours=1), anchor=ANCHOR), ANCHOR.replace(tzinfo=None)

    with pytest.raises(NominalTimeInvalid, match=r"^start .* naive"):
        schedule.between(naive, ANCHOR)
    with pytest.raises(NominalTimeInvalid, match=r"^end .* naive"):
        schedule.between(ANCHOR, naive)
    with pytest.raises(NominalTimeInvalid, match=r"^after .* naive"):
        schedule.next(naive)
    with pytest.raises(NominalTimeInvalid, match=r"^at .* naive"):
        schedule.previous(naive)


@given(intervals, times)
def test_every_survives_text_and_pickling(interval: timedelta, anchor: datetime) -> None:
    """What is stored or sent to a worker is the same schedule again."""
    schedule = Every(interval, anchor=anchor)

    assert isinstance(schedule, Schedule)
    assert from_text(schedule.text) == schedule
    assert hash(from_text(schedule.text)) == hash(schedule)
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (timedelta(minutes=15), "every 900s; anchor=2026-01-01T00:00:00Z"),
        (timedelta(microseconds=1500), "every 0.001500s; anchor=2026-01-01T00:00:00Z"),
        (timedelta(days=1), "every 86400s; anchor=2026-01-01T00:00:00Z"),
    ],
)
def test_every_text_is_the_documented_one(interval: timedelta, text: str) -> None:
    """The canonical description is what the documentation says."""
    assert Every(interval, anchor=ANCHOR).text == text
    assert Every(interval, anchor=ANCHOR) != Every(interval, anchor=ANCHOR + MICROSECOND)
