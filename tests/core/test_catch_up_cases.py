"""Catch-up where others lost or flooded occurrences: the vectors, and the public reports."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from duly import zones
from duly._core.catch_up import Plan, plan
from duly._core.expected import Expected, Pause, Span
from duly._core.holes import holes
from duly._core.instants import from_us, to_us
from duly._core.policies import CATCH_UP, Policies
from duly._core.revision import Definition, Revision, decide
from duly.schedules import Cron, Every, from_text
from duly.schedules.on_calendar import OnCalendar

VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
END = datetime.max.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
EVERY_POLICY = pytest.mark.parametrize("kind", CATCH_UP)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def since(schedule: Any, start: str, *pauses: tuple[str, str]) -> Expected:
    """One revision from a time on; what was due before is settled or was never expected."""
    spells = [Pause(utc(one), utc(other)) for one, other in pauses]
    return Expected([Span(schedule, utc(start), END, 1)], spells)


def done(last: str) -> str:
    """The moment after the last one that is settled."""
    return (utc(last) + MICROSECOND).isoformat()


def edited(old: Any, new: Any, start: str, edit: str) -> Expected:
    spans = [Span(old, utc(start), utc(edit), 1), Span(new, utc(edit), END, 2)]
    return Expected(spans)


def due(expected: Expected, now: str) -> list[datetime]:
    return [*expected.due_until(utc(now))]


def planned(expected: Expected, now: str, kind: Any, *, skip_after: timedelta = HOUR) -> Plan:
    """The plan of one tick that may run a thousand."""
    return plan(
        [to_us(each) for each in expected.due_until(utc(now))],
        policies=Policies(
            catch_up=kind, skip_after=skip_after if kind == "skip" else None, max_per_tick=1000
        ),
        now=utc(now),
        due=lambda us: expected.due_time(from_us(us)) or from_us(us),
        failures={},
        key=str,
    )


def run(expected: Expected, now: str, kind: Any, **more: Any) -> list[datetime]:
    return [from_us(us) for us in planned(expected, now, kind, **more).run]


ROWS = [row for row in VECTORS["other"] if row["kind"] == "catchup"]


@pytest.mark.parametrize("kind", ["each", "skip", "reconcile"])
@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_catch_up_of_a_vector_is_what_it_says(row: dict[str, Any], kind: str) -> None:
    """By each policy, with everything up to the last done settled."""
    about, says = row["input"], row["expect"]
    expected = since(Cron(about["expr"], about["zone"]), done(about["last_done"]))
    grace = timedelta(seconds=about["grace_s"])

    found = planned(expected, about["now"], kind, skip_after=grace)

    runs = [from_us(us) for us in found.run]
    assert found.missing == says["missed_n"]
    if kind == "each":
        ends = [utc(each) for each in says["each"] if each != "..."]
        assert len(runs) == says["missed_n"]
        assert (runs[:1], runs[-1:]) == (ends[:1], ends[-1:])
        assert "..." in says["each"] or runs == ends
    elif kind == "skip":
        assert runs == [utc(each) for each in says["skip_stale"]]
        assert len(found.skip) == says["missed_n"] - len(runs)
    else:
        nominal = says["reconcile"]["nominal"]
        assert runs == ([] if nominal is None else [utc(nominal)])
        assert len(found.cover) == max(0, says["missed_n"] - 1)
        if nominal is not None:
            first = from_us(min([*found.cover, *found.run]))
            before = expected.span_of(first).schedule.previous(first - MICROSECOND)  # type: ignore[union-attr]
            assert [before, runs[0]] == [utc(each) for each in says["reconcile"]["covers"]]


def test_edit_to_a_text_that_fired_before_fires_after_it_alone_s03() -> None:
    """S03: minutely from 12:00 on, whatever its anchor; nothing between 09:00 and the edit."""
    minutely = Every(MINUTE, anchor=utc("2020-01-01T00:00Z"))
    expected = edited(
        Cron("0 9 * * *", "UTC"), minutely, done("2026-03-02T09:00Z"), "2026-03-02T12:00:10Z"
    )

    assert due(expected, "2026-03-02T12:00:59Z") == []
    assert due(expected, "2026-03-02T12:01Z") == [utc("2026-03-02T12:01Z")]


def test_edit_to_other_days_fires_on_the_next_of_them_s04() -> None:
    """S04: on Friday to Wednesday and Sunday: Wednesday was before the edit."""
    expected = edited(
        Cron("0 21 * * TUE,FRI", "UTC"),
        Cron("0 23 * * WED,SUN", "UTC"),
        done("2026-03-03T21:00Z"),
        "2026-03-06T02:10Z",
    )

    assert due(expected, "2026-03-08T22:59Z") == []
    assert expected.next_due(utc("2026-03-06T02:10Z")) == utc("2026-03-08T23:00Z")


@pytest.mark.parametrize(
    ("kind", "runs", "covers"), [("each", 432, 0), ("skip", 6, 0), ("reconcile", 1, 431)]
)
def test_pause_of_three_days_is_missed_only_if_it_is_included_s05_s07_s55(
    kind: str, runs: int, covers: int
) -> None:
    """S05, S07, S55: 432 slots of ten minutes, none of them missing; the next always runs."""
    schedule = Cron("*/10 * * * *", "UTC")
    start, paused, resumed = done("2026-03-02T00:00Z"), "2026-03-02T00:05Z", "2026-03-05T00:05Z"

    excluded = since(schedule, start, (paused, resumed))
    included = since(schedule, start)

    assert run(excluded, resumed, kind) == []
    assert run(excluded, "2026-03-05T00:10Z", kind) == [utc("2026-03-05T00:10Z")]
    assert excluded.next_due(utc("2026-03-03T00:00Z")) == utc("2026-03-05T00:10Z")
    found = planned(included, resumed, kind)
    assert (len(found.run), len(found.cover), found.missing) == (runs, covers, 432)
    assert included.next_due(utc(resumed)) == utc("2026-03-05T00:10Z")


def test_hours_of_a_pause_run_if_it_is_included_s16() -> None:
    """S16: paused from 03:30 to 06:45, the slots of 4, 5 and 6 run only if that is asked for."""
    schedule = Cron("0 * * * *", "UTC")
    start = done("2026-03-02T03:00Z")

    excluded = since(schedule, start, ("2026-03-02T03:30Z", "2026-03-02T06:45Z"))

    assert run(excluded, "2026-03-02T06:59Z", "each") == []
    assert [each.hour for each in run(since(schedule, start), "2026-03-02T06:59Z", "each")] == [
        4,
        5,
        6,
    ]


@EVERY_POLICY
def test_restart_with_the_last_slot_settled_runs_nothing_s10_s77(kind: str) -> None:
    """S10, S77: what was done is in the ledger, so a new process, or a deploy, owes nothing."""
    schedule = Cron("0 3 1 * *", "UTC")
    expected = since(schedule, "2026-01-01T00:00Z")
    settled = [to_us(utc(f"2026-0{month}-01T03:00Z")) for month in (1, 2, 3)]
    runs = [range(each, each + 1) for each in settled]
    until = utc("2026-03-20T00:00Z")

    assert [*holes(expected.stretches(utc("2026-01-01T00:00Z"), until), runs)] == []
    assert run(since(schedule, done("2026-03-01T03:00Z")), "2026-03-20T00:00Z", kind) == []


def test_deploy_of_the_same_definition_edits_nothing_s77() -> None:
    """S77: the same text in a new process is the revision in force."""
    text = Cron("0 3 1 * *", "UTC").text
    definition = Definition("report", text, "UTC", Policies(), "null", "")
    zone = zones.load("UTC")
    revisions: list[Revision] = []
    for now in ("2026-03-02T00:00Z", "2026-03-20T00:00Z"):
        new = decide(definition, revisions, now=utc(now), zone=zone, zone_version="2026f")
        revisions += [] if new is None else [new]

    assert len(revisions) == 1


def test_calendar_event_that_was_edited_waits_for_its_next_time_s15() -> None:
    """S15: edited after the day's run: nothing before the next time of the new text."""
    expected = edited(
        OnCalendar("*-*-* 06:00:00", timezone="UTC"),
        OnCalendar("*-*-* 05:00:00", timezone="UTC"),
        done("2026-03-02T06:00Z"),
        "2026-03-02T09:00Z",
    )

    assert due(expected, "2026-03-03T04:59Z") == []
    assert expected.next_due(utc("2026-03-02T09:00Z")) == utc("2026-03-03T05:00Z")


