"""Cron: which instants an expression names in a zone, and which expressions are refused."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from duly import zones
from duly._core.schedules import Schedule
from duly._core.schedules.cron_fields import parse
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Cron, from_text

if TYPE_CHECKING:
    from collections.abc import Callable

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


def readable(expression: str) -> bool:
    """Whether this version reads the expression's syntax; if it does, its vectors must hold."""
    try:
        parse(expression)
    except ScheduleInvalid:
        return never_fires(expression)
    return True


def never_fires(expression: str) -> bool:
    """Whether the expression is refused for naming no day, and for nothing else."""
    with pytest.raises(ScheduleInvalid) as caught:
        parse(expression)
    return "never fires" in caught.value.message


ROWS = [row for row in VECTORS["cron"] if readable(row["expr"]) and any(row["expect"]["vixie"])]
CASES = [
    pytest.param(row, policy, id=f"{row['id']}-{policy}")
    for row in ROWS
    for policy in row["expect"]
]


def test_vectors_that_are_left_out_use_syntax_of_another_kind() -> None:
    """Every vector of plain cron is run, and nothing else is left out."""
    left_out = {row["id"] for row in VECTORS["cron"]} - {row["id"] for row in ROWS}
    never = {row["id"] for row in VECTORS["cron"] if not any(row["expect"]["vixie"])}
    plain = {
        row["id"]
        for row in VECTORS["cron"]
        if row["fields"] in (5, "macro") and not set("LW#") & set(row["expr"].split()[2:3])
    }

    assert left_out.isdisjoint(plain - never)
    assert len(ROWS) >= 33


@pytest.mark.parametrize(("row", "policy"), CASES)
def test_cron_at_a_switch_gives_the_instants_of_its_vector(
    row: dict[str, Any], policy: str
) -> None:
    """Enumerated, stepped forward and stepped back, a schedule is one set of instants."""
    schedule = Cron(row["expr"], row["zone"], **POLICIES[policy])
    start, end = utc(row["start"]), utc(row["end"])
    expected = [utc(text) for text in row["expect"][policy]]

    assert list(schedule.between(start, end)) == expected
    assert stepped_forward(schedule, start, end) == expected
    assert stepped_back(schedule, start, end) == expected


@pytest.mark.parametrize("row", VECTORS["nextprev"], ids=lambda row: row["id"])
def test_cron_asked_near_a_switch_gives_the_neighbours_of_its_vector(row: dict[str, Any]) -> None:
    """Next is strictly later and previous at or before, inside a repeated hour too."""
    schedule = Cron(row["expr"], row["zone"], **POLICIES[row["policy"]])

    assert schedule.next(utc(row["at"])) == utc(row["expect"]["next"])
    assert schedule.previous(utc(row["at"])) == utc(row["expect"]["prev"])


@pytest.mark.parametrize(
    ("expression", "zone", "start", "end", "expected"),
    [
        pytest.param(
            "0 2 * * *", "America/New_York", "2017-03-12T05:00Z", "2017-03-13T04:00Z",
            ["2017-03-12T07:00Z"], id="S11",
        ),
        pytest.param(
            "* * * * *", "Europe/Berlin", "2023-10-29T00:00Z", "2023-10-29T02:00Z", 120, id="S12"
        ),
        pytest.param(
            "0 2 * * *", "America/Chicago", "2024-03-10T06:00Z", "2024-03-11T05:00Z",
            ["2024-03-10T08:00Z"], id="S21-gap",
        ),
        pytest.param(
            "0 1 * * *", "America/Chicago", "2024-11-03T05:00Z", "2024-11-04T06:00Z",
            ["2024-11-03T06:00Z"], id="S21-fold",
        ),
        pytest.param(
            "0 */2 * * *", "America/Toronto", "2023-03-12T05:00Z", "2023-03-12T13:00Z",
            ["2023-03-12T05:00Z", "2023-03-12T08:00Z", "2023-03-12T10:00Z", "2023-03-12T12:00Z"],
            id="S22",
        ),
        pytest.param(
            "0 7-21 * * *", "Europe/Paris", "2023-10-28T19:01Z", "2023-10-29T06:01Z",
            ["2023-10-29T06:00Z"], id="S24",
        ),
        pytest.param(
            "0 7-8 * * *", "America/Los_Angeles", "2020-03-08T08:00Z", "2020-03-09T07:00Z",
            ["2020-03-08T14:00Z", "2020-03-08T15:00Z"], id="S25",
        ),
        pytest.param(
            "0 14 * * *", "America/Los_Angeles", "2018-03-11T08:00Z", "2018-03-12T07:00Z",
            ["2018-03-11T21:00Z"], id="S34",
        ),
        pytest.param(
            "0 20 * * *", "Europe/Paris", "2022-10-31T00:00Z", "2022-11-01T00:00Z",
            ["2022-10-31T19:00Z"], id="S44",
        ),
        pytest.param(
            "0 0 * * 0", "America/Santiago", "2022-08-28T00:00Z", "2022-09-12T00:00Z",
            ["2022-08-28T04:00Z", "2022-09-04T04:00Z", "2022-09-11T04:00Z"], id="S46",
        ),
        pytest.param(
            "* * * * *", "Europe/Berlin", "2016-10-30T00:00Z", "2016-10-30T02:00Z", 120, id="S64"
        ),
        pytest.param(
            "1 2 * * 0", "America/Chicago", "2024-03-10T06:00Z", "2024-03-11T05:00Z",
            ["2024-03-10T08:00Z"], id="S66",
        ),
        pytest.param(
            "0 2 * * *", "America/Los_Angeles", "2025-03-09T08:00Z", "2025-03-10T07:00Z",
            ["2025-03-09T10:00Z"], id="S67",
        ),
        pytest.param(
            "* * * * *", "America/Chicago", "2025-11-02T02:02Z", "2025-11-03T06:58Z", 1736,
            id="S85",
        ),
    ],
)  # fmt: skip
def test_cron_where_others_failed_gives_the_right_instants(
    expression: str, zone: str, start: str, end: str, expected: list[str] | int
) -> None:
    """Reports about other schedulers, by their numbers, have one right answer."""
    found = list(Cron(expression, zone).between(utc(start), utc(end)))

    if isinstance(expected, int):
        assert len(found) == expected
    else:
        assert found == [utc(text) for text in expected]


