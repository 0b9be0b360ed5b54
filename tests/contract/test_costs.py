"""What an occurrence costs in statements, round trips, commits and syncs, in exact numbers.

A number here is a promise: whoever adds a statement to the hot path changes it in sight.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy

import duly
from tests.contract.bank import OLD, Bank, Ledger, execute, recent, wait_until
from tests.servers.database import Database
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from tests.servers.postgresql import PostgresServer

EARLIER = OLD - timedelta(days=366)
AGES: dict[str, Callable[[], datetime]] = {"recent": recent, "old": lambda: OLD}


@dataclass
class Wire:
    """What psycopg connections sent, by libpq's own trace.

    Attributes:
        messages: The SQL that was executed, in order; what is in one list was sent at once, and
            its answers were waited for once.
    """

    path: Path
    messages: list[list[str]] = field(default_factory=list)

    def watch(self, raw: psycopg.Connection[Any]) -> None:
        """From now on, what *raw* sends is written down."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            raw.pgconn.trace(descriptor)
        except psycopg.NotSupportedError:
            pytest.skip("this libpq cannot trace")

    @contextmanager
    def counted(self, *watched: psycopg.Connection[Any]) -> Iterator[None]:
        """Count what is sent while inside."""
        self.path.write_bytes(b"")
        yield
        for raw in watched:
            raw.pgconn.untrace()  # flushes
        self.messages = []
        sent_now: list[str] = []
        prepared: dict[str, str] = {}
        last = ""
        for message in re.split(r"(?m)^(?=\S+ \S+\tF\t)", self.path.read_text(errors="replace")):
            sent = re.match(r"\S+ \S+\tF\t\d+\t(\w+)\t?(.*)", message, re.DOTALL)
            if sent is None:
                continue
            kind, rest = sent.groups()
            first, _, second = rest.strip().removeprefix('"').partition('"')
            match kind:
                case "Query":
                    self.messages.append([_name(first)])
                case "Parse":
                    prepared[first] = second.removeprefix(' "')
                case "Bind":
                    last = prepared[second.removeprefix(' "').partition('"')[0]]
                case "Execute":
                    sent_now.append(_name(last))
                case "Sync":
                    self.messages.append(sent_now)
                    sent_now = []
                case _:
                    pass


def _name(sql: str) -> str:
    """The first word of a statement, and the table of duly's that it is about."""
    word = sql.split(maxsplit=1)[0].upper().strip('"')
    if word == "WITH":
        word = re.findall(r"\b(INSERT|UPDATE|DELETE|SELECT)\b(?! set_config)", sql)[-1]
        word = "INSERT" if "INSERT INTO" in sql else word
    table = re.search(r"(?:INSERT INTO|FROM|UPDATE)\s+(?:\S+\.)?(duly_\w+|balance)", sql)
    return f"{word} {table[1]}" if table else word


@pytest.fixture
def wire(tmp_path: Path) -> Wire:
    return Wire(tmp_path / "trace")


def traced_app(bank: Bank, wire: Wire) -> tuple[duly.App, list[psycopg.Connection[Any]]]:
    """An App that has run before, and the connections of its pool."""
    engine = bank.engine()
    connections: list[psycopg.Connection[Any]] = []
    sqlalchemy.event.listen(engine, "connect", lambda raw, _record: connections.append(raw))
    app = bank.define(bank.app(engine, evidence_after=60))
    app.run(bank.job, EARLIER)
    for raw in connections:
        # What is prepared or not is psycopg's business, and would change the trips.
        raw.prepare_threshold = None
        wire.watch(raw)
    return app, connections


RUN = {
    ("applied", "recent"): [
        ["BEGIN", "INSERT duly_occurrence"], ["UPDATE balance"],
        ["INSERT duly_attempt", "COMMIT"],
    ],
    ("applied", "old"): [
        ["BEGIN", "SELECT duly_guard", "SELECT duly_job"], ["INSERT duly_occurrence"],
        ["UPDATE balance"], ["INSERT duly_attempt", "COMMIT"],
    ],
    ("duplicate", "recent"): [
        ["BEGIN", "INSERT duly_occurrence"], ["SELECT duly_occurrence", "ROLLBACK"],
        ["INSERT duly_duplicate"],
    ],
    ("duplicate", "old"): [
        ["BEGIN", "SELECT duly_guard", "SELECT duly_job"], ["INSERT duly_occurrence"],
        ["SELECT duly_occurrence", "ROLLBACK"], ["INSERT duly_duplicate"],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "age"), RUN)
