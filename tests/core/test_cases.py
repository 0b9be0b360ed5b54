"""Public reports about other schedulers, by their numbers: the one right answer of each.

Here stand those that a schedule, a zone or the reading of a start can answer alone. Answered
elsewhere, as they need the ledger:

- with the catch-up rules: S05, S07, S08, S16, S19, S27, S30, S41, S42, S69, S73, S74, S76, S81;
- with revisions of a job's definition: S03, S04, S15, S28, S52, S55, S58;
- with settled occurrences: S10, S14, S17, S39, S53, S63, S77, S80;
- with jitter: S40, S59.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from duly import zones
from duly._core.resolve import Nominal, nominal_time
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Cron, Every

if TYPE_CHECKING:
    from duly._core.schedules import Schedule


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def started(schedule: Schedule, now: str) -> Nominal:
    """What a start without `at` means, as plain cron and systemd start it."""
    return nominal_time(None, schedule, zone=zones.load("UTC"), now=utc(now))


@pytest.mark.parametrize(
    ("expression", "zone", "start", "end", "expected"),
    [
        pytest.param(
            "0 2 * * *", "America/New_York", "2017-03-12T05:00Z", "2017-03-13T04:00Z",
            ["2017-03-12T07:00Z"], id="S11",
        ),
        pytest.param(
            "* * * * *", "Europe/Berlin", "2023-10-29T00:00Z", "2023-10-29T02:00Z", 120, id="S12"
        ),
        pytest.param(
            "0 2 * * *", "America/Chicago", "2024-03-10T06:00Z", "2024-03-11T05:00Z",
            ["2024-03-10T08:00Z"], id="S21-gap",
        ),
        pytest.param(
            "0 1 * * *", "America/Chicago", "2024-11-03T05:00Z", "2024-11-04T06:00Z",
            ["2024-11-03T06:00Z"], id="S21-fold",
        ),
        pytest.param(
            "0 */2 * * *", "America/Toronto", "2023-03-12T05:00Z", "2023-03-12T13:00Z",
            ["2023-03-12T05:00Z", "2023-03-12T08:00Z", "2023-03-12T10:00Z", "2023-03-12T12:00Z"],
            id="S22",
        ),
        pytest.param(
            "0 7-21 * * *", "Europe/Paris", "2023-10-28T19:01Z", "2023-10-29T06:01Z",
            ["2023-10-29T06:00Z"], id="S24",
        ),
        pytest.param(
            "0 7-8 * * *", "America/Los_Angeles", "2020-03-08T08:00Z", "2020-03-09T07:00Z",
            ["2020-03-08T14:00Z", "2020-03-08T15:00Z"], id="S25",
        ),
        pytest.param(
            "0 * * * *", "US/Pacific", "2021-11-07T08:00:01Z", "2021-11-07T09:00:01Z",
            ["2021-11-07T09:00Z"], id="S33",
        ),
        pytest.param(
            "0 14 * * *", "America/Los_Angeles", "2018-03-11T08:00Z", "2018-03-12T07:00Z",
            ["2018-03-11T21:00Z"], id="S34",
        ),
        pytest.param(
            "0 20 * * *", "Europe/Paris", "2022-10-31T00:00Z", "2022-11-01T00:00Z",
            ["2022-10-31T19:00Z"], id="S44",
        ),
        pytest.param(
            "0 0 * * 0", "America/Santiago", "2022-08-28T00:00Z", "2022-09-12T00:00Z",
            ["2022-08-28T04:00Z", "2022-09-04T04:00Z", "2022-09-11T04:00Z"], id="S46",
        ),
        pytest.param(
            "0 2 * * *", "America/New_York", "2019-03-10T05:00Z", "2019-03-11T04:00Z",
            ["2019-03-10T07:00Z"], id="S60",
        ),
        pytest.param(
            "* * * * *", "Europe/Berlin", "2016-10-30T00:00Z", "2016-10-30T02:00Z", 120, id="S64"
        ),
        pytest.param(
            "1 2 * * 0", "America/Chicago", "2024-03-10T06:00Z", "2024-03-11T05:00Z",
            ["2024-03-10T08:00Z"], id="S66",
        ),
        pytest.param(
            "0 2 * * *", "US/Pacific", "2025-03-09T08:00Z", "2025-03-10T07:00Z",
            ["2025-03-09T10:00Z"], id="S67",
        ),
        pytest.param(
            "* * * * *", "America/Chicago", "2025-11-02T02:02Z", "2025-11-03T06:58Z", 1736,
            id="S85",
        ),
    ],
)  # fmt: skip
def test_schedule_where_others_lost_or_moved_a_time_names_it(
    expression: str, zone: str, start: str, end: str, expected: list[str] | int
) -> None:
    """A switch of the zone costs no slot, adds none and moves none of another day."""
    found = list(Cron(expression, zone).between(utc(start), utc(end)))

    if isinstance(expected, int):
        assert len(found) == expected
        assert all(later - earlier == timedelta(minutes=1) for earlier, later in pairwise(found))
    else:
        assert found == [utc(text) for text in expected]


@pytest.mark.parametrize(
    ("expression", "zone", "triggers", "slot"),
    [
        pytest.param(
            "0 2 * * *", "Europe/Berlin",
            ["2023-10-29T00:00:00Z", "2023-10-29T01:00:00Z"], "2023-10-29T00:00Z", id="S01",
        ),
        pytest.param(
            "0 9 * * *", "America/New_York",
            ["2022-11-06T14:00:00Z", "2022-11-06T15:00:00Z"], "2022-11-06T14:00Z", id="S48-fold",
        ),
        pytest.param(
            "0 9 * * *", "America/New_York",
            ["2022-03-13T13:00:00Z", "2022-03-13T14:00:00Z"], "2022-03-13T13:00Z", id="S48-gap",
        ),
        pytest.param(
            "0 2 * * *", "America/New_York",
            [f"2019-03-10T07:{m:02d}:{s:02d}Z" for m in range(60) for s in (0, 30)],
            "2019-03-10T07:00Z", id="S60",
        ),
        pytest.param(
            "17 3 * * *", "UTC",
            ["2026-09-13T03:17:00Z", "2026-09-13T15:18:00Z"], "2026-09-13T03:17Z", id="S83",
        ),
    ],
)  # fmt: skip
def test_start_repeated_by_a_starter_means_one_slot(
    expression: str, zone: str, triggers: list[str], slot: str
) -> None:
    """However often and late a starter comes within a slot, it has one nominal time."""
    schedule = Cron(expression, zone)

    assert {started(schedule, now).time for now in triggers} == {utc(slot)}


@pytest.mark.parametrize(
    ("expression", "zone", "wrong", "right", "before", "slot"),
    [
        pytest.param(
            "0 12 * * 1", "America/New_York", "2013-11-04T16:00:00Z", "2013-11-04T17:00:00Z",
            "2013-10-28T16:00Z", "2013-11-04T17:00Z", id="S31",
        ),
        pytest.param(
            "0 12 * * *", "UTC", "2026-09-13T11:59:53Z", "2026-09-13T12:00:00Z",
            "2026-09-12T12:00Z", "2026-09-13T12:00Z", id="S71",
        ),
    ],
)  # fmt: skip
def test_start_too_early_means_the_slot_before_and_the_right_one_its_own(
    expression: str, zone: str, wrong: str, right: str, before: str, slot: str
) -> None:
    """A start by a stale offset or clock meets a slot that is done; the due one is its own."""
    schedule = Cron(expression, zone)

    assert started(schedule, wrong).time == utc(before)
    assert started(schedule, right).time == utc(slot)


def test_start_hours_late_means_the_slot_of_today_s37() -> None:
    """S37: a job last done 40 days ago and started at 14:37 is for 09:00, 5 h 37 min late."""
    found = started(Cron("0 9 * * *"), "2026-09-13T14:37:00Z")

    assert found.time == found.due_at == utc("2026-09-13T09:00Z")
    assert utc("2026-09-13T14:37Z") - found.due_at == timedelta(hours=5, minutes=37)


def test_start_on_a_day_that_was_dropped_leaves_that_day_to_be_found_s83() -> None:
    """S83: the day that no start came for is between the slots of the days that had one."""
    schedule = Cron("17 3 * * *")

    done = [started(schedule, f"2026-09-{day}T15:18:00Z").time for day in (12, 14)]

    expected = schedule.between(utc("2026-09-12T00:00Z"), utc("2026-09-15T00:00Z"))
    assert [slot for slot in expected if slot not in done] == [utc("2026-09-13T03:17Z")]


@pytest.mark.parametrize("expression", ["0 2 * * *", "*/30 * * * *", "59 1 * * *", "0 1-3 * * *"])
@pytest.mark.parametrize(
    ("zone", "start"),
    [
        pytest.param("Europe/Paris", "2013-03-30T00:00Z", id="S45-gap"),
        pytest.param("Europe/Paris", "2013-10-26T00:00Z", id="S45-fold"),
        pytest.param("America/New_York", "2020-03-07T00:00Z", id="S61-gap"),
        pytest.param("America/New_York", "2020-10-31T00:00Z", id="S61-fold"),
    ],
)
def test_next_after_any_time_is_later_s45_s61(expression: str, zone: str, start: str) -> None:
    """S45, S61: asked every ten minutes over a switch, next never stands still or goes back."""
    schedule = Cron(expression, zone)
    times = [utc(start) + n * timedelta(minutes=10) for n in range(6 * 24 * 4)]

    found = [schedule.next(at) for at in times]

    assert all(at < following for at, following in zip(times, found, strict=True) if following)
    assert None not in found
    assert all(earlier <= later for earlier, later in pairwise(found) if earlier and later)


@pytest.mark.parametrize("fold", ["first", "last", "both"])
@pytest.mark.parametrize("gap", ["skip", "next", "shift"])
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_slots_at_a_switch_have_no_equal_instants_s56(day: str, gap: str, fold: str) -> None:
    """S56: wall times that fall together at a switch are one slot, not two equal ticks."""
    schedule = Cron("0,30 1-3 * * *", "Europe/Berlin", gap=gap, fold=fold)  # type: ignore[arg-type]
    start = utc(f"{day}T00:00Z") - timedelta(days=1)

    found = list(schedule.between(start, start + timedelta(days=3)))

    assert len(found) == len(set(found))
    assert found == sorted(found)


def test_interval_after_a_deploy_has_the_slots_of_before_s49() -> None:
    """S49: the anchor stands in the definition, so a deploy at 08:54 moves nothing."""

    def deployed() -> Every:
        return Every(timedelta(hours=24), anchor=utc("2026-01-01T06:00Z"))

    span = utc("2026-09-01T00:00Z"), utc("2026-09-30T00:00Z")
    assert list(deployed().between(*span)) == list(deployed().between(*span))
    assert deployed().next(utc("2026-09-13T08:54Z")) == utc("2026-09-14T06:00Z")
    with pytest.raises(ScheduleInvalid, match="needs an anchor"):
        Every(timedelta(hours=24))


def test_weekly_interval_with_daily_restarts_is_due_in_its_week_s79() -> None:
    """S79: each process asks anew, and all count from the anchor, none from its own start."""
    due = []
    for day in range(1, 22):
        weekly = Every(timedelta(weeks=1), anchor=utc("2026-09-01T00:00Z"))
        due.append(started(weekly, f"2026-09-{day:02d}T08:00:00Z").time)

    assert sorted(set(due)) == [utc(f"2026-09-{day}T00:00Z") for day in ("01", "08", "15")]


def test_stored_time_without_a_zone_is_refused_s36() -> None:
    """S36: a naive time means another instant on each host; none is accepted anywhere."""
    schedule = Cron("0 9 * * *")

    with pytest.raises(NominalTimeInvalid, match="naive"):
        nominal_time(
            datetime(2026, 9, 13, 9), schedule, zone=zones.load("UTC"), now=utc("2026-09-14T00:00Z")
        )
    with pytest.raises(NominalTimeInvalid, match="naive"):
        schedule.next(datetime(2026, 9, 13, 9))
    with pytest.raises(NominalTimeInvalid, match="has no offset"):
        nominal_time(
            "2026-09-13T09:00:00", schedule, zone=zones.load("UTC"), now=utc("2026-09-14T00:00Z")
        )


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        pytest.param("EST", r"is an abbreviation.* write America/New_York", id="S50-EST"),
        pytest.param("MST", r"is an abbreviation.* write America/Denver", id="S50-MST"),
        pytest.param("-05:00", r"is an offset", id="S50-offset"),
        pytest.param("local", r"the host's own clock", id="S87"),
    ],
)
def test_zone_that_is_no_region_is_refused(zone: str, message: str) -> None:
    """S50, S87: an abbreviation, a fixed offset and the host's own zone are no one's calendar."""
    with pytest.raises(ScheduleInvalid, match=message):
        Cron("0 9 * * *", zone)
