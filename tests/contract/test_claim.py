"""`duly.claim` leaves a caller's transaction and connection as it found them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.orm import Session

import duly
from tests.contract.bank import OLD, UNITS, Bank, execute, recent
from tests.contract.callers import claim_on
from tests.contract.doors import executor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.contract.bank import Ledger
    from tests.contract.callers import ClaimDoor
    from tests.servers.database import DatabaseName


class Abandoned(Exception):
    """The caller changes its mind."""


# ------------------------------------------------------------------------ commit and roll back


def test_claim_that_its_caller_rolls_back_leaves_no_trace(caller_door: ClaimDoor) -> None:
    """Neither key, attempt nor effect is there, and the key is free."""
    bank = caller_door.bank

    def change_of_mind() -> None:
        with caller_door.transaction() as connection:
            assert claim_on(connection, bank.occurrence()).is_new
            executor(connection)(bank.credit())
            raise Abandoned

    with pytest.raises(Abandoned):
        change_of_mind()

    assert (bank.units, bank.settled, bank.attempts) == (0, [], [])
    assert caller_door.start().outcome is duly.Outcome.APPLIED


def test_claim_does_not_commit_by_itself(caller_door: ClaimDoor) -> None:
    """Until the caller commits, nobody else sees the claim."""
    bank = caller_door.bank
    with caller_door.transaction() as connection:
        claim_on(connection, bank.occurrence())
        executor(connection)(bank.credit())
        assert (bank.units, bank.settled, bank.attempts) == (0, [], [])
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_claim_takes_the_text_of_a_key(caller_door: ClaimDoor) -> None:
    """The key's text and the occurrence are the same claim."""
    bank = caller_door.bank
    with caller_door.transaction() as connection:
        claim = claim_on(connection, bank.occurrence().key)
        assert claim.key == bank.occurrence().key
    assert caller_door.start().attempt_id == claim.attempt_id


def test_refused_claim_leaves_the_callers_transaction_at_work(caller_door: ClaimDoor) -> None:
    """After a conflict the caller may go on, and commit what it did before."""
    bank = caller_door.bank
    caller_door.start(payload=1)
    with caller_door.transaction() as connection:
        run = executor(connection)
        run(bank.credit(1))
        with pytest.raises(duly.PayloadConflict):
            claim_on(connection, bank.occurrence(), payload=2)
        run(bank.credit(2))
    assert bank.units == UNITS + 3
    assert bank.outcomes == ["applied"]


def test_several_claims_in_one_transaction_commit_together(caller_door: ClaimDoor) -> None:
    """A caller may do several occurrences at once."""
    bank = caller_door.bank
    with caller_door.transaction() as connection:
        claims = [claim_on(connection, bank.occurrence(OLD, partition)) for partition in ("b", "a")]
        again = claim_on(connection, bank.occurrence(OLD, "a"))
    assert [claim.is_new for claim in claims] == [True, True]
    assert not again.is_new
    assert [s.partition for s in bank.settled] == ["a", "b"]


def test_correction_cannot_be_claimed(caller_door: ClaimDoor) -> None:
    """A second effect is ordered by a person, never claimed."""
    key = caller_door.bank.occurrence().key
    with pytest.raises(duly.KeyInvalid, match="correct"), caller_door.transaction() as connection:
        claim_on(connection, f"{key}#2")
    assert caller_door.bank.settled == []


# --------------------------------------------------------------------------------- confirm


def test_confirm_of_a_claim_that_is_there_says_nothing(caller_door: ClaimDoor) -> None:
    """Just before the commit, a claim that stands is confirmed."""
    with caller_door.transaction() as connection:
        claim = claim_on(connection, caller_door.bank.occurrence())
        executor(connection)(caller_door.bank.credit())
        claim.confirm()
    assert caller_door.bank.outcomes == ["applied"]


def test_confirm_of_a_claim_that_a_savepoint_took_along_raises(caller_door: ClaimDoor) -> None:
    """A rolled back savepoint took the key and left the effect: the caller is told in time."""
    bank = caller_door.bank

    def claim_in_savepoint() -> None:
        with caller_door.transaction() as connection:
            run = executor(connection)
            run(bank.credit())
            run("SAVEPOINT mine")
            claim = claim_on(connection, bank.occurrence())
            run("ROLLBACK TO SAVEPOINT mine")
            claim.confirm()

    with pytest.raises(duly.TransactionEnded):
        claim_in_savepoint()
    assert (bank.units, bank.settled) == (0, [])


