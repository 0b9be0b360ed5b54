"""What finding and closing gaps costs, beside the query and the loop one would write by hand.

    python bench/catch_up.py              # measures, prints, and writes bench/CATCH_UP.md
    python bench/catch_up.py --no-file    # measures and prints
    python bench/catch_up.py --small      # a hundredth of the rows: to see that it runs

The contenders of a task take turns in one run; medians of the rounds count, and ratios within
the run. The servers are this program's own, with their default durability.
"""

from __future__ import annotations

import os
import platform
import random
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import duly  # noqa: E402 - after the path of the tests' servers
from duly._core.instants import to_us  # noqa: E402
from duly._sync import planning, registry  # noqa: E402
from tests.servers.database import Database  # noqa: E402
from tests.servers.mariadb import MariaDBServer  # noqa: E402
from tests.servers.postgresql import PostgresServer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = Path(__file__).with_name("CATCH_UP.md")
SMALL = "--small" in sys.argv
PERIODS = 10_000 if SMALL else 1_000_000
HOLES = 10 if SMALL else 1_000
CAUGHT_UP = 100 if SMALL else 2_000
JOBS = 100 if SMALL else 1_000
ROUNDS = 3
START = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

# The query of a reader who knows that the job is minutely: each row with the one after it.
WINDOW = """
SELECT nominal_us, next_us
FROM (SELECT nominal_us, LEAD(nominal_us) OVER (ORDER BY nominal_us) AS next_us
      FROM duly_occurrence WHERE job = 'minutely') AS each_row
WHERE next_us - nominal_us <> 60000000
"""


class Measured(NamedTuple):
    """One line of the results."""

    database: str
    task: str
    mine: float
    by_hand: float
    unit: str

    @property
    def ratio(self) -> str:
        return f"{self.mine / self.by_hand:.2f}" if self.by_hand else ""


def databases(stack: ExitStack, folder: Path) -> Iterator[Database]:
    """A fresh database of each kind."""
    yield Database.in_file(folder / "bench.db")
    for kind, name in ((PostgresServer, "postgresql"), (MariaDBServer, "mariadb")):
        server: Any = kind.create()
        stack.callback(server.close)
        yield Database(name, server.create_database(), server)  # type: ignore[arg-type]


def gaps(database: Database) -> list[Measured]:
    """A thousand holes, both ends included, among a million expected."""
    app = duly.App(database.url)
    app.job("minutely", schedule="* * * * *", starts=START, catch_up="none")(_nothing)
    app.init()
    app.register()
    holes = {0, PERIODS - 1, *random.Random(7).sample(range(PERIODS), HOLES - 2)}
    _settle(database, sorted(set(range(PERIODS)) - holes))
    now = START + (PERIODS - 1) * MINUTE
    mine, by_hand = [], []
    before = peak_mb(reset=True)
    for _ in range(ROUNDS):
        by_hand.append(timed(lambda: _query(database, WINDOW)))
        with app.database.session() as session:
            known = registry.read(session, "minutely")
            assert known is not None
            began = time.perf_counter()
            found = planning.missing(session, known, now=now)
            mine.append(time.perf_counter() - began)
            assert len(found.nominal_us) == len(holes)
    grown = peak_mb() - before
    app.close()
    return [
        Measured(
            database.name,
            f"missing: {len(holes):,} of {PERIODS:,}",
            statistics.median(mine),
            statistics.median(by_hand),
            "s",
        ),
        Measured(database.name, "memory for it", grown, 0, "MB"),
    ]


def backlog(database: Database) -> list[Measured]:
    """A backlog of a million is planned, and no more is run than one tick may."""
    app = duly.App(database.url)
    app.job("behind", schedule="* * * * *", starts=START, max_per_tick=5)(_nothing)
    app.register()
    before = peak_mb(reset=True)
    began = time.perf_counter()
    report = app.tick(now=START + (PERIODS - 1) * MINUTE)
    took = time.perf_counter() - began
    grown = peak_mb() - before
    (behind,) = [job for job in report.jobs if job.job == "behind"]
    assert behind.missing == PERIODS
    assert len(behind.ran) == 5
    app.close()
    return [
        Measured(database.name, f"a tick with {PERIODS:,} behind, 5 run", took, 0, "s"),
        Measured(database.name, "memory for it", grown, 0, "MB"),
    ]


