"""RRule: which instants a recurrence rule of RFC 5545 names, and how it is searched."""

from __future__ import annotations

import json
import pickle
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import duly
from duly import zones
from duly._core.schedules import Schedule
from duly._core.schedules.rrule_days import RuleDays
from duly._core.schedules.rrule_parts import parse
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import from_text
from duly.schedules.rrule import RRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
INTERVALS = [row for row in VECTORS["other"] if row["kind"] == "interval"]
DAILY = [row for row in INTERVALS if row["input"].get("every") == "P1D"]
POLICIES: dict[str, dict[str, Any]] = {"shift_first": {"gap": "shift", "fold": "first"}}

FREQS = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def first_of(schedule: Schedule, count: int) -> list[datetime]:
    return list(islice(schedule.between(FIRST, LAST), count))


def local(text: str, start: str, count: int, **options: Any) -> list[str]:
    """The first local dates and times of a rule."""
    schedule = RRule(text, start=start, **options)
    found = first_of(schedule, count)
    return [at.astimezone(schedule.zone).strftime("%Y-%m-%d %H:%M") for at in found]


# ------------------------------------------------------------------------- what a rule names


@pytest.mark.parametrize("row", DAILY, ids=lambda row: row["id"])
def test_rrule_by_the_day_across_a_switch_gives_the_instants_of_its_vector(
    row: dict[str, Any],
) -> None:
    """A calendar day keeps the local time, and never goes on from a shifted one."""
    asked = row["input"]
    schedule = RRule(
        "FREQ=DAILY",
        start=asked["anchor_wall"],
        timezone=asked["zone"],
        **POLICIES[asked["policy"]],
    )

    assert first_of(schedule, asked["n"]) == [utc(text) for text in row["expect"]]


def test_rrule_by_the_month_from_the_31st_never_drifts() -> None:
    """Vector int-P1M-31-iterated-wrong: the wrong answer goes on from the 28th for ever."""
    row = next(row for row in INTERVALS if row["id"] == "int-P1M-31-iterated-wrong")
    start = row["input"]["anchor"] + "T00:00:00"

    def dates(rule: str, count: int) -> list[str]:
        return [day[:10] for day in local(rule, start, count)]

    # The 31st of the RFC passes over the months that have none; the last day has them all.
    assert dates("FREQ=MONTHLY;BYMONTHDAY=31", 5) == dates("FREQ=MONTHLY", 5)
    assert dates("FREQ=MONTHLY", 5) == [
        "2026-01-31", "2026-03-31", "2026-05-31", "2026-07-31", "2026-08-31",
    ]  # fmt: skip
    last_days = dates("FREQ=MONTHLY;BYMONTHDAY=-1", 5)
    assert last_days == ["2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"]
    assert last_days != row["expect"] != dates("FREQ=MONTHLY", 5)
    schedule = RRule("FREQ=MONTHLY;BYMONTHDAY=-1", start=start)
    for at in first_of(schedule, 1_000):
        assert at.day == monthrange(at.year, at.month)[1]


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [  # from RFC 5545, section 3.8.5.3
        (
            "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "1997-08-05T09:00:00",
            ["1997-08-05", "1997-08-10", "1997-08-19", "1997-08-24"],
        ),
        (
            "FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "1997-08-05T09:00:00",
            ["1997-08-05", "1997-08-17", "1997-08-19", "1997-08-31"],
        ),
        (
            "FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "1997-09-04T09:00:00",
            ["1997-09-04", "1997-10-07", "1997-11-06"],
        ),
        (
            "FREQ=YEARLY;BYDAY=20MO", "1997-05-19T09:00:00",
            ["1997-05-19", "1998-05-18", "1999-05-17"],
        ),
        (
            "FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "1997-05-12T09:00:00",
            ["1997-05-12", "1998-05-11", "1999-05-17"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "1997-09-02T09:00:00",
            ["1998-02-13", "1998-03-13", "1998-11-13", "1999-08-13", "2000-10-13"],
        ),
        (
            "FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8",
            "1996-11-05T09:00:00", ["1996-11-05", "2000-11-07", "2004-11-02"],
        ),
        (
            "FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", "1997-01-01T09:00:00",
            ["1997-01-01", "1997-04-10", "1997-07-19", "2000-01-01", "2000-04-09"],
        ),
        (
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "1997-09-29T09:00:00",
            ["1997-09-29", "1997-10-30", "1997-11-27", "1997-12-30", "1998-01-29"],
        ),
        (
            "FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "2007-01-15T09:00:00",
            ["2007-01-15", "2007-01-30", "2007-02-15", "2007-03-15", "2007-03-30"],
        ),
    ],
)  # fmt: skip
def test_rrule_of_the_rfc_gives_the_dates_of_the_rfc(
    rule: str, start: str, expected: list[str]
) -> None:
    """The RFC's own examples, in its own zone."""
    found = local(rule, start, len(expected), timezone="America/New_York")

    assert found == [f"{day} 09:00" for day in expected]


