"""Cron: which instants an expression names in a zone, however it is asked."""

from __future__ import annotations

import json
import pickle
from calendar import monthrange
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duly import zones
from duly._core.schedules import Schedule
from duly._core.schedules.cron import CronSchedule
from duly._core.schedules.cron_days import LENGTHS, CronDays
from duly._core.schedules.cron_fields import parse
from duly._core.schedules.wall import WallSchedule
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Cron, from_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duly._core.schedules.cron_fields import Expression

MICROSECOND = timedelta(microseconds=1)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
POLICIES: dict[str, dict[str, Any]] = {
    "literal": {"gap": "skip", "fold": "both"},
    "skip_first": {"gap": "skip", "fold": "first"},
    "skip_last": {"gap": "skip", "fold": "last"},
    "next_first": {"gap": "next", "fold": "first"},
    "shift_first": {"gap": "shift", "fold": "first"},
    "vixie": {},
}


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


CASES = [
    pytest.param(row, policy, id=f"{row['id']}-{policy}")
    for row in VECTORS["cron"]
    for policy in row["expect"]
]


@pytest.mark.parametrize(("row", "policy"), CASES)
def test_cron_at_a_switch_gives_the_instants_of_its_vector(
    row: dict[str, Any], policy: str
) -> None:
    """Enumerated, stepped forward and stepped back, a schedule is one set of instants."""
    schedule = evaluator(row, policy)
    start, end = utc(row["start"]), utc(row["end"])
    expected = [utc(text) for text in row["expect"][policy]]

    assert list(schedule.between(start, end)) == expected
    assert stepped_forward(schedule, start, end) == expected
    assert stepped_back(schedule, start, end) == expected


def evaluator(row: dict[str, Any], policy: str) -> WallSchedule:
    """What a user writes; for what never fires, which a user cannot make, the days alone."""
    if row["id"] != "feb30-never":
        return Cron(row["expr"], row["zone"], **POLICIES[policy])
    with pytest.raises(ScheduleInvalid, match="never fires"):
        Cron(row["expr"], row["zone"], **POLICIES[policy])
    days = CronDays(parse(row["expr"]))
    choice = {"gap": "next", "fold": "first"} | POLICIES[policy]
    return WallSchedule(days, zones.load(row["zone"]), **choice)


def test_vectors_of_cron_are_all_there() -> None:
    """No row is lost on the way: 36 expressions, each under six policies."""
    assert len(CASES) == 36 * len(POLICIES)


@pytest.mark.parametrize("row", VECTORS["nextprev"], ids=lambda row: row["id"])
def test_cron_asked_near_a_switch_gives_the_neighbours_of_its_vector(row: dict[str, Any]) -> None:
    """Next is strictly later and previous at or before, inside a repeated hour too."""
    schedule = Cron(row["expr"], row["zone"], **POLICIES[row["policy"]])

    assert schedule.next(utc(row["at"])) == utc(row["expect"]["next"])
    assert schedule.previous(utc(row["at"])) == utc(row["expect"]["prev"])


