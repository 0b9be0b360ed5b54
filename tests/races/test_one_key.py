"""Whoever starts one occurrence, and however many at once: it has one effect."""

from __future__ import annotations

import threading
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.races.bank import CALLER_LEVELS, ENGINE_LEVELS, JOB, OLD, Bank, credit, key_at, recent
from tests.races.starter import Starter, race
from tests.races.steps import LockWatch, Stops, start, wait_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

PROCESSES = 3
THREADS = 4


def _rounds(levels: Sequence[str | None], **told: Any) -> list[dict[str, Any]]:
    """A round for each level, on keys of its own.

    Some are of today, which skip the guard, and some are old, which take it.
    """
    return [
        {
            "level": level,
            "keys": [
                *(key_at(recent(10 * number + minutes)) for minutes in (1, 2)),
                *(key_at(OLD + timedelta(days=10 * number + day)) for day in (1, 2)),
            ],
            **told,
        }
        for number, level in enumerate(levels)
    ]


def _expect_one_effect_each(bank: Bank, keys: list[str], ended: Counter[str], starts: int) -> None:
    assert ended == {"applied": len(keys), "duplicate": starts * len(keys) - len(keys)}
    assert bank.effects() == dict.fromkeys(keys, 1)
    settled = bank.rows("SELECT disposition, attempt_id FROM duly_occurrence")
    assert len(settled) == len(keys)
    sealed = bank.rows("SELECT id FROM duly_attempt WHERE outcome = 'applied'")
    assert sorted(row[1] for row in settled) == sorted(row[0] for row in sealed)


def test_many_processes_on_one_key_at_every_level_have_one_effect(bank: Bank) -> None:
    """Own connections, whatever isolation level the user's Engine has."""
    _race_in_rounds(bank, "own", _rounds(ENGINE_LEVELS[bank.name]))


def test_many_callers_on_one_key_at_every_level_have_one_effect(bank: Bank) -> None:
    """Transactions of the callers' own."""
    _race_in_rounds(bank, "caller", _rounds(CALLER_LEVELS[bank.name], snapshot=False))


def test_many_callers_with_older_snapshots_have_one_effect(bank: Bank) -> None:
    """Each transaction's snapshot is older than every claim of the key."""
    levels = ["DEFERRED"] if bank.name == "sqlite" else CALLER_LEVELS[bank.name]
    _race_in_rounds(bank, "caller", _rounds(levels, snapshot=True))


def _race_in_rounds(bank: Bank, kind: str, rounds: list[dict[str, Any]]) -> None:
    starters = [Starter(bank, kind, threads=THREADS, rounds=rounds) for _ in range(PROCESSES)]
    ended = race(starters, len(rounds))
    keys = [key for each in rounds for key in each["keys"]]
    _expect_one_effect_each(bank, keys, ended, PROCESSES * THREADS)


def _race_of_eight(bank: Bank, count: int) -> None:
    keys = [key_at(recent(minutes)) for minutes in range(1, count + 1)]
    ended = race([Starter(bank, "own", threads=1, keys=keys) for _ in range(8)])
    assert ended == {"applied": count, "duplicate": 7 * count}
    assert bank.effects() == dict.fromkeys(keys, 1)
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == count
    bank.app().history(JOB)  # on SQLite it brings the side files' duplicates in
    counted = bank.value("SELECT SUM(times) FROM duly_duplicate")
    # In SQLite's side files evidence may be doubled; an effect may not.
    assert counted == 7 * count
    assert bank.value("SELECT COUNT(*) FROM duly_attempt") == count


def test_eight_processes_on_two_hundred_keys_have_two_hundred_effects(bank: Bank) -> None:
    _race_of_eight(bank, 200)


@pytest.mark.torture
def test_eight_processes_on_five_hundred_keys_have_five_hundred_effects(bank: Bank) -> None:
    _race_of_eight(bank, 500)


def test_process_that_forks_after_use_leaves_each_child_its_own_connection(bank: Bank) -> None:
    """E18: eight workers of a preloading web server, each with the App it was born with."""
    keys = [key_at(recent(minutes)) for minutes in range(1, 21)]
    ended = race([Starter(bank, "forked", children=8, keys=keys)])
    _expect_one_effect_each(bank, keys, ended, 9)


def test_eight_workers_each_with_a_scheduler_have_one_effect_each(bank: Bank) -> None:
    """E18: eight processes, each with its own App and its own idea of what is due."""
    keys = [key_at(recent(minutes)) for minutes in range(1, 21)]
    ended = race([Starter(bank, "own", threads=2, keys=keys) for _ in range(8)])
    _expect_one_effect_each(bank, keys, ended, 16)


def test_second_process_during_the_first_is_busy_or_waits(bank: Bank) -> None:
    """E12: two pods of one Job overlap."""
    at = recent(1)
    key = key_at(at)
    first = Starter(bank, "hold", keys=[key])
    try:
        first.expect("ready")
        first.go()
        first.expect("inside")
        app = bank.app()
        with pytest.raises(duly.Busy):
            app.run(JOB, at, wait=0.2)
        patient = Starter(bank, "own", threads=1, keys=[key])
        patient.expect("ready")
        patient.go()
        if bank.name != "sqlite":
            LockWatch(bank).wait_until_waiting(1)
        first.go()
        assert first.result() == {"applied": 1}
        assert patient.result() == {"duplicate": 1}
    finally:
        first.close()
    assert bank.effects() == {key: 1}


