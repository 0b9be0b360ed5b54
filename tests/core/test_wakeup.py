"""When a worker looks again, and what its clocks tell it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from duly._core.wakeup import SLACK, DatabaseClock, Look, Steps, look_again, sleep_s

NOW = datetime(2026, 9, 13, 12, tzinfo=UTC)
POLL = timedelta(seconds=30)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("look", "expected"),
    [
        pytest.param(Look(NOW, None), None, id="nothing will be due: the poll"),
        pytest.param(Look(NOW, after(9)), after(9) + SLACK, id="the next due time"),
        pytest.param(Look(NOW, after(9), after(5)), after(5) + SLACK, id="a retry before it"),
        pytest.param(Look(NOW, after(9), after(15)), after(9) + SLACK, id="a retry after it"),
        pytest.param(Look(NOW, after(9), after(5), more=True), NOW, id="more to do: at once"),
        pytest.param(Look(NOW, after(9), stuck=1), after(1) + SLACK, id="stuck once: a second"),
        pytest.param(Look(NOW, after(9), stuck=3), after(4) + SLACK, id="stuck: ever longer"),
        pytest.param(Look(NOW, None, stuck=1000), after(30) + SLACK, id="stuck: at most the poll"),
        pytest.param(
            Look(NOW, after(9), more=True, stuck=2), after(2) + SLACK, id="stuck is not at once"
        ),
        pytest.param(Look(NOW, after(9), stuck=9), after(9) + SLACK, id="a due time before that"),
    ],
)
def test_job_is_looked_at_again(look: Look, expected: datetime | None) -> None:
    """At the first moment at which there may be something to do, and never in a circle."""
    assert look_again(look, POLL) == expected


@pytest.mark.parametrize(
    ("wake_ups", "expected"),
    [
        ([], 1.0),
        ([None], 1.0),
        ([after(0.25), None], 0.25),
        ([after(600)], 1.0),
        ([after(-5)], 0.0),
    ],
)
def test_sleep_ends_at_the_first_wake_up_and_compares_clocks_each_second(
    wake_ups: list[datetime | None], expected: float
) -> None:
    assert sleep_s(NOW, wake_ups) == expected


def test_clock_of_the_database_goes_on_by_the_monotonic_one() -> None:
    """Whatever this host's wall clock says."""
    clock = DatabaseClock()
    assert clock.now(100.0) is None

    clock.learn(NOW, 100.0)

    assert clock.now(100.0) == NOW
    assert clock.now(107.5) == after(7.5)
    clock.learn(after(-60), 108.0)  # it was set back
    assert clock.now(109.0) == after(-59)


def test_clock_that_is_set_and_a_machine_that_slept_are_told_from_time_that_passes() -> None:
    steps = Steps()
    assert not steps.stepped(1000.0, 10.0)  # nothing to compare with

    assert not steps.stepped(1001.0, 11.0)
    assert not steps.stepped(1061.4, 71.0)  # a process that was stopped, and a clock that is slewed
    assert steps.stepped(4662.4, 72.0)  # asleep for an hour: the monotonic clock stood still
    assert not steps.stepped(4663.4, 73.0)
    assert steps.stepped(4600.0, 74.0)  # set back
    assert not steps.stepped(4601.0, 75.0)
