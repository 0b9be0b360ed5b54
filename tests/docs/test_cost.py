"""The counts on the cost page are those of the shipped code."""

from __future__ import annotations

import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
import pytest
from sqlalchemy import event

import duly
from tests.docs.pages import DOCS, ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.servers.mariadb import MariaDBServer
    from tests.servers.postgresql import PostgresServer

TEXT = (DOCS / "cost.md").read_text("utf-8")
OLD = timedelta(days=10)
BARE = "the bare change"
Costs = dict[str, tuple[int, ...]]


def documented(title: str) -> Costs:
    """The table below the paragraph that begins with *title*: its first words -> its numbers."""
    table = TEXT.partition(f"\n{title}")[2].partition("\n| ")[2].partition("\n\n")[0]
    found: Costs = {}
    for line in table.splitlines()[2:]:
        name, *numbers = (cell.strip() for cell in line.strip("|").split("|"))
        found[name.replace("`", "").partition(" (`")[0].partition(" (")[0]] = tuple(
            map(int, numbers)
        )
    assert found, title
    return found


class Bank:
    """A job and a caller's connection on one server database, and what each case does."""

    def __init__(self, url: str, connection: Any) -> None:
        self.connection = connection
        self.app = duly.App(url)
        self._execute("CREATE TABLE balance (id INTEGER PRIMARY KEY, units BIGINT)")
        self._execute("INSERT INTO balance VALUES (1, 0)")
        connection.commit()
        self.app.init()
        self.app.job("credit", payload={"units": 10})(_credit)
        self.app.job("fails", payload={"units": 10})(_fail)
        once = duly.Every(timedelta(days=3650), anchor=datetime.now(UTC) - timedelta(hours=1))
        self.app.job("once", schedule=once, payload={"units": 10})(_credit)
        self._used = 0
        now = datetime.now(UTC).replace(microsecond=0)
        self.done, self.done_old = now - timedelta(seconds=1), now - OLD
        self._now = now
        for _ in range(8):  # drivers prepare what they saw five times; the first use looks around
            for case in self.cases().values():
                case()
        self.app.run("credit", self.done)
        self.app.run("credit", self.done_old)

    def cases(self) -> dict[str, Callable[[], object]]:
        run, old = self.app.run, "period older than half a day"
        return {
            BARE: self._bare,
            "App.run, applied": lambda: run("credit", self._new()),
            f"App.run, applied, {old}": lambda: run("credit", self._new(OLD)),
            "App.run, duplicate": lambda: run("credit", self.done),
            "App.run without at, duplicate": lambda: run("once"),
            f"App.run, duplicate, {old}": lambda: run("credit", self.done_old),
            "App.run, the handler failed": self._failed,
            "duly.claim in your transaction, new": lambda: self._claim(self._new()),
            f"duly.claim, new, {old}": lambda: self._claim(self._new(OLD)),
            "duly.claim, duplicate, rolled back": self._claim_again,
        }

    def close(self) -> None:
        self.connection.close()
        self.app.close()

    def _new(self, age: timedelta = timedelta()) -> datetime:
        self._used += 1
        return self._now - age - timedelta(seconds=10 + self._used)

    def _execute(self, sql: str) -> None:
        cursor = self.connection.cursor()
        cursor.execute(sql)
        cursor.close()

    def _bare(self) -> None:
        self._execute("UPDATE balance SET units = units + 10 WHERE id = 1")
        self.connection.commit()

    def _claim(self, at: datetime) -> None:
        assert duly.claim(self.connection, duly.Occurrence("claimed", at)).is_new
        self._bare()

    def _claim_again(self) -> None:
        again = duly.Occurrence("credit", self.done)
        if not duly.claim(self.connection, again, payload={"units": 10}).is_new:
            self.connection.rollback()
            return
        self.connection.commit()

    def _failed(self) -> None:
        with pytest.raises(ValueError, match="no"):
            self.app.run("fails", self._new())


def _credit(run: duly.Run) -> None:
    run.execute("UPDATE balance SET units = units + :units WHERE id = 1", run.payload)


def _fail(run: duly.Run) -> None:
    _credit(run)
    raise ValueError("no")


# --------------------------------------------------------------------------------------- PostgreSQL


def test_round_trips_and_syncs_on_postgresql_are_as_documented(
    postgres_private: PostgresServer,
) -> None:
    """Counted in what the client sends, and in what the server syncs over many repetitions."""
    url = postgres_private.create_database()
    name = postgres_private.database_of(url)
    bank = Bank(url, postgres_private.connect(name))
    expected = documented("PostgreSQL, round trips")
    admin = postgres_private.connect(name, autocommit=True)
    try:
        found = {
            case: (_round_trips(bank, act), _syncs(bank, act, admin, name, postgres_private))
            for case, act in bank.cases().items()
        }
    finally:
        admin.close()
        bank.close()

    assert found == expected


