"""How far a prune may go, whom it may hold up, and whose clock decides."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core import retention
from duly._core.ops import FLOOR_US, Commit
from duly._sync import claim as claim_module
from duly._sync import starting as starting_module
from tests.races.bank import JOB, OLD, Bank, Caller, key_at, recent
from tests.races.starter import Starter
from tests.races.steps import (
    BOUND_S,
    LockWatch,
    Stops,
    start,
    wait_for,
    wait_until_reached,
)
from tests.races.test_prune_against_attempt import held_claims

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = timedelta(days=1)
BOUND = OLD + timedelta(days=60)


@contextmanager
def host_clock_far_behind() -> Iterator[None]:
    """This host believes that nothing is old, so only the database's clock can tell."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(starting_module, "looks_old", lambda _occurrence: False)
        patch.setattr(claim_module, "looks_old", lambda _occurrence: False)
        yield


# -------------------------------------------------------------------------------------- the floor


@pytest.mark.parametrize("clock_is_right", [False, True])
@pytest.mark.parametrize(
    "older_than",
    [
        timedelta(microseconds=1),
        DAY,
        2 * DAY - timedelta(minutes=1),
        datetime(9000, 1, 1, tzinfo=UTC),
    ],
    ids=str,
)
def test_prune_past_the_floor_is_refused_whatever_the_flag(
    bank: Bank, older_than: timedelta | datetime, clock_is_right: bool
) -> None:
    """PROTOCOL: two days before the newest record no prune passes."""
    app = bank.app()
    at = recent(1)
    app.run(JOB, at)
    with pytest.raises(duly.PruneRefused):
        app.prune(older_than=older_than, clock_is_right=clock_is_right)
    assert bank.horizon() is None
    assert app.run(JOB, at).outcome is duly.Outcome.DUPLICATE


def test_prune_just_below_the_floor_is_done(bank: Bank) -> None:
    app = bank.app()
    app.run(JOB, recent(4 * 24 * 60))
    (job,) = app.prune(older_than=2 * DAY + timedelta(minutes=5))
    assert job.occurrences == 1


def test_prune_by_a_clock_far_ahead_is_refused_until_a_person_vouches_for_it(bank: Bank) -> None:
    """The newest record is then long past; even vouched for, it bounds the prune."""
    app = bank.app()
    app.run(JOB, OLD)
    app.run(JOB, OLD + DAY)
    ago = 30 * FLOOR_US
    bank.change(f"UPDATE duly_occurrence SET recorded_us = recorded_us - {ago}")
    with pytest.raises(duly.PruneRefused, match="clock"):
        app.prune(older_than=BOUND)
    with pytest.raises(duly.PruneRefused, match="floor"):
        app.prune(older_than=31 * DAY, clock_is_right=True)
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == 2
    (job,) = app.prune(older_than=33 * DAY, clock_is_right=True)
    assert job.occurrences == 2


def test_pruned_key_is_expired_at_once_and_for_ever(bank: Bank) -> None:
    """R01: the record is gone, the key is not free."""
    app = bank.app()
    app.run(JOB, OLD)
    app.prune(older_than=OLD)
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == 0
    caller = bank.caller("IMMEDIATE" if bank.name == "sqlite" else "READ COMMITTED")
    for _ in range(2):
        with pytest.raises(duly.Expired):
            app.run(JOB, OLD)
        with pytest.raises(duly.Expired):
            app.run(JOB, OLD - DAY)  # never seen, and below the horizon all the same
        assert caller.once(key_at(OLD)) == "expired"
    assert bank.effects() == {key_at(OLD): 1}


def test_horizon_is_never_lowered(bank: Bank) -> None:
    app = bank.app()
    app.run(JOB, OLD)
    app.run(JOB, recent(1))
    app.prune(older_than=BOUND)
    horizon = bank.horizon()
    with pytest.raises(duly.Expired):
        app.run(JOB, OLD)  # leaves an attempt for the next prune to find
    (job,) = app.prune(older_than=OLD)
    assert bank.horizon() == job.horizon_us == horizon


def test_prune_whose_horizon_was_raised_meanwhile_does_not_lower_it(bank: Bank) -> None:
    """Two prunes overlap: the one with the older bound comes last."""
    app, other = bank.app(), bank.app()
    app.run(JOB, OLD)
    app.run(JOB, OLD + DAY)
    stops = Stops()
    stop = stops.at("after OldestHeld")
    app._probe = stops
    slow = start(app.prune, older_than=OLD)
    wait_until_reached(stop, slow)
    other.prune(older_than=BOUND)
    horizon = bank.horizon()
    stop.go()
    slow.result(BOUND_S)
    assert bank.horizon() == horizon
    with pytest.raises(duly.Expired):
        other.run(JOB, OLD + DAY)


