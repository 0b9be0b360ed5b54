"""What one occurrence costs, beside the same work written by hand.

    python bench/attempt.py                     # on this disk
    TMPDIR=/dev/shm python bench/attempt.py     # where a sync costs nothing: the software alone
    python bench/attempt.py sqlite --rounds 5   # one database

One of 1,000 accounts gets 10 units and the key is recorded, both durable. The contenders take
turns in one run, so that a noisy neighbour meets them all; medians of the rounds count, and
ratios within the run. The servers are this program's own, with their default durability.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import sqlalchemy  # noqa: E402 - after the path of the tests' servers

import duly  # noqa: E402
from tests.servers.database import DATABASES, Database  # noqa: E402
from tests.servers.mariadb import MariaDBServer  # noqa: E402
from tests.servers.postgresql import PostgresServer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNTS = 1_000
OLD = datetime(2024, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
UPDATE = "UPDATE account SET units = units + 10 WHERE id = {}"
KEY = "INSERT INTO done (job, at, part, attempt) VALUES ({}, {}, {}, {})"


class Bench:
    """One database with accounts, and the contenders on it; each does its work *count* times.

    Attributes:
        contenders: By name; the first is what the others are held against.
    """

    def __init__(self, database: Database, most: int) -> None:
        self.database = database
        self.name = database.name
        self.is_file = database.name == "sqlite"
        self.mark = "?" if self.is_file else "%s"
        self.most = most
        self.number = 0
        self.now = datetime.now(UTC).replace(microsecond=0)
        self.ticks = {"tick": self.now - timedelta(hours=6), "tick, old": OLD}
        self._make_tables()
        self.connection = self._connect()
        self.engine = sqlalchemy.create_engine(database.url)
        if self.is_file:
            sqlalchemy.event.listen(self.engine, "connect", _full)
        self.app = duly.App(database.url)
        self.app.job("credit")(_credit)
        for job, starts in self.ticks.items():
            name = job.replace(", ", "-")
            every = duly.Every(SECOND, anchor=OLD)
            self.app.job(name, schedule=every, starts=starts, max_per_tick=most)(_credit_any)
        self.app.init()
        self.app.register()
        self.contenders: dict[str, Callable[[int], None]] = {
            "by hand": self.by_hand,
            "by hand, SQLAlchemy": self.by_sqlalchemy,
            "duly.claim": self.claim,
            "App.run": self.run,
            "App.run, old": self.run_old,
            "App.tick": lambda count: self.tick("tick", count),
            "App.tick, old": lambda count: self.tick("tick, old", count),
            "duplicate by hand": self.duplicate_by_hand,
            "App.run, duplicate": self.run_duplicate,
        }

    def by_hand(self, count: int) -> None:
        connection, cursor = self.connection, self.connection.cursor()
        insert, update = KEY.format(*[self.mark] * 4), UPDATE.format(self.mark)
        for number in self._numbers(count):
            if self.is_file:
                cursor.execute("BEGIN IMMEDIATE")  # the servers' drivers begin by themselves
            cursor.execute(insert, ("credit", number, "", "x" * 16))
            cursor.execute(update, (number % ACCOUNTS,))
            connection.commit()

    def by_sqlalchemy(self, count: int) -> None:
        insert = sqlalchemy.text(KEY.format(":job", ":at", ":part", ":attempt"))
        update = sqlalchemy.text(UPDATE.format(":id"))
        for number in self._numbers(count):
            with self.engine.begin() as connection:
                key = {"job": "credit", "at": number, "part": "", "attempt": "x" * 16}
                connection.execute(insert, key)
                connection.execute(update, {"id": number % ACCOUNTS})

    def claim(self, count: int) -> None:
        connection, cursor = self.connection, self.connection.cursor()
        update = UPDATE.format(self.mark)
        for number in self._numbers(count):
            if self.is_file:
                cursor.execute("BEGIN IMMEDIATE")
            occurrence = duly.Occurrence("claimed", self.now, f"{number}")
            assert duly.claim(connection, occurrence).is_new
            cursor.execute(update, (number % ACCOUNTS,))
            connection.commit()

    def run(self, count: int) -> None:
        for number in self._numbers(count):
            self.app.run("credit", self.now, partition=f"{number}")

    def run_old(self, count: int) -> None:
        for number in self._numbers(count):
            self.app.run("credit", OLD, partition=f"{number}")

    def tick(self, job: str, count: int) -> None:
        until = self.ticks[job] + count * SECOND
        self.ticks[job] = until
        self._tick(job, until - SECOND, count)

    def _tick(self, job: str, now: datetime, count: int) -> None:
        jobs = self.app._ticking  # noqa: SLF001 - one job's part of a tick
        wanted = job.replace(", ", "-")
        at, due = jobs.due(now, {}, only={wanted})
        ran = sum(len(jobs.job(found, known, at).ran) for found, known in due)
        assert ran == count, (job, ran)

    def duplicate_by_hand(self, count: int) -> None:
        connection, cursor = self.connection, self.connection.cursor()
        insert = KEY.format(*[self.mark] * 4)
        insert += " ON DUPLICATE KEY UPDATE at = at" if self.name == "mariadb" else (
            " ON CONFLICT DO NOTHING"
        )  # fmt: skip
        for _ in range(count):
            if self.is_file:
                cursor.execute("BEGIN IMMEDIATE")
            cursor.execute(insert, ("credit", 1, "", "x" * 16))
            connection.commit()

    def run_duplicate(self, count: int) -> None:
        for _ in range(count):
            self.app.run("credit", self.now, partition="twice")

    def _numbers(self, count: int) -> range:
        self.number += count
        return range(self.number - count, self.number)

    def _make_tables(self) -> None:
        connection = self._connect()
        cursor = connection.cursor()
        if self.is_file:
            cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, units BIGINT NOT NULL)")
        cursor.execute(
            "CREATE TABLE done (job VARCHAR(99), at BIGINT, part VARCHAR(99), attempt VARCHAR(16),"
            " PRIMARY KEY (job, at, part))"
        )
        rows = [(number,) for number in range(ACCOUNTS)]
        cursor.executemany(f"INSERT INTO account (id, units) VALUES ({self.mark}, 0)", rows)
        connection.commit()
        connection.close()

    def _connect(self) -> Any:
        connection = self.database.connect()
        if self.is_file:
            _full(connection, None)
            connection.isolation_level = None
        return connection


def _full(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = FULL")


def _credit(run: duly.Run) -> None:
    run.execute("UPDATE account SET units = units + 10 WHERE id = :id", {"id": _account(run)})


def _account(run: duly.Run) -> int:
    return int(run.partition) % ACCOUNTS if run.partition.isdigit() else 0


def _credit_any(run: duly.Run) -> None:
    account = int(run.nominal_time.timestamp()) % ACCOUNTS
    run.execute("UPDATE account SET units = units + 10 WHERE id = :id", {"id": account})


def databases(stack: ExitStack, wanted: list[str]) -> Iterator[Database]:
    """A fresh database of each kind that is wanted."""
    if "sqlite" in wanted:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-")))
        yield Database.in_file(folder / "bench.db")
    for kind in (PostgresServer, MariaDBServer):
        if kind.name in wanted:
            server: Any = kind.create()
            stack.callback(server.close)
            yield Database(kind.name, server.create_database(), server)  # type: ignore[arg-type]


def measure(bench: Bench, rounds: int, count: int, only: list[str]) -> None:
    """Let the contenders take turns, and print what each took of time and of client's CPU."""
    names = [name for name in bench.contenders if not only or name in {*only, "by hand"}]
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        for name in names:
            began, began_cpu = time.perf_counter(), time.process_time()
            bench.contenders[name](count)
            each = (time.perf_counter() - began, time.process_time() - began_cpu)
            if round_number:  # the first one warms up
                took[name].append(each)
    for name in names:
        base = "duplicate by hand" if "duplicate" in name else "by hand"
        ratios = [b[0] / m[0] for b, m in zip(took[base], took[name], strict=True)]
        wall, cpu = (statistics.median(each[i] for each in took[name]) / count for i in (0, 1))
        rate = f"{statistics.median(ratios):.2f}"
        print(f"| {bench.name} | {name} | {1 / wall:,.0f} | {cpu * 1e3:.3f} | {rate} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("databases", nargs="*", default=list(DATABASES))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--only", action="append", default=[])
    wanted = parser.parse_args()
    print("| database | contender | per second | client CPU ms | rate to by hand |")
    print("|---|---|---|---|---|")
    with ExitStack() as stack:
        for database in databases(stack, wanted.databases):
            bench = Bench(database, wanted.count)
            measure(bench, wanted.rounds, wanted.count, wanted.only)
            bench.app.close()


if __name__ == "__main__":
    main()