@pytest.mark.parametrize(
    ("rule", "start", "expected"),
    [
        (
            "FREQ=MINUTELY;INTERVAL=90", "2026-01-01T09:00:00",
            ["2026-01-01 09:00", "2026-01-01 10:30", "2026-01-01 12:00"],
        ),
        (
            "FREQ=HOURLY;INTERVAL=36", "2026-01-01T09:00:00",
            ["2026-01-01 09:00", "2026-01-02 21:00", "2026-01-04 09:00"],
        ),
        (
            "FREQ=HOURLY;BYMINUTE=0,40;BYSETPOS=-1", "2026-01-01T09:50:00",
            ["2026-01-01 10:40", "2026-01-01 11:40", "2026-01-01 12:40"],
        ),
        # One with an ordinal and one without: dateutil finds none that is both.
        (
            "FREQ=MONTHLY;BYDAY=1TU,MO", "2026-02-01T00:00:00",
            ["2026-02-02 00:00", "2026-02-03 00:00", "2026-02-09 00:00"],
        ),
        (
            "FREQ=YEARLY;BYDAY=-1FR,53TH,MO", "2026-12-20T00:00:00",
            ["2026-12-21 00:00", "2026-12-25 00:00", "2026-12-28 00:00", "2026-12-31 00:00"],
        ),
        # BYSETPOS picks from the whole week, also from the part before the start.
        (
            "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=1", "2026-01-07T00:00:00",
            ["2026-01-12 00:00", "2026-01-19 00:00"],
        ),
        ("FREQ=YEARLY", "2024-02-29T12:00:00", ["2024-02-29 12:00", "2028-02-29 12:00"]),
        (
            "FREQ=YEARLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29", "2026-01-01T00:00:00",
            ["2040-02-29 00:00", "2068-02-29 00:00", "2096-02-29 00:00", "2124-02-29 00:00"],
        ),
        (
            "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2026-01-01T00:00:00",
            ["2044-02-29 00:00", "2072-02-29 00:00", "2112-02-29 00:00"],
        ),
    ],
)  # fmt: skip
def test_rrule_where_readers_fail_or_tire_gives_the_times_of_the_rfc(
    rule: str, start: str, expected: list[str]
) -> None:
    """Steps over midnight, mixed ordinals, first weeks, and days that are decades apart."""
    assert local(rule, start, len(expected)) == expected


@given(st.integers(1, 53) | st.integers(-53, -1), st.integers(1, 9_000), st.sampled_from(WEEKDAYS))
@example(53, 1992, "MO")
@example(-53, 2004, "FR")
@example(1, 2024, "MO")
def test_rrule_by_the_week_of_the_year_counts_as_iso_8601(week: int, year: int, day: str) -> None:
    """Weeks 52 and 53, and those counted from the end, lie where the ISO calendar has them."""
    schedule = RRule(f"FREQ=YEARLY;BYWEEKNO={week};BYDAY={day}", start=f"{year:04}-01-01T00:00:00")
    for at in first_of(schedule, 5):
        iso = at.isocalendar()
        weeks = date(iso.year, 12, 28).isocalendar().week
        assert iso.week == (week if week > 0 else weeks + 1 + week)
        assert iso.weekday == WEEKDAYS.index(day) + 1
    years = [at.isocalendar().year for at in first_of(schedule, 5)]
    if abs(week) < 53:
        assert years[1:] == [years[0] + n for n in range(1, 5)]


@pytest.mark.parametrize("week", [1, 2, 52, 53, -1, -2, -52, -53])
def test_rrule_by_the_week_of_the_year_has_all_days_of_that_week(week: int) -> None:
    """Over a century, the days are those that the ISO calendar counts, also across new year."""
    rule = f"FREQ=YEARLY;BYWEEKNO={week};BYDAY={','.join(WEEKDAYS)}"
    schedule = RRule(rule, start="1980-01-01T00:00:00")
    days = [datetime(1980, 1, 1, tzinfo=UTC) + n * DAY for n in range(36_525)]

    expected = []
    for day in days:
        iso = day.isocalendar()
        last = date(iso.year, 12, 28).isocalendar().week
        if week in (iso.week, iso.week - last - 1):
            expected.append(day)
    assert list(schedule.between(days[0], days[-1] + DAY)) == expected


# ------------------------------------------- reached by counting, the same as by walking there


