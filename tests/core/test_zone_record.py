"""A zone as it was: the record answers as the zone did, and says when another version differs."""

from __future__ import annotations

import random
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly import zones
from duly._core import zone_record
from duly._core.schedules.cron import CronSchedule
from duly._core.schedules.period import PeriodSchedule
from duly._core.wall_time import instants
from duly._core.zone_record import RecordedZone, ZoneRecord
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

NOW = datetime(2026, 9, 13, 12, 34, 56, 789, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DATA = Path(__file__).with_name("data") / "zoneinfo"
ZONES = sorted(zones.names())
ODD = ("Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "UTC")


def version(release: str, name: str = "America/Vancouver") -> ZoneInfo:
    text = DATA.joinpath(release, f"{name}.base64").read_text("ascii")
    return ZoneInfo.from_file(BytesIO(b64decode(text)), key=name)


def looked_at(record: ZoneRecord) -> Iterator[datetime]:
    """Instants all over a record's span, and close to each of its changes."""
    chosen = random.Random(record.key)
    for second, _ in record.offsets:
        for away in (-7201, -3601, -3600, -1801, -1, 0, 1, 1799, 1800, 3599, 3600, 7200):
            if record.start <= second + away < record.end:
                yield EPOCH + (second + away) * SECOND
    for _ in range(20):
        yield EPOCH + chosen.randrange(record.start, record.end) * SECOND


@pytest.mark.parametrize("first", ZONES[:20])
def test_recorded_zone_answers_as_every_zone_of_the_data(first: str) -> None:
    """Instants and wall times, the skipped and the repeated ones too, are the zone's own."""
    for name in ZONES[ZONES.index(first) :: 20]:
        zone = zones.load(name)
        recorded = RecordedZone(ZoneRecord.around(zone, NOW))
        for instant in looked_at(recorded.record):
            local, same = instant.astimezone(zone), instant.astimezone(recorded)
            assert (same.replace(tzinfo=None), same.fold) == (
                local.replace(tzinfo=None),
                local.fold,
            ), (name, instant)
            assert same.utcoffset() == local.utcoffset(), (name, instant)
            assert same.astimezone(UTC) == instant
            for fold in (0, 1):
                wall = instant.replace(tzinfo=None, fold=fold)
                offset = wall.replace(tzinfo=zone).utcoffset()
                assert wall.replace(tzinfo=recorded).utcoffset() == offset, (name, wall, fold)


@given(st.sampled_from(ZONES), st.datetimes(datetime(2025, 1, 3), datetime(2036, 12, 29)))
def test_recorded_zone_names_the_same_instants_of_any_wall_time(name: str, wall: datetime) -> None:
    """What a gap or a repeated hour does is the same by the record."""
    zone = zones.load(name)
    recorded = RecordedZone(ZoneRecord.around(zone, NOW))

    for gap in ("skip", "next", "shift"):
        assert instants(wall, recorded, gap=gap, fold="both") == instants(
            wall, zone, gap=gap, fold="both"
        )


def test_record_holds_every_switch_of_its_span() -> None:
    """None is lost between two looks, however close two switches lie."""
    for name in ZONES[::10]:
        record = ZoneRecord.around(zones.load(name), NOW)
        zone = zones.load(name)
        daily = [
            (EPOCH + at * SECOND).astimezone(zone).utcoffset()
            for at in range(record.start, record.end, 43_200)
        ]
        assert len(record.offsets) == 1 + sum(a != b for a, b in pairwise(daily)), name


def test_record_spans_whole_years_around_its_time() -> None:
    """A year back and ten years on, the same for all that are made in one year."""
    record = ZoneRecord.around(zones.load("Europe/Berlin"), NOW)

    assert record.start == (datetime(2025, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
    assert record.end == (datetime(2037, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
    assert record == ZoneRecord.around(zones.load("Europe/Berlin"), NOW.replace(month=1, day=1))


def test_record_reaches_back_before_what_is_expected_first() -> None:
    """A job that starts in the past has its past by the record too."""
    zone = zones.load("America/Vancouver")

    record = ZoneRecord.around(zone, NOW, since=datetime(2018, 7, 1, tzinfo=UTC))

    assert record.start == (datetime(2017, 1, 1, tzinfo=UTC) - EPOCH) // SECOND
    assert record.end == ZoneRecord.around(zone, NOW).end
    summer = datetime(2018, 7, 1, 12, tzinfo=UTC)
    assert summer.astimezone(RecordedZone(record)).utcoffset() == timedelta(hours=-7)
    assert ZoneRecord.around(zone, NOW, since=NOW + 9000 * HOUR) == ZoneRecord.around(zone, NOW)


@pytest.mark.parametrize("year", [1, 9999])
def test_record_ends_with_the_calendar(year: int) -> None:
    record = ZoneRecord.around(zones.load("UTC"), datetime(year, 6, 1, tzinfo=UTC))

    assert record.offsets == [(record.start, 0)]
    assert ZoneRecord.read(record.text) == record


@pytest.mark.parametrize("name", ZONES[::25])
def test_stored_record_comes_back_as_it_was(name: str) -> None:
    """Its text is one line, and is enough to rebuild it."""
    record = ZoneRecord.around(zones.load(name), NOW)

    read = ZoneRecord.read(record.text)

    assert (read.key, read.start, read.end) == (record.key, record.start, record.end)
    assert read.offsets == record.offsets
    assert read == record
    assert hash(read) == hash(record)
    assert "\n" not in record.text


def test_record_text_is_what_it_was() -> None:
    """It is stored with every revision: another form would be no record any more."""
    record = ZoneRecord("Europe/Berlin", 1735689600, 1767225600, [(1735689600, 3600)])
    text = "Europe/Berlin; 1735689600..1767225600; 1735689600=3600"

    assert record.text == text
    record = ZoneRecord.around(zones.load("Europe/Berlin"), datetime(2026, 9, 13, tzinfo=UTC))
    assert record.text.startswith(
        "Europe/Berlin; 1735689600..2114380800; 1735689600=3600,1743296400=7200,1761440400=3600,"
    )


@pytest.mark.parametrize("text", ["", "UTC", "UTC; 0..1", "UTC; 0-1; 0=0", "UTC; 0..1; 0:0"])
def test_text_that_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(ScheduleInvalid, match="is no record of a zone; run the duly that wrote it"):
        ZoneRecord.read(text)


def test_record_agrees_with_the_zone_it_was_made_of_alone() -> None:
    """Every zone agrees with its own record; a change of one offset or one second is seen."""
    for name in ZONES[::12]:
        record = ZoneRecord.around(zones.load(name), NOW)
        assert record.agrees(zones.load(name))
        assert record.agrees(RecordedZone(record))
        for index, (second, offset) in enumerate(record.offsets):
            other = [*record.offsets]
            other[index] = (second, offset + 900)
            assert not ZoneRecord(name, record.start, record.end, other).agrees(zones.load(name))
            if index:
                other[index] = (second + 1, offset)
                changed = ZoneRecord(name, record.start, record.end, other)
                assert not changed.agrees(zones.load(name))


def test_versions_that_differ_within_the_record_alone_disagree() -> None:
    """British Columbia keeps its summer time from November 2026 on; before, both say the same."""
    old, new = version("2025b"), version("2026f")
    record = ZoneRecord.around(old, NOW)
    cut = (datetime(2026, 11, 1, tzinfo=UTC) - EPOCH) // SECOND
    until = ZoneRecord(old.key, record.start, cut, [o for o in record.offsets if o[0] < cut])

    assert record.agrees(old)
    assert not record.agrees(new)
    assert not ZoneRecord.around(new, NOW).agrees(old)
    assert until.agrees(old)
    assert until.agrees(new)


def test_schedule_in_a_recorded_zone_answers_as_its_version_did() -> None:
    """The past of a job stays what it was when the host gets newer zone data."""
    old, new = version("2025b"), version("2026f")
    recorded = RecordedZone(ZoneRecord.read(ZoneRecord.around(old, NOW).text))
    span = datetime(2025, 6, 1, tzinfo=UTC), datetime(2028, 6, 1, tzinfo=UTC)

    for expression in ("0 9 * * *", "30 1 * * *", "30 2 * * *", "*/30 * * * *", "0 0 1 * *"):
        was = CronSchedule(expression, old)
        kept = CronSchedule(expression, recorded)  # type: ignore[arg-type]

        assert [*kept.between(*span)] == [*was.between(*span)], expression
        assert kept.text == was.text
        assert kept.previous(span[1]) == was.previous(span[1])
        assert kept.next(span[0]) == was.next(span[0])

    kept = CronSchedule("0 9 * * *", recorded)  # type: ignore[arg-type]
    after = datetime(2026, 11, 1, 20, tzinfo=UTC)
    assert kept.next(after) == datetime(2026, 11, 2, 17, tzinfo=UTC)
    assert CronSchedule("0 9 * * *", new).next(after) == datetime(2026, 11, 2, 16, tzinfo=UTC)


@pytest.mark.parametrize("name", ODD)
def test_periods_in_a_recorded_zone_are_those_of_its_version(name: str) -> None:
    zone = zones.load(name)
    recorded = RecordedZone(ZoneRecord.around(zone, NOW))
    span = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)

    was = PeriodSchedule(CronSchedule("30 2 * * *", zone), "day", offset=-1, zone=zone)
    kept = PeriodSchedule(
        CronSchedule("30 2 * * *", recorded),  # type: ignore[arg-type]
        "day",
        offset=-1,
        zone=recorded,  # type: ignore[arg-type]
    )

    assert [*kept.between(*span)] == [*was.between(*span)]
    assert [kept.due_time(t) for t in kept.between(*span)] == [
        was.due_time(t) for t in was.between(*span)
    ]


def test_recorded_zone_past_its_record_keeps_the_first_and_the_last_offset() -> None:
    """It says where the record ends, and guesses no rule there."""
    record = ZoneRecord.around(zones.load("Europe/Berlin"), NOW)
    recorded = RecordedZone(record)

    assert recorded.record.end == record.end
    for year in (1990, 2060):
        for month in (1, 7):
            local = datetime(year, month, 1, tzinfo=UTC).astimezone(recorded)
            assert local.utcoffset() == HOUR
            assert local.replace(tzinfo=recorded).utcoffset() == HOUR


def test_recorded_zone_of_no_wall_time_says_nothing() -> None:
    recorded = RecordedZone(ZoneRecord.around(zones.load("Europe/Berlin"), NOW))

    assert recorded.utcoffset(None) is None
    assert recorded.dst(NOW) == timedelta(0)
    assert recorded.tzname(NOW) == "Europe/Berlin"


def test_records_of_one_year_are_found_once() -> None:
    """A thousand jobs in one zone do not look through it a thousand times."""
    zone = zones.load("Asia/Gaza")
    ZoneRecord.around(zone, NOW)
    looks = zone_record._offsets.cache_info().misses

    for day in range(100):
        ZoneRecord.around(zone, NOW + day * timedelta(days=1)).agrees(zone)

    assert zone_record._offsets.cache_info().misses == looks
