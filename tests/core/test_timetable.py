"""The timetable: its lines are the schedule's own times, and its notes are what the zone did."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import zones
from duly._core.schedules.period import PeriodSchedule
from duly._core.timetable import Line, lines, walls_of
from duly._core.timing import interval
from duly._core.wall_time import FOLDS, GAPS, instants
from duly.errors import NominalTimeInvalid
from duly.schedules import Cron, Every

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.schedules import Schedule

DAY = timedelta(days=1)
MICROSECOND = timedelta(microseconds=1)
ALL = 1_000_000
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


def table(schedule: Schedule, start: str, end: str, zone: str | None = None) -> list[Line]:
    of = zones.load(zone) if zone else schedule.zone  # type: ignore[attr-defined]
    return list(lines(schedule, of, utc(start), until=utc(end), limit=ALL))


def noted(found: Sequence[Line]) -> list[tuple[str, str, str, int]]:
    """Kind, first and last wall time and their number, of each note."""
    return [
        (note.kind, f"{note.first:%m-%d %H:%M}", f"{note.last:%m-%d %H:%M}", note.count)
        for line in found
        for note in line.notes
    ]


# ----------------------------------------------------------------------------------- the vectors

# A schedule that never fires is refused when it is made, and has no timetable.
ROWS = [row for row in VECTORS["cron"] if any(row["expect"]["vixie"])]


@pytest.mark.parametrize(
    ("row", "policy"),
    [
        pytest.param(row, policy, id=f"{row['id']}-{policy}")
        for row in ROWS
        for policy in row["expect"]
    ],
)
def test_lines_at_a_switch_have_the_nominal_times_of_the_vector(
    row: dict[str, Any], policy: str
) -> None:
    """No line is made up, and none is missing."""
    schedule = Cron(row["expr"], row["zone"], **POLICIES[policy])

    found = table(schedule, row["start"], row["end"])

    expected = [utc(text) for text in row["expect"][policy]]
    assert [line.nominal_time for line in found if line.nominal_time] == expected
    assert [line.due_at for line in found if line.due_at] == expected


Expected = list[tuple[str, str, str, int]]


def once(kind: str, wall: str) -> tuple[str, str, str, int]:
    return (kind, wall, wall, 1)


BERLIN_FOLD = "10-25 02:30"
SWITCHES: list[tuple[str, str, Expected]] = [
    ("berlin-gap-fixed", "literal", [once("skipped", "03-29 02:30")]),
    ("berlin-gap-fixed", "next_first", [once("moved", "03-29 02:30")]),
    ("berlin-gap-fixed", "shift_first", [once("moved", "03-29 02:30")]),
    ("berlin-gap-fixed", "vixie", [once("moved", "03-29 02:30")]),
    ("berlin-gap-edge", "next_first", []),
    ("berlin-gap-edge", "literal", []),
    ("berlin-gap-range", "literal", [("skipped", "03-29 02:00", "03-29 02:30", 2)]),
    ("berlin-gap-range", "next_first", [("moved", "03-29 02:00", "03-29 02:30", 2)]),
    (
        "berlin-gap-range",
        "shift_first",
        [once("moved", "03-29 02:00"), once("moved", "03-29 02:30")],
    ),
    ("berlin-gap-hourly", "vixie", [once("skipped", "03-29 02:00")]),
    ("berlin-fold-fixed", "skip_first", [once("only_first", BERLIN_FOLD)]),
    ("berlin-fold-fixed", "skip_last", [once("only_last", BERLIN_FOLD)]),
    (
        "berlin-fold-fixed",
        "literal",
        [once("first_of_both", BERLIN_FOLD), once("last_of_both", BERLIN_FOLD)],
    ),
    ("berlin-fold-edge", "literal", []),
    ("nyc-gap-fixed", "skip_first", [once("skipped", "03-08 02:30")]),
    ("nyc-gap-fixed", "vixie", [once("moved", "03-08 02:30")]),
    ("nyc-weekly-gap", "literal", [once("skipped", "03-08 02:30")]),
    (
        "nyc-fold-hourly",
        "vixie",
        [once("first_of_both", "11-01 01:00"), once("last_of_both", "11-01 01:00")],
    ),
    ("nyc-fold-hourly", "skip_last", [once("only_last", "11-01 01:00")]),
    ("lordhowe-fold", "skip_first", [once("only_first", "04-05 01:45")]),
    (
        "lordhowe-fold",
        "literal",
        [once("first_of_both", "04-05 01:45"), once("last_of_both", "04-05 01:45")],
    ),
    ("lordhowe-fold-outside", "literal", []),
    (
        "lordhowe-fold-q15",
        "skip_first",
        [once("only_first", "04-05 01:30"), once("only_first", "04-05 01:45")],
    ),
    ("apia-skipped-day", "literal", [once("skipped", "12-30 09:00")]),
    ("apia-skipped-day", "next_first", [once("moved", "12-30 09:00")]),
    ("apia-skipped-day", "shift_first", [once("moved", "12-30 09:00")]),
    ("apia-skipped-dom", "skip_first", [once("skipped", "12-30 09:00")]),
    ("saopaulo-midnight-gap", "skip_first", [once("skipped", "11-04 00:00")]),
    ("saopaulo-midnight-gap", "next_first", [once("moved", "11-04 00:00")]),
    ("almaty-fold-nodst", "vixie", [once("only_first", "02-29 23:30")]),
    ("kathmandu-hourly", "vixie", []),
    ("leap-day", "vixie", []),
]


@pytest.mark.parametrize(
    ("name", "policy", "expected"),
    [pytest.param(*each, id="-".join(each[:2])) for each in SWITCHES],
)
def test_lines_at_a_switch_note_what_it_did(name: str, policy: str, expected: Expected) -> None:
    """Skipped, moved, repeated: each by name, with the wall time that the schedule says."""
    [row] = [row for row in ROWS if row["id"] == name]
    schedule = Cron(row["expr"], row["zone"], **POLICIES[policy])

    assert noted(table(schedule, row["start"], row["end"])) == expected


def test_note_of_a_repeated_time_names_the_other_instant() -> None:
    """Whoever reads the one can find the other."""
    for fold, expected in [
        ("first", ["2026-10-25T01:30Z"]),
        ("last", ["2026-10-25T00:30Z"]),
        ("both", ["2026-10-25T01:30Z", "2026-10-25T00:30Z"]),
    ]:
        schedule = Cron("30 2 * * *", "Europe/Berlin", fold=fold)  # type: ignore[arg-type]
        found = table(schedule, "2026-10-25T00:00Z", "2026-10-26T00:00Z")
        assert [line.notes[0].other for line in found] == [utc(text) for text in expected]


def test_time_that_moved_onto_another_says_so() -> None:
    """One line, two wall times: 02:00 and 03:00 are one occurrence there."""
    for expression, beside in [("0 2,3 * * *", True), ("0 2 * * *", False)]:
        schedule = Cron(expression, "Europe/Berlin")
        [line] = table(schedule, "2026-03-29T00:00Z", "2026-03-30T00:00Z")
        assert [note.beside for note in line.notes] == [beside]


def test_skipped_times_of_one_gap_are_one_line_before_its_end() -> None:
    """A job of every second loses an hour in one line, not in 3,600."""
    schedule = Cron("* * * * *", "Europe/Berlin")

    found = table(schedule, "2026-03-29T00:58Z", "2026-03-29T01:02Z")

    assert [f"{line.local:%H:%M}" for line in found] == [
        "01:58",
        "01:59",
        "02:00",
        "03:00",
        "03:01",
    ]
    assert noted(found) == [("skipped", "03-29 02:00", "03-29 02:59", 60)]
    skipped = found[2]
    assert (skipped.nominal_time, skipped.due_at, skipped.offset, skipped.interval) == (None,) * 4


@pytest.mark.parametrize(
    ("start", "end", "seen"),
    [
        ("2026-03-29T01:00:00Z", "2026-03-29T01:00:01Z", 1),
        ("2026-03-29T01:00:01Z", "2026-03-29T02:00:00Z", 0),
        ("2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", 0),
        ("2026-03-29T00:59:59Z", "2026-03-29T01:00:01Z", 1),
    ],
)
def test_skipped_time_belongs_to_the_span_in_which_its_gap_ends(
    start: str, end: str, seen: int
) -> None:
    """Spans side by side show it once."""
    schedule = Cron("30 2 * * *", "Europe/Berlin", gap="skip")

    assert len(table(schedule, start, end)) == seen


def test_line_knows_the_clock_its_offset_and_its_interval() -> None:
    schedule = Cron("0 9 * * *", "Europe/Berlin")

    first, second = table(schedule, "2026-03-28T00:00Z", "2026-03-30T00:00Z")

    assert (first.local, first.offset) == (datetime(2026, 3, 28, 9), timedelta(hours=1))
    assert (second.local, second.offset) == (datetime(2026, 3, 29, 9), timedelta(hours=2))
    assert second.interval == interval(schedule, utc("2026-03-29T07:00Z"))


# ------------------------------------------------------------------------------- any zone, any rule

# Around these, clocks move by an hour either way, by half an hour, by two hours, over midnight,
# by a whole day.
AROUND = {
    "Europe/Berlin": ["2026-03-29", "2026-10-25"],
    "Europe/Dublin": ["2026-03-29", "2026-10-25"],
    "America/New_York": ["2026-03-08", "2026-11-01"],
    "America/St_Johns": ["2007-03-11", "2007-11-04"],
    "America/Sao_Paulo": ["2018-11-04", "2018-02-18"],
    "America/Scoresbysund": ["2026-03-29", "2026-10-25"],
    "America/Nuuk": ["2026-03-29"],
    "Australia/Lord_Howe": ["2026-04-05", "2026-10-04"],
    "Antarctica/Troll": ["2026-03-29", "2026-10-25"],
    "Africa/Casablanca": ["2025-02-23", "2025-04-06"],
    "Asia/Almaty": ["2024-03-01"],
    "Pacific/Apia": ["2011-12-30"],
    "Pacific/Kwajalein": ["1993-08-21"],
    "UTC": ["2026-01-01"],
}
# What is skipped with a whole day is of no day that exists: which one it is shown by is open.
WITHOUT_A_DAY = {"Pacific/Apia", "Pacific/Kwajalein"}
places = st.sampled_from([(zone, day) for zone, days in AROUND.items() for day in days])
expressions = st.one_of(
    st.sampled_from(["30 2 * * *", "*/15 * * * *", "0 * * * *", "0,30 0-4 * * *", "59 23 * * *"]),
    st.builds(
        "{} {} * * {}".format,
        st.sampled_from(["0", "15", "30", "45", "*/20", "7-50/9", "*"]),
        st.sampled_from(["0", "1", "2", "22", "23", "*/2", "1-3", "*"]),
        st.sampled_from(["*", "SUN", "SAT,SUN", "FRI"]),
    ),
)
near = st.timedeltas(-3 * DAY, 3 * DAY)


@settings(deadline=None)
@given(places, expressions, st.sampled_from(GAPS), st.sampled_from(FOLDS), near, near)
def test_lines_are_exactly_between_and_each_skipped_time_stands_once(
    place: tuple[str, str], expression: str, gap: Any, fold: Any, one: timedelta, two: timedelta
) -> None:
    """Whatever the zone, the rule and the span; and every note is what the wall times say."""
    name, day = place
    schedule = Cron(expression, name, gap=gap, fold=fold)
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    start, until = sorted((at + one, at + two))

    found = list(lines(schedule, schedule.zone, start, until=until, limit=ALL))

    nominal = [line.nominal_time for line in found if line.nominal_time is not None]
    assert nominal == list(schedule.between(start, until))
    assert _skipped_walls(found, schedule) == _expected_skips(schedule, start, until)
    for line in found:
        if line.nominal_time is not None:
            assert _said(line) == _expected_notes(schedule, line.nominal_time)
    for line in found[:3] + found[-3:]:
        if line.nominal_time is not None:
            assert line.interval == interval(schedule, line.nominal_time)


@settings(deadline=None)
@given(places, st.sampled_from(["0,30 0-4 * * *", "*/15 * * * *"]), near, near, near)
def test_spans_side_by_side_show_what_one_span_shows(
    place: tuple[str, str], expression: str, one: timedelta, two: timedelta, three: timedelta
) -> None:
    """Where a person begins to look changes nothing but where the first line stands."""
    name, day = place
    schedule = Cron(expression, name, gap="skip")
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    start, middle, until = sorted((at + one, at + two, at + three))

    def shown(first: datetime, last: datetime) -> list[Line]:
        return list(lines(schedule, schedule.zone, first, until=last, limit=ALL))

    assert shown(start, middle) + shown(middle, until) == shown(start, until)


@settings(deadline=None)
@given(
    places,
    st.sampled_from(["30 2 * * *", "30 0 * * *", "45 23 * * *", "15 2 * * SUN"]),
    st.sampled_from(GAPS),
    st.sampled_from([-1, 0, 1]),
    near,
    near,
)
def test_lines_of_a_period_are_exactly_between_and_their_skips_stand_once(
    place: tuple[str, str], expression: str, gap: Any, offset: int, one: timedelta, two: timedelta
) -> None:
    """The due time's switch is noted, and the span is one of nominal times."""
    name, day = place
    inner = Cron(expression, name, gap=gap, fold="first")
    schedule = PeriodSchedule(inner, "day", offset=offset, zone=inner.zone)
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    start, until = sorted((at + one, at + two))

    found = list(lines(schedule, schedule.zone, start, until=until, limit=ALL))

    nominal = [line.nominal_time for line in found if line.nominal_time is not None]
    assert nominal == list(schedule.between(start, until))
    dues = [line.due_at for line in found if line.due_at is not None]
    assert dues == [schedule.due_time(each) for each in nominal]
    for line in found:
        if line.nominal_time is not None:
            assert line.interval == interval(schedule, line.nominal_time)
    expected = [
        wall
        for wall in _expected_skips(inner, start - 6 * DAY, until + 6 * DAY)
        if start <= _day_of(inner, wall.date() + offset * DAY) < until
    ]
    if name not in WITHOUT_A_DAY:
        assert _skipped_walls(found, inner) == expected
    order = [line.due_at or _end(inner, line.local) for line in found]
    assert order == sorted(order)


