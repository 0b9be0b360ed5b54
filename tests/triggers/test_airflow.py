"""Airflow: what its dates mean, version by version, and when nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from duly import zones
from duly._core.resolve import nominal_time
from duly._core.start import Start
from duly.errors import NotDue, StartInvalid
from duly.schedules import Cron
from duly.triggers.airflow import read_context, read_environment

NIGHTLY = Cron("0 1 * * *")
NOW = datetime(2026, 9, 14, 1, 0, 20, tzinfo=UTC)
FIRED = datetime(2026, 9, 14, 1, tzinfo=UTC)
BEFORE = datetime(2026, 9, 13, 1, tzinfo=UTC)
OLD, NEW, RUN = "AIRFLOW_CTX_EXECUTION_DATE", "AIRFLOW_CTX_LOGICAL_DATE", "AIRFLOW_CTX_DAG_RUN_ID"
INTERVALS = "AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS"
OPEN = r'cannot be told; pass --at "\{\{ data_interval_end \| ts \}\}"$'


def resolved(start: Start | None) -> datetime:
    assert start is not None
    found = nominal_time(start, NIGHTLY, zone=zones.load("UTC"), now=NOW)
    assert found.source == "airflow"
    return found.time


@dataclass(frozen=True)
class DagRun:
    run_after: datetime | None = None
    run_id: str = "scheduled__2026-09-14T01:00:00+00:00"


def test_environment_of_airflow_2_has_the_start_of_the_interval() -> None:
    """The run that Airflow 2 starts on the 14th for the 13th is the occurrence of the 14th."""
    start = read_environment({OLD: BEFORE.isoformat(), RUN: "scheduled__x"})

    assert start == Start(
        "airflow", BEFORE, f"{OLD}='2026-09-13T01:00:00+00:00'", means="interval_start"
    )
    assert resolved(start) == FIRED


def test_environment_of_airflow_3_has_the_time_of_the_start() -> None:
    """With Airflow 3's own timetables the logical date is the fire time."""
    start = read_environment({NEW: FIRED.isoformat(), RUN: "scheduled__x"})

    assert start == Start("airflow", FIRED, f"{NEW}='2026-09-14T01:00:00+00:00'")
    assert resolved(start) == FIRED


def test_environment_of_a_run_by_hand_in_airflow_2_is_not_due() -> None:
    """Its date is now, and no interval that begins now has ended."""
    with pytest.raises(NotDue):
        resolved(read_environment({OLD: NOW.isoformat()}))


def test_environment_of_a_run_by_hand_in_airflow_3_means_the_newest_due() -> None:
    """Its date is now."""
    assert resolved(read_environment({NEW: NOW.isoformat()})) == FIRED


def test_environment_of_a_run_without_a_date_is_refused() -> None:
    """An asset's run has no logical date, and Airflow exports none."""
    with pytest.raises(StartInvalid) as caught:
        read_environment({RUN: "asset_triggered__2026-09-14T01:00:00+00:00"})

    assert caught.value.message == (
        "AIRFLOW_CTX_DAG_RUN_ID 'asset_triggered__2026-09-14T01:00:00+00:00' has no logical date "
        "(an asset or a person may have started it); give --at the time that is meant"
    )


@pytest.mark.parametrize(
    "environ",
    [
        {OLD: BEFORE.isoformat(), NEW: FIRED.isoformat()},
        {NEW: BEFORE.isoformat(), INTERVALS: "True"},
        {NEW: BEFORE.isoformat(), INTERVALS: "1"},
        {OLD: BEFORE.isoformat(), INTERVALS: "false"},
    ],
)
def test_environment_that_leaves_the_meaning_open_is_not_guessed(environ: dict[str, str]) -> None:
    """Where a setting turns a version's default round, one period would be silently wrong."""
    with pytest.raises(StartInvalid, match=OPEN) as caught:
        read_environment(environ)

    assert all(f"{name}='{value}'" in caught.value.message for name, value in environ.items())


@pytest.mark.parametrize(
    "environ",
    [{NEW: FIRED.isoformat(), INTERVALS: "False"}, {OLD: BEFORE.isoformat(), INTERVALS: "true"}],
)
def test_environment_with_the_default_of_its_version_is_read(environ: dict[str, str]) -> None:
    """Saying the default aloud changes nothing."""
    assert resolved(read_environment(environ)) == FIRED


@pytest.mark.parametrize("name", [OLD, NEW])
@pytest.mark.parametrize("value", ["", "2026-09-13T01:00:00", "None", "{{ ts }}"])
def test_date_that_does_not_parse_is_refused_by_name(name: str, value: str) -> None:
    """Not even a run id beside it is read instead."""
    with pytest.raises(StartInvalid, match=rf"^{name} '"):
        read_environment({name: value, RUN: "scheduled__2026-09-14T01:00:00+00:00"})


def test_environment_outside_a_task_is_not_airflow() -> None:
    """A worker's own settings are no task's."""
    assert read_environment({"AIRFLOW_HOME": "x", INTERVALS: "True"}) is None


@pytest.mark.parametrize(
    "context",
    [
        {"data_interval_end": FIRED, "logical_date": BEFORE},  # 2, or an interval timetable in 3
        {"data_interval_end": FIRED, "logical_date": FIRED, "dag_run": DagRun(FIRED)},
        {"data_interval_end": "2026-09-14T03:00:00+02:00"},
        {"logical_date": FIRED, "dag_run": DagRun(FIRED)},
    ],
)
def test_context_says_the_time_of_the_start(context: dict[str, Any]) -> None:
    """The end of the interval is the fire time in both versions."""
    start = read_context(context)

    assert start is not None
    assert start.means == "scheduled"
    assert start.at == FIRED
    assert resolved(start) == FIRED


@pytest.mark.parametrize(
    "context",
    [
        {"logical_date": BEFORE},
        {"logical_date": BEFORE, "dag_run": DagRun(None)},
        {"logical_date": BEFORE, "dag_run": DagRun(FIRED)},
    ],
)
def test_context_with_a_logical_date_alone_is_not_guessed(context: dict[str, Any]) -> None:
    """Without the interval's end it could be either end."""
    with pytest.raises(StartInvalid, match=OPEN):
        read_context(context)


@pytest.mark.parametrize(
    "context",
    [
        {"dag_run": DagRun(FIRED), "run_id": "asset_triggered__2026-09-14T01:00:00+00:00"},
        {"run_id": "scheduled__2026-09-14T01:00:00+00:00"},
        {"dag_run": DagRun(FIRED), "data_interval_end": None, "logical_date": None},
    ],
)
def test_context_without_dates_is_refused_whatever_the_run_id_says(context: dict[str, Any]) -> None:
    """`run_after` of an asset's run is when the asset came, and a run id is no field."""
    with pytest.raises(StartInvalid, match=r"^run_id '.* neither .* nor .*; give --at"):
        read_context(context)


@pytest.mark.parametrize("value", [7, "soon", datetime(2026, 9, 14, 1)])
def test_context_field_that_is_no_instant_is_refused_by_name(value: Any) -> None:
    """A naive datetime is none either."""
    with pytest.raises(StartInvalid, match=r"^data_interval_end "):
        read_context({"data_interval_end": value})


def test_mapping_of_something_else_is_no_context() -> None:
    """Nothing of Airflow's is in it."""
    assert read_context({"headers": {}}) is None
