"""A run that covers older periods, or a tick that skips them, against those who run one of them."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._db.sessions.base import Session
from duly._sync import planning
from tests.races.bank import OLD, Bank, credit, key_at, recent
from tests.races.beats import BEAT, MINUTE, Beats, held, outcomes, problems, settled
from tests.races.steps import BOUND_S, LockWatch, Stops, start, wait_for, wait_until_reached

if TYPE_CHECKING:
    from concurrent.futures import Future

DAY = timedelta(days=1)
RECONCILE: dict[str, Any] = {"catch_up": "reconcile"}
SKIP: dict[str, Any] = {"catch_up": "skip", "skip_after": 2 * MINUTE}


class Book:
    """Remembers what each run covered, and credits."""

    def __init__(self) -> None:
        self.covers: list[list[str]] = []

    def __call__(self, run: duly.Run) -> None:
        self.covers.append([each.key for each in run.covers])
        credit(run)


def _wait_until_behind(bank: Bank, *futures: Future[Any], stops: Stops | None = None) -> None:
    """Until one more transaction waits for another; on SQLite, until it asks for the lock."""
    if bank.name != "sqlite":
        LockWatch(bank).wait_until_waiting(1, *futures)
    elif stops is not None:
        wait_for(lambda: ("before", "Begin") in stops.seen, "the other one to begin")


# ---------------------------------------------------------------------------------- reconciling


@pytest.mark.parametrize("fails", [False, True], ids=["applies", "fails"])
def test_covering_run_behind_a_manual_run_covers_what_is_left(bank: Bank, fails: bool) -> None:
    """The manual run holds a period when the tick comes to it: one effect each period."""
    beats, book = Beats.of(6), Book()
    inside, finish = threading.Event(), threading.Event()

    def by_hand(run: duly.Run) -> None:
        inside.set()
        assert finish.wait(BOUND_S)
        if fails:
            raise ValueError("no")
        credit(run)

    app = beats.app(bank, book, **RECONCILE)
    manual = start(beats.app(bank, by_hand, **RECONCILE).run, BEAT, beats.times[2])
    assert inside.wait(BOUND_S)
    stops = Stops()
    app._probe = stops
    tick = start(app.tick, beats.now)
    _wait_until_behind(bank, tick, stops=stops)
    finish.set()

    report = tick.result(BOUND_S)
    assert outcomes(report) == ["applied"]
    assert problems(report) == []
    if fails:
        assert isinstance(manual.exception(BOUND_S), ValueError)
        assert book.covers == [beats.keys]
        assert bank.effects() == {beats.keys[-1]: 1}
    else:
        assert manual.result(BOUND_S).outcome is duly.Outcome.APPLIED
        assert book.covers == [[*beats.keys[:2], *beats.keys[3:]]]
        assert bank.effects() == {beats.keys[-1]: 1, beats.keys[2]: 1}
    applied = {beats.keys[-1]} if fails else {beats.keys[-1], beats.keys[2]}
    assert settled(bank) == {
        key: "applied" if key in applied else "superseded" for key in beats.keys
    }
    assert stops.did("CallHandler") == 1, "it was waited for, not tried again"


@pytest.mark.parametrize("fails", [False, True], ids=["applies", "fails"])
@pytest.mark.parametrize("place", ["after Claim", "after Cover", "after CallHandler"])
def test_manual_run_behind_a_covering_run_is_told(bank: Bank, place: str, fails: bool) -> None:
    """The tick holds the newest, or all, when a person starts a period that it covers."""
    beats, book = Beats.of(6), Book()

    def handle(run: duly.Run) -> None:
        book(run)
        if fails:
            raise ValueError("no")

    app, other = beats.app(bank, handle, **RECONCILE), beats.app(bank, **RECONCILE)
    stops, others = Stops(), Stops()
    stop = stops.at(place)
    app._probe, other._probe = stops, others
    tick = start(app.tick, beats.now)
    assert wait_until_reached(stop, tick)
    manual = start(other.run, BEAT, beats.times[2])
    comes_first = place == "after Claim" and bank.name != "sqlite"
    if comes_first:
        # The key is free yet: it is run, and the cover leaves it out.
        assert manual.result(BOUND_S).outcome is duly.Outcome.APPLIED
    else:
        _wait_until_behind(bank, manual, stops=others)
    stop.go()

    report = tick.result(BOUND_S)
    if fails or comes_first:
        assert manual.result(BOUND_S).outcome is duly.Outcome.APPLIED
    else:
        with pytest.raises(duly.AlreadySettled, match="superseded"):
            manual.result(BOUND_S)
    applied = set() if fails else {beats.keys[-1]}
    if fails or comes_first:
        applied.add(beats.keys[2])
    assert bank.effects() == dict.fromkeys(applied, 1)
    assert outcomes(report) == ["failed" if fails else "applied"]
    others_are = {} if fails else dict.fromkeys(beats.keys, "superseded")
    assert settled(bank) == others_are | dict.fromkeys(applied, "applied")
    assert [len(keys) for keys in book.covers] == [5 if comes_first else 6]


def test_covering_runs_of_two_ticks_wait_for_each_other_and_never_in_a_circle(bank: Bank) -> None:
    """The next tick reaches for what the one before it covers: newest first, so it only waits."""
    beats, book, later = Beats.of(6), Book(), Book()
    policies = {**RECONCILE, "max_running": 2}
    first, second = beats.app(bank, book, **policies), beats.app(bank, later, **policies)
    stops, others = Stops(), Stops()
    stop = stops.at("before Cover")
    first._probe, second._probe = stops, others
    one = start(first.tick, beats.now)
    assert wait_until_reached(stop, one)
    two = start(second.tick, beats.now + MINUTE)
    _wait_until_behind(bank, two, stops=others)
    stop.go()

    newest = duly.Occurrence(BEAT, beats.times[-1] + MINUTE).key
    for tick in (one, two):
        assert problems(tick.result(BOUND_S)) == []
        assert outcomes(tick.result()) == ["applied"]
    assert (stops.did("Backoff"), others.did("Backoff")) == (0, 0)
    assert book.covers == [beats.keys]
    assert later.covers == [[newest]]
    assert bank.effects() == {beats.keys[-1]: 1, newest: 1}
    assert set(settled(bank)) == {*beats.keys, newest}


def test_covering_run_whose_period_is_run_again_and_again_covers_the_rest(bank: Bank) -> None:
    """Every older period is run by hand while the covering one is under way."""
    beats, book = Beats.of(8), Book()
    app, other = beats.app(bank, book, **RECONCILE), beats.app(bank, **RECONCILE)
    tick = start(app.tick, beats.now)
    manual = [start(other.run, BEAT, at, wait=30) for at in beats.times[:-1]]
    report = tick.result(BOUND_S)
    errors = [future.exception(BOUND_S) for future in manual]
    assert problems(report) == []
    assert all(error is None or isinstance(error, duly.AlreadySettled) for error in errors)
    applied = [key for key, error in zip(beats.keys, errors, strict=False) if error is None]
    assert bank.effects() == dict.fromkeys([*applied, beats.keys[-1]], 1)
    assert set(settled(bank)) == set(beats.keys)
    assert book.covers == [[key for key in beats.keys if key not in applied]]


@pytest.mark.parametrize("newest", ["old", "young"])
@pytest.mark.parametrize("catch_up", ["reconcile", "skip"])
def test_period_that_was_run_and_pruned_after_the_plan_is_left_alone(
    bank: Bank, catch_up: str, newest: str
) -> None:
    """Its key looks free; the horizon, read under the guard, says that it is not."""
    first = OLD
    if newest == "young":  # only the oldest is old enough to have been pruned, whatever the hour
        first = recent(0) - 5 * DAY
    book, now = Book(), first + 5 * DAY
    policies: dict[str, Any] = {"schedule": f"{first:%M %H} * * *", "starts": first}
    policies |= RECONCILE if catch_up == "reconcile" else SKIP
    app, other = bank.app(), bank.app()
    for each, handler in ((app, book), (other, credit)):
        each.job(BEAT, **policies)(handler)
        each.register()
    with held(planning, "plan", after=True) as hold:
        tick = start(app.tick, now)
        hold.wait()
        assert other.run(BEAT, first).outcome is duly.Outcome.APPLIED
        other.prune(older_than=first)
        hold.go()
        report = tick.result(BOUND_S)
    oldest = key_at(first, BEAT)
    assert problems(report) == []
    assert bank.effects() == {oldest: 1, key_at(now, BEAT): 1}
    rest = [key_at(first + day * DAY, BEAT) for day in range(1, 6)]
    assert set(settled(bank)) == set(rest)
    if catch_up == "reconcile":
        assert book.covers == [rest]
    with pytest.raises(duly.Expired):
        app.run(BEAT, first)


# --------------------------------------------------------------------------------------- skipping


def test_late_run_of_a_period_that_a_tick_skips_is_told(bank: Bank) -> None:
    """The tick has settled it as skipped, and not committed yet."""
    beats = Beats.of(6)
    app, other = beats.app(bank, **SKIP), beats.app(bank, **SKIP)
    others = Stops()
    other._probe = others
    with held(Session, "settle", after=True) as hold:
        tick = start(app.tick, beats.now)
        hold.wait()
        late = start(other.run, BEAT, beats.times[0], wait=30)
        _wait_until_behind(bank, late, stops=others)
        hold.go()
        report = tick.result(BOUND_S)
    with pytest.raises(duly.AlreadySettled, match="skipped"):
        late.result(BOUND_S)
    assert problems(report) == []
    assert [job.skipped for job in report.jobs] == [4]
    assert bank.effects() == dict.fromkeys(beats.keys[4:], 1)
    assert set(settled(bank)) == set(beats.keys)


@pytest.mark.parametrize("fails", [False, True], ids=["applies", "fails"])
def test_tick_that_skips_leaves_a_late_run_its_period(bank: Bank, fails: bool) -> None:
    """The late run holds the key: it is waited for, and what it applied is not skipped."""
    beats = Beats.of(6)
    inside, finish = threading.Event(), threading.Event()

    def by_hand(run: duly.Run) -> None:
        inside.set()
        assert finish.wait(BOUND_S)
        if fails:
            raise ValueError("no")
        credit(run)

    app = beats.app(bank, **SKIP)
    late = start(beats.app(bank, by_hand, **SKIP).run, BEAT, beats.times[0])
    assert inside.wait(BOUND_S)
    with held(Session, "settle") as hold:
        tick = start(app.tick, beats.now)
        if bank.name != "sqlite":
            hold.wait()
            hold.go()
            LockWatch(bank).wait_until_waiting(1, tick)
        else:
            hold.go()
        finish.set()
        report = tick.result(BOUND_S)
    assert (late.exception(BOUND_S) is None) is not fails
    assert problems(report) == []
    assert [job.skipped for job in report.jobs] == [4 if fails else 3]
    applied = beats.keys[4:] if fails else [beats.keys[0], *beats.keys[4:]]
    assert bank.effects() == dict.fromkeys(applied, 1)
    assert set(settled(bank)) == set(beats.keys)


def test_tick_is_not_held_up_by_a_long_late_run_of_what_it_would_skip(bank: Bank) -> None:
    """Its wait is bounded; what is not too old is run meanwhile, the rest by the next tick."""
    if bank.name == "sqlite":
        pytest.skip("SQLite has one writer")
    beats = Beats.of(6)
    inside, finish = threading.Event(), threading.Event()

    def by_hand(run: duly.Run) -> None:
        inside.set()
        assert finish.wait(BOUND_S)
        credit(run)

    policies = {**SKIP, "max_running": 2}
    app = beats.app(bank, **policies)
    late = start(beats.app(bank, by_hand, **policies).run, BEAT, beats.times[0])
    assert inside.wait(BOUND_S)
    report = start(app.tick, beats.now).result(BOUND_S)
    assert outcomes(report) == ["applied", "applied"]
    finish.set()
    assert late.result(BOUND_S).outcome is duly.Outcome.APPLIED
    assert problems(app.tick(beats.now)) == []
    assert bank.effects() == dict.fromkeys([beats.keys[0], *beats.keys[4:]], 1)
    assert set(settled(bank)) == set(beats.keys)


def test_two_ticks_that_skip_the_same_settle_each_once(bank: Bank) -> None:
    beats = Beats.of(12)
    policies = {**SKIP, "skip_after": timedelta(minutes=3)}
    apps = [beats.app(bank, **policies) for _ in range(3)]
    ticks = [start(app.tick, beats.now) for app in apps]
    reports = [tick.result(BOUND_S) for tick in ticks]
    assert [problems(report) for report in reports] == [[], [], []]
    assert sum(job.skipped for report in reports for job in report.jobs) == 9
    for app in apps:  # one of them may have been full
        app.tick(beats.now)
    assert bank.effects() == dict.fromkeys(beats.keys[9:], 1)
    assert set(settled(bank)) == set(beats.keys)