def _day_of(schedule: Cron, day: date) -> datetime:
    """The first instant of a date."""
    midnight = datetime(day.year, day.month, day.day)
    return instants(midnight, schedule.zone, gap="next", fold="first")[0]


def _skipped_walls(found: Sequence[Line], schedule: Cron) -> list[datetime]:
    """Every wall time that a line without a nominal time stands for."""
    walls = []
    for line in found:
        for note in line.notes:
            if note.kind == "skipped":
                meant = list(schedule.walls(note.first, note.last + MICROSECOND))
                assert (len(meant), line.local) == (note.count, note.first)
                walls += meant
    return walls


def _expected_skips(schedule: Cron, start: datetime, until: datetime) -> list[datetime]:
    """From every wall time within reach: those that have no instant and whose gap ends here."""
    if schedule.gap != "skip":
        return []
    first, last = (at.replace(tzinfo=None) for at in (start - 3 * DAY, until + 3 * DAY))
    return [
        wall
        for wall in schedule.walls(first, last)
        if not instants(wall, schedule.zone, gap="skip", fold="both")
        and start <= _end(schedule, wall) < until
    ]


def _end(schedule: Cron, wall: datetime) -> datetime:
    [end] = instants(wall, schedule.zone, gap="next", fold="first")
    return end


