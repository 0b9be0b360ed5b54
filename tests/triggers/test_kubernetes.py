"""Kubernetes: which Jobs a CronJob made, and for when."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duly import zones
from duly._core.resolve import Nominal, nominal_time
from duly._core.start import Start
from duly.errors import NominalTimeInvalid, StartInvalid
from duly.schedules import Cron
from duly.triggers.kubernetes import OLDEST, read_environment

BERLIN = zones.load("Europe/Berlin")
NIGHTLY = Cron("30 2 * * *", "Europe/Berlin")
DATA = Path(__file__).parents[1] / "core" / "data" / "dst.json"
VECTORS = {row["id"]: row for row in json.loads(DATA.read_text("utf-8"))["other"]}
NAME, STAMP = "DULY_KUBERNETES_JOB_NAME", "DULY_KUBERNETES_TIMESTAMP"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def read(**environ: str) -> Any:
    return read_environment(environ)


def test_res_k8s_jobname() -> None:
    """The last part of a CronJob's Job counts minutes since 1970."""
    row = VECTORS["res-k8s-jobname"]

    start = read(**{NAME: row["input"]["job_name"]})

    assert start == Start(
        "kubernetes",
        utc(row["expect"]["nominal"]),
        f"{NAME}='backup-29579100'",
        oldest=OLDEST,
    )


def test_res_k8s_annotation() -> None:
    """The annotation has the offset of the CronJob's zone; the instant is the same in UTC."""
    row = VECTORS["res-k8s-annotation"]

    start = read(**{STAMP: row["input"]["annotation"]})

    assert start == Start(
        "kubernetes", utc(row["expect"]["nominal"]), f"{STAMP}='2026-03-29T03:00:00+02:00'"
    )


def test_res_k8s_second_fold() -> None:
    """The Job of the second 02:30 means the occurrence that the first one settled."""
    row = VECTORS["res-k8s-second-fold"]
    second = utc(row["input"]["actual"])
    minutes = int(second.timestamp()) // 60
    schedule = Cron(row["input"]["expr"], row["input"]["zone"])

    found = [
        nominal_time(start, schedule, zone=BERLIN, now=second)
        for start in (
            read(**{NAME: f"backup-{minutes}"}),
            read(**{STAMP: "2026-10-25T02:30:00+01:00"}),
            read(**{STAMP: "2026-10-25T02:30:00+02:00"}),
        )
    ]

    expected = utc(row["expect"]["nominal"])
    assert found == [Nominal(expected, "kubernetes", expected)] * 3


@settings(deadline=None)
@given(st.datetimes(datetime(1990, 1, 1), datetime(2150, 1, 1)))
def test_name_of_any_minute_is_read_back(wall: datetime) -> None:
    """The name is made as Kubernetes makes it: Unix seconds, divided by 60, cut."""
    at = wall.replace(tzinfo=UTC)

    start = read(**{NAME: f"report.eu-1-{int(at.timestamp()) // 60}"})

    assert start.at == at.replace(second=0, microsecond=0)


def test_name_and_annotation_of_one_minute_give_the_seconds_of_the_annotation() -> None:
    """A CronJob `@every 90s` has seconds that its Job's name cannot hold."""
    start = read(**{NAME: "backup-29579100", STAMP: "2026-03-29T01:00:30Z"})

    assert start.at == utc("2026-03-29T01:00:30Z")
    assert start.said == f"{STAMP}='2026-03-29T01:00:30Z'"


@pytest.mark.parametrize("stamp", ["2026-03-29T01:01:00Z", "2026-03-29T00:59:59Z"])
def test_name_and_annotation_of_different_minutes_are_refused_with_both(stamp: str) -> None:
    """One of the two was copied from another Job."""
    with pytest.raises(StartInvalid) as caught:
        read(**{NAME: "backup-29579100", STAMP: stamp})

    assert caught.value.message == (
        f"{NAME}='backup-29579100' and {STAMP}='{stamp}' mean different minutes; "
        "remove the wrong one, or give --at the time that is meant"
    )


@pytest.mark.parametrize(
    "name",
    [
        "backup-now",
        "backup",
        "backup-2",
        "29579100",
        "-29579100",
        "backup-295791000",
        "backup-1774746000",  # seconds, as Kubernetes before 1.21 wrote
        "backup-09579100",
        "backup-29579100-x7k2p",  # the Pod's name, not the Job's
        "backup-29579100\n",
        "backup-٢٩٥٧٩١٠٠",
        "Backup-29579100",
    ],
)
def test_name_that_no_cronjob_makes_was_made_by_hand(name: str) -> None:
    """`kubectl create job --from` says no nominal time, so a person has to."""
    with pytest.raises(StartInvalid) as caught:
        read(**{NAME: name})

    assert caught.value.message == (
        f"{NAME} {name!r} does not end in the minutes since 1970 that a CronJob appends, "
        "so the Job was made by hand; give --at the time that is meant"
    )


def test_name_that_ends_in_a_date_is_implausibly_old() -> None:
    """20260913 minutes since 1970 are in 2008: no start of Kubernetes's."""
    start = read(**{NAME: "backup-20260913"})

    with pytest.raises(NominalTimeInvalid, match=rf"^{NAME}='backup-20260913' means 2008-07-10"):
        nominal_time(start, NIGHTLY, zone=BERLIN, now=utc("2026-09-13T03:00Z"))


def test_empty_name_says_that_no_job_started_the_pod() -> None:
    """The downward API gives the empty text for a label that is not there."""
    with pytest.raises(StartInvalid, match=rf"^{NAME} '' is empty: the Pod has no label .*--at"):
        read(**{NAME: ""})


def test_empty_annotation_says_that_it_stands_on_the_job() -> None:
    """It is what the downward API finds on a Pod, whose annotations are others."""
    with pytest.raises(StartInvalid, match=rf"^{STAMP} '' is empty.* not on its Pod; set {NAME}"):
        read(**{NAME: "backup-29579100", STAMP: ""})


@pytest.mark.parametrize(
    "stamp", ["2026-03-29T03:00:00", "2026-03-29", "x\ny", "2026-02-30T03:00Z"]
)
def test_annotation_that_does_not_parse_is_refused_by_name(stamp: str) -> None:
    """What is there is never ignored, also beside a good name."""
    with pytest.raises(StartInvalid, match=rf"^{STAMP} .*, or give --at the time that is meant$"):
        read(**{NAME: "backup-29579100", STAMP: stamp})


def test_environment_without_the_variables_is_not_kubernetes() -> None:
    """What Kubernetes itself sets in every Pod says nothing of a CronJob."""
    assert read(KUBERNETES_SERVICE_HOST="kubernetes.default", HOSTNAME="b-29579100-x7k2p") is None