def lists(low: int, high: int, *, negative: bool = False) -> st.SearchStrategy[list[int]]:
    value = st.integers(low, high)
    if negative:
        value |= st.integers(-high, -low)
    return st.lists(value, min_size=1, max_size=4, unique=True)


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Any rule that dateutil reads as the RFC does; tests above have the others."""
    freq = draw(st.sampled_from(FREQS))
    high = {"YEARLY": 9, "MONTHLY": 30, "WEEKLY": 60, "DAILY": 1_200}.get(freq, 100_000)
    low = 997 if freq == "SECONDLY" else 1  # a day of 86,400 times shows no more, and is slow
    parts: dict[str, Any] = {
        "FREQ": freq,
        "INTERVAL": draw(st.integers(low, low + 12) | st.integers(low, high)),
        "WKST": draw(st.sampled_from(WEEKDAYS)),
    }

    def maybe(name: str, values: st.SearchStrategy[list[int]], *, of: int = 3) -> None:
        if draw(st.integers(1, of)) == 1:
            parts[name] = ",".join(map(str, draw(values)))

    maybe("BYMONTH", lists(1, 12))
    if freq != "WEEKLY":
        maybe("BYMONTHDAY", lists(1, 31, negative=True), of=4)
    if freq not in ("WEEKLY", "DAILY", "MONTHLY"):
        maybe("BYYEARDAY", lists(1, 366, negative=True), of=6)
    if freq == "YEARLY" and draw(st.integers(1, 6)) == 1:
        parts["INTERVAL"] = 1
        maybe("BYWEEKNO", lists(1, 51), of=1)
    if "BYWEEKNO" in parts or draw(st.booleans()):
        days = draw(st.lists(st.sampled_from(WEEKDAYS), min_size=1, max_size=4, unique=True))
        if freq in ("YEARLY", "MONTHLY") and "BYWEEKNO" not in parts and draw(st.booleans()):
            most = 5 if freq == "MONTHLY" or "BYMONTH" in parts else 53
            days = [f"{draw(lists(1, most, negative=True))[0]}{day}" for day in days]
        parts["BYDAY"] = ",".join(days)
    maybe("BYHOUR", lists(0, 23))
    maybe("BYMINUTE", lists(0, 59))
    maybe("BYSECOND", lists(0, 59), of=4)
    if len(parts) > 3 and not {"BYWEEKNO"} & parts.keys():
        maybe("BYSETPOS", lists(1, 12, negative=True))
    return ";".join(f"{name}={value}" for name, value in parts.items())


starts = st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)).map(
    lambda at: at.replace(microsecond=0)
)


# A walk is slow, and so are a machine's bad moments: neither says that a time is wrong.
patient = settings(deadline=None)
WALK_MAX = 3_000


def walls(days: Iterator[tuple[datetime, Any]]) -> Iterator[datetime]:
    return (midnight + time for midnight, times in days for time in times)


def walked(rule: str, start: datetime, first: datetime, count: int) -> list[datetime] | None:
    """What plain dateutil finds by its walk from the start; None if it gives up."""
    reference = rrulestr(rule, dtstart=start)
    found: list[datetime] = []
    try:
        for at in islice(reference, WALK_MAX):
            if at >= first:
                found.append(at)
            if len(found) == count:
                return found
    except ValueError:
        return None
    return None


@patient
@given(rules(), starts, st.integers(0, 4_000))
@example("FREQ=WEEKLY;INTERVAL=3;WKST=SU;BYDAY=SU,MO", datetime(2026, 1, 4, 9), 1_000)
@example("FREQ=SECONDLY;INTERVAL=86399", datetime(2026, 1, 4, 9), 30)
@example("FREQ=SECONDLY", datetime(2026, 1, 4, 9), 0)
@example("FREQ=SECONDLY;INTERVAL=7;BYMINUTE=3,4", datetime(2026, 1, 4, 9), 1)
@example("FREQ=MONTHLY;INTERVAL=5;BYDAY=-1FR,5MO", datetime(2026, 1, 31, 9), 9)
@example("FREQ=DAILY;INTERVAL=1001;BYHOUR=3,4", datetime(2026, 1, 31, 9), 9)
@example("FREQ=YEARLY;BYMONTHDAY=-31", datetime(2026, 1, 31, 9), 9)
def test_rrule_reached_by_counting_is_what_a_walk_from_the_start_finds(
    rule: str, start: datetime, days: int
) -> None:
    """However far from the start it is asked, the times are those of plain dateutil."""
    parsed = parse(rule)
    counted = RuleDays(parsed, start)
    assume(counted.fires())
    near = next(walls(counted.forward(start)))
    # dateutil steps to the next time of a day one tick after another.
    often = parsed.freq in ("HOURLY", "MINUTELY", "SECONDLY")
    assume(near < start + timedelta(days=60 if often else 9_000))
    days = min(days, 5) if often else days
    first = near + timedelta(days=days)
    if parsed.freq == "WEEKLY" and "BYSETPOS" in rule:
        first += timedelta(days=7 * parsed.interval)  # dateutil picks from part of the first week
    ahead = list(islice((w for w in walls(counted.forward(midnight(first))) if w >= first), 5))
    assume(len(ahead) == 5 and ahead[-1] < near + timedelta(days=90 if often else 9_000))
    expected = walked(rule, start, first, 5)
    assume(expected is not None)

    assert ahead == expected


@patient
@given(rules(), starts, st.integers(0, 400_000))
def test_rrule_in_both_directions_names_the_same_days(
    rule: str, start: datetime, days: int
) -> None:
    """Backward from any day, the days are those of forward, however far from the start."""
    counted = RuleDays(parse(rule), start)
    assume(counted.fires())
    first = midnight(start) + timedelta(days=days)
    ahead = list(islice(counted.forward(first), 7))
    assume(len(ahead) == 7)
    beyond, _ = ahead.pop()  # asked from the day before it, which the rule seldom names
    back = []
    for day in counted.backward(beyond - DAY):
        if day[0] < first:
            break
        back.append(day)

    assert back[::-1] == ahead
    assert all(first <= earlier[0] < later[0] for earlier, later in pairwise(ahead))
    for day_start, times in ahead:
        assert all(a < b for a, b in pairwise(times))
        assert all(timedelta(0) <= time < DAY and day_start + time >= start for time in times)


def midnight(at: datetime) -> datetime:
    return datetime(at.year, at.month, at.day)


policies = st.fixed_dictionaries(
    {"gap": st.sampled_from(["skip", "next", "shift"])}
    | {"fold": st.sampled_from(["first", "last", "both"])}
)
zone_names = st.sampled_from(sorted(zones.names()))


@patient
@given(rules(), starts, zone_names, policies, st.integers(0, 30_000))
def test_rrule_in_any_zone_is_one_set_however_it_is_asked(
    rule: str, start: datetime, zone: str, policy: dict[str, Any], days: int
) -> None:
    """Enumerating, stepping forward and stepping back agree, and always move on."""
    try:
        schedule = RRule(rule, start=start, timezone=zone, **policy)
    except ScheduleInvalid as refused:
        assert "never fires" in refused.message  # noqa: PT017 - refused for nothing else
        return
    around = start.replace(tzinfo=UTC) + timedelta(days=days)
    found = list(islice(schedule.between(around, LAST), 6))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert all(instant.tzinfo is UTC for instant in found)
    assert from_text(schedule.text) == schedule
    for earlier, later in pairwise(found):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
        assert schedule.previous(later) == later


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY",
        "FREQ=MONTHLY;BYMONTHDAY=-1",
        "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,FR",
        "FREQ=YEARLY;BYDAY=-1FR",
        "FREQ=MINUTELY;INTERVAL=7",
        "FREQ=DAILY;INTERVAL=1001",
        "FREQ=YEARLY;INTERVAL=7;BYDAY=MO",
        "FREQ=DAILY;INTERVAL=5;COUNT=10000",
        "FREQ=DAILY;UNTIL=22000101",
    ],
)
def test_rrule_asked_a_century_on_agrees_with_itself(rule: str) -> None:
    """Far from the start, previous and next are the neighbours of between."""
    schedule = RRule(rule, start="2026-01-30T09:00:00", timezone="Europe/Berlin")
    start = utc("2126-01-01T00:00Z")
    found = list(islice(schedule.between(start, LAST), 20))

    assert schedule.next(start - MICROSECOND) == found[0]
    assert [schedule.next(at) for at in found[:-1]] == found[1:]
    assert [schedule.previous(at - MICROSECOND) for at in found[1:]] == found[:-1]
    halves = [at + (later - at) / 2 for at, later in pairwise(found)]
    assert [schedule.previous(at) for at in halves] == found[:-1]
    assert [schedule.next(at) for at in halves] == found[1:]


# ------------------------------------------------------------- starts, ends and single dates


def test_rrule_without_a_start_is_refused_for_it_would_move_with_a_deploy() -> None:
    """Case S49: a start taken from a clock would change every key at each deploy."""
    with pytest.raises(ScheduleInvalid, match=r"no start: .* move with every deploy"):
        RRule("FREQ=HOURLY;INTERVAL=4")

    defined_early = RRule("FREQ=HOURLY;INTERVAL=4", start="2026-01-01T08:00:00")
    defined_late = pickle.loads(pickle.dumps(defined_early))  # noqa: S301 - our own bytes
    at = utc("2026-03-01T08:54Z")
    assert defined_early.next(at) == defined_late.next(at) == utc("2026-03-01T12:00Z")


def test_rrule_start_that_the_rule_does_not_name_is_no_nominal_time() -> None:
    """The RFC leaves it open; here the rule alone names the times, and COUNT counts them."""
    found = local("FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=2", "2026-01-01T09:00:00", 9)

    assert found == ["2026-01-31 09:00", "2026-02-28 09:00"]


BERLIN = "DTSTART;TZID=Europe/Berlin:20260131T090000\n"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (BERLIN + "RRULE:FREQ=DAILY", {}),
        (BERLIN.replace("\n", "\r\n") + "RRULE:FREQ\r\n =DAILY\r\n", {}),
        ("DTSTART:20260131T090000\nRRULE:FREQ=DAILY", {"timezone": "Europe/Berlin"}),
        (BERLIN + "RRULE:FREQ=DAILY", {"timezone": "Europe/Berlin"}),
        (BERLIN + "RRULE:FREQ=DAILY", {"start": "2026-01-31T09:00:00"}),
        ("RRULE:FREQ=DAILY", {"start": "2026-01-31T09:00:00", "timezone": "Europe/Berlin"}),
        ("FREQ=DAILY", {"start": datetime(2026, 1, 31, 9), "timezone": "Europe/Berlin"}),
        ("INTERVAL=01;WKST=MO;FREQ=DAILY", {"start": datetime(2026, 1, 31, 9, fold=1)} | {
            "timezone": "Europe/Berlin"}),
        ("DTSTART;TZID=Europe/Berlin;VALUE=DATE-TIME:20260131T090000\nRRULE:FREQ=DAILY", {}),
    ],
)  # fmt: skip
def test_rrule_in_another_spelling_is_one_schedule(text: str, options: dict[str, Any]) -> None:
    """Lines or arguments, folded or not, defaults written or not: one canonical text."""
    assert RRule(text, **options).text == (
        "rrule FREQ=DAILY; start=2026-01-31T09:00:00; zone=Europe/Berlin; gap=skip; fold=first"
    )


def test_rrule_start_in_utc_means_the_zone_utc() -> None:
    """A Z is a zone."""
    schedule = RRule("DTSTART:20260131T090000Z\nRRULE:FREQ=DAILY")

    assert schedule.zone.key == "UTC"
    assert first_of(schedule, 1) == [utc("2026-01-31T09:00Z")]


@pytest.mark.parametrize(
    ("until", "last"),
    [
        ("20260203T080000Z", "2026-02-03 09:00"),  # the moment itself is included
        ("20260203T075959Z", "2026-02-02 09:00"),
        ("20260203T090000", "2026-02-03 09:00"),
        ("20260203T085959", "2026-02-02 09:00"),
        ("20260203", "2026-02-03 09:00"),
        ("20260202", "2026-02-02 09:00"),
    ],
)
def test_rrule_until_is_an_instant_a_local_time_or_a_whole_local_day(until: str, last: str) -> None:
    """Each form ends at its own moment, seen from both sides."""
    rule, start = f"FREQ=DAILY;UNTIL={until}", "2026-01-31T09:00:00"
    schedule = RRule(rule, start=start, timezone="Europe/Berlin")

    assert local(rule, start, 99, timezone="Europe/Berlin")[-1] == last
    assert schedule.previous(LAST) == first_of(schedule, 99)[-1]
    assert schedule.next(first_of(schedule, 99)[-1]) is None


@pytest.mark.parametrize(
    ("until", "fold", "expected"),
    [
        # 02:00 is 00:00Z and 01:00Z that night.
        ("20261025T000000Z", "first", ["00:00"]),
        ("20261025T003000Z", "first", ["00:00", "00:30"]),
        ("20261025T003000Z", "last", []),
        ("20261025T010000Z", "last", ["01:00"]),
        ("20261025T011500Z", "first", ["00:00", "00:30"]),
        ("20261025T020000Z", "both", ["00:00", "00:30", "01:00", "01:30", "02:00"]),
        ("20261025T020000", "last", ["01:00"]),
    ],
)
def test_rrule_until_in_a_repeated_hour_ends_at_its_instant(
    until: str, fold: Any, expected: list[str]
) -> None:
    """An UNTIL in UTC is compared with instants, where wall times come twice."""
    schedule = RRule(
        f"FREQ=MINUTELY;INTERVAL=30;UNTIL={until}",
        start="2026-10-24T12:00:00",
        timezone="Europe/Berlin",
        fold=fold,
    )
    night = schedule.between(utc("2026-10-25T00:00Z"), LAST)

    assert [at.strftime("%H:%M") for at in night] == expected
    assert schedule.previous(LAST) == list(schedule.between(FIRST, LAST))[-1]


def test_rrule_until_inside_a_repeated_hour_that_runs_twice_is_refused() -> None:
    """A wall time would belong to the rule and its second instant not."""
    with pytest.raises(ScheduleInvalid, match=r"lies in an hour that Europe/Berlin repeats"):
        RRule(
            "FREQ=HOURLY;UNTIL=20261025T003000Z",
            start="2026-10-24T12:00:00", timezone="Europe/Berlin", fold="both",
        )  # fmt: skip


def test_rrule_count_leaves_out_a_time_that_does_not_exist() -> None:
    """RFC 5545: such a time is ignored and not counted; under other policies it runs and counts."""
    rule, start = "FREQ=DAILY;COUNT=3", "2026-03-28T02:30:00"
    berlin: dict[str, Any] = {"timezone": "Europe/Berlin"}

    assert local(rule, start, 9, **berlin) == [
        "2026-03-28 02:30", "2026-03-30 02:30", "2026-03-31 02:30",
    ]  # fmt: skip
    assert local(rule, start, 9, gap="next", **berlin) == [
        "2026-03-28 02:30", "2026-03-29 03:00", "2026-03-30 02:30",
    ]  # fmt: skip
    schedule = RRule(rule, start=start, **berlin)
    assert schedule.previous(LAST) == utc("2026-03-31T00:30Z")


def test_rrule_by_default_takes_a_repeated_time_once_the_first() -> None:
    """RFC 5545: a local time that occurs twice is the first."""
    schedule = RRule("FREQ=DAILY", start="2026-10-25T02:30:00", timezone="Europe/Berlin")

    assert (schedule.gap, schedule.fold) == ("skip", "first")
    assert first_of(schedule, 2) == [utc("2026-10-25T00:30Z"), utc("2026-10-26T01:30Z")]


def test_rrule_with_single_dates_is_still_one_set() -> None:
    """RDATE adds, also past UNTIL; EXDATE leaves out; COUNT counts before EXDATE."""
    text = (
        BERLIN + "RRULE:FREQ=DAILY;UNTIL=20260203\n"
        "RDATE;TZID=Europe/Berlin:20260201T180000,20260301T100000\nRDATE:20260201T120000\n"
        "EXDATE:20260202T090000\nEXDATE:20260201T120000"
    )
    schedule = RRule(text)
    expected = [
        utc(at)
        for at in (
            "2026-01-31T08:00Z", "2026-02-01T08:00Z", "2026-02-01T17:00Z", "2026-02-03T08:00Z",
            "2026-03-01T09:00Z",
        )
    ]  # fmt: skip

    assert first_of(schedule, 99) == expected
    assert [schedule.next(at) for at in expected] == [*expected[1:], None]
    assert [schedule.previous(at - MICROSECOND) for at in expected] == [None, *expected[:-1]]
    assert schedule.text == (
        "rrule FREQ=DAILY;UNTIL=20260203; rdate=20260201T120000,20260201T180000,20260301T100000; "
        "exdate=20260201T120000,20260202T090000; start=2026-01-31T09:00:00; zone=Europe/Berlin; "
        "gap=skip; fold=first"
    )
    counted = RRule(BERLIN + "RRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260201T090000")
    assert len(first_of(counted, 99)) == 2


def test_rrule_at_the_ends_of_the_calendar_ends() -> None:
    """Past the year 9999 and before the start there is nothing, and no error."""
    for freq in FREQS[:-1]:
        late = RRule(f"FREQ={freq}", start="9990-12-31T23:00:00")
        assert late.next(LAST) is None
        newest = late.previous(LAST)
        assert newest is not None
        assert late.next(newest) is None
        assert late.previous(utc("9990-12-31T22:59Z")) is None
        assert late.next(FIRST) == utc("9990-12-31T23:00Z")
        early = RRule(f"FREQ={freq};WKST=SU", start="0001-01-01T00:00:00")
        assert first_of(early, 1) == [FIRST]
        assert early.previous(FIRST) == FIRST
    assert RRule("FREQ=YEARLY;INTERVAL=999999999", start="2026-01-01T00:00:00").next(
        utc("2026-01-01T00:00Z")
    ) is None  # fmt: skip


# ------------------------------------------------------------------------------ what is refused

S = "2026-01-31T09:00:00"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("", r"has 0; define one job|no FREQ|empty part"),
        ("INTERVAL=2", r"it has no FREQ; write FREQ= and one of YEARLY"),
        ("FREQ=FORTNIGHTLY", r"FREQ 'FORTNIGHTLY' is not allowed; allowed are YEARLY, MONTHLY"),
        ("freq=daily", r"upper case; write 'FREQ=DAILY'"),
        ("FREQ=daily", r"upper case; write 'FREQ=DAILY'"),
        ("FREQ=DAILY; INTERVAL=2", r"blank inside; remove it"),
        ("FREQ=DAILY;", r"an empty part, a semicolon too many"),
        ("FREQ=DAILY;INTERVAL", r"INTERVAL has no value"),
        ("FREQ=DAILY;INTERVAL=", r"INTERVAL has no value"),
        ("FREQ=DAILY;FREQ=DAILY", r"FREQ is given twice"),
        ("FREQ=YEARLY;BYEASTER=0", r"part 'BYEASTER' is unknown; allowed are FREQ, INTERVAL"),
        ("FREQ=DAILY;RSCALE=GREGORIAN", r"part 'RSCALE' is unknown"),
        ("FREQ=DAILY;BYWEEKDAY=MO", r"part 'BYWEEKDAY' is unknown; .* BYDAY"),
        ("FREQ=DAILY;INTERVAL=0", r"INTERVAL '0' is not allowed; allowed are 1 to 999,999,999"),
        ("FREQ=DAILY;INTERVAL=-1", r"INTERVAL '-1' is not allowed"),
        ("FREQ=DAILY;INTERVAL=\u0663", r"INTERVAL '\u0663' is not allowed"),
        ("FREQ=DAILY;INTERVAL=" + "9" * 5_000, r"INTERVAL '9+'… .* is not allowed"),
        ("FREQ=DAILY;COUNT=0", r"COUNT '0' is not allowed; allowed are 1 to 10,000"),
        ("FREQ=DAILY;COUNT=10001", r"10,000, which are kept in memory"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", r"COUNT and UNTIL exclude each other"),
        ("FREQ=DAILY;UNTIL=2027-01-01", r"UNTIL '2027-01-01' is not allowed; write an instant"),
        ("FREQ=DAILY;UNTIL=20270230", r"UNTIL '20270230' is not allowed"),
        ("FREQ=DAILY;UNTIL=20260130", r"UNTIL 20260130 is before the start 2026-01-31T09:00:00"),
        ("FREQ=DAILY;UNTIL=20260131T085959", r"is before the start"),
        ("FREQ=DAILY;UNTIL=20260131T085959Z", r"is before the start .* in UTC"),
        ("FREQ=DAILY;WKST=1MO", r"WKST '1MO' is not allowed; allowed are MO, TU"),
        ("FREQ=DAILY;BYHOUR=24", r"BYHOUR '24' is not allowed; allowed are 0 to 23$"),
        ("FREQ=DAILY;BYHOUR=-1", r"BYHOUR '-1' is not allowed"),
        ("FREQ=DAILY;BYHOUR=+1", r"BYHOUR '\+1' is not allowed"),
        ("FREQ=DAILY;BYHOUR=1,,2", r"BYHOUR '' is not allowed"),
        ("FREQ=DAILY;BYMINUTE=60", r"BYMINUTE '60' is not allowed; allowed are 0 to 59"),
        ("FREQ=DAILY;BYSECOND=60", r"BYSECOND '60' is not allowed; allowed are 0 to 59"),
        ("FREQ=DAILY;BYMONTH=13", r"BYMONTH '13' is not allowed; allowed are 1 to 12"),
        ("FREQ=DAILY;BYMONTH=JAN", r"BYMONTH 'JAN' is not allowed"),
        ("FREQ=DAILY;BYMONTHDAY=0", r"BYMONTHDAY '0' .* allowed are 1 to 31 and -31 to -1"),
        ("FREQ=DAILY;BYMONTHDAY=32", r"BYMONTHDAY '32' is not allowed"),
        ("FREQ=YEARLY;BYYEARDAY=367", r"BYYEARDAY '367' .* 1 to 366 and -366 to -1"),
        ("FREQ=YEARLY;BYWEEKNO=54;BYDAY=MO", r"BYWEEKNO '54' .* 1 to 53 and -53 to -1"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=0", r"BYSETPOS '0' is not allowed"),
        ("FREQ=MONTHLY;BYDAY=XX", r"BYDAY 'XX' is not allowed; allowed are MO"),
        ("FREQ=MONTHLY;BYDAY=0MO", r"BYDAY '0MO' is not allowed"),
        ("FREQ=MONTHLY;BYDAY=MO(1)", r"BYDAY 'MO\(1\)' is not allowed"),
        ("FREQ=MONTHLY;BYDAY=6MO", r"BYDAY ordinal 6 is more than a month has; .* 1 to 5"),
        ("FREQ=YEARLY;BYMONTH=1;BYDAY=-6MO", r"ordinal -6 is more than a month has"),
        ("FREQ=YEARLY;BYDAY=54MO", r"ordinal 54 is more than a year has; allowed are 1 to 53"),
        ("FREQ=WEEKLY;BYDAY=1MO", r"BYDAY with an ordinal such as 1 is allowed with FREQ=MONTHLY"),
        ("FREQ=YEARLY;BYWEEKNO=2;BYDAY=1MO", r"FREQ=YEARLY without BYWEEKNO"),
        ("FREQ=MONTHLY;BYSETPOS=1", r"BYSETPOS picks from another BY part, and there is none"),
        ("FREQ=MONTHLY;BYWEEKNO=2;BYDAY=MO", r"BYWEEKNO is not allowed with FREQ=MONTHLY"),
        ("FREQ=DAILY;BYYEARDAY=2", r"BYYEARDAY is not allowed with FREQ=DAILY; allowed are YEARLY"),
        ("FREQ=WEEKLY;BYMONTHDAY=2", r"BYMONTHDAY is not allowed with FREQ=WEEKLY"),
        ("FREQ=YEARLY;BYWEEKNO=2", r"BYWEEKNO alone is one day to some readers and seven"),
        ("FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1;BYDAY=MO", r"BYWEEKNO 1 .* INTERVAL readers differ"),
        ("FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO;BYSETPOS=1", r"BYWEEKNO 53 .* BYSETPOS readers differ"),
        ("FREQ=DAILY;BYHOUR=" + "1," * 9_000 + "1", r"too long"),
        ("X" * 60_000, r"too long"),
        ("RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY", r"has one RRULE, and .* has 2"),
        ("DTSTART:20260131T090000", r"has one RRULE, and .* has 0"),
        ("RRULE:FREQ=DAILY\nEXRULE:FREQ=WEEKLY", r"line 'EXRULE:FREQ=WEEKLY' cannot be read"),
        ("RRULE:FREQ=DAILY\nSUMMARY:party", r"line 'SUMMARY:party' cannot be read; allowed are"),
        ("rrule:FREQ=DAILY", r"cannot be read"),
        ("RRULE;X=1:FREQ=DAILY", r"cannot be read"),
        ("DTSTART:20260201T090000\nRRULE:FREQ=DAILY", r"one start, and here are .* and 2026-02-01"),
        ("DTSTART;VALUE=DATE:20260131\nRRULE:FREQ=DAILY", r"'VALUE=DATE' is not allowed"),
        ("DTSTART:20260131\nRRULE:FREQ=DAILY", r"DTSTART '20260131' is no date-time"),
        ("DTSTART:2026-01-31\nRRULE:FREQ=DAILY", r"is no date-time; write it as"),
        ("DTSTART;TZID=UTC:20260131T090000Z\nRRULE:FREQ=DAILY", r"both a Z and a TZID"),
        ("RRULE:FREQ=DAILY\nRDATE;VALUE=PERIOD:20260201T090000/PT1H", r"VALUE=PERIOD"),
        ("RRULE:FREQ=DAILY\nRDATE:20260130T090000", r"RDATE 20260130T090000 is before the start"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260130T090000", r"EXDATE 20260130T090000 is before"),
        ("RRULE:FREQ=DAILY\nEXDATE:20260201T100000", r"2026-02-01T10:00:00 is none of the rule's"),
        ("RRULE:FREQ=DAILY;COUNT=1\nEXDATE:20260131T090000", r"never fires .* nothing is left"),
        ("RRULE:FREQ=DAILY\nRDATE:" + ",".join(["20260201T090000"] * 1_001), r"1001 dates"),
        ("FREQ=MONTHLY;UNTIL=20260201;BYMONTHDAY=5", r"never fires .* nothing is left"),
        (None, r"is text, not None"),
        (5, r"is text, not 5"),
    ],
)  # fmt: skip
def test_rrule_that_cannot_be_read_is_refused_by_part(rule: Any, message: str) -> None:
    """A refusal is one line: the part, what is wrong with it, and what is allowed."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        RRule(rule, start=S)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 350


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=-30",
        "FREQ=MONTHLY;INTERVAL=12;BYMONTH=2",  # the start is in January
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",  # the start is a Saturday
        "FREQ=DAILY;INTERVAL=1002;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=HOURLY;INTERVAL=2;BYHOUR=2",
        "FREQ=MINUTELY;INTERVAL=1440;BYMINUTE=1",
        "FREQ=SECONDLY;BYMONTH=4;BYMONTHDAY=31",
        "FREQ=SECONDLY;BYSETPOS=2;BYHOUR=1",
        "FREQ=YEARLY;BYMONTH=1;BYYEARDAY=32",
        "FREQ=YEARLY;BYWEEKNO=20;BYMONTH=1;BYDAY=MO",
        "FREQ=YEARLY;INTERVAL=100;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
    ],
)
def test_rrule_that_never_fires_is_refused_when_made(rule: str) -> None:
    """No date has all of its parts, or none that INTERVAL reaches."""
    start = "2100-02-06T09:00:00" if "INTERVAL=100;" in rule else S
    with pytest.raises(ScheduleInvalid, match=r"never fires from .*no date has all of its parts"):
        RRule(rule, start=start)