def _round_trips(bank: Bank, act: Callable[[], object]) -> int:
    """The least of several: a rollback makes the next attempt throw prepared statements away."""
    counts = []
    with tempfile.TemporaryFile("w+") as file:

        def traced(connection: Any, *_details: Any) -> None:
            try:
                connection.pgconn.trace(file.fileno())
            except psycopg.NotSupportedError as error:
                pytest.skip(f"libpq cannot trace here: {error}")

        event.listen(bank.app.database.engine, "checkout", traced)
        traced(bank.connection)
        for _ in range(4):
            start = file.seek(0, 2)
            act()
            traced(bank.connection)  # flushes what the trace has held back
            file.seek(start)
            counts.append(len(re.findall(r"\tF\t\d+\t(?:Sync|Query)\b", file.read())))
        event.remove(bank.app.database.engine, "checkout", traced)
    return min(counts)


def _syncs(
    bank: Bank, act: Callable[[], object], admin: Any, name: str, server: PostgresServer
) -> int:
    """Syncs per repetition; a server counts them where a session ends."""
    times = 30

    def synced() -> int:
        bank.app.close()
        bank.connection.close()
        while admin.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'",
            [name],
        ).fetchone():
            time.sleep(0.01)
        row = admin.execute("SELECT wal_sync FROM pg_stat_wal").fetchone()
        bank.connection = server.connect(name)
        return int(row[0])

    before = synced()
    for _ in range(times):
        act()
    return round((synced() - before) / times)


# ------------------------------------------------------------------------------------------ MariaDB


def test_messages_and_commits_on_mariadb_are_as_documented(
    mariadb: MariaDBServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    driver: Any = pymysql.connections.Connection
    original = driver._execute_command

    def execute(self: Any, command: int, sql: str | bytes) -> None:
        sent.append(sql if isinstance(sql, str) else sql.decode("utf-8", "replace"))
        original(self, command, sql)

    url = mariadb.create_database()
    bank = Bank(url, mariadb.connect(mariadb.database_of(url)))
    monkeypatch.setattr(driver, "_execute_command", execute)
    found: Costs = {}
    for case, act in bank.cases().items():
        sent.clear()
        act()
        commits = [text for text in sent if re.search(r"^COMMIT\b", text, re.MULTILINE)]
        found[case] = (len(sent), len(commits))
    bank.close()
    mariadb.drop(url)

    assert found == documented("MariaDB, messages")


# ------------------------------------------------------------------------------------------- SQLite

SCRIPT = """
import os, sqlite3, sys
from datetime import datetime, timedelta, UTC
import duly

case, path = sys.argv[1:]
app = duly.App(f"sqlite:///{path}")
now = datetime.now(UTC).replace(microsecond=0)

@app.job("credit")
def credit(run):
    run.execute("UPDATE balance SET units = units + 10")

@app.job("fails")
def fails(run):
    credit(run)
    raise ValueError

connection = sqlite3.connect(path)
connection.execute("PRAGMA synchronous = FULL")

def run(age):
    app.run("credit", now - timedelta(seconds=age))

def claim(age):
    if duly.claim(connection, duly.Occurrence("credit", now - timedelta(seconds=age))).is_new:
        connection.execute("UPDATE balance SET units = units + 10")
        connection.commit()
    else:
        connection.rollback()

def bare(age):
    connection.execute("UPDATE balance SET units = units + 10")
    connection.commit()

def failed(age):
    try:
        app.run("fails", now - timedelta(seconds=age))
    except ValueError:
        pass

act = {"run": run, "claim": claim, "bare": bare, "failed": failed}[case.split()[0]]
same = case.endswith("duplicate")
run(1); claim(2); bare(0); failed(3)
os.access("/begin", os.F_OK)
for age in range(10, 20):
    act(1 if same else age)
os.access("/end", os.F_OK)
"""


@pytest.mark.parametrize(("mode", "column"), [("WAL", 0), ("DELETE", 1)])
def test_syncs_on_sqlite_are_as_documented(tmp_path: Path, mode: str, column: int) -> None:
    """Counted by strace, in a process of its own."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("syncs on SQLite are counted with strace, which is not installed")
    script = tmp_path / "case.py"
    script.write_text(SCRIPT)
    expected = documented("SQLite, calls")
    rows = {
        BARE: ["bare"],
        "App.run or duly.claim, applied": ["run", "claim"],
        "App.run or duly.claim, duplicate": ["run duplicate", "claim duplicate"],
        "App.run, the handler failed": ["failed"],
    }
    assert rows.keys() == expected.keys()
    for row, cases in rows.items():
        for case in cases:
            syncs = _traced(strace, script, case, tmp_path / f"{mode}-{case}.db", mode)
            assert syncs == 10 * expected[row][column], case


def _traced(strace: str, script: Path, case: str, database: Path, mode: str) -> int:
    connection = sqlite3.connect(database)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER)")
    connection.execute("INSERT INTO balance VALUES (1, 0)")
    connection.commit()
    connection.close()
    log = database.with_suffix(".strace")
    subprocess.run(
        [
            *(strace, "-f", "-e", "trace=fsync,fdatasync,access,faccessat,faccessat2"),
            *("-o", str(log), sys.executable, str(script), case, str(database)),
        ],
        check=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
    )
    inside = log.read_text().partition('"/begin"')[2].partition('"/end"')[0]
    return len(re.findall(r"\b(?:fsync|fdatasync)\(", inside))