def test_cron_at_a_fold_across_midnight_stays_in_order() -> None:
    """Where 00:01 goes back to 23:01 of the day before, instants of two days interleave."""
    schedule = Cron("30,0 * * * *", "America/St_Johns")
    start, end = utc("2007-11-04T01:30Z"), utc("2007-11-04T04:31Z")

    expected = [start + timedelta(minutes=30) * n for n in range(7)]
    assert list(schedule.between(start, end)) == expected
    assert stepped_forward(schedule, start, end) == expected
    assert stepped_back(schedule, start, end) == expected


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Europe/Berlin", "2026-03-29T00:00Z"),
        ("Europe/Berlin", "2026-10-25T00:00Z"),
        ("America/St_Johns", "2007-03-11T03:00Z"),
        ("America/St_Johns", "2007-11-04T03:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00Z"),
        ("Asia/Almaty", "2024-02-29T18:00Z"),
        ("Africa/Cairo", "2026-04-23T22:00Z"),
        ("Asia/Manila", "1844-12-31T00:00Z"),
        ("America/Juneau", "1867-10-18T12:00Z"),
    ],
)
@pytest.mark.parametrize("gap", ["skip", "next", "shift"])
@pytest.mark.parametrize("fold", ["first", "last", "both"])
def test_cron_around_a_switch_is_one_set_however_it_is_asked(
    zone: str, around: str, gap: Any, fold: Any
) -> None:
    """At a switch nothing is lost, doubled or out of order, in either direction."""
    schedule = Cron("7,37 * * * *", zone, gap=gap, fold=fold)
    start, end = utc(around) - timedelta(days=4), utc(around) + timedelta(days=4)
    found = list(schedule.between(start, end))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert stepped_forward(schedule, start, end) == found
    assert stepped_back(schedule, start, end) == found
    middle = found[len(found) // 2]
    assert list(schedule.between(start, middle)) == found[: len(found) // 2]
    assert list(schedule.between(middle, end)) == found[len(found) // 2 :]


def stepped_forward(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = schedule.next(start - MICROSECOND)
    while at is not None and at < end:
        found.append(at)
        at = schedule.next(at)
    return found


def stepped_back(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = schedule.previous(end - MICROSECOND)
    while at is not None and at >= start:
        found.append(at)
        at = schedule.previous(at - MICROSECOND)
    return found[::-1]


@pytest.mark.parametrize(
    ("expression", "gap", "fold"),
    [
        ("30 2 * * *", "next", "first"),
        ("0,30 1-3 * * *", "next", "first"),
        ("* 2 * * *", "skip", "both"),
        ("30 * * * *", "skip", "both"),
        ("30 */2 * * *", "skip", "both"),
        ("0-59 0-23 * * *", "next", "first"),
        ("* 30 2 * * *", "skip", "both"),
        ("*/20 30 2 * * *", "skip", "both"),
        ("0,30 30 2 * * *", "next", "first"),
        ("15 30 * * * *", "skip", "both"),
        ("0 30 2 * * *", "next", "first"),
    ],
)
def test_cron_without_policies_follows_the_rule_of_cron(
    expression: str, gap: str, fold: str
) -> None:
    """A star in the second, minute or hour counts elapsed time; anything else runs once."""
    schedule = Cron(expression)

    assert (schedule.gap, schedule.fold) == (gap, fold)


def test_cron_with_one_policy_takes_the_other_from_the_rule() -> None:
    """What is not said follows the default rule."""
    assert Cron("30 2 * * *", gap="skip").fold == "first"
    assert Cron("30 * * * *", fold="last").gap == "skip"


@pytest.mark.parametrize(
    ("after", "following", "before"),
    [
        ("2096-02-29T00:00Z", "2104-02-29T00:00Z", "2096-02-29T00:00Z"),
        ("2096-02-28T23:59Z", "2096-02-29T00:00Z", "2092-02-29T00:00Z"),
        ("2103-12-31T00:00Z", "2104-02-29T00:00Z", "2096-02-29T00:00Z"),
    ],
)
def test_cron_on_a_leap_day_reaches_over_a_decade(after: str, following: str, before: str) -> None:
    """2100 is no leap year, and the search goes on past it in both directions."""
    schedule = Cron("0 0 29 2 *")

    assert schedule.next(utc(after)) == utc(following)
    assert schedule.previous(utc(after)) == utc(before)


def test_cron_on_a_leap_day_of_one_weekday_is_found_decades_away() -> None:
    """A rare day is found, not given up on: with a star in a day field both must match."""
    schedule = Cron("0 0 29 2 */6")  # leap days on a Sunday or a Saturday

    assert schedule.next(utc("2032-03-01T00:00Z")) == utc("2048-02-29T00:00Z")


@pytest.mark.parametrize(
    ("expression", "year", "expected"),
    [
        ("0 0 L * *", 2024, ["01-31", "02-29", "03-31", "04-30", "05-31", "06-30"]),
        ("0 0 L-1 * *", 2026, ["01-30", "02-27", "03-30", "04-29", "05-30", "06-29"]),
        ("0 0 L-30 * *", 2026, ["01-01", "03-01", "05-01"]),
        ("0 0 L,15 2 *", 2026, ["02-15", "02-28"]),
        ("0 0 1,L-3 2 *", 2024, ["02-01", "02-26"]),
        ("0 0 * * FRIL", 2026, ["01-30", "02-27", "03-27", "04-24", "05-29", "06-26"]),
        ("0 0 * * 5L", 2026, ["01-30", "02-27", "03-27", "04-24", "05-29", "06-26"]),
        ("0 0 * * SUNL", 2026, ["01-25", "02-22", "03-29", "04-26", "05-31", "06-28"]),
        ("0 0 * * 7L", 2026, ["01-25", "02-22", "03-29", "04-26", "05-31", "06-28"]),
        ("0 0 * * MON#2", 2026, ["01-12", "02-09", "03-09", "04-13", "05-11", "06-08"]),
        ("0 0 * * 1#1", 2026, ["01-05", "02-02", "03-02", "04-06", "05-04", "06-01"]),
        ("0 0 * * 7#1", 2026, ["01-04", "02-01", "03-01", "04-05", "05-03", "06-07"]),
        ("0 0 * * THU#5", 2026, ["01-29", "04-30"]),
        ("0 0 * 1 TUE#1,TUE#3,SATL", 2026, ["01-06", "01-20", "01-31"]),
        ("0 0 * 2 TUE,MON#1", 2026, ["02-02", "02-03", "02-10", "02-17", "02-24"]),
        # Two restricted day fields mean either, and L and # are restrictions.
        ("0 0 L 2 FRI#1", 2026, ["02-06", "02-28"]),
        ("0 0 10 2 FRIL", 2026, ["02-10", "02-27"]),
        # A star at the start of either makes it both.
        ("0 0 */2 2 FRI#2", 2026, ["02-13"]),
        ("0 0 */2 2 MON#2", 2026, ["02-09"]),
        ("0 0 */2 2 FRI#1", 2026, []),
        ("0 0 L * */2", 2026, ["01-31", "02-28", "03-31", "04-30", "05-31", "06-30"]),
    ],
)
def test_cron_with_days_counted_in_the_month_names_those_days(
    expression: str, year: int, expected: list[str]
) -> None:
    """`L` counts from the month's end and `#` the weekdays of one name."""
    schedule = Cron(expression)
    start, end = utc(f"{year}-01-01T00:00Z"), utc(f"{year}-07-01T00:00Z")

    assert list(schedule.between(start, end)) == [utc(f"{year}-{day}T00:00Z") for day in expected]
    assert stepped_back(schedule, start, end) == stepped_forward(schedule, start, end)


def test_cron_with_a_fifth_friday_in_february_is_found_over_decades() -> None:
    """Only leap years that start right have it: rare is not never."""
    schedule = Cron("0 0 * 2 5#5")

    found = list(schedule.between(utc("1900-01-01T00:00Z"), utc("2200-01-01T00:00Z")))

    years = [1924, 1952, 1980, 2008, 2036, 2064, 2092, 2104, 2132, 2160, 2188]
    assert found == [utc(f"{year}-02-29T00:00Z") for year in years]
    assert schedule.next(utc("2064-02-29T00:00Z")) == utc("2092-02-29T00:00Z")
    assert schedule.previous(utc("2103-01-01T00:00Z")) == utc("2092-02-29T00:00Z")


class CountedDays(CronDays):
    """Counts the months that a search looks into and the days it is given."""

    def __init__(self, expression: Expression) -> None:
        super().__init__(expression)
        self.months = self.given = 0

    def forward(self, first: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        for found in super().forward(first):
            self.given += 1
            yield found

    def backward(self, last: datetime) -> Iterator[tuple[datetime, Sequence[timedelta]]]:
        for found in super().backward(last):
            self.given += 1
            yield found

    def _of_month(self, year: int, month: int) -> list[int]:
        self.months += 1
        return super()._of_month(year, month)


# The rarest day that exists is 29 February on one weekday: up to 40 years apart.
MONTHS_MAX = 41
DAYS_MAX = 6


@pytest.mark.parametrize(
    "expression",
    ["* * * * *", "*/10 * * * * *", "30 2 * * *", "0 0 29 2 *", "0 0 * 2 5#5", "0 0 */28 2 6#5"],
)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Apia", "America/St_Johns"])
@pytest.mark.parametrize(
    "at",
    [
        "2011-12-30T10:00Z",
        "2026-03-29T01:00Z",
        "2026-10-25T01:00Z",
        "2007-11-04T03:00Z",
        "2093-01-01T00:00Z",
        "9999-12-31T23:59Z",
        "0001-01-01T00:00Z",
    ],
)
def test_cron_asked_for_a_neighbour_looks_at_few_days(expression: str, zone: str, at: str) -> None:
    """However rare the day and whatever the zone does, a search is short, and ends."""
    for ask in ("next", "previous"):
        days = CountedDays(parse(expression))
        schedule = WallSchedule(days, zones.load(zone), gap="shift", fold="both")

        getattr(schedule, ask)(utc(at))

        assert days.given <= DAYS_MAX
        assert days.months <= MONTHS_MAX


@pytest.mark.parametrize(("zone", "day"), [("Europe/Berlin", "2026-03-29"), ("UTC", "2026-05-05")])
def test_cron_of_every_second_makes_no_time_that_is_not_asked_for(zone: str, day: str) -> None:
    """A day of 86,400 times costs what is asked of it, at a switch too."""
    made = 0

    class Counted(CronSchedule):
        def _instants(self, day: datetime, time: timedelta) -> tuple[datetime, ...]:
            nonlocal made
            made += 1
            return super()._instants(day, time)

    schedule = Counted("* * * * * *", zones.load(zone))
    at = utc(f"{day}T14:00Z")

    assert schedule.next(at) == at + timedelta(seconds=1)
    assert schedule.previous(at + timedelta(microseconds=1)) == at
    # What lies within a switch of an hour is asked of the zone, and no more.
    assert made <= 4 * 3_600


def test_cron_of_several_seconds_names_each_of_them() -> None:
    """Seconds stand first, and a day holds every one of its minutes'."""
    schedule = Cron("*/30 15 9,17 * * *", "Europe/Berlin")
    start, end = utc("2026-05-05T00:00Z"), utc("2026-05-06T00:00Z")

    expected = [utc(f"2026-05-05T{time}Z") for time in ("07:15:00", "07:15:30")]
    expected += [utc(f"2026-05-05T{time}Z") for time in ("15:15:00", "15:15:30")]
    assert list(schedule.between(start, end)) == expected
    assert list(schedule.between(expected[1], expected[3])) == expected[1:3]
    assert stepped_forward(schedule, start, end) == expected
    assert stepped_back(schedule, start, end) == expected
    every = list(Cron("* * * * * *").between(start, end))
    assert every == [start + timedelta(seconds=n) for n in range(86_400)]


def test_month_of_each_length_starts_on_each_weekday_in_four_centuries() -> None:
    """What the check for an expression that never fires takes for granted is true."""
    seen = {
        (month, *monthrange(year, month)) for year in range(2000, 2400) for month in range(1, 13)
    }

    assert seen == {
        (month, weekday, length)
        for month, lengths in enumerate(LENGTHS, 1)
        for length in lengths
        for weekday in range(7)
    }


def test_cron_at_the_ends_of_the_calendar_ends() -> None:
    """Past the year 9999 and before the year 1 there is nothing, and no error."""
    first, last = utc("0001-01-01T00:00Z"), utc("9999-12-31T23:59:59.999999Z")
    # Tokyo's last midnight, 9999-12-31T15:00Z, belongs to a local year that does not exist.
    for zone, count in (("UTC", 3), ("Asia/Tokyo", 2), ("America/New_York", 3)):
        schedule = Cron("0 0 * * *", zone)
        assert schedule.next(last) is None
        assert schedule.previous(last) is not None
        assert schedule.next(first) is not None
        assert len(list(schedule.between(last - timedelta(days=3), last))) == count
    assert Cron("0 1 * * *").previous(first) is None
    assert Cron("0 0 1 1 *").previous(first) == first


EDGES = [
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC) + MICROSECOND,
    *(datetime(1, 1, day, hour, 30, tzinfo=UTC) for day in (1, 2, 3, 4) for hour in (0, 10, 23)),
    *(
        datetime(9999, 12, d, hour, 30, tzinfo=UTC)
        for d in (27, 28, 29, 30, 31)
        for hour in (0, 14, 23)
    ),
    datetime.max.replace(tzinfo=UTC) - MICROSECOND,
    datetime.max.replace(tzinfo=UTC),
]


@pytest.mark.parametrize("expression", ["*/30 * * * *", "0 0 * * *", "59 23 31 12 *", "0 0 29 2 *"])
@pytest.mark.parametrize(
    "zone",
    ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12", "Asia/Manila"],
)
@pytest.mark.parametrize("gap", ["skip", "next", "shift"])
def test_cron_at_the_ends_of_the_calendar_is_one_set_too(
    expression: str, zone: str, gap: Any
) -> None:
    """In the first and last days of the years 1 to 9999 every question has an answer."""
    schedule = Cron(expression, zone, gap=gap, fold="both")
    first, last = EDGES[0], EDGES[-1]
    found = list(schedule.between(first, first + timedelta(days=6)))
    found += list(schedule.between(last - timedelta(days=6), last))

    assert all(earlier < later for earlier, later in pairwise(found))
    for at in EDGES:
        following, newest = schedule.next(at), schedule.previous(at)
        near = [t for t in found if abs(t - at) < timedelta(days=6)]
        after, before = [t for t in near if t > at], [t for t in near if t <= at]
        assert following == after[0] if after else following not in found
        assert newest == before[-1] if before else newest not in found
    assert all(schedule.wall_times(t) for t in found)
    assert not any(schedule.wall_times(t) for t in EDGES if t not in found)


def test_cron_between_is_lazy_and_half_open() -> None:
    """The start belongs to the window, the end does not, and nothing is made before it is asked."""
    schedule = Cron("0 0 * * *")
    start, end = utc("2026-01-01T00:00Z"), utc("9999-01-01T00:00Z")

    assert next(schedule.between(start, end)) == start
    assert list(schedule.between(start, start + timedelta(days=1))) == [start]
    assert list(schedule.between(start, start)) == []
    with pytest.raises(NominalTimeInvalid, match="start 9999-01-01T00:00:00Z is after end 2026"):
        schedule.between(end, start)


@pytest.mark.parametrize("ask", ["start", "end", "after", "at"])
def test_cron_asked_with_a_naive_time_refuses_at_once(ask: str) -> None:
    """A naive time is refused by its name, before anything is enumerated."""
    schedule, aware = Cron("0 0 * * *"), utc("2026-01-01T00:00Z")
    naive = aware.replace(tzinfo=None)

    calls: dict[str, Callable[[], object]] = {
        "start": lambda: schedule.between(naive, aware),
        "end": lambda: schedule.between(aware, naive),
        "after": lambda: schedule.next(naive),
        "at": lambda: schedule.previous(naive),
    }

    with pytest.raises(NominalTimeInvalid, match=f"^{ask} .* naive"):
        calls[ask]()


def test_cron_is_a_schedule_that_survives_text_and_pickling() -> None:
    """What is stored or sent to a worker is the same schedule again."""
    schedule = Cron("30 2 * * mon", "Europe/Berlin", fold="last")

    assert isinstance(schedule, Schedule)
    assert schedule.text == "cron 30 2 * * MON; zone=Europe/Berlin; gap=next; fold=last"
    assert from_text(schedule.text) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes
    assert eval(repr(schedule)) == schedule  # noqa: S307 - our own text
    assert schedule != Cron("30 2 * * mon", "Europe/Berlin")
    assert schedule != "30 2 * * MON"


@pytest.mark.parametrize("text", ["", "30 2 * * *", "solar sunset", "cron 0 0 * * *; zone=UTC"])
def test_schedule_text_of_no_known_kind_is_refused(text: str) -> None:
    """A description of another version is refused, never read in part."""
    with pytest.raises(ScheduleInvalid, match="describes no schedule of this version"):
        from_text(text)