def _said(line: Line) -> list[tuple[str, datetime, datetime, int]]:
    return [(note.kind, note.first, note.last, note.count) for note in line.notes]


def _expected_notes(
    schedule: Cron, nominal_time: datetime
) -> list[tuple[str, datetime, datetime, int]]:
    """From the wall times that name it, by the slow way."""
    kinds = []
    for wall in schedule.wall_times(nominal_time):
        all_of_it = instants(wall, schedule.zone, gap="skip", fold="both")
        if not all_of_it:
            kinds.append(("moved", wall))
        elif len(all_of_it) == 2:
            which = all_of_it.index(nominal_time)
            both = ("first_of_both", "last_of_both")[which]
            kinds.append((both if schedule.fold == "both" else f"only_{schedule.fold}", wall))
    return [
        (kind, walls[0], walls[-1], len(walls))
        for kind, group in groupby(kinds, key=lambda each: each[0])
        for walls in [[wall for _, wall in group]]
    ]


# ---------------------------------------------------------------------------------- periods, others


def test_period_notes_its_due_time_and_its_start_apart() -> None:
    """At the switch both midnight and the start of the job may be missing."""
    inner = Cron("30 0 * * *", "America/Sao_Paulo")
    schedule = PeriodSchedule(inner, "day", offset=0, zone=inner.zone)

    [line] = table(schedule, "2018-11-04T00:00Z", "2018-11-05T00:00Z")

    assert line.nominal_time == line.due_at == utc("2018-11-04T03:00Z")
    assert [(note.of, note.kind, f"{note.first:%H:%M}") for note in line.notes] == [
        ("period", "moved", "00:00"),
        ("due", "moved", "00:30"),
    ]
    assert line.interval is not None
    assert line.interval.end - line.interval.start == timedelta(hours=23)