def test_prune_does_not_pass_a_torn_occurrence(bank: Bank) -> None:
    app = bank.app()
    for day in range(4):
        app.run(JOB, OLD + day * DAY)
    torn_us = duly.Occurrence(JOB, OLD + 2 * DAY).nominal_us
    bank.change(
        "UPDATE duly_occurrence SET disposition = 'torn', attempt_id = NULL"
        f" WHERE nominal_us = {torn_us}"
    )
    (job,) = app.prune(older_than=BOUND)
    assert (job.held_us, bank.horizon(), job.occurrences) == (torn_us, torn_us - 1, 2)
    with pytest.raises(duly.AlreadySettled):
        app.run(JOB, OLD + 2 * DAY)
    assert app.run(JOB, OLD + 3 * DAY).outcome is duly.Outcome.DUPLICATE


def test_prune_does_not_pass_a_running_attempt(bank: Bank) -> None:
    """Its marker holds the prune; when it has ended it is applied, and only then prunable."""
    late = OLD + 2 * DAY
    app = bank.app()
    app.run(JOB, OLD)
    app.run(JOB, OLD + 3 * DAY)
    running = Starter(bank, "hold", keys=[key_at(late)], evidence_after=0)
    try:
        running.expect("ready")
        running.go()
        running.expect("inside")
        wait_for(lambda: _is_marked(app), "the marker")
        stops = Stops()
        stop = stops.at("after OldestHeld")
        app._probe = stops
        pruned = start(app.prune, older_than=BOUND)
        assert wait_until_reached(stop, pruned)
        stop.go()
        if bank.name != "sqlite":
            # The guard is the running attempt's until it ends.
            assert LockWatch(bank).wait_until_waiting(1, pruned)
        running.go()
        assert running.result() == {"applied": 1}
        (job,) = pruned.result(BOUND_S)
    finally:
        running.close()
    assert job.held_us == duly.Occurrence(JOB, late).nominal_us
    assert bank.horizon() == job.held_us - 1
    assert app.run(JOB, late).outcome is duly.Outcome.DUPLICATE
    assert app.run(JOB, OLD + 3 * DAY).outcome is duly.Outcome.DUPLICATE


def _is_marked(app: duly.App) -> bool:
    with app.database.connect() as session:
        return bool(app._attempts.evidence.running(session))


# ---------------------------------------------------------------------------- batches, and claimers


def test_prune_deletes_in_bounded_transactions_and_refuses_keys_in_between(bank: Bank) -> None:
    """R03: 80 million rows in one transaction dead-locked somebody."""
    app, other = bank.app(), bank.app()
    for number in range(7):
        app.run(JOB, OLD + number * DAY)
    left: list[int] = []

    def probe(when: str, op: Any, _session: Any) -> None:
        if isinstance(op, Commit) and when == "after":
            left.append(bank.value("SELECT COUNT(*) FROM duly_occurrence"))
            with pytest.raises(duly.Expired):
                other.run(JOB, OLD + 6 * DAY)

    app._probe = probe
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "BATCH_ROWS", 3)
        (job,) = app.prune(older_than=BOUND)
    assert left[:3] == [4, 1, 0]
    assert job.occurrences == 7
    assert bank.effects() == {key_at(OLD + number * DAY): 1 for number in range(7)}
    assert retention.BATCH_ROWS <= 1000


@pytest.mark.parametrize("place", ["after TouchGuard", "after DeleteBatch", "before Commit"])
def test_claims_of_today_pass_a_prune_under_way(bank: Bank, place: str) -> None:
    """R03: the pruner beside claimers. They need no guard and meet no lock of its deletions."""
    if bank.name == "sqlite":
        pytest.skip("SQLite has one write lock; the prune's batches are short")
    app, today = bank.app(), bank.app()
    today.job("aaa")(_credit_of)
    today.job("zzz")(_credit_of)
    for number in range(3):
        app.run(JOB, OLD + number * DAY)
    stops = Stops()
    stop = stops.at(place)
    app._probe = stops
    pruned = start(app.prune, older_than=BOUND)
    assert wait_until_reached(stop, pruned)
    caller = bank.caller("READ COMMITTED")
    for job in (JOB, "aaa", "zzz"):
        assert today.run(job, recent(1), wait=2).outcome is duly.Outcome.APPLIED
        assert caller.once(key_at(recent(2), job), wait=2) == "applied"
    stop.go()
    pruned.result(BOUND_S)