def test_killed_holder_frees_the_key_for_the_one_that_waits(bank: Bank) -> None:
    """A process killed inside its handler leaves no effect and no key."""
    at = recent(1)
    key = key_at(at)
    first = Starter(bank, "hold", keys=[key])
    first.expect("ready")
    first.go()
    first.expect("inside")
    waiter = start(bank.app().run, JOB, at, wait=30)
    if bank.name != "sqlite":
        LockWatch(bank).wait_until_waiting(1)
    first.kill()
    assert waiter.result(30).outcome is duly.Outcome.APPLIED
    assert bank.effects() == {key: 1}


def test_three_waiters_whose_holder_rolls_back_have_one_effect(bank: Bank) -> None:
    """MariaDB lets one insert and tells the other two 1213; they try again by themselves."""
    at = recent(1)
    key = key_at(at)
    holder = bank.caller(CALLER_LEVELS[bank.name][1])
    holder.begin(snapshot=False)
    assert holder.claim(key).is_new
    stops, waiters = [], []
    for _ in range(3):
        app, stop = bank.app(), Stops()
        app._probe = stop
        stops.append(stop)
        waiters.append(start(app.run, JOB, at, wait=30))
    _wait_until_all_wait(bank, stops)
    holder.raw.rollback()
    outcomes = sorted(waiter.result(30).outcome.value for waiter in waiters)
    assert outcomes == ["applied", "duplicate", "duplicate"]
    assert bank.effects() == {key: 1}


@pytest.mark.parametrize("index", range(4))
def test_three_callers_whose_holder_rolls_back_have_one_effect(bank: Bank, index: int) -> None:
    """The same in callers' transactions: contended ones roll back and try the whole again."""
    levels = CALLER_LEVELS[bank.name]
    if bank.name == "sqlite" or index >= len(levels):
        pytest.skip("SQLite's callers wait for its one write lock, not for a key")
    at = recent(1)
    key = key_at(at)
    holder = bank.caller(levels[index])
    holder.begin(snapshot=True)
    assert holder.claim(key).is_new
    callers = [bank.caller(levels[index]) for _ in range(3)]
    waiters = [start(caller.until_settled, key, snapshot=True) for caller in callers]
    LockWatch(bank).wait_until_waiting(3)
    holder.raw.rollback()
    outcomes = sorted(waiter.result(30) for waiter in waiters)
    assert outcomes == ["applied", "duplicate", "duplicate"]
    assert bank.effects() == {key: 1}


def _wait_until_all_wait(bank: Bank, stops: list[Stops]) -> None:
    if bank.name != "sqlite":
        LockWatch(bank).wait_until_waiting(len(stops))
        return
    wait_for(
        lambda: all(("before", "Begin") in stop.seen for stop in stops),
        "every start to ask for the write lock",
    )


def test_forty_starts_during_one_long_handler_have_one_effect(bank: Bank) -> None:
    """E07: a long task delivered forty times; the impatient are busy, the patient duplicates."""
    at = recent(1)
    key = key_at(at)
    inside, finish = threading.Event(), threading.Event()

    def slow(run: duly.Run) -> None:
        credit(run)
        inside.set()
        assert finish.wait(60)

    apps = [bank.app(handler=slow, pool_size=12) for _ in range(4)]
    began = time.monotonic()
    first = start(apps[0].run, JOB, at, wait=30)
    assert inside.wait(30)
    futures: list[Future[duly.Result]] = []
    for number in range(39):
        wait = 0.3 if number % 2 else 60.0
        futures.append(start(apps[number % 4].run, JOB, at, wait=wait))
    impatient = [future for number, future in enumerate(futures) if number % 2]
    wait_for(lambda: all(future.done() for future in impatient), "the impatient to give up")
    finish.wait(max(0.0, 2.0 - (time.monotonic() - began)))  # the handler takes 2 s at least
    finish.set()
    assert first.result(60).outcome is duly.Outcome.APPLIED
    ended = Counter(_ended(future) for future in futures)
    assert ended == {"busy": len(impatient), "duplicate": 39 - len(impatient)}
    assert bank.effects() == {key: 1}


def _ended(future: Future[duly.Result]) -> str:
    try:
        return future.result(60).outcome.value
    except duly.Busy as busy:
        return busy.code


def test_failed_attempt_leaves_the_key_to_one_of_its_three_retries(bank: Bank) -> None:
    """E02: a run that failed once, retried by a tick and two operators at once."""
    at = recent(1)
    key = key_at(at)

    def fail(run: duly.Run) -> None:
        credit(run)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        bank.app(handler=fail).run(JOB, at)
    assert bank.effects() == {}
    ended = race([Starter(bank, "own", threads=1, keys=[key]) for _ in range(3)])
    assert ended == {"applied": 1, "duplicate": 2}
    assert bank.effects() == {key: 1}
    assert sorted(row[0] for row in bank.rows("SELECT outcome FROM duly_attempt")) == [
        "applied",
        "failed",
    ]
