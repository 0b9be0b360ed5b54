"""Many ticks at once, and what may happen to a job while one of them is under way."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

import duly
from duly._core.instants import to_us
from duly._sync import ticking
from tests.races.bank import OLD, Bank, credit, key_at, recent
from tests.races.beats import (
    BEAT,
    MINUTE,
    Beats,
    found_spans,
    most_at_once,
    outcomes,
    problems,
    settled,
    timed,
)
from tests.races.starter import Starter, race
from tests.races.steps import BOUND_S, Stops, start, wait_until_reached

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
POLICIES: dict[str, dict[str, Any]] = {
    "each": {"catch_up": "each"},
    "skip": {"catch_up": "skip", "skip_minutes": 4},
    "reconcile": {"catch_up": "reconcile"},
}


def _expected(beats: Beats, catch_up: str) -> dict[str, str]:
    match catch_up:
        case "each":
            return dict.fromkeys(beats.keys, "applied")
        case "skip":
            young = [key_at(at, BEAT) for at in beats.times if beats.now - at <= 4 * MINUTE]
            return dict.fromkeys(beats.keys, "skipped") | dict.fromkeys(young, "applied")
        case _:
            return dict.fromkeys(beats.keys, "superseded") | {beats.keys[-1]: "applied"}


def _check(bank: Bank, beats: Beats, catch_up: str, max_running: int) -> None:
    expected = _expected(beats, catch_up)
    assert settled(bank) == expected
    applied = [key for key, how in expected.items() if how == "applied"]
    assert bank.effects() == dict.fromkeys(applied, 1)
    assert 1 <= most_at_once(bank) <= max_running
    assert bank.value("SELECT COUNT(*) FROM duly_attempt WHERE outcome <> 'applied'") == 0


# ------------------------------------------------------------------------------------ one backlog


@pytest.mark.parametrize("max_running", [1, 3])
@pytest.mark.parametrize("catch_up", POLICIES)
def test_ticks_of_one_process_share_a_backlog(bank: Bank, catch_up: str, max_running: int) -> None:
    """Each occurrence once, and never more at once than may run."""
    found_spans(bank)
    beats = Beats.of(10)
    told = {**POLICIES[catch_up], "max_running": max_running}
    apps = [beats.app(bank, timed, **Beats.policies(told)) for _ in range(4)]

    def until_done(app: duly.App) -> list[BaseException]:
        found: list[BaseException] = []
        while (report := app.tick(beats.now)).jobs:
            found += problems(report)
        return found

    ticks = [start(until_done, app) for app in apps]
    assert [tick.result(120) for tick in ticks] == [[], [], [], []]
    _check(bank, beats, catch_up, max_running)


@pytest.mark.parametrize(
    ("catch_up", "max_running"),
    [
        ("each", 3),
        *(
            pytest.param(catch_up, max_running, marks=pytest.mark.torture)
            for catch_up in POLICIES
            for max_running in (1, 3)
            if (catch_up, max_running) != ("each", 3)
        ),
    ],
)
def test_ticks_of_many_processes_share_a_backlog(
    bank: Bank, catch_up: str, max_running: int
) -> None:
    """As on many hosts: what each is told of an occurrence is `applied`, once, or `duplicate`."""
    found_spans(bank)
    beats = Beats.of(16)
    told = {**POLICIES[catch_up], "max_running": max_running, "beats": beats.tell(), "threads": 2}
    ended = race([Starter(bank, "tick", **told) for _ in range(3)])
    applied = Counter(_expected(beats, catch_up).values())["applied"]
    assert ended["applied"] == applied
    assert set(ended) <= {"applied", "duplicate"}
    _check(bank, beats, catch_up, max_running)


def test_as_many_ticks_run_at_once_as_may_and_no_more(bank: Bank) -> None:
    """Three handlers are inside together; the fourth tick is told that all slots are taken."""
    if bank.name == "sqlite":
        pytest.skip("SQLite has one writer")
    beats = Beats.of(4)
    inside, finish = threading.Semaphore(0), threading.Event()

    def wait(run: duly.Run) -> None:
        credit(run)
        inside.release()
        assert finish.wait(BOUND_S)

    # With "none" a tick starts the newest alone, so each of these starts another one.
    policies: dict[str, Any] = {"catch_up": "none", "max_running": 3}
    apps = [beats.app(bank, wait, **policies) for _ in range(4)]
    ticks = [
        start(app.tick, at + MINUTE / 2) for app, at in zip(apps, beats.times[:3], strict=False)
    ]
    for _ in ticks:
        assert inside.acquire(timeout=BOUND_S)
    report = apps[3].tick(beats.now)
    assert [job.full for job in report.jobs] == [True]
    assert outcomes(report) == []
    assert problems(report) == []
    finish.set()
    assert [outcomes(tick.result(BOUND_S)) for tick in ticks] == [["applied"]] * 3
    assert outcomes(apps[3].tick(beats.now)) == ["applied"]
    assert bank.effects() == dict.fromkeys(beats.keys, 1)


def test_job_is_registered_beside_handlers_that_hold_slots_of_others(bank: Bank) -> None:
    """A slot is one row and nothing around it: on MariaDB a range would lock the gap before it."""
    if bank.name == "sqlite":
        pytest.skip("SQLite has one writer")
    beats = Beats.of(2)
    inside, finish = threading.Event(), threading.Event()

    def wait(run: duly.Run) -> None:
        credit(run)
        inside.set()
        assert finish.wait(BOUND_S)

    tick = start(beats.app(bank, wait).tick, beats.now)
    assert inside.wait(BOUND_S)
    other = bank.app()
    for name in ("aaa", "zzz"):
        other.job(name, schedule="* * * * *", max_running=2)(credit)
    written, refused = start(other.register).result(BOUND_S)
    assert refused == {}
    assert {"aaa", "zzz"} <= {each.job for each in written}
    assert not tick.done()
    finish.set()
    assert outcomes(tick.result(BOUND_S)) == ["applied", "applied"]


# ----------------------------------------------------------------- what happens during a tick


def test_failed_occurrence_behind_newer_ones_stays_missing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is complete is a set: a hole behind the newest is never passed."""
    monkeypatch.setattr(ticking, "COMPLETE_EVERY", 1)
    beats = Beats.of(5)
    fails = {beats.keys[2]}

    def handle(run: duly.Run) -> None:
        if run.key in fails:
            raise ValueError("no")
        credit(run)

    app = beats.app(bank, handle, retry=duly.Retry(first=timedelta(0)))
    assert outcomes(app.tick(beats.now)) == [*["applied"] * 2, "failed", *["applied"] * 2]
    fails.clear()
    report = app.tick(recent(0) + 2 * MINUTE)  # after the failure
    assert next(ran.key for job in report.jobs for ran in job.ran) == beats.keys[2]
    assert bank.effects()[beats.keys[2]] == 1


