"""Jitter: it moves a start, never the nominal time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly._core.jitter import delay
from duly._core.occurrence import Occurrence

DUE = datetime(2026, 9, 13, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_jitter_of_one_key_is_the_same_everywhere() -> None:
    """S40: every host puts the start of one occurrence at the same moment, so it is one start."""
    key = Occurrence("daily-credit", DUE).key

    found = {delay(key, timedelta(minutes=5), due=DUE, next_due=DUE + HOUR) for _ in range(100)}

    assert found == {timedelta(seconds=45, microseconds=949095)}


@given(
    st.text(max_size=30), st.timedeltas(timedelta(0), timedelta(days=60)), st.integers(1, 10**10)
)
def test_jitter_is_less_than_its_bound_and_than_the_time_to_the_next(
    key: str, most: timedelta, period_us: int
) -> None:
    """S59: no start is put off past the next due time, however large the bound."""
    period = timedelta(microseconds=period_us)

    found = delay(key, most, due=DUE, next_due=DUE + period)

    assert timedelta(0) <= found <= most
    assert found < period


def test_jitter_without_a_next_time_is_none() -> None:
    """S59: the last start of a schedule is not put off by fifty days."""
    assert delay("key", timedelta(days=50), due=DUE, next_due=None) == timedelta(0)


def test_jitter_is_spread_evenly_over_keys() -> None:
    """A thousand jobs of one minute start over all of it."""
    minute = timedelta(minutes=1)
    found = [delay(f"job-{n}", minute, due=DUE, next_due=DUE + HOUR) for n in range(1_000)]

    by_ten_seconds = [sum(d // timedelta(seconds=10) == part for d in found) for part in range(6)]
    assert min(by_ten_seconds) > 120
    assert max(by_ten_seconds) < 220


@pytest.mark.parametrize("most", [timedelta(0), timedelta(microseconds=1)])
def test_jitter_of_nothing_is_nothing(most: timedelta) -> None:
    """Without jitter a start is not put off at all."""
    assert delay("key", most, due=DUE, next_due=DUE + HOUR) == timedelta(0)