@pytest.mark.parametrize(
    ("rule", "start", "first"),
    [
        ("FREQ=DAILY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29", "2025-01-06T00:00:00", "2044-02-29"),
        ("FREQ=DAILY;INTERVAL=997;BYMONTH=2;BYMONTHDAY=29", "2024-03-01T00:00:00", "4276-02-29"),
        ("FREQ=DAILY;INTERVAL=1009;BYMONTH=2;BYMONTHDAY=29", "2024-03-01T00:00:00", "4060-02-29"),
        ("FREQ=HOURLY;INTERVAL=25;BYMONTH=2;BYMONTHDAY=29;BYHOUR=3", "2024-03-01T00:00:00",
         "2080-02-29"),
        ("FREQ=WEEKLY;INTERVAL=521;BYMONTH=2;BYDAY=SA", "2026-03-01T00:00:00", "2036-02-23"),
        ("FREQ=YEARLY;INTERVAL=28;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO", "2012-03-01T00:00:00",
         "2208-02-29"),
        ("FREQ=MONTHLY;INTERVAL=12;BYDAY=5MO", "2026-02-01T00:00:00", "2044-02-29"),
    ],
)  # fmt: skip
def test_rrule_that_fires_once_in_centuries_is_taken(rule: str, start: str, first: str) -> None:
    """Rare is not never: each day has all parts, and lies a whole number of steps on."""
    schedule = RRule(rule, start=start)
    (found,) = first_of(schedule, 1)

    assert found.date().isoformat() == first
    assert schedule.previous(found - MICROSECOND) is None