def idle(database: Database) -> list[Measured]:
    """A tick over a thousand jobs of which none is due."""
    app = duly.App(database.url)
    for number in range(JOBS):
        schedule = f"{number % 60} {number % 24} * * *"
        app.job(f"idle-{number}", schedule=schedule, timezone="Europe/Berlin")(_nothing)
    app.register()
    app.tick()
    took = []
    for _ in range(ROUNDS):
        began = time.process_time()
        report = app.tick()
        took.append(time.process_time() - began)
        assert not [job for job in report.jobs if job.job.startswith("idle")]
    app.close()
    return [
        Measured(database.name, f"a tick, {JOBS:,} jobs idle", statistics.median(took), 0, "CPU s")
    ]


def caught_up(database: Database) -> list[Measured]:
    """Periods that were missed are run by ticks, and by a loop of BEGIN, INSERT, UPDATE, COMMIT."""
    _change(database, "CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
    _change(database, "INSERT INTO balance VALUES (1, 0)")
    _change(database, "CREATE TABLE done (at BIGINT PRIMARY KEY)")
    app = duly.App(database.url)

    @app.job("late", schedule="* * * * *", starts=START, max_per_tick=CAUGHT_UP)
    def late(run: duly.Run) -> None:
        run.execute("UPDATE balance SET units = units + 10 WHERE id = 1")

    app.register()
    mine, by_hand = [], []
    for number in range(ROUNDS):
        by_hand.append(timed(lambda base=number * CAUGHT_UP: _loop(database, base)))  # type: ignore[misc]
        now = START + ((number + 1) * CAUGHT_UP - 1) * MINUTE
        began = time.perf_counter()
        (job,) = [job for job in app.tick(now=now).jobs if job.job == "late"]
        mine.append(time.perf_counter() - began)
        assert len(job.ran) == CAUGHT_UP
    app.close()
    return [
        Measured(
            database.name,
            f"{CAUGHT_UP:,} periods caught up",
            statistics.median(mine),
            statistics.median(by_hand),
            "s",
        )
    ]


TASKS: tuple[Callable[[Database], list[Measured]], ...] = (gaps, backlog, idle, caught_up)


def peak_mb(*, reset: bool = False) -> float:
    """The most memory that this process had since the last reset; what it has, after one."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _nothing(run: duly.Run) -> None:
    """A handler without an effect of its own."""


def _placeholder(database: Database) -> str:
    return "?" if database.name == "sqlite" else "%s"


def _settle(database: Database, numbers: list[int]) -> None:
    mark = _placeholder(database)
    insert = (
        "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
        f" recorded_us) VALUES ('minutely', {mark}, '', 1, 'waived', 1)"
    )
    connection = database.connect()
    cursor = connection.cursor()
    first = to_us(START)
    for at in range(0, len(numbers), 10_000):
        rows = [(first + number * 60_000_000,) for number in numbers[at : at + 10_000]]
        cursor.executemany(insert, rows)
    connection.commit()
    connection.close()
    _change(database, "ANALYZE" if database.name != "mariadb" else "ANALYZE TABLE duly_occurrence")


def _loop(database: Database, base: int) -> None:
    mark = _placeholder(database)
    connection = database.connect()
    if database.name == "sqlite":
        connection.isolation_level = None
    cursor = connection.cursor()
    for number in range(CAUGHT_UP):
        if database.name == "sqlite":
            cursor.execute("BEGIN IMMEDIATE")  # the drivers of the servers begin by themselves
        cursor.execute(f"INSERT INTO done (at) VALUES ({mark})", (base + number,))
        cursor.execute("UPDATE balance SET units = units + 10 WHERE id = 1")
        if database.name == "sqlite":
            cursor.execute("COMMIT")
        else:
            connection.commit()
    connection.close()


def _query(database: Database, sql: str) -> list[Any]:
    connection = database.connect()
    cursor = connection.cursor()
    cursor.execute(sql)
    rows = list(cursor.fetchall())
    connection.close()
    return rows


def _change(database: Database, sql: str) -> None:
    connection = database.connect()
    connection.cursor().execute(sql)
    connection.commit()
    connection.close()


def table(results: list[Measured]) -> list[str]:
    lines = ["| database | task | duly | by hand | ratio |", "|---|---|---|---|---|"]
    for each in results:
        hand = f"{each.by_hand:.2f} {each.unit}" if each.by_hand else ""
        mine = f"{each.mine:.2f} {each.unit}"
        lines.append(f"| {each.database} | {each.task} | {mine} | {hand} | {each.ratio} |")
    return lines


def main() -> None:
    results: list[Measured] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-")))
        for database in databases(stack, folder):
            for task in TASKS:
                results += task(database)
                print("\n".join(table(results[-1:])[2:]), flush=True)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    facts = f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load}."
    lines = ["# What catching up costs", "", facts, "", *table(results), ""]
    print("\n".join(lines))
    if "--no-file" not in sys.argv and not SMALL:
        RESULTS.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