@pytest.mark.parametrize(
    ("starts", "expected"), [(None, []), ("2026-03-01T00:00Z", ["2026-03-01", "2026-03-02"])]
)
def test_first_registration_owes_the_past_only_if_it_says_so_s28(
    starts: str | None, expected: list[str]
) -> None:
    """S28: a job that is new at noon has missed nothing, unless its starts= is in the past."""
    found = _registered(starts, now="2026-03-02T12:00Z")

    assert due(found, "2026-03-02T12:00Z") == [utc(f"{each}T02:00Z") for each in expected]


def test_start_after_the_outage_leaves_nothing_missing_s30() -> None:
    """S30: what begins after the outage owes nothing of it."""
    found = _registered("2026-03-20T12:00Z", now="2026-03-01T12:00Z")

    assert due(found, "2026-03-20T12:00Z") == []
    assert found.next_due(utc("2026-03-01T12:00Z")) == utc("2026-03-21T02:00Z")


def _registered(starts: str | None, *, now: str) -> Expected:
    """What the first definition of a daily job expects."""
    policies = Policies(starts=None if starts is None else utc(starts))
    definition = Definition("job", Cron("0 2 * * *", "UTC").text, "UTC", policies, "null", "")
    zone = zones.load("UTC")
    found = decide(definition, [], now=utc(now), zone=zone, zone_version="2026f")
    assert found is not None
    assert found.schedule is not None
    start = max(found.effective_at, policies.starts or found.effective_at)
    return Expected([Span(from_text(found.schedule), start, END, 1)])


