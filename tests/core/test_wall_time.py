"""Wall times: what a gap and a repeated hour do under each policy."""

from __future__ import annotations

import itertools
import struct
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core.wall_time import FOLDS, GAPS, Fold, Gap, instants, plain_offset

DAY = timedelta(days=1)

zone_names = st.sampled_from(sorted(zones.names()))


def wall(text: str) -> datetime:
    return datetime.fromisoformat(text)


def utc(*texts: str) -> tuple[datetime, ...]:
    return tuple(datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts)


@pytest.mark.parametrize(
    ("zone", "skipped", "gap", "expected"),
    [
        ("Europe/Berlin", "2026-03-29T02:30", "skip", []),
        ("Europe/Berlin", "2026-03-29T02:30", "next", ["2026-03-29T01:00"]),
        ("Europe/Berlin", "2026-03-29T02:30", "shift", ["2026-03-29T01:30"]),
        ("Europe/Berlin", "2026-03-29T02:00", "next", ["2026-03-29T01:00"]),
        ("Europe/Berlin", "2026-03-29T02:00", "shift", ["2026-03-29T01:00"]),
        ("Europe/Berlin", "2026-03-29T02:59:59.999999", "next", ["2026-03-29T01:00"]),
        ("Europe/Berlin", "2026-03-29T01:59:59.999999", "skip", ["2026-03-29T00:59:59.999999"]),
        ("Europe/Berlin", "2026-03-29T03:00", "skip", ["2026-03-29T01:00"]),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "next", ["2026-10-03T15:30"]),
        ("Australia/Lord_Howe", "2026-10-04T02:15", "shift", ["2026-10-03T15:45"]),
        ("Pacific/Apia", "2011-12-30T09:00", "skip", []),
        ("Pacific/Apia", "2011-12-30T09:00", "next", ["2011-12-30T10:00"]),
        ("Pacific/Apia", "2011-12-30T09:00", "shift", ["2011-12-30T19:00"]),
        ("America/Sao_Paulo", "2018-11-04T00:00", "next", ["2018-11-04T03:00"]),
    ],
)
def test_wall_time_in_a_gap_does_what_its_policy_says(
    zone: str, skipped: str, gap: Gap, expected: list[str]
) -> None:
    """A skipped wall time has no instant, the first after the gap, or the shifted one."""
    found = instants(wall(skipped), zones.load(zone), gap=gap, fold="first")

    assert found == utc(*expected)


@pytest.mark.parametrize(
    ("zone", "repeated", "fold", "expected"),
    [
        ("Europe/Berlin", "2026-10-25T02:30", "first", ["2026-10-25T00:30"]),
        ("Europe/Berlin", "2026-10-25T02:30", "last", ["2026-10-25T01:30"]),
        ("Europe/Berlin", "2026-10-25T02:30", "both", ["2026-10-25T00:30", "2026-10-25T01:30"]),
        ("Europe/Berlin", "2026-10-25T03:00", "both", ["2026-10-25T02:00"]),
        ("Europe/Berlin", "2026-10-25T01:59", "both", ["2026-10-24T23:59"]),
        ("Europe/Dublin", "2026-10-25T01:30", "first", ["2026-10-25T00:30"]),
        ("Australia/Lord_Howe", "2026-04-05T01:45", "last", ["2026-04-04T15:15"]),
        ("Australia/Lord_Howe", "2026-04-05T01:15", "both", ["2026-04-04T14:15"]),
        ("Asia/Almaty", "2024-02-29T23:30", "both", ["2024-02-29T17:30", "2024-02-29T18:30"]),
    ],
)
def test_wall_time_in_a_repeated_hour_does_what_its_policy_says(
    zone: str, repeated: str, fold: Fold, expected: list[str]
) -> None:
    """A repeated wall time is its first instant, its last, or both in order."""
    found = instants(wall(repeated), zones.load(zone), gap="skip", fold=fold)

    assert found == utc(*expected)


