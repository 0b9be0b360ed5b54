"""Releases of the zone data: what each of them makes of one wall time."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest

from duly import zones
from duly._core.schedules.cron import CronSchedule
from duly._core.wall_time import instants

if TYPE_CHECKING:
    from collections.abc import Iterable

DATA = Path(__file__).with_name("data")
VECTORS = json.loads(DATA.joinpath("dst.json").read_text("utf-8"))
ROWS = [row for row in VECTORS["other"] if row["kind"] == "tzdata"]
CASES = [
    pytest.param(row, version, id=f"{row['id']}-{version}")
    for row in ROWS
    for version in row["expect"]
]


def zone_of(name: str, version: str) -> ZoneInfo:
    text = DATA.joinpath("zoneinfo", version, f"{name}.base64").read_text("ascii")
    return ZoneInfo.from_file(BytesIO(base64.b64decode(text)), key=name)


def utc(texts: Iterable[str]) -> list[datetime]:
    return [datetime.fromisoformat(text).astimezone(UTC) for text in texts]


def test_vectors_of_zone_data_are_all_there() -> None:
    """No row is lost on the way: three regions' changes, each under two releases."""
    assert [param.id for param in CASES] == [
        f"{name}-{version}"
        for name in ("tz-vancouver", "tz-vancouver-fold", "tz-havana")
        for version in ("2025b", "2026f")
    ]


@pytest.mark.parametrize(("row", "version"), CASES)
def test_wall_time_under_a_release_gives_the_instants_of_its_vector(
    row: dict[str, Any], version: str
) -> None:
    """The release that is handed in answers, and no other."""
    zone = zone_of(row["input"]["zone"], version)
    walls = [datetime.fromisoformat(text) for text in row["input"]["walls"]]

    found = [list(instants(wall, zone, gap="skip", fold="both")) for wall in walls]

    assert found == [utc(texts) for texts in row["expect"][version]]


@pytest.mark.parametrize(("row", "version"), CASES)
def test_cron_under_a_release_gives_the_instants_of_its_vector(
    row: dict[str, Any], version: str
) -> None:
    """A schedule is evaluated by the zone that it was given, in each direction."""
    zone = zone_of(row["input"]["zone"], version)
    for text, expected in zip(row["input"]["walls"], row["expect"][version], strict=True):
        wall = datetime.fromisoformat(text)
        expression = f"{wall.minute} {wall.hour} {wall.day} {wall.month} *"
        schedule = CronSchedule(expression, zone, gap="skip", fold="both")
        start = wall.replace(tzinfo=UTC)

        found = list(schedule.between(start, start + timedelta(days=2)))

        assert found == utc(expected)
        assert schedule.next(start) == found[0]
        assert schedule.previous(start + timedelta(days=2)) == found[-1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_release_in_use_answers_as_its_vector_from_2026f_on(row: dict[str, Any]) -> None:
    """The package's own data is the newer of the two, or newer still."""
    if zones.data_version() < "2026f":
        pytest.skip(f"tzdata {zones.data_version()} is older than 2026f")
    zone = zones.load(row["input"]["zone"])
    walls = [datetime.fromisoformat(text) for text in row["input"]["walls"]]

    found = [list(instants(wall, zone, gap="skip", fold="both")) for wall in walls]

    assert found == [utc(texts) for texts in row["expect"]["2026f"]]
