"""One attempt and what may happen to it: each test here fails when one rule is taken out.

They stand beside the list of mutants because each was written for one of them.
"""

from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.ops import Commit
from duly._db.sessions.psycopg_driver import PsycopgSession
from tests.races.bank import JOB, OLD, Bank, credit, key_at, recent
from tests.races.starter import Starter
from tests.races.steps import BOUND_S, LockWatch, Stops, start, wait_for, wait_until_reached

if TYPE_CHECKING:
    from duly._sync.shell import Shell


def only(bank: Bank, *names: str) -> None:
    if bank.name not in names:
        pytest.skip(f"a rule of {' and '.join(names)} alone")


def driver_of(run: duly.Run) -> Any:
    """The driver's own connection, on which nothing of ours is in the way."""
    return run.connection.connection.driver_connection


# -------------------------------------------------------------------- effect and key in one commit


@pytest.mark.parametrize("level", [None, "AUTOCOMMIT"])
def test_failed_handler_leaves_neither_effect_nor_key(bank: Bank, level: str | None) -> None:
    """Also where the user's Engine would commit each statement by itself."""

    def fail(run: duly.Run) -> None:
        credit(run)
        raise ValueError("no")

    at = recent(1)
    with pytest.raises(ValueError, match="no"):
        bank.app(level=level, handler=fail).run(JOB, at)
    assert bank.effects() == {}
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == 0
    assert bank.app(level=level).run(JOB, at).outcome is duly.Outcome.APPLIED
    assert bank.effects() == {key_at(at): 1}


def test_nothing_is_committed_while_the_handler_works(bank: Bank) -> None:
    """A process that dies at any moment before the commit leaves nothing."""
    seen: list[tuple[int, int]] = []

    def look(run: duly.Run) -> None:
        credit(run)
        keys = bank.value("SELECT COUNT(*) FROM duly_occurrence")
        seen.append((keys, len(bank.effects())))

    at = recent(1)
    bank.app(handler=look).run(JOB, at)
    assert seen == [(0, 0)]
    assert bank.effects() == {key_at(at): 1}
    sealed = bank.rows("SELECT outcome FROM duly_attempt")
    assert [row[0] for row in sealed] == ["applied"]
    assert bank.app().run(JOB, at).outcome is duly.Outcome.DUPLICATE


def test_rival_of_an_attempt_under_way_is_a_duplicate_and_no_error(bank: Bank) -> None:
    """The unique key decides, and waiting for it is no error."""
    only(bank, "postgresql", "mariadb")
    at = recent(1)
    stops = Stops()
    stop = stops.at("before Commit")
    first, second = bank.app(), bank.app()
    second.sweep()
    first._probe = stops
    running = start(first.run, JOB, at)
    assert wait_until_reached(stop, running)
    rival = start(second.run, JOB, at)
    LockWatch(bank).wait_until_waiting(1)
    stop.go()
    assert running.result(BOUND_S).outcome is duly.Outcome.APPLIED
    assert rival.result(BOUND_S).outcome is duly.Outcome.DUPLICATE
    assert bank.effects() == {key_at(at): 1}


