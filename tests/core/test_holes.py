"""Missing occurrences: plain set difference, from runs of equal steps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain, count, islice, pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import duly
from duly._core.holes import holes, usual_step
from duly._core.instants import US_MAX
from duly._core.schedules import stretches

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

START = datetime(2026, 3, 1, tzinfo=UTC)
END = datetime.max.replace(tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAY_US = 86_400_000_000


def runs_of(settled: Iterable[int], step: int) -> list[range]:
    """What the database makes of its rows: a run ends where the next row is not one step later."""
    runs: list[range] = []
    for each in sorted(settled):
        if runs and each - runs[-1][-1] == step:
            runs[-1] = range(runs[-1][0], each + 1, step)
        else:
            runs.append(range(each, each + 1, step))
    return runs


def pieces_of(times: Sequence[int], cuts: Iterable[int]) -> list[Sequence[int]]:
    """The same times by the stretch: a range wherever one step tells a piece."""
    bounds = sorted({0, *(cut for cut in cuts if cut < len(times)), len(times)})
    pieces: list[Sequence[int]] = []
    for start, end in pairwise(bounds):
        piece = times[start:end]
        step = piece[1] - piece[0] if len(piece) > 1 else 1
        even = range(piece[0], piece[-1] + 1, step)
        pieces.append(even if list(even) == list(piece) else piece)
    return pieces


def flat(pieces: Iterable[Sequence[int]]) -> list[int]:
    found = list(pieces)
    assert all(found)  # none is empty
    return [*chain.from_iterable(found)]


@given(
    expected=st.sets(st.integers(0, 80), max_size=60),
    settled=st.sets(st.integers(-10, 90), max_size=70),
    step=st.integers(1, 7),
    cuts=st.sets(st.integers(1, 60), max_size=5),
)
@example(expected={0, 1, 2, 3}, settled={1, 2}, step=1, cuts=set())
@example(expected={5, 6}, settled=set(range(-10, 90)), step=1, cuts={1})
@example(expected={0, 2, 3, 4, 6}, settled={0, 2, 4, 6}, step=2, cuts=set())
@example(expected={0, 3, 6}, settled={0, 1, 2, 3}, step=1, cuts=set())
@example(expected=set(range(0, 60, 2)), settled=set(range(0, 60, 4)), step=4, cuts=set())
@example(expected=set(range(60)), settled=set(range(0, 60, 2)), step=2, cuts={7})
@example(expected=set(range(1, 60, 2)), settled=set(range(0, 60, 2)), step=2, cuts={7})
def test_holes_of_any_set_are_the_set_difference(
    expected: set[int], settled: set[int], step: int, cuts: set[int]
) -> None:
    """Whatever is expected and settled, also off the schedule, what is missing is exact."""
    stretched = pieces_of(sorted(expected), cuts)

    found = flat(holes(stretched, runs_of(settled, step)))

    assert found == sorted(expected - settled)


@given(
    first=st.integers(0, 20),
    step=st.integers(1, 6),
    length=st.integers(1, 40),
    settled=st.sets(st.integers(-10, 260), max_size=40),
    settled_step=st.integers(1, 12),
    run=st.tuples(st.integers(0, 120), st.integers(1, 60)),
)
def test_holes_of_an_even_schedule_are_the_set_difference(
    first: int, step: int, length: int, settled: set[int], settled_step: int, run: tuple[int, int]
) -> None:
    """A range of any step against runs of any other, in time with each other or not."""
    expected = range(first, first + length * step, step)
    settled |= set(range(run[0], run[0] + run[1] * settled_step, settled_step))

    found = flat(holes([expected], runs_of(settled, settled_step)))

    assert found == sorted(set(expected) - settled)


@given(
    steps=st.lists(st.sampled_from([1, 1, 1, 1, 2, 5, 7]), max_size=150),
    holed=st.sets(st.integers(0, 150), max_size=12),
    extra=st.sets(st.integers(-20, 400), max_size=12),
    cuts=st.sets(st.integers(1, 150), max_size=6),
)
def test_holes_of_an_irregular_schedule_are_the_set_difference(
    steps: list[int], holed: set[int], extra: set[int], cuts: set[int]
) -> None:
    """Runs that break at every change of step, and rows off the schedule, hide no hole."""
    expected = [sum(steps[:index]) for index in range(len(steps) + 1)]
    missing = {each for index, each in enumerate(expected) if index in holed}
    settled = (set(expected) - missing) | extra
    step = usual_step(expected)

    found = flat(holes(pieces_of(expected, cuts), runs_of(settled, step)))

    assert found == sorted(set(expected) - settled)


@pytest.mark.parametrize(
    ("expression", "zone"),
    [
        ("30 2 * * *", "Europe/Berlin"),
        ("*/20 * * * *", "Europe/Berlin"),
        ("0,10,25 * * * *", "Europe/Berlin"),
        ("0 9 * * MON-FRI", "UTC"),
    ],
)
def test_holes_over_a_switch_and_at_both_ends_are_all_found(expression: str, zone: str) -> None:
    """Holes behind, between and past everything settled, also where the clocks change."""
    until = START + timedelta(days=400)
    stretched = list(stretches(duly.Cron(expression, zone), START, until))
    expected = flat(stretched)
    missing = [expected[0], *expected[17::113], expected[-2], expected[-1]]
    step = usual_step(expected)

    found = flat(holes(stretched, runs_of(set(expected) - set(missing), step)))

    assert found == sorted(set(missing))


def test_hole_behind_the_newest_settled_is_found() -> None:
    """A row far in the future, from a clock that was wrong, hides nothing that is due now."""
    ahead = range(1_000_000, 1_000_001)

    assert flat(holes([[0, 1]], [ahead])) == [0, 1]


def test_holes_without_anything_settled_are_all_that_is_expected() -> None:
    assert flat(holes([[0, 7]], [])) == [0, 7]


def test_holes_are_read_as_they_are_asked_for() -> None:
    """Neither side is read to its end: the first hole of an endless schedule comes at once."""
    expected = ([number] for number in count())
    runs = (range(10 * n, 10 * n + 9) for n in count())

    assert flat(islice(holes(expected, runs), 3)) == [9, 19, 29]


def test_holes_at_the_end_of_the_calendar_end_with_it() -> None:
    """No step is taken past the year 9999."""
    last = US_MAX - US_MAX % DAY_US
    expected = [last - 2 * DAY_US, last - DAY_US, last]
    settled = range(last - DAY_US, last + 1, DAY_US)

    assert flat(holes([expected], [settled])) == [last - 2 * DAY_US]


@pytest.mark.parametrize(
    ("minutes", "step"), [([], DAY_US), ([3], DAY_US), ([0, 5, 10, 11], 5), ([0, 1, 2, 9, 16], 1)]
)
def test_usual_step_is_the_most_common_distance(minutes: list[int], step: int) -> None:
    assert usual_step(minutes) == step


def test_usual_step_of_an_endless_schedule_looks_at_its_beginning() -> None:
    endless = chain.from_iterable(stretches(duly.Every(7 * MINUTE, anchor=START), START, END))

    assert usual_step(endless) == 7 * 60_000_000
