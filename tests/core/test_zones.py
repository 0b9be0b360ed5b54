"""Zones: which names are accepted, and that only the package's data answers."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest

from duly import zones
from duly.errors import ScheduleInvalid


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