@EVERY_POLICY
def test_hour_that_the_clock_repeats_is_due_s33(kind: str) -> None:
    """S33: last at 08:00Z, now 09:00Z, on the day the clock goes back: due."""
    expected = since(Cron("0 * * * *", "America/Los_Angeles"), done("2021-11-07T08:00Z"))

    assert run(expected, "2021-11-07T09:00Z", kind) == [utc("2021-11-07T09:00Z")]


@pytest.mark.parametrize(
    ("kind", "runs", "covers"), [("each", 40, 0), ("reconcile", 1, 39), ("skip", 1, 0)]
)
def test_job_last_done_long_ago_is_due_at_its_slots_s37(kind: str, runs: int, covers: int) -> None:
    """S37: 40 days ago; the newest is 09:00 of today, 5 h 37 min late, never 14:37."""
    expected = since(Cron("0 9 * * *", "UTC"), done("2026-01-20T09:00Z"))
    now = "2026-03-01T14:37Z"

    found = planned(expected, now, kind, skip_after=6 * HOUR)

    assert from_us(found.run[-1]) == utc("2026-03-01T09:00Z")
    assert utc(now) - from_us(found.run[-1]) == 5 * HOUR + 37 * MINUTE
    assert (len(found.run), len(found.cover)) == (runs, covers)


@pytest.mark.parametrize(
    ("kind", "runs"), [("each", 3), ("skip", 1), ("reconcile", 1), ("none", 1)]
)
def test_restart_after_three_minutes_runs_what_the_policy_says_s41(kind: str, runs: int) -> None:
    """S41: three missed minutes: each of them, or the one that is fresh."""
    expected = since(Cron("* * * * *", "UTC"), done("2026-03-02T12:00Z"))

    assert len(run(expected, "2026-03-02T12:03:20Z", kind, skip_after=MINUTE)) == runs


@pytest.mark.parametrize(("missed", "unit"), [(4, HOUR), (30, DAY)], ids=["S42", "S81"])
def test_each_missed_slot_runs(missed: int, unit: timedelta) -> None:
    """S42, S81: not one, and not the last alone."""
    start = utc("2026-03-02T00:00Z")
    expected = since(Every(unit, anchor=start), done(start.isoformat()))

    found = run(expected, (start + missed * unit).isoformat(), "each")

    assert found == [start + each * unit for each in range(1, missed + 1)]


def test_edit_to_a_later_time_of_day_does_not_repeat_the_day_s52() -> None:
    """S52: from 01:15 to 02:15 after the day's run: next is tomorrow's 02:15 for its own day."""
    old, new = (
        from_text(f"period day -1; zone=UTC; of={Cron(each, 'UTC').text}")
        for each in ("15 1 * * *", "15 2 * * *")
    )
    expected = edited(old, new, "2026-03-02T00:00Z", "2026-03-02T01:30Z")
    yesterday = utc("2026-03-01T00:00Z")

    assert due(expected, "2026-03-02T01:15Z") == [yesterday]
    assert due(expected, "2026-03-03T02:14Z") == [yesterday]
    assert expected.next_due(utc("2026-03-02T01:30Z")) == utc("2026-03-03T02:15Z")
    assert due(expected, "2026-03-03T02:15Z") == [yesterday, yesterday + DAY]


def test_slot_settled_in_the_future_hides_none_that_falls_due_s74() -> None:
    """S74: what a wrong clock settled eight hours ahead is one slot, not a watermark."""
    start = utc("2026-03-02T00:00Z")
    expected = since(Cron("0 * * * *", "UTC"), "2026-03-02T00:00Z")
    now = utc("2026-03-02T02:30Z")
    ahead = utc("2026-03-02T10:00Z")
    first_us, ahead_us, hour_us = to_us(start), to_us(ahead), 3_600_000_000
    runs = [range(first_us, first_us + hour_us + 1, hour_us), range(ahead_us, ahead_us + 1)]

    def missing(until: datetime) -> list[int]:
        found = holes(expected.stretches(start, until + MINUTE), runs)
        return [from_us(us).hour for us in chain.from_iterable(found)]

    assert missing(now) == [2]
    assert missing(ahead) == [2, 3, 4, 5, 6, 7, 8, 9]


@EVERY_POLICY
def test_slot_during_a_deploy_is_due_when_it_is_over_s76(kind: str) -> None:
    """S76: down from 11:59:50 to 12:00:20: 12:00 is due, within the grace of a minute."""
    expected = since(Cron("0 12 * * *", "UTC"), done("2026-03-01T12:00Z"))

    found = run(expected, "2026-03-02T12:00:20Z", kind, skip_after=MINUTE)

    assert found == [utc("2026-03-02T12:00Z")]