def test_run_on_postgresql_sends_exactly_these_statements(
    postgres_bank: Bank, wire: Wire, outcome: str, age: str
) -> None:
    """An attempt costs what is listed, each message one round trip."""
    app, connections = traced_app(postgres_bank, wire)
    at = AGES[age]()
    if outcome == "duplicate":
        app.run(postgres_bank.job, at)

    with wire.counted(*connections):
        result = app.run(postgres_bank.job, at)

    assert result.outcome == outcome
    assert len(connections) == 1
    assert wire.messages == RUN[outcome, age]


CLAIM = {
    ("applied", "recent"): [["INSERT duly_occurrence"]],
    ("applied", "old"): [["SELECT duly_guard", "SELECT duly_job"], ["INSERT duly_occurrence"]],
    ("duplicate", "recent"): [["INSERT duly_occurrence"], ["SELECT duly_occurrence"]],
    ("duplicate", "old"): [
        ["SELECT duly_guard", "SELECT duly_job"], ["INSERT duly_occurrence"],
        ["SELECT duly_occurrence"],
    ],
}  # fmt: skip


@pytest.mark.parametrize(("outcome", "age"), CLAIM)
def test_claim_on_postgresql_adds_exactly_these_statements(
    postgres_bank: Bank, wire: Wire, outcome: str, age: str
) -> None:
    """A claim costs what is listed, in the caller's transaction, each message one round trip."""
    connection = postgres_bank.connect()
    connection.prepare_threshold = None
    duly.claim(connection, postgres_bank.occurrence(EARLIER))  # finds the ledger
    at = AGES[age]()
    if outcome == "duplicate":
        duly.claim(connection, postgres_bank.occurrence(at))
    connection.commit()
    execute(connection, "SELECT 1")  # the caller's transaction has begun
    wire.watch(connection)

    with wire.counted(connection):
        claim = duly.claim(connection, postgres_bank.occurrence(at))

    assert claim.outcome == outcome
    restored = [["SELECT"]] if age == "old" and wire.messages[-1:] == [["SELECT"]] else []
    assert wire.messages == CLAIM[outcome, age] + restored


def test_duplicates_on_postgresql_that_are_rolled_back_are_seldom_prepared(
    postgres_bank: Bank, wire: Wire
) -> None:
    """What was prepared is forgotten at a rollback, by one more message: so not each time."""
    connection = postgres_bank.connect()
    occurrence = postgres_bank.occurrence(recent())
    duly.claim(connection, occurrence)
    connection.commit()
    wire.watch(connection)

    with wire.counted(connection):
        for _ in range(30):
            assert not duly.claim(connection, occurrence).is_new
            connection.rollback()

    sent = Counter(message[0] for message in wire.messages if message)
    assert sent["DEALLOCATE"] <= 30 // connection.prepare_threshold, sent


TIMES = 20


@dataclass(frozen=True)
class Counters:
    commits: int
    rollbacks: int
    syncs: int


def test_occurrence_on_postgresql_is_one_commit_and_one_sync_and_a_duplicate_is_none(
    postgres_private: PostgresServer,
) -> None:
    """An applied occurrence syncs the log once, as the bare effect does; a duplicate never."""
    with postgres_private.connect(autocommit=True) as observer:
        for setting in ("wal_writer_delay = '10s'", "autovacuum = off"):
            observer.execute(f"ALTER SYSTEM SET {setting}")
        observer.execute("SELECT pg_reload_conf()")
        if (
            observer.info.server_version < 140_000
            or not observer.execute(
                "SELECT 1 FROM information_schema.columns"
                " WHERE table_name = 'pg_stat_wal' AND column_name = 'wal_sync'"
            ).fetchone()
        ):
            pytest.skip("this PostgreSQL does not count its syncs in pg_stat_wal")
        url = postgres_private.create_database()
        ledger = Ledger.create(Database("postgresql", url, postgres_private))
        bank = Bank(ledger)
        name = postgres_private.database_of(url)
        ledger.observer.close()
        registering = bank.define(duly.App(url))
        registering.register()  # once for each definition, not for each occurrence
        registering.close()

        def measured(work: Callable[[], None]) -> Counters:
            before = _counters(observer, name)
            work()
            after = _counters(observer, name)
            return Counters(*(b - a for a, b in zip(before, after, strict=True)))

        def runs(prefix: str) -> Callable[[], None]:
            def work() -> None:
                app = bank.define(duly.App(url, evidence_after=60))
                for number in range(TIMES):
                    app.run(bank.job, OLD, partition=f"{prefix}{number}")
                app.close()

            return work

        at = recent()  # an old one locks the guard, and PostgreSQL logs a lock of a row

        def claims(prefix: str) -> Callable[[], None]:
            def work() -> None:
                connection = bank.database.connect()
                for number in range(TIMES):
                    duly.claim(connection, bank.occurrence(at, f"{prefix}{number}"))
                    connection.commit()
                connection.close()

            return work

        applied = measured(runs("r"))
        duplicates = measured(runs("r"))
        claimed = measured(claims("c"))
        claimed_again = measured(claims("c"))

    # The server's own log writer may come by once in its 10 s.
    assert TIMES <= applied.syncs <= TIMES + 2
    assert duplicates.syncs <= 2
    assert TIMES <= claimed.syncs <= TIMES + 2
    assert claimed_again.syncs <= 2
    # A connection's start is a commit of the server's own, and the setting of duly's bound another,
    # which syncs nothing; the first look at a ledger rolls back.
    assert applied.commits == TIMES + 2
    assert duplicates.commits == TIMES + 2
    assert (claimed.commits, claimed.rollbacks) == (TIMES + 1, 0)
    assert (claimed_again.commits, claimed_again.rollbacks) == (TIMES + 1, 0)