def test_period_whose_start_is_skipped_says_so_in_its_place() -> None:
    """The day before has no occurrence then, and the table shows the hole."""
    inner = Cron("30 2 * * *", "Europe/Berlin", gap="skip")
    schedule = PeriodSchedule(inner, "day", offset=-1, zone=inner.zone)

    found = table(schedule, "2026-03-26T23:00Z", "2026-03-29T22:00Z")

    assert [line.nominal_time for line in found] == [
        utc("2026-03-26T23:00Z"),
        None,
        utc("2026-03-28T23:00Z"),
    ]
    assert [line.due_at for line in found] == [
        utc("2026-03-28T01:30Z"),
        None,
        utc("2026-03-30T00:30Z"),
    ]


@pytest.mark.parametrize(
    ("offset", "start", "end", "nominal_times"),
    [
        # The hole is the last line: its due time lies a day after the span.
        (-1, "2026-03-26T23:00Z", "2026-03-28T23:00Z", ["2026-03-26T23:00Z", None]),
        # It is the first: its due time lies a day before the span.
        (1, "2026-03-29T22:00Z", "2026-03-31T22:00Z", [None, "2026-03-30T22:00Z"]),
    ],
)
def test_hole_at_either_end_of_a_span_of_periods_is_shown(
    offset: int, start: str, end: str, nominal_times: list[str | None]
) -> None:
    """The span is one of nominal times, wherever their due times lie."""
    inner = Cron("30 2 * * *", "Europe/Berlin", gap="skip")
    schedule = PeriodSchedule(inner, "day", offset=offset, zone=inner.zone)

    found = table(schedule, start, end)

    assert [line.nominal_time for line in found] == [
        None if text is None else utc(text) for text in nominal_times
    ]


