"""EventBridge, Google Cloud Scheduler, Celery and Temporal: values that a caller hands over."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly._core.start import Start
from duly.errors import StartInvalid
from duly.triggers import celery, eventbridge, google_cloud_scheduler, temporal

AT = datetime(2026, 3, 29, 1, tzinfo=UTC)
if TYPE_CHECKING:
    from collections.abc import Callable

DATA = Path(__file__).parents[1] / "core" / "data" / "dst.json"
VECTORS = {row["id"]: row for row in json.loads(DATA.read_text("utf-8"))["other"]}

ATTRIBUTE = "TemporalScheduledStartTime"
READINGS: list[tuple[Callable[[dict[str, Any]], Start | None], str]] = [
    (eventbridge.read, "scheduled_time"),
    (google_cloud_scheduler.read, "X-CloudScheduler-ScheduleTime"),
    (celery.read, "duly_nominal_time"),
    (temporal.read, ATTRIBUTE),
]
anything: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary() | st.text()
)
values = anything | st.lists(anything, max_size=2) | st.datetimes()


# -------------------------------------------------------------------------------------- EventBridge


def test_eventbridge_event_says_what_stands_in_the_field() -> None:
    """The default field, and any other by its name."""
    event = {"scheduled_time": "2026-03-29T01:00:00Z", "time": "2026-03-29T01:00:05Z"}

    assert eventbridge.read(event) == Start(
        "eventbridge", AT, "event['scheduled_time']='2026-03-29T01:00:00Z'"
    )
    other = eventbridge.read(event, "time")
    assert other is not None
    assert other.at == AT.replace(second=5)
    assert eventbridge.read({}) is None


def test_eventbridge_placeholder_that_nobody_replaced_is_refused_by_its_spelling() -> None:
    """A rule of EventBridge, or a misspelt name, leaves it as it was."""
    text = "<aws.scheduler.scheduled-time>"
    expected = rf"'{text}' was not replaced: only EventBridge Scheduler .*, or give --at"

    with pytest.raises(StartInvalid, match=rf"^event\['scheduled_time'\] {expected}"):
        eventbridge.read({"scheduled_time": text})
    with pytest.raises(StartInvalid, match=f"^DULY_EVENTBRIDGE_SCHEDULED_TIME {expected}"):
        eventbridge.read_environment({"DULY_EVENTBRIDGE_SCHEDULED_TIME": text})


def test_eventbridge_environment_of_a_container_says_the_same() -> None:
    """An ECS task gets an environment, no event."""
    environ = {"DULY_EVENTBRIDGE_SCHEDULED_TIME": "2026-03-29T01:00:00Z"}

    start = eventbridge.read_environment(environ)

    assert start is not None
    assert (start.starter, start.at) == ("eventbridge", AT)
    assert eventbridge.read_environment({}) is None


# ------------------------------------------------------------------------------------------- Google


@pytest.mark.parametrize(
    "value", ["2026-03-29T01:00:00Z", "2026-03-29T01:00:00.000000Z", "2026-03-28T18:00:00-07:00"]
)
def test_google_header_is_found_in_any_case(value: str) -> None:
    """Servers hand headers over in cases of their own."""
    for name in ("X-CloudScheduler-ScheduleTime", "x-cloudscheduler-scheduletime"):
        start = google_cloud_scheduler.read({"Host": "x", name: value})
        assert start == Start(
            "google_cloud_scheduler", AT, f"X-CloudScheduler-ScheduleTime='{value}'"
        )


def test_google_job_is_named_in_what_is_said() -> None:
    """A message about a wrong time names the job that sent it."""
    start = google_cloud_scheduler.read(
        {
            "X-CloudScheduler-JobName": "nightly",
            "X-CloudScheduler-ScheduleTime": "2026-03-29T01:00:00Z",
        }
    )

    assert start is not None
    assert start.said == (
        "X-CloudScheduler-ScheduleTime='2026-03-29T01:00:00Z' (X-CloudScheduler-JobName='nightly')"
    )


def test_google_nanoseconds_are_cut_off() -> None:
    """The form allows nine digits; the seventh on cannot change which time is floored onto."""
    start = google_cloud_scheduler.read(
        {"X-CloudScheduler-ScheduleTime": "2026-03-29T00:59:59.999999999Z"}
    )

    assert start is not None
    assert start.at == datetime(2026, 3, 29, 0, 59, 59, 999999, tzinfo=UTC)


def test_google_request_of_somebody_else_has_no_start() -> None:
    """Without the header it is not Cloud Scheduler."""
    assert google_cloud_scheduler.read({"X-CloudScheduler-JobName": "nightly"}) is None


# ------------------------------------------------------------------------------------------- Celery


def test_celery_header_says_the_instant() -> None:
    """As the Scheduler in the docs writes it."""
    start = celery.read({"celery_beat_task": True, "duly_nominal_time": AT.isoformat()})

    assert start == Start("celery", AT, "header duly_nominal_time='2026-03-29T01:00:00+00:00'")


@pytest.mark.parametrize(
    "headers", [None, {}, {"celery_beat_task": True}, {"duly_nominal_time": None}]
)
def test_celery_beat_alone_says_nothing(headers: dict[str, Any] | None) -> None:
    """Its own header says that beat sent the task, not for when."""
    assert celery.read(headers) is None


def test_celery_header_for_another_job_is_refused_with_both_names() -> None:
    """A task that is shared by several entries must not settle another job's key."""
    headers = {"duly_nominal_time": AT.isoformat(), "duly_job": "report"}

    assert celery.read(headers, job="report") == celery.read(headers) is not None
    with pytest.raises(StartInvalid, match=r"duly_job 'report' is not the job 'credit'"):
        celery.read(headers, job="credit")