@pytest.mark.parametrize(
    ("rule", "most"),
    [
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", 401),
        ("FREQ=MONTHLY;BYMONTH=2;BYMONTHDAY=30", 4_801),
        ("FREQ=WEEKLY;BYDAY=MO;BYSETPOS=2", 20_872),
        ("FREQ=DAILY;INTERVAL=7;BYDAY=MO", 4_801),
        ("FREQ=HOURLY;INTERVAL=48;BYHOUR=2", 1),
        ("FREQ=SECONDLY;BYHOUR=9;BYSETPOS=2", 1),
        ("FREQ=DAILY;INTERVAL=997;BYMONTHDAY=30;BYMONTH=2", 120_000),
    ],
)
def test_rrule_that_never_fires_is_refused_after_a_bounded_search(rule: str, most: int) -> None:
    """No more periods are looked at than differ from each other."""
    counted = RuleDays(parse(rule), datetime(2026, 1, 31, 9))
    periods = counted._periods
    looked_at: list[int] = []

    class Watched:
        step, cycle, of_day = periods.step, periods.cycle, staticmethod(periods.of_day)

        def days(self, number: int) -> list[tuple[datetime, Any]]:
            looked_at.append(number)
            return list(periods.days(number))

    counted._periods = Watched()
    assert not counted.fires()
    assert 1 <= len(looked_at) <= most


