"""Missing occurrences: plain set difference, from runs of equal steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count, islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import duly
from duly._core.holes import SettledRun, holes, usual_step

if TYPE_CHECKING:
    from collections.abc import Iterable

START = datetime(2026, 3, 1, tzinfo=UTC)
END = datetime.max.replace(tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


def at(minutes: int) -> datetime:
    return START + minutes * MINUTE


def runs_of(settled: Iterable[datetime], step: timedelta) -> list[SettledRun]:
    """What the database makes of its rows: a run ends where the next row is not one step later."""
    runs: list[SettledRun] = []
    for each in sorted(settled):
        if runs and each - runs[-1].last == step:
            runs[-1] = SettledRun(runs[-1].first, each)
        else:
            runs.append(SettledRun(each, each))
    return runs


@given(
    expected=st.sets(st.integers(0, 80), max_size=60),
    settled=st.sets(st.integers(-10, 90), max_size=70),
    step=st.integers(1, 7),
)
@example(expected={0, 1, 2, 3}, settled={1, 2}, step=1)
@example(expected={5, 6}, settled=set(range(-10, 90)), step=1)
@example(expected={0, 2, 3, 4, 6}, settled={0, 2, 4, 6}, step=2)
@example(expected={0, 3, 6}, settled={0, 1, 2, 3}, step=1)
def test_holes_of_any_set_are_the_set_difference(
    expected: set[int], settled: set[int], step: int
) -> None:
    """Whatever is expected and settled, also off the schedule, what is missing is exact."""
    runs = runs_of(map(at, settled), step * MINUTE)

    found = list(holes(map(at, sorted(expected)), runs, step * MINUTE))

    assert found == [at(minutes) for minutes in sorted(expected - settled)]


@given(
    steps=st.lists(st.sampled_from([1, 1, 1, 1, 2, 5, 7]), max_size=150),
    holed=st.sets(st.integers(0, 150), max_size=12),
    extra=st.sets(st.integers(-20, 400), max_size=12),
)
def test_holes_of_an_irregular_schedule_are_the_set_difference(
    steps: list[int], holed: set[int], extra: set[int]
) -> None:
    """Runs that break at every change of step, and rows off the schedule, hide no hole."""
    expected = [at(sum(steps[:index])) for index in range(len(steps) + 1)]
    missing = {each for index, each in enumerate(expected) if index in holed}
    settled = (set(expected) - missing) | set(map(at, extra))
    step = usual_step(expected)

    found = list(holes(expected, runs_of(settled, step), step))

    assert found == sorted(set(expected) - settled)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("30 2 * * *", "Europe/Berlin"),
        ("*/20 * * * *", "Europe/Berlin"),
        ("0 9 * * MON-FRI", "UTC"),
    ],
)
def test_holes_over_a_switch_and_at_both_ends_are_all_found(expression: str, zone: str) -> None:
    """Holes behind, between and past everything settled, also where the clocks change."""
    expected = list(islice(duly.Cron(expression, zone).between(START, END), 3000))
    missing = [expected[0], *expected[17::113], expected[-2], expected[-1]]
    step = usual_step(expected)

    found = list(holes(expected, runs_of(set(expected) - set(missing), step), step))

    assert found == sorted(set(missing))


def test_hole_behind_the_newest_settled_is_found() -> None:
    """A row far in the future, from a clock that was wrong, hides nothing that is due now."""
    ahead = SettledRun(at(1_000_000), at(1_000_000))

    assert list(holes([at(0), at(1)], [ahead], MINUTE)) == [at(0), at(1)]


def test_holes_without_anything_settled_are_all_that_is_expected() -> None:
    assert list(holes([at(0), at(7)], [], MINUTE)) == [at(0), at(7)]


def test_holes_are_read_as_they_are_asked_for() -> None:
    """Neither side is read to its end: the first hole of an endless schedule comes at once."""
    expected = map(at, count())
    runs = (SettledRun(at(10 * n), at(10 * n + 8)) for n in count())

    assert list(islice(holes(expected, runs, MINUTE), 3)) == [at(9), at(19), at(29)]


def test_holes_at_the_end_of_the_calendar_end_with_it() -> None:
    """No step is taken past the year 9999."""
    last = END.replace(hour=0, minute=0, second=0, microsecond=0)
    expected = [last - 2 * DAY, last - DAY, last]

    assert list(holes(expected, [SettledRun(last - DAY, last)], DAY)) == [last - 2 * DAY]


@pytest.mark.parametrize(
    ("minutes", "step"),
    [([], DAY), ([3], DAY), ([0, 5, 10, 11], 5 * MINUTE), ([0, 1, 2, 9, 16], MINUTE)],
)
def test_usual_step_is_the_most_common_distance(minutes: list[int], step: timedelta) -> None:
    assert usual_step(map(at, minutes)) == step


def test_usual_step_of_an_endless_schedule_looks_at_its_beginning() -> None:
    assert usual_step(duly.Every(7 * MINUTE, anchor=START).between(START, END)) == 7 * MINUTE
