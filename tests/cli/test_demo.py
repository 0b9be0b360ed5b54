"""`duly demo`: it keeps every promise on every database, and stays off everybody's tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.cli.conftest import Bank, Duly
    from tests.servers.database import Database

PROMISES = {
    "promises_kept": True,
    "rolled_back_attempt_left_no_state": True,
    "concurrent_applied": 1,
    "concurrent_duplicates": 7,
    "replay_outcome": "duplicate",
    "other_day_outcome": "applied",
    "final_units": 20,
    "completed_logical_jobs": 2,
    "running_worker_seen": True,
    "killed_worker_left_no_state": True,
    "abandoned_recorded": True,
    "retry_applied": True,
    "other_payload_refused": True,
}


def tables(database: Database) -> list[str]:
    where = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public'",
        "mariadb": "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = DATABASE()",
    }
    connection = database.connect()
    try:
        cursor = connection.cursor()
        cursor.execute(where[database.name])
        return sorted(row[0] for row in cursor.fetchall())
    finally:
        connection.close()


def test_demo_keeps_every_promise(database: Database, duly: Duly) -> None:
    """Also it says what stays, and is not repeated over its own traces."""
    ended = duly("demo", "--database", database.url)

    assert ended.code == 0, ended.err
    assert json.loads(ended.out.splitlines()[-1]) == {"database": database.name, **PROMISES}
    assert ended.out.count("  ok  ") == 7
    assert "the record of its two jobs" in ended.out
    left = tables(database)
    assert "duly_demo_balance" not in left
    assert "duly_occurrence" in left
    again = duly("demo", "--database", database.url)
    assert (again.code, again.out) == (3, "")
    assert "daily-credit, monthly-interest" in again.err


def test_demo_by_itself_leaves_nothing(
    duly: Duly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file of its own, even where the environment names a database."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("DULY_DATABASE_URL", f"sqlite:///{tmp_path}/somebodys.db")
    ended = duly("demo", "--json")
    assert ended.json == {"database": "sqlite", **PROMISES}
    assert list(tmp_path.iterdir()) == []


def test_demo_refuses_a_table_of_its_name(file_bank: Bank, duly: Duly) -> None:
    file_bank.execute("CREATE TABLE duly_demo_balance (id INTEGER)")
    ended = duly("demo", "--database", file_bank.url)
    assert (ended.code, ended.out) == (3, "")
    assert "duly_demo_balance" in ended.err
    assert "duly_occurrence" not in tables(file_bank.database)


def test_demo_refuses_a_ledger_that_is_used(bank: Bank, duly: Duly) -> None:
    assert duly("--app", bank.app, "run", "daily-credit").code == 0
    ended = duly("demo", "--database", bank.url)
    assert (ended.code, ended.out) == (3, "")
    assert "daily-credit" in ended.err


def test_demo_brings_its_own_app(file_bank: Bank, duly: Duly) -> None:
    assert duly("--app", file_bank.app, "demo").code == 2
    assert duly("demo", "--schema", "x").code == 2


def test_demo_exits_70_when_a_promise_is_not_kept(
    duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checks can fail: here the replay is said to have been applied."""
    from duly._cli import demo_story

    honest = demo_story._outcome
    monkeypatch.setattr(
        demo_story, "_outcome", lambda start: honest(start).replace("duplicate", "applied")
    )
    ended = duly("demo")
    assert ended.code == 70
    assert "BROKEN" in ended.out
    assert json.loads(ended.out.splitlines()[-1])["promises_kept"] is False
