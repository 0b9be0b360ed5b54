"""Faults inside a handler, after its effect and before its end; and the injector that users get."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import aiosqlite
import pytest

import duly
from duly import testing
from duly._db.sessions.base import key_params
from tests.faults.ledger import Bank, HandlerError
from tests.faults.scenarios import driver_error, fail, lose, young

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.conftest import Ledgers
    from tests.faults.victims import Victims
    from tests.servers.database import Database

DATABASES = ("sqlite", "postgresql", "mariadb")


def _interrupt(_run: duly.Run) -> None:
    raise KeyboardInterrupt


def _terminate(_run: duly.Run) -> None:
    raise SystemExit(143)


def _signal(_run: duly.Run) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def _kill(_run: duly.Run) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


FAULTS = {
    "error": (fail, HandlerError, "handler"),
    "cut": (lose, Exception, "database"),
    "interrupt": (_interrupt, KeyboardInterrupt, "signal"),
    "terminate": (_terminate, SystemExit, "signal"),
    "sigint": (_signal, KeyboardInterrupt, "signal"),
}


@pytest.mark.parametrize("database", DATABASES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("real_signals")
def test_handler_that_fails_after_its_effect_leaves_a_record_and_a_free_key(
    fault: str, database: str, ledgers: Ledgers, partition: str
) -> None:
    """Its own error comes out unchanged; nothing of it is kept but one `failed` row."""
    ledger = ledgers(database)
    does, error, origin = FAULTS[fault]
    at = young()
    occurrence = duly.Occurrence("work", at, partition)
    ledger.bank.doing[partition] = does

    with pytest.raises(error):
        ledger.bank.app.run("work", at, partition=partition)

    ledger.wait_until_quiet()
    facts = ledger.facts(occurrence)
    assert not facts.effects
    assert facts.disposition is None
    assert [(outcome, whose) for _, outcome, whose in facts.attempts] == [("failed", origin)]
    ledger.bank.doing.pop(partition)
    result = ledger.bank.app.run("work", at, partition=partition)
    assert result.outcome is duly.Outcome.APPLIED
    facts = ledger.facts(occurrence)
    assert facts.is_sound
    assert facts.effects == [str(result.attempt_id)]


@pytest.mark.parametrize("database", DATABASES)
def test_handler_that_meets_contention_is_called_again(
    database: str, ledgers: Ledgers, partition: str
) -> None:
    """A deadlock that it lets out costs a second call, and no second effect."""
    ledger = ledgers(database)

    def contend_once(_run: duly.Run) -> None:
        ledger.bank.doing.pop(partition)
        raise driver_error("contention", database)

    ledger.bank.doing[partition] = contend_once
    at = young()
    result = ledger.bank.app.run("work", at, partition=partition)

    assert result.outcome is duly.Outcome.APPLIED
    assert ledger.bank.calls[result.key] == 2
    assert ledger.facts(duly.Occurrence("work", at, partition)).is_sound


def die_in_handler(order: dict[str, Any]) -> None:
    """Run in a child: it dies in its handler once others can see that it runs."""
    bank = Bank(order["url"], evidence_after=0.0)

    def until_seen(run: duly.Run) -> None:
        watcher = Bank(order["url"])
        deadline = time.monotonic() + 10
        while not watcher.app.explain(run.key).running and time.monotonic() < deadline:
            time.sleep(0.01)
        _kill(run)

    bank.doing[order["partition"]] = until_seen
    key = duly.Occurrence.parse(order["key"])
    bank.app.run("work", key.nominal_time, partition=order["partition"])


@pytest.mark.parametrize("database", DATABASES)
def test_attempt_killed_in_its_handler_is_abandoned_and_due_again(
    database: str, ledgers: Ledgers, victims: Victims, partition: str
) -> None:
    """The dead is recorded by whoever looks next, and keeps nothing from the next start (R05)."""
    ledger = ledgers(database)
    occurrence = duly.Occurrence("work", young(), partition)

    status = victims.kill_one(
        "tests.faults.test_handler:die_in_handler",
        url=ledger.url,
        key=occurrence.key,
        partition=partition,
    )
    assert status == -signal.SIGKILL
    ledger.wait_until_quiet()
    ledger.bank.app.sweep()

    facts = ledger.facts(occurrence)
    assert not facts.effects
    assert [outcome for _, outcome, _ in facts.attempts] == ["abandoned"]
    result = ledger.bank.app.run("work", occurrence.nominal_time, partition=partition)
    assert result.outcome is duly.Outcome.APPLIED
    assert ledger.facts(occurrence).is_sound


# The injector


def test_fault_is_gone_with_its_block(ledgers: Ledgers, partition: str) -> None:
    """Nothing stays behind, also where the block ended with an error."""
    app = ledgers("sqlite").bank.app
    with pytest.raises(testing.InjectedError), testing.fault(app, op="Begin", times=99):
        app.run("work", young(), partition=partition)

    assert app.run("work", young(), partition=partition).outcome is duly.Outcome.APPLIED


def test_fault_counts_times_and_skips(ledgers: Ledgers, partition: str) -> None:
    """`skip` chances pass, `times` happen, the next pass again."""
    app = ledgers("sqlite").bank.app
    ended = []
    with testing.fault(app, op="Begin", when="before", skip=1, times=2) as injected:
        for number in range(4):
            try:
                app.run("work", young(), partition=f"{partition}-{number}")
            except testing.InjectedError:
                ended.append(number)

    assert ended == [1, 2]
    assert injected.fired == 2
    assert injected.seen.count("Begin") == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "Comit"},
        {"op": "Commit", "kind": "explode"},
        {"op": "Commit", "when": "during"},
        {"op": "Commit", "kind": "cut", "error": ValueError()},
    ],
    ids=lambda each: "-".join(map(str, each)),
)
def test_fault_that_cannot_happen_is_refused(wrong: dict[str, Any], ledgers: Ledgers) -> None:
    """A misspelt fault would prove nothing."""
    with pytest.raises(duly.UsageError), testing.fault(ledgers("sqlite").bank.app, **wrong):
        pass


def test_cut_takes_no_stranger() -> None:
    """What is no connection is refused by name."""
    with pytest.raises(duly.UsageError, match=r"builtins\.object"):
        testing.cut(object())


def test_task_that_closes_a_cut_connection_waits_for_nobody(tmp_path: Path) -> None:
    """The thread of an aiosqlite connection ends with the cut, and answers no more."""

    async def main() -> None:
        connection = await aiosqlite.connect(tmp_path / "cut.db")
        began, may_end = threading.Event(), threading.Event()

        def held() -> None:
            began.set()
            may_end.wait(60)

        await connection.create_function("held", 0, held)
        statement = asyncio.ensure_future(connection.execute("SELECT held()"))
        await asyncio.to_thread(began.wait, 60)

        testing.cut(connection)
        may_end.set()
        async with asyncio.timeout(30):  # a wait that would never end
            await connection.close()
        await statement

        with pytest.raises(ValueError, match="no active"):
            await connection.execute("SELECT 1")

    asyncio.run(main())


def test_connection_given_up_just_after_it_was_armed_keeps_no_lock(database: Database) -> None:
    """A signal between arming and the handler must not leave the key locked."""
    app = duly.App(database.url)
    app.init()
    key = duly.Occurrence("armed", datetime(2024, 2, 29, tzinfo=UTC))
    lease = app.database.connect()
    params = {**key_params(key), "fingerprint": bytes(32)}
    lease.session.begin(1.0)
    lease.session.claim({**params, "attempt_id": lease.session.encode_id(uuid4())}, 1.0)
    lease.session.arm()

    lease.discard()

    with app.database.session() as other:
        other.begin(2.0)
        assert other.claim({**params, "attempt_id": other.encode_id(uuid4())}, 2.0).inserted
    app.close()
