"""Nominal times by the stretch are the nominal times, of every kind of schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly._core.instants import to_us
from duly._core.schedules import Stretched, stretches
from duly.schedules import Cron, Every
from duly.schedules.dates import Dates
from duly.schedules.on_calendar import OnCalendar
from duly.schedules.period import Periods
from duly.schedules.rrule import RRule

if TYPE_CHECKING:
    from duly._core.schedules import Schedule

# The clocks of Berlin, Lord Howe and Havana all change in these weeks.
START = datetime(2026, 10, 2, tzinfo=UTC)
MINUTES = 45 * 24 * 60
MINUTE = timedelta(minutes=1)
ZONES = ("UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata")
EXPRESSIONS = (
    "* * * * *",
    "*/20 * * * *",
    "*/7 * * * *",
    "0,30 * * * *",
    "30 2 * * *",
    "*/15 1-3 * * *",
    "0 9-17 * * MON-FRI",
    "0 0 1 * *",
    "*/20 30 1,2 * * *",
)
OTHERS: tuple[Schedule, ...] = (
    Every(timedelta(minutes=35), anchor=START + timedelta(days=3)),
    Every(timedelta(microseconds=7_000_001), anchor=START),
    OnCalendar("Mon..Fri 09,17:30", timezone="Europe/Berlin"),
    RRule("FREQ=HOURLY;INTERVAL=5", start="2026-10-03T01:30:00", timezone="America/Havana"),
    Dates(["2026-10-05", "2026-10-25"], at="02:30", timezone="Europe/Berlin"),
    Periods(Cron("15 1 * * *", "Europe/Berlin"), "day", offset=-1, timezone="Europe/Berlin"),
)
spans = st.tuples(st.integers(0, MINUTES), st.integers(0, MINUTES)).map(sorted)


def check(schedule: Schedule, span: list[int]) -> None:
    start, end = (START + minutes * MINUTE for minutes in span)

    found = list(stretches(schedule, start, end))

    assert all(found)  # none is empty
    assert [*chain.from_iterable(found)] == [to_us(at) for at in schedule.between(start, end)]


@given(expression=st.sampled_from(EXPRESSIONS), zone=st.sampled_from(ZONES), span=spans)
@settings(deadline=None)
def test_stretches_of_a_cron_expression_are_its_times(
    expression: str, zone: str, span: list[int]
) -> None:
    """From anywhere to anywhere, also where the clocks change."""
    check(Cron(expression, zone), span)


@given(schedule=st.sampled_from(OTHERS), span=spans)
@settings(deadline=None)
def test_stretches_of_any_kind_are_its_times(schedule: Schedule, span: list[int]) -> None:
    """Also of a kind that tells its times one by one."""
    check(schedule, span)


@pytest.mark.parametrize("schedule", [Cron("*/5 * * * *", "Europe/Berlin"), OTHERS[0]])
def test_stretch_of_an_even_day_is_one_range(schedule: Schedule) -> None:
    """Two hundred times cost what one costs."""
    assert isinstance(schedule, Stretched)

    found = list(stretches(schedule, START + timedelta(days=4), START + timedelta(days=5)))

    assert len(found) <= 2  # the day begins at another hour in UTC
    assert all(isinstance(each, range) for each in found)


def test_stretches_of_an_endless_schedule_are_made_as_they_are_asked_for() -> None:
    end = datetime.max.replace(tzinfo=UTC)

    first, second = islice(stretches(Cron("0 12 * * *", "UTC"), START, end), 2)

    assert second[0] - first[-1] == 86_400_000_000