# -------------------------------------------------------------- what outlives a claim: nothing


def _settings(bank: Bank, connection: Any) -> dict[str, Any]:
    """Every setting of a session that a claim might have touched."""
    match bank.name:
        case "sqlite":
            names = (
                "busy_timeout", "foreign_keys", "synchronous", "journal_mode", "defer_foreign_keys",
                "recursive_triggers", "query_only", "locking_mode", "temp_store", "secure_delete",
            )  # fmt: skip
            return {
                **{name: execute(connection, f"PRAGMA {name}") for name in names},
                "isolation_level": connection.isolation_level,
                "row_factory": connection.row_factory,
                "text_factory": connection.text_factory,
            }
        case "postgresql":
            return {
                **dict(execute(connection, "SELECT name, setting FROM pg_settings")),
                "autocommit": connection.autocommit,
                "isolation_level": connection.isolation_level,
            }
        case _:
            rows = dict(execute(connection, "SHOW SESSION VARIABLES"))
            # These say what the last statement did.
            state = {"timestamp", "last_insert_id", "in_transaction"}
            return {name: value for name, value in rows.items() if name not in state}


def _custom(bank: Bank, connection: Any) -> None:
    statements = {
        "sqlite": ["PRAGMA busy_timeout = 4321", "PRAGMA foreign_keys = ON"],
        "postgresql": [
            "SET lock_timeout = '7s'",
            "SET statement_timeout = '50s'",
            "SET synchronous_commit = 'local'",
        ],
        "mariadb": [
            "SET SESSION innodb_lock_wait_timeout = 17",
            "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ANSI_QUOTES'",
        ],
    }[bank.name]
    for statement in statements:
        execute(connection, statement)


@pytest.mark.parametrize(
    ("ending", "age"),
    [
        ("expired", "old"),  # nothing recent can be pruned
        *product(("applied", "duplicate", "conflict", "settled"), ("old", "recent")),
    ],
)
def test_settings_of_the_session_are_the_same_after_a_claim(
    bank: Bank, ending: str, age: str
) -> None:
    """Lock bounds, modes and the isolation level are the caller's own, however a claim ends."""
    at = OLD if age == "old" else recent()
    _arrange(bank, ending, at)
    connection = bank.connect()
    _custom(bank, connection)
    connection.commit()
    if bank.name == "postgresql":
        execute(connection, "SET LOCAL lock_timeout = '3s'")
    before = _settings(bank, connection)

    try:
        duly.claim(connection, bank.occurrence(at), payload=2, wait=0.5)
    except duly.OperatorError as error:
        assert ending in {"conflict", "expired", "settled"}, error  # noqa: PT017
    inside = _settings(bank, connection)
    connection.commit()
    after = _settings(bank, connection)

    assert inside == before
    if bank.name == "postgresql":
        before["lock_timeout"] = "7000"  # SET LOCAL ended with the transaction
    assert after == before


def _arrange(bank: Bank, ending: str, at: Any) -> None:
    if ending in {"duplicate", "conflict", "expired"}:
        payload = 1 if ending == "conflict" else 2
        bank.define(bank.app()).run(bank.job, at, payload=payload)
    if ending == "expired":
        bank.app().prune(older_than=at)
    if ending == "settled":
        bank.settle("skipped", at=at)


def test_settings_are_the_same_after_a_claim_that_was_busy(bank: Bank) -> None:
    """A claim that waited in vain leaves nothing behind once its caller has rolled back."""
    rival = bank.connect()
    if bank.name == "sqlite":
        execute(rival, "BEGIN IMMEDIATE")
    duly.claim(rival, bank.occurrence())
    connection = bank.connect()
    _custom(bank, connection)
    connection.commit()
    if bank.name == "sqlite":
        execute(connection, "PRAGMA busy_timeout = 100")
    before = _settings(bank, connection)
    connection.rollback()

    with pytest.raises(duly.TransientError, match="roll back and try the whole again"):
        duly.claim(connection, bank.occurrence(), wait=0.2)
    connection.rollback()

    assert _settings(bank, connection) == before


# ------------------------------------------------------------------------- isolation levels

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")


@dataclass(frozen=True)
class Leveled:
    """A connection whose transactions are at one isolation level; SQLite has only one.

    Attributes:
        blind: A statement there sees nothing that was committed after its snapshot, and says so.
    """

    bank: Bank
    connection: Any
    blind: bool


