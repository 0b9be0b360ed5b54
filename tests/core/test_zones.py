"""Zones: which names are accepted, and that only the package's data answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from duly import zones
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from pathlib import Path


def test_zone_of_every_accepted_name_loads_under_its_own_key() -> None:
    """What is listed can be loaded, and knows its name."""
    for name in zones.names():
        zone = zones.load(name)
        assert zone.key == name
        assert datetime(2026, 1, 1, tzinfo=zone).utcoffset() is not None


def test_zone_loaded_twice_is_one_object() -> None:
    """A zone is read once."""
    assert zones.load("Europe/Berlin") is zones.load("Europe/Berlin")


def test_zone_data_comes_from_the_package_whatever_the_host_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system's files are never read: two hosts must settle a slot under one key."""
    monkeypatch.setattr(zoneinfo, "TZPATH", ())
    zones._read.cache_clear()
    zone = zones.load("America/Vancouver")

    # Since 2026b Vancouver keeps UTC-7 all year; older system files say UTC-8.
    assert zones.data_version() >= "2026b"
    assert datetime(2026, 12, 1, 9, tzinfo=zone).utcoffset() == timedelta(hours=-7)


def test_zone_is_read_from_a_file_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ZoneInfo(name)`, which prefers the system's files, is never called."""

    class FromFileOnly(zoneinfo.ZoneInfo):
        def __new__(cls, key: str) -> FromFileOnly:
            raise AssertionError(f"looked {key} up on the system")

    monkeypatch.setattr(zones, "ZoneInfo", FromFileOnly)
    zones._read.cache_clear()
    try:
        assert isinstance(zones.load("Europe/Berlin"), FromFileOnly)
    finally:
        zones._read.cache_clear()


def test_zone_data_version_is_the_release_of_iana() -> None:
    """The version recorded with a schedule is IANA's own name of it."""
    assert zones.data_version() == import_module("tzdata").IANA_VERSION


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Europe/Berln", r"is unknown; did you mean Europe/Berlin\?"),
        ("Berlin", r"is unknown"),
        ("Mars/Olympus", r"is unknown"),
        ("", r"is unknown to tzdata .* give a region such as Europe/Berlin, or UTC"),
        ("europe/berlin", r"another case; write Europe/Berlin"),
        ("utc", r"another case; write UTC"),
        ("EST", r"is an abbreviation.* write America/New_York"),
        ("est", r"is an abbreviation.* write America/New_York"),
        ("EST5EDT", r"is an abbreviation.* write America/New_York"),
        ("MST", r"is an abbreviation.* write America/Denver"),
        ("CET", r"is an abbreviation.* write Europe/Berlin"),
        ("PST", r"is an abbreviation.* write America/Los_Angeles"),
        ("CEST", r"is an abbreviation"),
        ("local", r"the host's own clock"),
        ("localtime", r"the host's own clock"),
        ("/etc/localtime", r"is a path"),
        ("../zoneinfo/UTC", r"is a path"),
        ("Europe/../UTC", r"is a path"),
        (":UTC", r"is a path"),
        ("+02:00", r"is an offset"),
        ("UTC+2", r"is an offset"),
        ("Factory", r"is unknown"),
        ("Europe/Berlin ", r"did you mean Europe/Berlin"),
        ("UTC\0", r"is unknown"),
        ("x" * 10_000, r"is unknown"),
        (None, r"is a name, not None"),
        (UTC, r"is a name, not a value of type timezone"),
    ],
)
def test_zone_name_that_is_no_region_is_refused_with_the_next_step(name: Any, message: str) -> None:
    """A zone is an IANA region in its own spelling; the message says what to write."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        zones.load(name)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 250


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", "Asia/Kolkata", "Asia/Calcutta", "Japan"])
def test_zone_name_of_a_region_or_its_older_link_is_accepted(name: str) -> None:
    """Links to regions are names like any other, kept as they were written."""
    assert zones.load(name).key == name


# --------------------------------------------------------------------------- whatever the host has

REGIONS = [
    "America/New_York",
    "America/Vancouver",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "UTC",
]

# Prints what schedules name, as another process on another host would see it.
PRINT = """
import json, os, sys, time, zoneinfo
if len(sys.argv) > 2:  # the host's settings change while the process runs
    zoneinfo.reset_tzpath(to=[sys.argv[2]])
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
from datetime import datetime, timedelta, timezone
from duly import zones
from duly._core import timing
from duly._core.instants import format_instant
from duly._core.resolve import nominal_time
from duly.schedules import Cron, Every, from_text
if len(sys.argv) > 2:
    zoneinfo.ZoneInfo.clear_cache()
start = datetime(2026, 1, 1, tzinfo=timezone.utc)
end = datetime(2027, 1, 1, tzinfo=timezone.utc)
for region in json.loads(sys.argv[1]):
    for expression in ("30 2 * * *", "0 */6 * 3,10,11 *", "15 0 L * *", "*/20 0 9 * * MON#2"):
        schedule = from_text(Cron(expression, region).text)
        for found in schedule.between(start, end):
            walls = [wall.isoformat() for wall in schedule.wall_times(found)]
            day = timing.local_date(schedule, schedule.zone, found)
            print(schedule.text, format_instant(found), day, *walls)
        print(schedule.next(end), schedule.previous(start))
        nine, zone = Cron("0 9 * * *", region), zones.load(region)
        print(nominal_time("2026-10-12", nine, zone=zone, now=end))
print(*Every(timedelta(hours=7), anchor=start).between(start, start + timedelta(days=3)))
print(zones.data_version())
"""


def printed(*arguments: str, **environment: str) -> bytes:
    """What a new process prints under that environment."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", PRINT, json.dumps(REGIONS), *arguments],
        check=True,
        capture_output=True,
        env=kept | environment,
        timeout=120,
    ).stdout


@pytest.fixture
def wrong_zones(tmp_path: Path) -> Path:
    """Zone files as a host might have them: under each region's name the rules of another."""
    tokyo = files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    for region in REGIONS:
        file = tmp_path / region
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(tokyo)
    return tmp_path


def test_nominal_times_are_the_same_whatever_zone_and_zone_files_the_host_has(
    wrong_zones: Path,
) -> None:
    """`TZ`, the path of zone files and their contents change no byte of any answer."""
    expected = printed()
    assert expected.count(b"\n") > 4_000
    assert b"2026-03-29T01:00:00Z 2026-03-29 2026-03-29T02:30:00" in expected
    assert b"zone=America/Vancouver" in expected

    for name in ("America/New_York", "Asia/Tokyo", ":/no/such/zone", "XXX-25", ""):
        assert printed(TZ=name) == expected, name
    for path in (str(wrong_zones), "", "/no/such/folder"):
        assert printed(PYTHONTZPATH=path, TZ="Asia/Tokyo") == expected, path
    assert printed(str(wrong_zones)) == expected


def test_wrong_zone_files_would_be_read_by_a_name_alone(wrong_zones: Path) -> None:
    """The trap above is armed: Python's own look-up does read the host's files."""
    script = (
        "from zoneinfo import ZoneInfo; from datetime import datetime;"
        "print(datetime(2026, 1, 1, tzinfo=ZoneInfo('Europe/Berlin')).utcoffset())"
    )

    found = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        capture_output=True,
        env={"PYTHONTZPATH": str(wrong_zones)},
        timeout=120,
    ).stdout

    assert found == b"9:00:00\n"