def _credit_of(run: duly.Run) -> None:
    run.execute("INSERT INTO effect (occurrence) VALUES (:key)", {"key": run.key})


# --------------------------------------------------------------------------- whose clock decides


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_database_clock_finds_an_old_key_that_the_host_takes_for_young(
    bank: Bank, level: str
) -> None:
    app = bank.app()
    app.run(JOB, OLD)
    app.prune(older_than=BOUND)
    caller = bank.caller("IMMEDIATE" if bank.name == "sqlite" else level)
    with host_clock_far_behind():
        with pytest.raises(duly.Expired):
            app.run(JOB, OLD)
        assert caller.once(key_at(OLD), snapshot=True) == "expired"
        assert caller.once(key_at(BOUND + DAY)) == "applied"  # claimed again under the guard
    assert bank.effects() == {key_at(OLD): 1, key_at(BOUND + DAY): 1}


@pytest.mark.parametrize("own", [True, False], ids=["own", "caller"])
def test_attempt_that_grew_old_while_it_waited_takes_the_guard(bank: Bank, own: bool) -> None:
    """The clock is read after the wait for the key: before it, the key was still young."""
    if bank.name == "sqlite":
        pytest.skip("SQLite reads the horizon under its write lock, whatever the age")
    epoch = "EXTRACT(EPOCH FROM clock_timestamp())"
    if bank.name == "mariadb":
        epoch = "UNIX_TIMESTAMP(SYSDATE(6))"

    def now_us() -> int:
        return int(float(bank.value(f"SELECT {epoch}")) * 1_000_000)

    holder, waiter = bank.caller("READ COMMITTED"), bank.caller("READ COMMITTED")
    app, stops = bank.app(), Stops()
    app.sweep()
    nominal_us = now_us() - FLOOR_US + 1_500_000
    occurrence = duly.Occurrence.from_us(JOB, nominal_us, "", 1)
    holder.begin(snapshot=False)
    with host_clock_far_behind(), held_claims(stops):
        assert holder.claim(occurrence.key).is_new
        waiter.begin(snapshot=True)
        stops.seen.clear()
        app._probe = stops
        if own:
            waiting = start(lambda: app.run(JOB, occurrence.nominal_time).outcome.value)
        else:
            waiting = start(_claim_and_commit, waiter, occurrence.key)
        LockWatch(bank).wait_until_waiting(1)
        assert now_us() < nominal_us + FLOOR_US, "too slow a machine: it grew old before the wait"
        wait_for(lambda: now_us() > nominal_us + FLOOR_US, "a second and a half")
        holder.raw.rollback()
        assert waiting.result(BOUND_S) == "applied"
    assert ("after", "LockGuard") in stops.seen
    assert bank.effects() == {occurrence.key: 1}


def _claim_and_commit(caller: Caller, key: str) -> str:
    outcome = caller.claim(key).outcome.value
    caller.raw.commit()
    return outcome


def test_caller_who_set_the_session_clock_back_does_not_revive_a_pruned_key(bank: Bank) -> None:
    """MariaDB's NOW() obeys SET timestamp; the clock that a claim reads does not."""
    if bank.name != "mariadb":
        pytest.skip("only MariaDB lets a session choose its time")
    app = bank.app()
    app.run(JOB, OLD)
    app.prune(older_than=BOUND)
    caller = bank.caller("READ COMMITTED")
    caller.raw.cursor().execute(f"SET timestamp = {int(OLD.timestamp())}")
    with host_clock_far_behind():
        assert caller.once(key_at(OLD)) == "expired"
    assert bank.effects() == {key_at(OLD): 1}


def test_ledger_without_its_guard_row_is_refused(bank: Bank) -> None:
    """A lock on a row that is not there locks nothing."""
    if bank.name == "sqlite":
        pytest.skip("SQLite's guard is its write lock")
    app, caller = bank.app(), bank.caller("READ COMMITTED")
    app.run(JOB, OLD)
    assert caller.once(key_at(OLD)) == "duplicate"
    bank.change("DELETE FROM duly_guard")
    for ready in (app, bank.app()):
        with pytest.raises(duly.InvariantBroken):
            ready.run(JOB, OLD + DAY)
    caller.begin(snapshot=False)
    with pytest.raises(duly.InvariantBroken):
        caller.claim(key_at(OLD + DAY))
    caller.raw.rollback()
    with pytest.raises(duly.InvariantBroken):
        app.prune(older_than=BOUND)
    assert bank.effects() == {key_at(OLD): 1}