def test_attempt_on_sqlite_has_the_write_lock_from_its_beginning(bank: Bank) -> None:
    """A transaction that begins as a reader fails when it first writes, whatever the timeout."""
    only(bank, "sqlite")
    stops = Stops()
    stop = stops.at("after Begin")
    app = bank.app()
    app._probe = stops
    running = start(app.run, JOB, recent(1))
    assert wait_until_reached(stop, running)
    other = sqlite3.connect(bank.url.removeprefix("sqlite:///"), timeout=0, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    stop.go()
    assert running.result(BOUND_S).outcome is duly.Outcome.APPLIED


# ------------------------------------------------------------------- a handler ends the transaction


def test_commit_by_the_handler_lands_nothing(bank: Bank) -> None:
    """PostgreSQL's deferred foreign key and SQLite's authorizer refuse it."""
    only(bank, "postgresql", "sqlite")

    def commit(run: duly.Run) -> None:
        credit(run)
        driver_of(run).cursor().execute("COMMIT")

    at = recent(1)
    with pytest.raises(Exception, match=r"fk_duly_occurrence_sealed|not authorized"):
        bank.app(handler=commit).run(JOB, at)
    assert bank.effects() == {}
    assert bank.app().run(JOB, at).outcome is duly.Outcome.APPLIED


def test_commit_inside_a_block_on_mariadb_is_torn(bank: Bank) -> None:
    """What no reading of the text shows; the savepoint taken before the handler is gone."""
    only(bank, "mariadb")

    def commit(run: duly.Run) -> None:
        credit(run)
        driver_of(run).cursor().execute("BEGIN NOT ATOMIC COMMIT; END")

    _expect_torn(bank, commit)


def test_rollback_by_the_handler_and_further_work_is_torn(bank: Bank) -> None:
    """What follows a ROLLBACK is in a transaction that has no key: the seal does not find it."""
    only(bank, "postgresql", "mariadb")

    def replace(run: duly.Run) -> None:
        inside = bank.name == "mariadb"
        # In one text: on PostgreSQL no statement by itself may follow an end.
        text = "BEGIN NOT ATOMIC ROLLBACK; END" if inside else "ROLLBACK; BEGIN"
        driver_of(run).cursor().execute(text)
        credit(run)

    _expect_torn(bank, replace)
    assert bank.effects() == {}
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == 1


def test_key_deleted_by_the_handler_inside_its_transaction_is_torn(bank: Bank) -> None:
    """Transaction and savepoint are whole: only the seal finds that the key is gone."""

    def delete(run: duly.Run) -> None:
        credit(run)
        driver_of(run).cursor().execute("DELETE FROM duly_occurrence")

    _expect_torn(bank, delete)
    assert bank.effects() == {}


def _expect_torn(bank: Bank, handler: Any) -> None:
    at = recent(1)
    with pytest.raises(duly.TransactionEnded):
        bank.app(handler=handler).run(JOB, at)
    landed = bank.effects()
    with pytest.raises(duly.AlreadySettled):
        bank.app().run(JOB, at)
    assert bank.effects() == landed
    assert bank.rows("SELECT disposition FROM duly_occurrence")[0][0] == "torn"


def test_key_without_its_attempt_is_torn_and_no_duplicate(bank: Bank) -> None:
    """An implicit commit landed the claim and its process died: nobody knows what it did."""
    only(bank, "sqlite", "mariadb")
    at = recent(1)
    bank.app().run(JOB, at)
    bank.change("DELETE FROM duly_attempt")
    with pytest.raises(duly.AlreadySettled):
        bank.app().run(JOB, at)


def test_commit_of_an_aborted_transaction_is_no_commit(bank: Bank) -> None:
    """PostgreSQL answers it with ROLLBACK and without an error."""
    only(bank, "postgresql")
    raw = bank.connect()
    session = PsycopgSession(raw, None)
    session.begin(1.0)
    with pytest.raises(Exception, match="division by zero"):
        raw.execute("SELECT 1 / 0")
    assert session.commit(1.0) is False
    raw.close()


# --------------------------------------------------------------------------- an unknown commit


def test_commit_whose_answer_is_lost_is_applied(bank: Bank) -> None:
    """E09: COMMIT took effect, an error came instead of the answer."""

    def cut(when: str, op: Any, _shell: Shell) -> None:
        if when == "after" and isinstance(op, Commit):
            raise OSError("the answer was lost")

    at = recent(1)
    app = bank.app()
    app._probe = cut
    assert app.run(JOB, at).outcome is duly.Outcome.APPLIED
    assert bank.effects() == {key_at(at): 1}
    assert [row[0] for row in bank.rows("SELECT outcome FROM duly_attempt")] == ["applied"]


def test_commit_that_never_arrived_is_made_again(bank: Bank) -> None:
    """The connection went away before COMMIT was read: nothing landed, so the work is done anew."""
    cuts: list[str] = []

    def cut(when: str, op: Any, _shell: Shell) -> None:
        if when == "before" and isinstance(op, Commit) and not cuts:
            cuts.append("cut")
            raise OSError("the connection was lost")

    at = recent(1)
    app = bank.app()
    app._probe = cut
    assert app.run(JOB, at).outcome is duly.Outcome.APPLIED
    assert bank.effects() == {key_at(at): 1}


def test_commit_still_in_flight_is_waited_for(bank: Bank) -> None:
    """A SELECT would see nothing yet; the claim waits for what the server is still doing."""
    only(bank, "postgresql", "mariadb")
    in_flight: list[Any] = []

    def cut(when: str, op: Any, shell: Shell) -> None:
        if when == "before" and isinstance(op, Commit) and not in_flight:
            lease = shell._lease
            assert lease is not None
            in_flight.append(lease)
            lease.discard = lambda: None  # type: ignore[method-assign]  # the server has it still
            raise OSError("the connection was lost")

    at = recent(1)
    app = bank.app()
    app._probe = cut
    running = start(app.run, JOB, at)
    wait_for(lambda: bool(in_flight), "the cut")
    LockWatch(bank).wait_until_waiting(1, running)
    assert in_flight[0].session.commit(BOUND_S)
    in_flight[0].session.raw.close()
    assert running.result(BOUND_S).outcome is duly.Outcome.APPLIED
    assert bank.effects() == {key_at(at): 1}


# ---------------------------------------------------------------- keys, payloads, dead attempts


def test_another_payload_is_a_conflict(bank: Bank) -> None:
    """E01."""
    at = recent(1)
    app = bank.app()
    app.run(JOB, at, payload=10)
    with pytest.raises(duly.PayloadConflict):
        app.run(JOB, at, payload=999)
    caller = bank.caller("IMMEDIATE" if bank.name == "sqlite" else "READ COMMITTED")
    caller.begin(snapshot=False)
    with pytest.raises(duly.PayloadConflict):
        caller.claim(key_at(at))
    assert bank.effects() == {key_at(at): 1}


def test_partitions_that_look_alike_are_four_keys(bank: Bank) -> None:
    """E16: a collation that ignores case, accents or padding makes them one."""
    app = bank.app()
    at = recent(1)
    for partition in ("Ä", "ä", "a", "a "):
        assert app.run(JOB, at, partition=partition).outcome is duly.Outcome.APPLIED
    assert len(bank.effects()) == 4


def test_sweep_beside_a_live_attempt_leaves_it_alone(bank: Bank) -> None:
    """E05: its host is not ours, so only the key can say that it lives; then it is applied."""
    only(bank, "postgresql", "mariadb")
    at = recent(1)
    running = Starter(bank, "hold", keys=[key_at(at)], evidence_after=0)
    try:
        running.expect("ready")
        running.go()
        running.expect("inside")
        marks = "SELECT COUNT(*) FROM duly_running"
        wait_for(lambda: bank.value(marks) == 1, "the marker")
        bank.change("UPDATE duly_running SET process = 'another/1/1'")
        assert bank.app().sweep() == 0
        assert bank.value(marks) == 1
        running.go()
        assert running.result() == {"applied": 1}
    finally:
        running.close()
    assert bank.app().sweep() == 0
    assert [row[0] for row in bank.rows("SELECT outcome FROM duly_attempt")] == ["applied"]
    assert bank.effects() == {key_at(at): 1}


@pytest.mark.parametrize("speaks", [True, False], ids=["speaks-again", "silent"])
def test_attempt_cut_off_while_another_applies_is_refused_when_it_wakes(
    bank: Bank, speaks: bool
) -> None:
    """E04: the first stalls until the server gives its connection up; the second applies."""
    only(bank, "postgresql", "mariadb")
    inside, wake = threading.Event(), threading.Event()

    def stall(run: duly.Run) -> None:
        if wake.is_set():  # the whole attempt again
            credit(run)
            return
        credit(run)
        inside.set()
        assert wake.wait(BOUND_S)
        if speaks:
            credit(run)

    at = recent(1)
    stalled = start(bank.app(handler=stall).run, JOB, at)
    assert inside.wait(BOUND_S)
    _cut_off(bank)
    assert bank.app().run(JOB, at).outcome is duly.Outcome.APPLIED
    wake.set()
    error = stalled.exception(BOUND_S)
    assert error is not None or stalled.result().outcome is duly.Outcome.DUPLICATE
    assert bank.effects() == {key_at(at): 1}
    assert bank.value("SELECT COUNT(*) FROM duly_occurrence") == 1


def _cut_off(bank: Bank) -> None:
    """The server ends every connection of this database that is inside a transaction."""
    if bank.name == "postgresql":
        bank.rows(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
            " datname = current_database() AND state = 'idle in transaction'"
        )
        return
    sleeping = bank.rows(
        "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
        " AND command = 'Sleep' AND id <> CONNECTION_ID()"
    )
    for (each,) in sleeping:
        bank.change(f"KILL {each}")


def test_old_key_on_an_old_ledger_is_applied_once(bank: Bank) -> None:
    """Years late and never pruned: it is run, and only once."""
    app = bank.app()
    at = OLD - timedelta(days=1)
    assert app.run(JOB, at).outcome is duly.Outcome.APPLIED
    assert app.run(JOB, at).outcome is duly.Outcome.DUPLICATE
    assert bank.effects() == {key_at(at): 1}