def _counters(observer: psycopg.Connection[Any], name: str) -> tuple[int, int, int]:
    """Commits and rollbacks of the database and syncs of the log, when its clients have left.

    A client's process adds what it has counted at its end at the latest.
    """
    alone = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = %s"
    wait_until(lambda: observer.execute(alone, [name]).fetchone() == (0,), "all clients left")
    row = observer.execute(
        "SELECT xact_commit, xact_rollback, (SELECT wal_sync FROM pg_stat_wal)"
        " FROM pg_stat_database WHERE datname = %s",
        [name],
    ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1]), int(row[2])


# ------------------------------------------------------------------------------------- SQLite

SQLITE_SCRIPT = """
import os, sqlite3, sys
from datetime import datetime, timedelta, timezone
import duly

url, way, kind = sys.argv[1:]
at = datetime(2024, 2, 29, tzinfo=timezone.utc)
app = duly.App(url)

@app.job("credit")
def credit(run):
    run.execute("UPDATE balance SET units = units + 10 WHERE id = 1")

connection = sqlite3.connect(url.removeprefix("sqlite:///"))
connection.execute("PRAGMA synchronous = FULL")

def start(at):
    if way == "run":
        return app.run("credit", at).outcome
    claim = duly.claim(connection, duly.Occurrence("credit", at))
    if claim.is_new:
        connection.execute("UPDATE balance SET units = units + 10 WHERE id = 1")
    connection.commit()
    return claim.outcome

start(at - timedelta(days=1))
if kind == "duplicate":
    start(at)
os.path.exists("/mark-begin")
outcome = start(at)
os.path.exists("/mark-end")
print(outcome, flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("way", "kind", "syncs"),
    [
        ("run", "applied", {1}),
        ("run", "duplicate", {0}),
        ("claim", "applied", {1}),
        ("claim", "duplicate", {0, 1}),  # the caller's commit, of a transaction that has written
    ],
)
def test_occurrence_on_sqlite_is_one_sync_and_a_duplicate_is_none(
    tmp_path: Path, way: str, kind: str, syncs: set[int]
) -> None:
    """In WAL mode the effect and its completion are synced once; a duplicate syncs nothing."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed, which counts the syncs")
    url = f"sqlite:///{tmp_path / 'bank.db'}"
    app = duly.App(url)
    app.init()
    app.close()
    _make_balance(tmp_path / "bank.db")
    trace = tmp_path / "strace"
    done = subprocess.run(
        [
            *(strace, "-f", "-y", "-o", str(trace), "-e"),
            "trace=fsync,fdatasync,sync_file_range,sync,stat,newfstatat,statx",
            *(sys.executable, "-c", SQLITE_SCRIPT, url, way, kind),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if "PTRACE" in done.stderr or "ptrace" in done.stderr:
        pytest.skip("strace may not trace here")

    assert done.stdout.strip() == kind, done.stderr
    lines = trace.read_text(errors="replace").splitlines()
    begin = next(i for i, line in enumerate(lines) if "/mark-begin" in line)
    end = next(i for i, line in enumerate(lines) if "/mark-end" in line)
    calls = [re.search(r"\b(f\w*sync|sync\w*)\(", line) for line in lines[begin:end]]
    counted = Counter(call[1] for call in calls if call)
    assert sum(counted.values()) in syncs, counted


def _make_balance(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
        connection.execute("INSERT INTO balance VALUES (1, 0)")
        connection.commit()