def test_cron_at_a_fold_across_midnight_stays_in_order() -> None:
    """Where 00:01 goes back to 23:01 of the day before, instants of two days interleave."""
    schedule = Cron("30,0 * * * *", "America/St_Johns")
    start, end = utc("2007-11-04T01:30Z"), utc("2007-11-04T04:31Z")

    expected = [start + timedelta(minutes=30) * n for n in range(7)]
    assert list(schedule.between(start, end)) == expected
    assert stepped_forward(schedule, start, end) == expected
    assert stepped_back(schedule, start, end) == expected


# Values, steps and ranges that a field may hold, with what both day fields starred or not do.
def fields(low: int, high: int) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    # cronsim reads 5-5/1 as 5-59/1, so no range has equal ends.
    ends = st.lists(value, min_size=2, max_size=2, unique=True).map(sorted)
    span = ends.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high - low + 1).map(lambda size: f"*/{size}")
    stepped = st.tuples(ends, st.integers(1, 60)).map(_stepped)
    term = value.map(str) | span | step | stepped | st.just("*")
    return st.lists(term, min_size=1, max_size=3).map(",".join)


def _stepped(parts: tuple[list[int], int]) -> str:
    (low, high), step = parts
    return f"{low}-{high}/{min(step, high - low + 1)}"


expressions = st.tuples(
    fields(0, 59), fields(0, 23), fields(1, 31), fields(1, 12), fields(0, 6)
).map(" ".join)
times = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
zone_names = st.sampled_from(sorted(zones.names()))
policies = st.fixed_dictionaries(
    {"gap": st.sampled_from(["skip", "next", "shift"])}
    | {"fold": st.sampled_from(["first", "last", "both"])}
)


@given(expressions, times)
@example("0 0 */2 * 5", utc("2026-02-01T00:00Z"))
@example("0 0 13 * 5", utc("2026-02-01T00:00Z"))
def test_cron_in_utc_agrees_with_another_evaluator(expression: str, after: datetime) -> None:
    """Without switches, every expression names the times that cronsim names."""
    try:
        schedule = Cron(expression)
    except ScheduleInvalid:
        assert never_fires(expression)
        return
    naive = after.replace(tzinfo=None)
    # cronsim gives up 50 years on; its answers up to there are the reference.
    expected = [found.replace(tzinfo=UTC) for found in islice(CronSim(expression, naive), 5)]

    assert (
        list(islice(schedule.between(after + MICROSECOND, utc("2200-01-01T00:00Z")), 5))[
            : len(expected)
        ]
        == expected
    )