@pytest.fixture(params=product(("postgresql", "mariadb"), LEVELS), ids="-".join)
def leveled(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[Leveled]:
    name, level = request.param
    bank = Bank(ledgers(name))
    connection = bank.connect()
    what = "CHARACTERISTICS AS" if name == "postgresql" else ""
    execute(connection, f"SET SESSION {what} TRANSACTION ISOLATION LEVEL {level}")
    connection.commit()
    yield Leveled(bank, connection, name == "postgresql" and level != "READ COMMITTED")
    bank.close()


def test_claim_works_at_every_isolation_level(leveled: Leveled) -> None:
    """A new key, a duplicate and a conflict are told apart at any level."""
    bank, connection = leveled.bank, leveled.connection
    new = duly.claim(connection, bank.occurrence())
    connection.commit()
    again = duly.claim(connection, bank.occurrence())
    with pytest.raises(duly.PayloadConflict):
        duly.claim(connection, bank.occurrence(), payload=1)
    connection.commit()
    assert new.is_new
    assert (again.outcome, again.attempt_id) == (duly.Outcome.DUPLICATE, new.attempt_id)


def test_claim_with_a_snapshot_older_than_a_rivals_commit_is_no_second_effect(
    leveled: Leveled,
) -> None:
    """A key settled after the snapshot is a duplicate, or the whole is to be tried again."""
    bank, connection = leveled.bank, leveled.connection
    execute(connection, "SELECT COUNT(*) FROM duly_audit")  # takes the snapshot
    bank.define(bank.app()).run(bank.job, OLD)

    if leveled.blind:
        with pytest.raises(duly.TransientError):
            duly.claim(connection, bank.occurrence())
    else:
        assert not duly.claim(connection, bank.occurrence()).is_new
    connection.rollback()

    assert not duly.claim(connection, bank.occurrence()).is_new
    assert bank.units == UNITS


def test_claim_with_a_snapshot_older_than_a_prune_is_no_second_effect(
    leveled: Leveled,
) -> None:
    """A record pruned after the snapshot was taken does not make its key new."""
    bank, connection = leveled.bank, leveled.connection
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    execute(connection, "SELECT COUNT(*) FROM duly_audit")  # takes the snapshot
    app.prune(older_than=OLD)

    with pytest.raises(duly.TransientError if leveled.blind else duly.Expired):
        duly.claim(connection, bank.occurrence())
    connection.rollback()

    with pytest.raises(duly.Expired):
        duly.claim(connection, bank.occurrence())


# --------------------------------------------------------------- constraints of the caller's own


def test_claim_passes_where_all_constraints_are_immediate(postgres_bank: Bank) -> None:
    """A caller that checks its constraints at once may claim, before it or after."""
    connection = postgres_bank.connect()
    execute(connection, "SET CONSTRAINTS ALL IMMEDIATE")
    claim = duly.claim(connection, postgres_bank.occurrence())
    execute(connection, "SET CONSTRAINTS ALL DEFERRED")
    other = duly.claim(connection, postgres_bank.occurrence(recent()))
    execute(connection, "SET CONSTRAINTS ALL IMMEDIATE")
    connection.commit()
    assert claim.is_new
    assert other.is_new
    assert postgres_bank.outcomes == ["applied", "applied"]


# --------------------------------------------------------------------------------- refusals


def test_claim_in_autocommit_without_a_transaction_is_refused(bank: Bank) -> None:
    """Claim and change would commit apart: refused before anything is written."""
    with pytest.raises(duly.NoTransaction, match="autocommit"):
        duly.claim(bank.autocommit(), bank.occurrence())
    assert bank.settled == []


@pytest.mark.parametrize("kind", ["connection", "session"])
def test_claim_on_an_autocommit_engine_is_refused(bank: Bank, kind: str) -> None:
    """SQLAlchemy's `begin()` begins nothing in AUTOCOMMIT, so it does not help."""
    engine = bank.engine(isolation_level="AUTOCOMMIT")
    if kind == "connection":
        with engine.begin() as connection, pytest.raises(duly.NoTransaction):
            duly.claim(connection, bank.occurrence())
    else:
        with Session(engine) as session, pytest.raises(duly.NoTransaction):
            duly.claim(session, bank.occurrence())
    assert bank.settled == []


def test_claim_on_a_closed_connection_is_refused(bank: Bank) -> None:
    """A closed connection is told apart from a lost one."""
    connection = bank.connect()
    duly.claim(connection, bank.occurrence())  # it was good once
    connection.close()
    with pytest.raises(duly.NoTransaction):
        duly.claim(connection, bank.occurrence())


def test_claim_in_an_aborted_transaction_is_refused(postgres_bank: Bank) -> None:
    """After an error PostgreSQL only rolls back: the caller is told, not given 25P02."""
    connection = postgres_bank.connect()
    with pytest.raises(psycopg.Error):
        execute(connection, "SELECT 1/0")
    with pytest.raises(duly.NoTransaction, match="aborted"):
        duly.claim(connection, postgres_bank.occurrence())
    connection.rollback()
    assert duly.claim(connection, postgres_bank.occurrence()).is_new


@pytest.mark.parametrize("what", ["engine", "cursor", "none", "object", "text"])
def test_claim_on_what_is_no_connection_says_what_to_give(bank: Bank, what: str) -> None:
    """An engine, a cursor or anything else is refused with the next step."""
    with closing(bank.connect().cursor()) as cursor:
        given = {
            "engine": bank.engine(),
            "cursor": cursor,
            "none": None,
            "object": object(),
            "text": bank.url,
        }[what]
        with pytest.raises(duly.UsageError, match="connection"):
            duly.claim(given, bank.occurrence())


def test_claim_where_sql_mode_is_not_strict_is_refused_and_leaves_nothing(
    mariadb_bank: Bank,
) -> None:
    """Truncated rows would pass without an error: refused, and the caller may go on."""
    connection = mariadb_bank.connect()
    duly.claim(connection, mariadb_bank.occurrence(OLD, "while strict"))
    connection.commit()
    execute(connection, "SET SESSION sql_mode = ''")

    with pytest.raises(duly.UnsafeStorage, match="STRICT_TRANS_TABLES"):
        duly.claim(connection, mariadb_bank.occurrence())
    connection.commit()

    assert [s.partition for s in mariadb_bank.settled] == ["while strict"]
    assert len(mariadb_bank.attempts) == 1


def test_claim_on_a_connection_with_a_second_file_is_refused(
    sqlite_bank: Bank, tmp_path: Path
) -> None:
    """SQLite does not commit two files as one in WAL mode."""
    connection = sqlite_bank.connect()
    execute(connection, f"ATTACH DATABASE '{tmp_path / 'other.db'}' AS other")
    with pytest.raises(duly.NoTransaction, match="other"):
        duly.claim(connection, sqlite_bank.occurrence())
    execute(connection, "DETACH DATABASE other")
    assert duly.claim(connection, sqlite_bank.occurrence()).is_new


def test_claim_through_a_subclass_of_a_drivers_connection_is_served(sqlite_bank: Bank) -> None:
    """What inherits from a known connection is one."""

    class Mine(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(sqlite_bank.database.path, factory=Mine)) as connection:
        assert duly.claim(connection, sqlite_bank.occurrence()).is_new
        connection.commit()
    assert sqlite_bank.outcomes == ["applied"]


# --------------------------------------------------------------------- how a caller reads rows


def test_claim_reads_rows_in_its_own_way(bank: Bank) -> None:
    """Whatever rows look like on the caller's connection, a claim understands its own."""
    connection = _with_named_rows(bank)
    first = duly.claim(connection, bank.occurrence())
    again = duly.claim(connection, bank.occurrence())
    connection.commit()
    assert first.is_new
    assert again.attempt_id == first.attempt_id


def _with_named_rows(bank: Bank) -> Any:
    connection = bank.connect()
    match bank.name:
        case "sqlite":
            connection.row_factory = lambda cursor, row: {
                column[0]: value for column, value in zip(cursor.description, row, strict=True)
            }
        case "postgresql":
            connection.row_factory = dict_row
        case _:
            connection.cursorclass = pymysql.cursors.DictCursor
    return connection


def test_claim_where_text_is_read_as_bytes_understands_its_own(sqlite_bank: Bank) -> None:
    """A caller that reads text as bytes still gets a duplicate."""
    connection = sqlite_bank.connect()
    connection.text_factory = bytes
    first = duly.claim(connection, sqlite_bank.occurrence())
    again = duly.claim(connection, sqlite_bank.occurrence())
    assert again.attempt_id == first.attempt_id
    assert connection.text_factory is bytes


def test_claim_in_a_nested_sqlalchemy_transaction_commits_with_the_outer(bank: Bank) -> None:
    """A released savepoint keeps its claim."""
    with bank.engine().begin() as connection:
        with connection.begin_nested():
            claim = duly.claim(connection, bank.occurrence())
        connection.execute(sqlalchemy.text(bank.credit()))
        claim.confirm()
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])