@given(zone_names, st.datetimes(), st.sampled_from(GAPS), st.sampled_from(FOLDS))
def test_instants_of_any_wall_time_show_that_wall_time_or_end_its_gap(
    name: str, at: datetime, gap: Gap, fold: Fold
) -> None:
    """What comes back reads as the wall time on the zone's clock, unless a gap moved it on."""
    zone = zones.load(name)
    found = instants(at, zone, gap=gap, fold=fold)

    assert list(found) == sorted(set(found))
    for instant in found:
        if DAY < instant - datetime.min.replace(tzinfo=UTC) < timedelta(days=3_652_000):
            shown = instant.astimezone(zone).replace(tzinfo=None)
            assert shown == at or (gap != "skip" and at < shown)


@given(zone_names, st.datetimes(timezones=st.just(UTC)))
def test_instant_read_on_a_clock_is_found_again(name: str, instant: datetime) -> None:
    """Every instant is among the instants of the wall time it shows."""
    zone = zones.load(name)
    try:
        at = instant.astimezone(zone).replace(tzinfo=None)
    except OverflowError:
        return

    assert instant in instants(at, zone, gap="skip", fold="both")


@given(zone_names, st.datetimes(datetime(1850, 1, 1), datetime(2060, 1, 1)), st.data())
def test_plain_day_has_one_offset_for_all_its_wall_times(
    name: str, at: datetime, data: Any
) -> None:
    """Where a day counts as plain, every wall time of it maps by the one offset."""
    zone = zones.load(name)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    offset = plain_offset(midnight, zone)
    if offset is None:
        return
    time = data.draw(st.timedeltas(timedelta(0), DAY - timedelta(microseconds=1)))

    found = instants(midnight + time, zone, gap="skip", fold="both")

    assert found == ((midnight + time).replace(tzinfo=UTC) - offset,)


@pytest.mark.parametrize(
    ("zone", "day", "plain"),
    [
        ("Europe/Berlin", "2026-03-28", True),
        ("Europe/Berlin", "2026-03-29", False),
        ("Europe/Berlin", "2026-03-30", True),
        ("America/St_Johns", "2007-03-10", True),
        ("America/St_Johns", "2007-03-11", False),  # 00:01 -> 01:01
        ("America/St_Johns", "2007-11-03", False),  # its last hour is repeated
        ("America/St_Johns", "2007-11-04", False),  # from 00:01 on
        ("America/St_Johns", "2007-11-05", True),
        ("Pacific/Apia", "2011-12-30", False),
        ("UTC", "0001-01-01", False),
        ("UTC", "9999-12-31", False),
        ("UTC", "9999-12-30", True),
    ],
)
def test_day_touched_by_a_switch_is_not_plain(zone: str, day: str, plain: bool) -> None:
    """A switch on a day or at either of its midnights sends it to the exact mapping."""
    assert (plain_offset(wall(day), zones.load(zone)) is not None) == plain


def switches(name: str) -> list[int]:
    """The seconds since 1970 at which a zone changes its offset, from its file (RFC 8536)."""
    data = files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
    *_, leaps, times, types, characters = struct.unpack(">20x6l", data[:44])
    standard, universal = struct.unpack(">20x2l", data[:28])
    second = 44 + times * 5 + types * 6 + characters + leaps * 8 + standard + universal
    *_, times, types, _ = struct.unpack(">20x6l", data[second : second + 44])
    body = second + 44
    at = struct.unpack(f">{times}q", data[body : body + times * 8])
    kinds = data[body + times * 8 : body + times * 9]
    offsets = [
        offset
        for offset, _, _ in struct.iter_unpack(
            ">lbb", data[body + times * 9 : body + times * 9 + types * 6]
        )
    ]
    after = [offsets[kind] for kind in kinds]
    before = [offsets[0], *after]
    return [when for when, old, new in zip(at, before, after, strict=False) if old != new]


def test_zone_data_has_no_two_switches_within_five_days() -> None:
    """What the day loop assumes of the data holds for every zone that can be loaded."""
    assert switches("Europe/Berlin")[0] == -2_422_054_408  # 1893-04-01, so the reading is right

    for name in zones.names():
        found = switches(name)
        gaps = [later - earlier for earlier, later in itertools.pairwise(found)]
        assert min(gaps, default=5 * 86_400) >= 5 * 86_400, name