@given(expressions, zone_names, policies, times)
def test_cron_in_any_zone_is_one_set_however_it_is_asked(
    expression: str, zone: str, policy: dict[str, Any], around: datetime
) -> None:
    """Enumerating, stepping forward and stepping back agree, and always move on."""
    try:
        schedule = Cron(expression, zone, **policy)
    except ScheduleInvalid:
        return
    found = list(islice(schedule.between(around, utc("2300-01-01T00:00Z")), 6))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert all(instant.tzinfo is UTC for instant in found)
    for earlier, later in pairwise(found):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
        assert schedule.previous(later) == later


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
    ("word", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("  30   2 * *  mon-Fri ", "30 2 * * MON-FRI"),
    ],
)
def test_cron_text_in_another_spelling_is_one_schedule(word: str, fields: str) -> None:
    """A word, blanks and case change nothing that is stored."""
    assert Cron(word) == Cron(fields)
    assert Cron(word).expression == fields
    assert hash(Cron(word)) == hash(Cron(fields))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * FRI-SUN", "0 0 * * 5-7"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * JAN,dec *", "0 0 * 1,12 *"),
        ("0 0-23/6 * * *", "0 0,6,12,18 * * *"),
        ("05 08 * * *", "5 8 * * *"),
        ("0 0 * * */2", "0 0 * * 0,2,4,6"),
    ],
)
def test_cron_fields_of_equal_meaning_give_equal_times(one: str, other: str) -> None:
    """Names, 0 and 7, ranges and lists are spellings of the same days."""
    start, end = utc("2026-01-01T00:00Z"), utc("2027-01-01T00:00Z")

    assert list(Cron(one).between(start, end)) == list(Cron(other).between(start, end))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", r"has 0 fields; write five"),
        ("* * * *", r"has 4 fields; write five"),
        ("0 2 * * * root", r"has 6 fields; write five"),
        ("60 2 * * *", r"minute \(field 1\), character 1: 60 is not allowed; allowed are 0-59"),
        ("0 24 * * *", r"hour \(field 2\), character 3: 24 is not allowed; allowed are 0-23"),
        ("0 2 0 * *", r"day of month \(field 3\), character 5: 0 is not allowed; allowed are 1-31"),
        ("0 2 32 * *", r"day of month"),
        ("0 2 * 13 *", r"month \(field 4\), .* allowed are 1-12 or JAN-DEC"),
        ("0 2 * 0 *", r"month \(field 4\)"),
        ("0 2 * * 8", r"day of week \(field 5\), .* allowed are 0-7 or SUN-SAT"),
        ("0 2 * * FOO", r"FOO is not allowed"),
        ("0 2 * MON *", r"month \(field 4\).* MON is not allowed"),
        ("JAN 2 * * *", r"minute \(field 1\).* JAN is not allowed"),
        ("0 1,2,99 * * *", r"hour \(field 2\), character 7: 99"),
        ("0 22-4 * * *", r"'22-4' runs backwards; write it as two, such as 22-23,0-4"),
        ("0 0 * * SAT-MON", r"runs backwards"),
        ("5/15 * * * *", r"steps from a single value.* write 5-59/15"),
        ("*/0 * * * *", r"step 0 does not fit its range 0-59; allowed are 1 to 60"),
        ("*/90 * * * *", r"step 90 does not fit"),
        ("0 0 * * */8", r"step 8 does not fit its range 0-6; allowed are 1 to 7"),
        ("0 9-17/10 * * *", r"step 10 does not fit its range 9-17; allowed are 1 to 9"),
        ("1,,2 * * * *", r"'' is empty, a comma too many"),
        ("1, * * * *", r"is empty"),
        ("0 0 ? * MON", r"write \*"),
        ("-5 * * * *", r"cannot be read"),
        ("1.5 * * * *", r"cannot be read"),
        ("*5 * * * *", r"cannot be read"),
        ("0 0 1W * *", r"cannot be read"),
        ("\u0663 * * * *", r"cannot be read"),
        ("9" * 900 + " * * * *", r"cannot be read"),
        ("* " * 600, r"too long"),
        ("0 0 30 2 *", r"never fires: no month of field 4 has day 30"),
        ("0 0 31 4,6,9,11 *", r"never fires"),
        ("0 0 30 2 */2", r"never fires"),
        ("@reboot", r"names no time"),
        ("@every 5m", r"is unknown; write one of @yearly"),
        ("@DAILY", r"is unknown; write one of"),
        ("CRON_TZ=UTC 0 2 * * *", r"give timezone="),
        (None, r"is text, not None"),
        (5, r"is text, not 5"),
    ],
)
def test_cron_text_that_cannot_be_read_is_refused_by_place(expression: Any, message: str) -> None:
    """A refusal is one line: the field, the place, and what is allowed."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        Cron(expression)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_cron_with_a_day_that_never_comes_still_fires_on_its_weekday() -> None:
    """Two restricted day fields mean either, so 30 February does no harm beside Monday."""
    assert Cron("0 0 30 2 MON").next(utc("2026-01-01T00:00Z")) == utc("2026-02-02T00:00Z")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gap": "jump"}, r"gap 'jump' is not allowed; allowed are skip, next, shift"),
        ({"fold": "twice"}, r"fold 'twice' is not allowed; allowed are first, last, both"),
        ({"dst": "quartz"}, r"dst 'quartz' is not allowed"),
        ({"timezone": "EST"}, r"abbreviation"),
        ({"timezone": None}, r"is a name"),
    ],
)
def test_cron_rule_that_is_unknown_is_refused(arguments: dict[str, Any], message: str) -> None:
    """A zone or a policy that is not known is never guessed."""
    with pytest.raises(ScheduleInvalid, match=message):
        Cron("0 2 * * *", **arguments)


@pytest.mark.parametrize(
    ("expression", "gap", "fold"),
    [
        ("30 2 * * *", "next", "first"),
        ("0,30 1-3 * * *", "next", "first"),
        ("* 2 * * *", "skip", "both"),
        ("30 * * * *", "skip", "both"),
        ("30 */2 * * *", "skip", "both"),
        ("0-59 0-23 * * *", "next", "first"),
    ],
)
def test_cron_without_policies_follows_the_rule_of_cron(
    expression: str, gap: str, fold: str
) -> None:
    """A star in the minute or the hour counts elapsed time; anything else runs once."""
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