def test_hole_in_a_gap_that_ends_at_midnight_is_of_the_day_before() -> None:
    """23:45 of 28 March does not exist in Scoresbysund; its gap ends where the 29th begins."""
    inner = Cron("45 23 * * *", "America/Scoresbysund", gap="skip")
    schedule = PeriodSchedule(inner, "day", offset=0, zone=inner.zone)
    midnights = [_day_of(inner, date(2026, 3, day)) for day in (28, 29, 30)]

    [saturday], [sunday] = (
        list(lines(schedule, inner.zone, start, until=end, limit=ALL))
        for start, end in pairwise(midnights)
    )

    assert (saturday.nominal_time, sunday.nominal_time) == (None, midnights[1])


def test_hour_that_does_not_exist_is_a_hole_where_it_would_be() -> None:
    """An hourly period in a gap has no hour of its own."""
    inner = Cron("5 * * * *", "Europe/Berlin")
    schedule = PeriodSchedule(inner, "hour", offset=0, zone=inner.zone)

    found = table(schedule, "2026-03-29T00:00Z", "2026-03-29T02:00Z")

    assert [f"{line.local:%H:%M}" for line in found] == ["01:00", "02:05", "03:00"]
    assert [line.nominal_time is None for line in found] == [False, True, False]


def test_interval_of_a_period_is_the_period_though_others_are_left_out() -> None:
    """A Monday's day is a day, not the week since the last."""
    inner = Cron("0 6 * * MON", "Europe/Berlin")
    schedule = PeriodSchedule(inner, "day", offset=0, zone=inner.zone)

    for line in table(schedule, "2026-06-01T00:00Z", "2026-06-30T00:00Z"):
        assert line.interval is not None
        assert line.interval.end - line.interval.start == DAY


def test_gaps_with_nothing_between_them_are_a_line_each() -> None:
    """The second Sunday of March at 02:30 has not existed in New York since 2007."""
    schedule = Cron("30 2 * 3 SUN#2", "America/New_York", gap="skip")

    found = table(schedule, "2026-01-01T00:00Z", "2029-01-01T00:00Z")

    assert noted(found) == [
        once("skipped", "03-08 02:30"), once("skipped", "03-14 02:30"),
        once("skipped", "03-12 02:30"),
    ]  # fmt: skip


