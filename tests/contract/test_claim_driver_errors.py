"""`duly.claim` that the database or its driver refuses: told in one line of duly's own."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
import sqlalchemy
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

import duly
from tests.contract.bank import execute

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.contract.bank import Bank

KEY = "credit:2024-02-29T00:00:00Z"


def refused(call: Callable[[], object], family: type[duly.DulyError], says: str) -> None:
    """Assert that it is refused in one line."""
    with pytest.raises(family, match=says) as caught:
        call()
    assert "\n" not in caught.value.message


def stop(bank: Bank, connection: Any, *, session: bool) -> None:
    """Stop what the server does for *connection*, or end the whole session."""
    if bank.name == "mariadb":
        bank.run(f"KILL {'CONNECTION' if session else 'QUERY'} {connection.thread_id()}")
    else:
        what = "terminate" if session else "cancel"
        bank.run(f"SELECT pg_{what}_backend({connection.info.backend_pid})")


def when_waiting(bank: Bank, connection: Any, call: Callable[[], None]) -> threading.Thread:
    """Call it once *connection* waits for a rival."""

    def wait() -> None:
        while not is_waiting(bank, connection):
            time.sleep(0.25)  # InnoDB shows anew only what nobody asked for within 0.1 s
        call()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def is_waiting(bank: Bank, connection: Any) -> bool:
    if bank.name == "mariadb":
        return bool(
            bank.run(
                "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
                f" AND trx_mysql_thread_id = {connection.thread_id()}"
            )
        )
    pid = connection.info.backend_pid
    return bool(
        bank.run(f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid} AND wait_event_type = 'Lock'")
    )


@pytest.mark.parametrize("session", [False, True])
def test_claim_that_is_stopped_while_it_waits_says_to_try_again(
    server_bank: Bank, session: bool
) -> None:
    bank = server_bank
    with closing(bank.connect()) as rival, closing(bank.connect()) as connection:
        duly.claim(rival, bank.occurrence())
        stopper = when_waiting(bank, connection, lambda: stop(bank, connection, session=session))
        family = duly.ConnectionLost if session else duly.TransientError

        refused(lambda: duly.claim(connection, bank.occurrence()), family, "try the whole again")

        stopper.join()
        if not session and bank.name == "mariadb":
            connection.commit()  # the server would let the caller keep the rest
        rival.rollback()
    assert (bank.settled, bank.attempts) == ([], [])


def test_statement_that_takes_too_long_says_to_roll_back(server_bank: Bank) -> None:
    bank = server_bank
    limit = "max_statement_time = 0.5" if bank.name == "mariadb" else "statement_timeout = '500ms'"
    with closing(bank.connect()) as rival, closing(bank.connect()) as connection:
        duly.claim(rival, bank.occurrence())
        execute(connection, f"SET SESSION {limit}")

        refused(
            lambda: duly.claim(connection, bank.occurrence()), duly.TransientError, "roll back and"
        )

        rival.rollback()
        connection.rollback()
        assert duly.claim(connection, bank.occurrence()).is_new


def test_session_that_ended_before_its_first_claim_is_lost(server_bank: Bank) -> None:
    bank = server_bank
    with closing(bank.connect()) as connection:
        stop(bank, connection, session=True)

        refused(
            lambda: duly.claim(connection, bank.occurrence()), duly.ConnectionLost, "connect and"
        )


def test_session_of_sqlalchemy_that_cannot_connect_is_lost(server_bank: Bank) -> None:
    engine = sqlalchemy.create_engine(make_url(server_bank.url).set(port=1))
    with Session(engine) as session:
        refused(
            lambda: duly.claim(session, server_bank.occurrence()), duly.ConnectionLost, "connect"
        )


def test_locked_tables_of_mariadb_are_named_with_the_way_out(mariadb_bank: Bank) -> None:
    bank = mariadb_bank
    with closing(bank.connect()) as connection:
        execute(connection, "LOCK TABLES balance WRITE")

        refused(
            lambda: duly.claim(connection, bank.occurrence()), duly.NoTransaction, "UNLOCK TABLES"
        )

        execute(connection, "UNLOCK TABLES")
        assert duly.claim(connection, bank.occurrence()).is_new
        connection.rollback()


def test_driver_that_gives_bytes_for_text_is_refused(mariadb_bank: Bank) -> None:
    bank = mariadb_bank
    given: dict[str, Any] = bank.database.address("database")
    with closing(pymysql.connect(**given, use_unicode=False)) as connection:
        refused(
            lambda: duly.claim(connection, bank.occurrence()), duly.UsageError, "use_unicode=False"
        )


@pytest.mark.parametrize("name", [":memory:", ""])
def test_database_that_ends_with_its_connection_is_told_to_be_a_file(name: str) -> None:
    with closing(sqlite3.connect(name)) as connection:
        refused(lambda: duly.claim(connection, KEY), duly.SchemaMissing, "connect to a file")


def test_file_that_was_removed_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.db"
    with closing(sqlite3.connect(path)) as connection:
        duly.claim(connection, KEY)
        connection.rollback()
        path.unlink()

        refused(lambda: duly.claim(connection, KEY), duly.DatabaseNotFound, "removed or renamed")


def test_connection_of_another_thread_is_refused(tmp_path: Path) -> None:
    made: list[sqlite3.Connection] = []
    thread = threading.Thread(target=lambda: made.append(sqlite3.connect(tmp_path / "bank.db")))
    thread.start()
    thread.join()

    refused(lambda: duly.claim(made[0], KEY), duly.NoTransaction, "same thread")


def test_whatever_else_the_database_refuses_is_told_with_the_next_step(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "bank.db")) as connection:
        duly.claim(connection, KEY)
        connection.rollback()
        connection.set_authorizer(lambda *_: sqlite3.SQLITE_DENY)

        refused(lambda: duly.claim(connection, KEY), duly.OperatorError, "roll back")
