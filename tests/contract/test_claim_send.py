"""`duly.send` belongs to the transaction that claimed its occurrence, and to no later one."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import OLD, UNITS
from tests.contract.callers import claim_on, send_on
from tests.contract.doors import executor

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.bank import Bank
    from tests.contract.callers import ClaimDoor

TO = "receipts"


def sent(bank: Bank) -> list[str]:
    """The names of this job's messages."""
    rows = bank.run(f"SELECT name FROM duly_outbox WHERE job = '{bank.job}' ORDER BY name")
    return [name for (name,) in rows]


def assert_refused(connection: Any, occurrence: duly.Occurrence) -> None:
    with pytest.raises(duly.NotInTransaction, match="not claimed in this transaction"):
        send_on(connection, occurrence, TO, 1, name="refused")


def test_send_in_a_later_transaction_is_refused(caller_door: ClaimDoor) -> None:
    """The effect is committed, and the message would be added to it."""
    bank = caller_door.bank
    occurrence = bank.occurrence()
    with caller_door.transaction() as connection:
        claim_on(connection, occurrence)
        send_on(connection, occurrence, TO, 1, name="a")
        executor(connection)(bank.credit())
        send_on(connection, occurrence, TO, 1, name="b")
    with caller_door.transaction() as connection:
        assert_refused(connection, occurrence)
        executor(connection)(bank.credit())
        assert_refused(connection, occurrence)

    assert (bank.units, sent(bank)) == (2 * UNITS, ["a", "b"])


def test_send_in_a_later_transaction_with_a_claim_of_its_own_is_refused(
    caller_door: ClaimDoor,
) -> None:
    """It is told apart by what it claimed, and not by whether it claimed anything."""
    bank = caller_door.bank
    before, now = bank.occurrence(partition="before"), bank.occurrence(partition="now")
    with caller_door.transaction() as connection:
        claim_on(connection, before)
    with caller_door.transaction() as connection:
        claim_on(connection, now)
        assert_refused(connection, before)
        send_on(connection, now, TO, 1, name="now")

    assert sent(bank) == ["now"]


def test_send_after_a_claim_that_is_a_duplicate_is_refused(caller_door: ClaimDoor) -> None:
    """The effect is not this transaction's, whoever applied it."""
    bank = caller_door.bank
    occurrence = bank.occurrence()
    assert bank.define(bank.app()).run(bank.job, OLD).outcome == "applied"
    with caller_door.transaction() as connection:
        assert not claim_on(connection, occurrence).is_new
        assert_refused(connection, occurrence)

    assert sent(bank) == []


def test_send_across_savepoints_is_of_the_transaction(caller_door: ClaimDoor) -> None:
    """A savepoint that is kept, before the claim or after it, changes nothing."""
    bank = caller_door.bank
    around, before = bank.occurrence(partition="around"), bank.occurrence(partition="before")
    with caller_door.transaction() as connection:
        says = executor(connection)
        claim_on(connection, before)
        says("SAVEPOINT one")
        send_on(connection, before, TO, 1, name="in one")
        claim_on(connection, around)
        says("SAVEPOINT two")
        send_on(connection, around, TO, 1, name="in two")
        says("RELEASE SAVEPOINT one")
        send_on(connection, around, TO, 1, name="after both")

    assert sent(bank) == ["after both", "in one", "in two"]


def test_send_after_its_claim_was_taken_back_to_a_savepoint_is_refused(
    caller_door: ClaimDoor,
) -> None:
    """Another who applies the occurrence meanwhile does not bring that claim back."""
    bank = caller_door.bank
    occurrence = bank.occurrence()
    with caller_door.transaction() as connection:
        says = executor(connection)
        says("SAVEPOINT one")
        claim_on(connection, occurrence)
        says("ROLLBACK TO SAVEPOINT one")
        assert_refused(connection, occurrence)
        claim_on(connection, occurrence)
        send_on(connection, occurrence, TO, 1, name="again")

    assert sent(bank) == ["again"]


def test_send_on_another_connection_is_refused(caller_door: ClaimDoor) -> None:
    """Also while the claim is not committed."""
    bank = caller_door.bank
    occurrence = bank.occurrence()
    with caller_door.transaction() as connection, closing(bank.connect()) as other:
        claim_on(connection, occurrence)
        if bank.name == "sqlite":
            other.execute("BEGIN")
        assert_refused(other, occurrence)
        other.rollback()

    assert sent(bank) == []


@pytest.mark.parametrize("end", ["COMMIT AND CHAIN", "COMMIT", "CREATE TABLE {table} (id INTEGER)"])
def test_send_after_an_end_that_only_the_server_was_told_of_is_refused(
    server_bank: Bank, end: str
) -> None:
    """The driver is at work in a transaction again, but it is another one."""
    if server_bank.name == "postgresql" and end.startswith("CREATE"):
        pytest.skip("there, it ends no transaction")
    occurrence = server_bank.occurrence()
    with closing(server_bank.connect()) as connection:
        says = executor(connection)
        duly.claim(connection, occurrence)
        says(f"/* the end */ {end.format(table=server_bank.job.replace('-', '_'))}")
        says(server_bank.credit())
        assert_refused(connection, occurrence)
        connection.rollback()

    assert sent(server_bank) == []


def test_connection_is_left_as_it_was_after_its_transaction(mariadb_bank: Bank) -> None:
    """What looks for the end of a transaction is gone with the next statement."""
    with closing(mariadb_bank.connect()) as connection:
        before = set(vars(connection))
        duly.claim(connection, mariadb_bank.occurrence())
        connection.commit()
        executor(connection)("SELECT 1")
        assert set(vars(connection)) == before


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_send_with_more_changes_than_sqlite_keeps_in_memory_is_taken(
    tmp_path: Path, mode: str
) -> None:
    """Without a write-ahead log nobody else can look into the file then."""
    file = tmp_path / "bank #1.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE big (body BLOB)")
        occurrence = duly.Occurrence.parse("credit:2026-09-13T00:00:00Z")
        duly.claim(connection, occurrence)
        connection.execute("PRAGMA cache_size = 10")
        connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
            " INSERT INTO big SELECT randomblob(1000) FROM n"
        )
        duly.send(connection, occurrence, TO, 1)
        connection.commit()
        connection.execute("INSERT INTO big VALUES (1)")
        assert_refused(connection, occurrence)


@pytest.mark.parametrize("applied", [True, False])
def test_run_of_a_block_sends_nothing_once_the_block_is_over(bank: Bank, *, applied: bool) -> None:
    """Whether it committed its transaction or rolled it back."""
    kept: list[Any] = []
    with suppress(RuntimeError), duly.once(bank.url, key=bank.occurrence()) as run:
        if run.is_new:
            kept.append(run)
            run.send(TO, 1, name="within")
            if not applied:
                raise RuntimeError("undone")
    with pytest.raises(duly.NotInTransaction, match="over"):
        kept[0].send(TO, 1, name="late")

    assert sent(bank) == ["within"] * applied