def test_elapsed_interval_has_no_notes_and_any_clock() -> None:
    """It names no wall times, so no switch can do anything to it."""
    schedule = Every(timedelta(minutes=30), anchor=utc("2026-01-01T00:00Z"))

    found = table(schedule, "2026-10-25T00:00Z", "2026-10-25T02:00Z", "Europe/Berlin")

    assert walls_of(schedule) is None
    assert noted(found) == []
    assert [f"{line.local:%H:%M}" for line in found] == ["02:00", "02:30", "02:00", "02:30"]
    assert [line.offset for line in found] == [timedelta(hours=2)] * 2 + [timedelta(hours=1)] * 2


# ------------------------------------------------------------------------------------------- bounds


def test_lines_are_lazy_and_end_at_their_limit() -> None:
    """Five leap days come at once, though nothing bounds the span."""
    schedule = Cron("0 0 29 2 *", "Europe/Berlin", gap="skip")

    found = list(lines(schedule, schedule.zone, utc("2026-01-01T00:00Z"), limit=5))

    assert [line.local.year for line in found] == [2028, 2032, 2036, 2040, 2044]


def test_lines_search_back_only_once() -> None:
    """A search at a switch looks at days of seconds; each line knows the one before it."""

    class Asked(Cron):
        searches = 0

        def previous(self, at: datetime) -> datetime | None:
            self.searches += 1
            return super().previous(at)

    schedule = Asked("* * * * * *", "Europe/Berlin")

    found = list(lines(schedule, schedule.zone, utc("2026-03-29T00:59:50Z"), limit=50))

    assert len(found) == 50
    assert schedule.searches == 1


def test_skipped_day_of_seconds_is_one_line() -> None:
    """86,400 wall times, and a zone that is asked for the end of their gap once."""
    schedule = Cron("* * * * * *", "Pacific/Apia")

    found = list(lines(schedule, schedule.zone, utc("2011-12-30T09:59:59Z"), limit=3))

    assert noted(found) == [("skipped", "12-30 00:00", "12-30 23:59", 86_400)]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("gap", GAPS)
def test_lines_end_with_the_calendar(zone: str, gap: Any) -> None:
    """After the year 9999 there are none, and no error."""
    schedule = Cron("0 * * * *", zone, gap=gap, fold="both")

    found = list(lines(schedule, schedule.zone, utc("9999-12-31T12:00Z"), limit=ALL))

    assert 1 <= len(found) <= 12
    assert all(line.nominal_time for line in found)
    assert not list(lines(schedule, schedule.zone, datetime.max.replace(tzinfo=UTC), limit=ALL))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
@pytest.mark.parametrize("gap", GAPS)
def test_lines_begin_with_the_calendar(zone: str, gap: Any) -> None:
    """At the year 1 there is nothing before, and no error."""
    schedule = Cron("0 * * * *", zone, gap=gap, fold="both")

    found = list(lines(schedule, schedule.zone, datetime.min.replace(tzinfo=UTC), limit=3))

    assert [line.interval is None for line in found] == [True, False, False]


def test_clock_of_a_zone_past_the_calendar_is_shown_in_utc() -> None:
    """Tokyo's year 10000 has no date; the instant has one."""
    schedule = Every(DAY, anchor=utc("9999-12-30T20:00Z"))

    found = list(lines(schedule, zones.load("Asia/Tokyo"), utc("9999-12-31T00:00Z"), limit=ALL))

    assert [(line.local, line.offset) for line in found] == [
        (datetime(9999, 12, 31, 20), timedelta(0))
    ]


def test_span_that_is_naive_or_reversed_is_refused() -> None:
    schedule = Cron("0 0 * * *")
    day = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(NominalTimeInvalid, match="naive"):
        lines(schedule, schedule.zone, day.replace(tzinfo=None), limit=1)
    with pytest.raises(NominalTimeInvalid, match="is after"):
        lines(schedule, schedule.zone, day, until=day - DAY, limit=1)
    assert list(lines(schedule, schedule.zone, day, until=day, limit=1)) == []
