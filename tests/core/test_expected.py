"""Which occurrences should exist: edits change the future alone, pauses take what falls due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from duly._core.expected import Expected, Pause, Span
from duly._core.schedules.period import PeriodSchedule
from duly._core.timing import due_time
from duly.schedules import Cron, Every
from duly.schedules.period import Periods

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.schedules import Schedule

# The clocks of Berlin, Lord Howe and Havana all change in these weeks.
START = datetime(2026, 10, 2, tzinfo=UTC)
UNTIL = START + timedelta(days=45)
END = datetime.max.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
MINUTES = 30 * 24 * 60

PLAIN: tuple[Any, ...] = (
    ("30 2 * * *", "Europe/Berlin"),
    ("0 */8 * * *", "Europe/Berlin"),
    ("30 0 * * *", "America/Havana"),
    ("0 9 * * MON-FRI", "UTC"),
    ("0 */6 * * *", "Australia/Lord_Howe"),
    "every 7 hours",
    None,
)
# A history is a schedule of each of its revisions: it takes its time, and says so.
SLOW = settings(deadline=None, max_examples=40)
# Every one of a row starts each of its periods once; what differs is when, and in which zone.
TIMES = {
    "hour": ("5 * * * *", "50 * * * *"),
    "day": ("15 1 * * *", "15 2 * * *", "45 23 * * *", "5 0 * * *"),
    "week": ("0 3 * * MON", "0 3 * * THU", "30 22 * * SUN"),
}
ZONES = ("UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Niue", "Australia/Lord_Howe")


@cache
def plain(which: Any) -> Schedule | None:
    if which is None:
        return None
    if which == "every 7 hours":
        return Every(timedelta(hours=7), anchor=START)
    return Cron(*which)


@cache
def periods(period: Any, expression: str, zone: str, offset: int = 0) -> Periods:
    return Periods(Cron(expression, zone), period, offset=offset, timezone=zone)


def at(minutes: int) -> datetime:
    return START + minutes * MINUTE


class History(NamedTuple):
    """The schedules of a job, and the minutes of the edits between them."""

    schedules: list[Schedule | None]
    edits: list[int]
    start: int = 0
    until: datetime = UNTIL

    def expected(
        self, count: int | None = None, pauses: Sequence[tuple[int, int]] = ()
    ) -> Expected:
        """What the first *count* of the schedules expect, or all."""
        schedules = self.schedules[:count]
        starts = [at(self.start), *map(at, self.edits)][: len(schedules)]
        bounds = zip(starts, [*starts[1:], END], strict=True)
        spans = [
            Span(schedule, start, end, number)
            for number, (schedule, (start, end)) in enumerate(
                zip(schedules, bounds, strict=True), start=1
            )
        ]
        return Expected(spans, [Pause(at(one), at(other)) for one, other in sorted(pauses)])


@st.composite
def histories(draw: st.DrawFn, *, kinds: Sequence[str] = ("plain", *TIMES)) -> History:
    """Up to five schedules of one kind; those of hours within one day, for there are many."""
    kind = draw(st.sampled_from(kinds))
    start, days = (22 * 1440 + 720, 1) if kind == "hour" else (0, 30)
    minutes = st.integers(start + 1, start + days * 1440)
    edits = sorted(draw(st.sets(minutes, max_size=4)))
    offset = draw(st.sampled_from([-1, 0, 1]))
    schedules: list[Schedule | None] = []
    for _ in range(len(edits) + 1):
        if kind == "plain":
            schedules.append(plain(draw(st.sampled_from(PLAIN))))
            continue
        expressions = [*TIMES[kind], *(["15 4 * * MON-FRI"] if kind == "day" else [])]
        expression, zone = draw(st.sampled_from(expressions)), draw(st.sampled_from(ZONES))
        removed = draw(st.integers(0, 9)) == 0
        schedules.append(None if removed else periods(kind, expression, zone, offset))
    until = at(start) + timedelta(days=2 if kind == "hour" else 45)
    return History(schedules, edits, start, until)


spells = st.lists(
    st.tuples(st.integers(0, MINUTES), st.integers(0, MINUTES)).map(lambda two: tuple(sorted(two))),
    max_size=4,
)


@given(histories(), spells)
@settings(SLOW)
def test_edit_changes_nothing_that_was_expected_before_it(
    history: History, pauses: list[tuple[int, int]]
) -> None:
    """Up to the last moment before an edit, the set is the one it was without that edit."""
    for count in range(1, len(history.schedules)):
        before = history.expected(count, pauses)
        after = history.expected(count + 1, pauses)
        last = at(history.edits[count - 1]) - MICROSECOND

        assert [*after.due_until(last)] == [*before.due_until(last)]


@given(histories(), spells)
@settings(SLOW)
def test_expected_of_any_history_strictly_increases_and_agrees_with_itself(
    history: History, pauses: list[tuple[int, int]]
) -> None:
    """No edit expects one time twice; each has one span, and its due time lies in it."""
    expected = history.expected()
    paused = history.expected(pauses=pauses)

    found = [*expected.due_until(history.until)]
    dues = [expected.due_time(each) for each in found]

    assert found == sorted(set(found))
    assert dues == sorted(dues)  # type: ignore[type-var]
    for each, due in [*zip(found, dues, strict=True)][:40]:
        span = expected.span_of(each)
        assert due is not None
        assert span is not None
        assert span.start <= due < span.end
        assert paused.span_of(each) == span
    assert all(expected.span_of(each + MICROSECOND) is None for each in found[:5])
    # Pauses: by a plain filter over the due times.
    spans = [(at(one), at(other)) for one, other in pauses]
    awake = [
        each
        for each, due in zip(found, dues, strict=True)
        if due and not any(one <= due < other for one, other in spans)
    ]
    assert [*paused.due_until(history.until)] == awake
    # Any part of it, and the next one after any time, are those of the whole.
    for since, until in [(at(0), at(17_000)), (at(9_999), at(30_303)), *spans]:
        if until > history.until:
            continue
        part = [e for e, due in zip(found, dues, strict=True) if due and since <= due < until]
        assert [*expected.due_between(since, until)] == part
        later = [due for due in dues if due and due > since]
        if later:
            assert expected.next_due(since) == later[0]
    awake_dues = [paused.due_time(each) for each in awake]
    for due, following in [*pairwise(awake_dues)][::5]:
        if due and following and due < following:
            assert paused.next_due(due) == following


@given(histories())
@settings(SLOW)
def test_time_that_no_span_expects_has_none(
    history: History,
) -> None:
    """What another revision would have named, at a time that was not its own, is not expected."""
    expected = history.expected()
    found = {*expected.due_between(at(history.start), history.until)}

    for schedule in filter(None, history.schedules):
        for each in islice(schedule.between(at(history.start), history.until), 40):
            due = expected.due_time(each)
            if due is None or due < history.until:
                assert (due is not None) == (each in found)


@given(histories(kinds=[*TIMES]), st.booleans())
@settings(SLOW)
def test_edit_of_a_period_loses_no_period_and_expects_none_twice(
    history: History, one_zone: bool
) -> None:
    """Whatever time of day and zone each edit brings: period follows period."""
    every = [each for each in history.schedules if each and "MON-FRI" not in each.text]
    schedules: list[Any] = []
    for each in every:
        assert isinstance(each, Periods)
        zone = every[0].zone.key if one_zone else each.zone.key  # type: ignore[attr-defined]
        expression = each.schedule.expression  # type: ignore[attr-defined]
        schedules.append(periods(each.period, expression, zone, each.offset))
    assume(schedules)
    edits = history.edits[: len(schedules) - 1]
    expected = history._replace(schedules=schedules, edits=edits).expected()

    found = [*expected.due_until(history.until)]

    for one, later in pairwise(found):
        old, new = expected.span_of(one), expected.span_of(later)
        assert old is not None
        assert new is not None
        assert isinstance(old.schedule, PeriodSchedule)
        assert isinstance(new.schedule, PeriodSchedule)
        end = old.schedule.interval(one)[1]
        assert later == new.schedule.next(end - MICROSECOND)  # the first that does not overlap
        if one_zone:
            assert later == end
    assert found[-1] == schedules[-1].newest_due(history.until)


def day(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new", "edit", "expected"),
    [
        # The day that the old one started is not started again by the later time of day.
        (
            "15 1 * * *",
            "15 2 * * *",
            "2026-10-06T01:30",
            [("10-04", "10-05T01:15"), ("10-05", "10-06T01:15"), ("10-06", "10-07T02:15")],
        ),
        # The day that the old one had still to start, and the new one just missed, is due at once.
        (
            "15 2 * * *",
            "15 1 * * *",
            "2026-10-06T01:30",
            [("10-04", "10-05T02:15"), ("10-05", "10-06T01:30"), ("10-06", "10-07T01:15")],
        ),
        # What the old one never started is not owed: the weekend stays as it was.
        (
            "15 2 * * TUE-SAT",
            "15 1 * * *",
            "2026-10-12T12:00",
            [("10-09", "10-10T02:15"), ("10-12", "10-13T01:15")],
        ),
        # Nor is what the new one would have started alone, before it was in force.
        (
            "15 2 * * TUE-SAT",
            "15 1 * * SUN",
            "2026-10-11T12:00",
            [("10-09", "10-10T02:15"), ("10-17", "10-18T01:15")],
        ),
    ],
    ids=["later", "earlier", "weekdays", "sundays"],
)
def test_edit_within_a_period_starts_it_once(
    old: str, new: str, edit: str, expected: list[tuple[str, str]]
) -> None:
    schedules = [periods("day", each, "UTC", -1) for each in (old, new)]
    spans = [Span(schedules[0], START, day(edit), 1), Span(schedules[1], day(edit), END, 2)]
    edited_one = Expected(spans)

    since, until = (day(f"2026-{expected[at][1]}") for at in (0, -1))
    found = [*edited_one.due_between(since, until + MICROSECOND)]

    assert found == [day(f"2026-{nominal}") for nominal, _ in expected]
    assert [edited_one.due_time(each) for each in found] == [
        day(f"2026-{due}") for _, due in expected
    ]
    assert edited_one.next_due(since) == day(f"2026-{expected[1][1]}")


def test_several_edits_within_a_period_start_it_once() -> None:
    """One that is owed is owed by one revision, and later ones do not start it again."""
    times = ("15 2 * * *", "15 1 * * *", "45 1 * * *", "45 2 * * *")
    edits = [4 * 1440 + 90, 4 * 1440 + 100, 4 * 1440 + 110]
    expected = History([periods("day", each, "UTC", -1) for each in times], edits).expected()

    found = [*expected.due_between(at(3 * 1440), at(6 * 1440))]

    assert found == [at(2 * 1440), at(3 * 1440), at(4 * 1440)]
    assert [expected.span_of(each).revision for each in found] == [1, 2, 4]  # type: ignore[union-attr]


def test_second_start_in_a_period_is_none_wherever_the_span_begins() -> None:
    """What falls due twice in one period is expected once, by the first."""
    twice = PeriodSchedule.__new__(PeriodSchedule)
    once = periods("day", "15 1 * * *", "UTC")
    twice.__dict__.update(once.__dict__, schedule=Cron("0 1,13 * * *", "UTC"))
    span = Span(twice, START + 6 * 60 * MINUTE, END, 1)

    for expected in (Expected([span]), Expected([Span(twice, START, span.start, 1), span])):
        found = [*expected.due_between(span.start, START + 3 * DAY)]
        assert found == [START + DAY, START + 2 * DAY]
        assert all(expected.due_time(each) == due_time(twice, each) for each in found)


def test_retired_job_expects_nothing_until_it_is_back() -> None:
    """And a period that fell due in between is not owed to it."""
    schedule = periods("day", "15 1 * * *", "UTC")
    expected = History([schedule, None, schedule], [1440, 3 * 1440]).expected()

    assert [*expected.due_until(START + 4 * DAY)] == [START, START + 3 * DAY]
    assert expected.next_due(START + DAY) == START + 3 * DAY + 75 * MINUTE
    assert Expected([]).next_due(START) is None
    assert History([None], []).expected().next_due(START) is None


def test_pause_without_an_end_takes_all_that_follows() -> None:
    expected = Expected([Span(plain(PLAIN[0]), START, END, 1)], [Pause(START + 2 * DAY, None)])

    assert len([*expected.due_until(UNTIL)]) == 2
    assert expected.next_due(START + 2 * DAY) is None
    assert expected.span_of(START + 5 * DAY + 30 * MINUTE) is not None


def test_end_of_a_pause_and_of_a_span_belong_to_what_follows() -> None:
    """Half-open, as every span of time: what falls due as a pause ends is expected."""
    hourly = Every(60 * MINUTE, anchor=START)
    pause = Pause(START + 60 * MINUTE, START + 180 * MINUTE)
    expected = Expected([Span(hourly, START, START + 300 * MINUTE, 1)], [pause])

    assert [(t - START) // (60 * MINUTE) for t in expected.due_until(UNTIL)] == [0, 3, 4]


def test_expected_is_lazy() -> None:
    """The first of an endless schedule comes at once."""
    expected = Expected([Span(Every(MINUTE, anchor=START), START, END, 1)])

    assert next(expected.due_between(START, END)) == START
    assert next(expected.due_until(END)) == START
    assert expected.next_due(END) is None


def test_schedules_as_one_name_each_time_once() -> None:
    """Also the very first of the span that is asked for, which two revisions name."""
    hourly = Every(HOUR, anchor=START)
    made, edited = START + 10.1 * HOUR, START + 10.5 * HOUR  # nothing was due in between
    revised = Expected([Span(hourly, made, edited, 1), Span(hourly, edited, END, 2)]).revised()
    assert revised is not None

    for first in (START, START + 5 * HOUR, START + 11 * HOUR):
        found = list(revised.between(first, first + 3 * HOUR))
        assert found == [first, first + HOUR, first + 2 * HOUR]


@given(histories())
@settings(SLOW)
def test_schedules_as_one_name_what_is_expected(
    history: History,
) -> None:
    """A start by name finds each expected time on the schedule that expects it."""
    last = history.schedules[-1]
    assume(not isinstance(last, Periods) or last.offset <= 0)
    expected = history.expected()
    revised = expected.revised()

    assert (revised is None) == (history.schedules[-1] is None)
    if revised is not None:
        for each in islice(expected.due_until(history.until), 60):
            assert revised.previous(each) == each
            assert revised.of(each) is expected.span_of(each).schedule  # type: ignore[union-attr]