def test_rrule_whose_every_time_is_skipped_is_refused_when_made() -> None:
    """The hour of the switch itself exists on no day that the rule names."""
    switch_days = "FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU"
    options: dict[str, Any] = {"start": "2026-03-29T02:30:00", "timezone": "Europe/Berlin"}

    with pytest.raises(ScheduleInvalid, match=r'Europe/Berlin skips each .* gap="next"'):
        RRule(switch_days, **options)
    assert first_of(RRule(switch_days, gap="next", **options), 1) == [utc("2026-03-29T01:00Z")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": datetime(2026, 1, 31, 9, tzinfo=UTC)}, r"start .* has a zone; give the local"),
        ({"start": datetime(2026, 1, 31, 9, 0, 0, 5)}, r"has a fraction"),
        ({"start": date(2026, 1, 31)}, r"start 2026-01-31 is no local time"),
        ({"start": "2026-01-31"}, r"start '2026-01-31' is no local time"),
        ({"start": "2026-01-31T09:00:00Z"}, r"is no local time"),
        ({"start": "2026-02-30T09:00:00"}, r"is no local time"),
        ({"start": 5}, r"start 5 is no local time"),
        ({"start": S, "timezone": "EST"}, r"abbreviation"),
        ({"start": S, "timezone": 5}, r"is a name"),
        ({"start": S, "gap": "jump"}, r"gap 'jump' is not allowed"),
        ({"start": S, "fold": "twice"}, r"fold 'twice' is not allowed"),
    ],
)
def test_rrule_start_or_rule_that_is_unknown_is_refused(
    options: dict[str, Any], message: str
) -> None:
    """A start, a zone or a policy is never guessed."""
    with pytest.raises(ScheduleInvalid, match=message):
        RRule("FREQ=DAILY", **options)