# ----------------------------------------------------------------------------------------- Temporal


def test_res_temporal_id() -> None:
    """A schedule appends the nominal time to the id of the workflow."""
    row = VECTORS["res-temporal-id"]

    start = temporal.read(workflow_id=row["input"]["workflow_id"])

    assert start is not None
    assert start.at == datetime.fromisoformat(row["expect"]["nominal"])
    assert start.said == "workflow id='backup-2026-03-29T01:00:00Z'"


def test_temporal_id_may_hold_any_text_before_the_time() -> None:
    """The part before the time is a person's own; Temporal allows a line break in it."""
    start = temporal.read(workflow_id="a\nb-2026-03-29T01:00:00Z")

    assert start is not None
    assert start.at == AT
    assert start.said.isprintable()


@pytest.mark.parametrize(
    "value", [AT, [AT], (AT,), "2026-03-29T01:00:00Z", "2026-03-29T01:00:00.000000001Z"]
)
def test_temporal_attribute_is_read_in_the_form_of_any_sdk(value: Any) -> None:
    """A datetime, a list of one, or the text that the server keeps."""
    start = temporal.read({ATTRIBUTE: value})

    assert start is not None
    assert (start.starter, start.at) == ("temporal", AT)


def test_temporal_attribute_speaks_before_the_id_which_is_cut_to_the_second() -> None:
    """Both of one workflow agree to the second."""
    at = AT.replace(microsecond=250_000)

    start = temporal.read({ATTRIBUTE: at}, workflow_id="backup-2026-03-29T01:00:00Z")

    assert start is not None
    assert start.at == at


def test_temporal_attribute_and_id_of_two_workflows_are_refused() -> None:
    """They were taken from different workflows."""
    with pytest.raises(StartInvalid, match=r"^workflow id='.*' and Temporal.* different times;"):
        temporal.read({ATTRIBUTE: AT}, workflow_id="backup-2026-03-28T01:00:00Z")


@pytest.mark.parametrize(
    "workflow_id",
    [None, "", "backup", "backup-2026-03-29", "backup-2026-03-29T01:00:00Z-child", "2026-03-29"],
)
def test_temporal_id_that_no_schedule_made_says_nothing(workflow_id: str | None) -> None:
    """A date in an id of one's own is not the form that a schedule appends."""
    assert temporal.read({ATTRIBUTE: []}, workflow_id=workflow_id) is None
    assert temporal.read(workflow_id=workflow_id) is None


def test_temporal_id_with_an_impossible_time_is_refused() -> None:
    """It has the form, and names no instant."""
    with pytest.raises(StartInvalid, match=r"^the end of the workflow id '2026-13-29T01:00:00Z'"):
        temporal.read(workflow_id="backup-2026-13-29T01:00:00Z")


# --------------------------------------------------------------------------------------------- all


@settings(deadline=None)
@given(values)
def test_any_value_gives_a_start_or_one_line_that_names_where_it_stands(value: Any) -> None:
    """What a stranger's message holds is never a crash, and never ignored."""
    for reading, name in READINGS:
        try:
            found: Start | StartInvalid | None = reading({name: value})
        except StartInvalid as error:
            found = error

        if isinstance(found, StartInvalid):
            assert name in found.message
            assert found.message.isprintable()
            assert len(found.message) < 500
        else:
            assert found is not None or value in (None, [], [None])