def test_pause_during_a_tick_doubles_and_loses_nothing(bank: Bank) -> None:
    """The tick ends as it was planned; what falls due in the pause is not expected."""
    beats = Beats.of(5)
    app, other = beats.app(bank), beats.app(bank)
    stops = Stops()
    stop = stops.at("after Seal")
    app._probe = stops
    tick = start(app.tick, beats.now)
    assert wait_until_reached(stop, tick)
    pause = f"INSERT INTO duly_pause VALUES ('{BEAT}', {to_us(beats.now)}, NULL, FALSE)"
    if bank.name == "sqlite":
        stop.go()
        tick.result(BOUND_S)
    bank.change(pause)
    stop.go()
    assert set(outcomes(tick.result(BOUND_S))) == {"applied"}
    assert all(not job.ran for job in other.tick(beats.now + 5 * MINUTE).jobs)
    bank.change(f"UPDATE duly_pause SET resumed_us = {to_us(beats.now + 3 * MINUTE)}")
    other.tick(beats.now + 5 * MINUTE)
    after = [key_at(beats.times[-1] + minutes * MINUTE, BEAT) for minutes in (4, 5)]
    assert bank.effects() == dict.fromkeys([*beats.keys, *after], 1)


@pytest.mark.parametrize("place", ["before Begin", "after LockGuard", "after Claim", "after Seal"])
def test_prune_during_a_tick_over_an_old_backlog_frees_no_key(bank: Bank, place: str) -> None:
    """However they meet, each old occurrence has at most one effect, and none is run again."""
    app, other = bank.app(), bank.app()
    for each in (app, other):
        each.job(BEAT, schedule="0 0 * * *", starts=OLD, max_running=2)(credit)
        each.register()
    now = OLD + 4 * DAY
    other.run(BEAT, OLD)
    other.run(BEAT, now)  # a hole of three days between two settled ones
    stops = Stops()
    stop = stops.at(place)
    app._probe = stops
    tick = start(app.tick, now)
    assert wait_until_reached(stop, tick)
    pruned = start(other.prune, older_than=OLD + 30 * DAY)
    if place == "before Begin":
        pruned.result(BOUND_S)
    stop.go()
    report = tick.result(BOUND_S)
    error = pruned.exception(BOUND_S)
    assert error is None or isinstance(error, duly.Busy)
    other.prune(older_than=OLD + 30 * DAY)
    effects = bank.effects()
    assert set(effects.values()) == {1}
    assert all(isinstance(each, duly.Expired) for each in problems(report))
    for day in range(5):
        with pytest.raises(duly.Expired):
            other.run(BEAT, OLD + day * DAY)
    other.tick(now)
    assert bank.effects() == effects