@pytest.mark.parametrize(
    ("text", "timezone", "said"),
    [
        (BERLIN + "RRULE:FREQ=DAILY", "UTC", "timezone= 'UTC', DTSTART 'Europe/Berlin'"),
        ("DTSTART:20260131T090000Z\nRRULE:FREQ=DAILY", "Europe/Berlin", "DTSTART 'UTC'"),
        (BERLIN + "RRULE:FREQ=DAILY\nEXDATE:20260201T080000Z", None, "EXDATE 'UTC'"),
        (BERLIN + "RRULE:FREQ=DAILY\nRDATE;TZID=Asia/Tokyo:20260201T080000", None, "RDATE 'Asia"),
    ],
)
def test_rrule_with_two_zones_is_refused(text: str, timezone: str | None, said: str) -> None:
    """The message names both places that speak."""
    with pytest.raises(ScheduleInvalid, match="has one zone, and here are two") as caught:
        RRule(text, timezone=timezone)

    assert said in caught.value.message


@pytest.mark.parametrize("ask", ["start", "end", "after", "at"])
def test_rrule_asked_with_a_naive_time_refuses_at_once(ask: str) -> None:
    """A naive time is refused by its name, before anything is enumerated."""
    schedule, aware = RRule("FREQ=DAILY", start=S), utc("2026-01-01T00:00Z")
    naive = aware.replace(tzinfo=None)
    calls: dict[str, Callable[[], object]] = {
        "start": lambda: schedule.between(naive, aware),
        "end": lambda: schedule.between(aware, naive),
        "after": lambda: schedule.next(naive),
        "at": lambda: schedule.previous(naive),
    }

    with pytest.raises(NominalTimeInvalid, match=f"^{ask} .* naive"):
        calls[ask]()


# --------------------------------------------------------------------------------- as a value


def test_rrule_is_a_schedule_that_survives_text_and_pickling() -> None:
    """What is stored or sent to a worker is the same schedule again."""
    text = "FREQ=MONTHLY;BYDAY=+1FR,-1FR,MO;BYMONTH=12,1,1"
    schedule = RRule(text, start=S, timezone="Europe/Berlin", gap="shift", fold="last")

    assert isinstance(schedule, Schedule)
    assert schedule.text == (
        "rrule FREQ=MONTHLY;BYMONTH=1,12;BYDAY=-1FR,MO,1FR; start=2026-01-31T09:00:00; "
        "zone=Europe/Berlin; gap=shift; fold=last"
    )
    for other in (schedule, RRule(BERLIN + "RRULE:FREQ=DAILY\nEXDATE:20260201T090000")):
        assert from_text(other.text) == other
        assert pickle.loads(pickle.dumps(other)) == other  # noqa: S301 - our own bytes
        assert eval(repr(other)) == other  # noqa: S307 - our own text
        assert hash(from_text(other.text)) == hash(other)
    assert schedule != RRule(text, start=S, timezone="Europe/Berlin")
    assert duly.RRule is RRule


def test_rrule_parts_in_any_order_have_one_text() -> None:
    """Parts in one fixed order, numbers in ascending order and once each."""
    parts = [
        "BYSETPOS=2,1", "BYSECOND=5,05", "BYMINUTE=3", "BYHOUR=2,1", "BYDAY=TU,MO",
        "BYMONTHDAY=-1,1", "BYMONTH=2", "WKST=SU", "COUNT=10", "INTERVAL=2", "FREQ=MONTHLY",
    ]  # fmt: skip
    start = "2026-02-01T00:00:00"

    assert RRule(";".join(parts), start=start) == RRule(";".join(parts[::-1]), start=start)
    assert RRule(";".join(parts), start=start).recurrence.rule.text == (
        "FREQ=MONTHLY;INTERVAL=2;COUNT=10;WKST=SU;BYMONTH=2;BYMONTHDAY=-1,1;BYDAY=MO,TU;"
        "BYHOUR=1,2;BYMINUTE=3;BYSECOND=5;BYSETPOS=1,2"
    )
