"""What finding and closing gaps costs, beside the query and the loop one would write by hand.

    python bench/catch_up.py              # measures, prints, and writes bench/CATCH_UP.md
    python bench/catch_up.py --no-file    # measures and prints
    python bench/catch_up.py --small      # a hundredth of the rows: to see that it runs

The contenders of a task take turns in one run; medians of the rounds count, and ratios within
the run. The servers are this program's own, with their default durability. Memory is measured in
a process of its own, so that nothing an earlier task freed can hide what this one takes.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

import machine  # noqa: E402 - after the path of the bench and of the tests' servers

import duly  # noqa: E402
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
CAUGHT_UP = 100 if SMALL else 10_000
JOBS = 100 if SMALL else 1_000
PER_TICK = 5
ROUNDS = 3
TICKS = 4
START = datetime(2024, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
STEP_US = 60_000_000
LAST = START + (PERIODS - 1) * MINUTE

# What a reader who knows that the job is minutely asks: each row with the one after it, which for
# the last is the first that is not due yet; and the oldest row, for what is missing before it.
WINDOW = """
SELECT nominal_us, next_us
FROM (SELECT nominal_us,
             COALESCE(LEAD(nominal_us) OVER (ORDER BY nominal_us), {end}) AS next_us
      FROM duly_occurrence WHERE job = 'minutely') AS each_row
WHERE next_us - nominal_us <> 60000000
"""
OLDEST = "SELECT MIN(nominal_us) FROM duly_occurrence WHERE job = 'minutely'"

ABOUT = """\
`ratio` is duly's time by the other's, `limit` the most that is accepted. By hand is:

- for what is missing, the window-function query `LEAD(nominal_us) OVER (ORDER BY nominal_us)` of a
  reader who knows that the job is minutely, with both ends of the span, which finds the same holes;
- for catching up, a loop of BEGIN, INSERT of the key, UPDATE of the balance, COMMIT on one
  connection, which takes turns with the ticks, a quarter of the periods each. Old periods are those
  of a cron expression two years back, which a prune may have reached, so each attempt asks for the
  horizon; recent ones are of `duly.Every`, within the day.

Memory is the growth of the peak of the resident set (VmHWM) in a process of its own, from after
its imports and its first connection. CPU is that of this process, for one tick of an App that was
made for it, as from cron; the definitions, 1,000 calls of `app.job`, are made before."""


class Measured(NamedTuple):
    """One line of the results.

    Attributes:
        limit: The most of the ratio, or of the number where there is none; None for no target.
    """

    database: str
    task: str
    mine: float
    unit: str
    by_hand: float | None = None
    limit: float | None = None

    @property
    def ratio(self) -> str:
        return "" if self.by_hand is None else f"{self.mine / self.by_hand:.2f}"


def databases(stack: ExitStack, folder: Path) -> Iterator[Database]:
    """A fresh database of each kind."""
    yield Database.in_file(folder / "bench.db")
    for kind, name in ((PostgresServer, "postgresql"), (MariaDBServer, "mariadb")):
        server: Any = kind.create()
        stack.callback(server.close)
        yield Database(name, server.create_database(), server)  # type: ignore[arg-type]


def gaps(database: Database) -> list[Measured]:
    """A thousand holes, both ends included, among a million expected."""
    app = minutely(database.url)
    app.init()
    app.register()
    holes = {0, PERIODS - 1, *random.Random(7).sample(range(PERIODS), HOLES - 2)}
    _settle(database, sorted(set(range(PERIODS)) - holes))
    wanted = [to_us(START) + number * STEP_US for number in sorted(holes)]
    mine, by_hand = [], []
    for _ in range(ROUNDS):
        took, found = timed(lambda: _missing_by_hand(database))
        assert found == wanted
        by_hand.append(took)
        took, found = timed(lambda: _missing(app))
        assert found == wanted
        mine.append(took)
    app.close()
    took_by_hand = statistics.median(by_hand)
    task = f"missing: {len(holes):,} of {PERIODS:,}, both ends"
    return [
        Measured(database.name, task, statistics.median(mine), "s", took_by_hand, 1.5),
        Measured(database.name, "memory for it", grown_mb("missing", database), "MB", limit=100),
    ]


def backlog(database: Database) -> list[Measured]:
    """A backlog of a million is planned, and no more is run than one tick may."""
    app = behind(database.url)
    app.register()
    took, _ = timed(lambda: _tick_behind(app))
    app.close()
    task = f"a tick with {PERIODS:,} behind, {PER_TICK} run"
    return [
        Measured(database.name, task, took, "s"),
        Measured(database.name, "memory for it", grown_mb("backlog", database), "MB", limit=100),
    ]


def idle(database: Database) -> list[Measured]:
    """A tick over a thousand jobs of which none is due, in a process that knows nothing yet."""
    took = []
    for number in range(ROUNDS + 1):
        app = duly.App(database.url)
        for job in range(JOBS):
            schedule = f"{job % 60} {job % 24} * * *"
            app.job(f"idle-{job}", schedule=schedule, timezone="Europe/Berlin")(_nothing)
        began = time.process_time()
        report = app.tick()
        if number:  # the first one registers them
            took.append(time.process_time() - began)
        assert not [job for job in report.jobs if job.ran]
        app.close()
    task = f"a tick, {JOBS:,} jobs, nothing due"
    return [Measured(database.name, task, statistics.median(took), "CPU s", limit=0.5)]


def caught_up(database: Database) -> list[Measured]:
    """Periods that were missed are run by ticks, and by a loop by hand."""
    _change(database, "CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
    _change(database, "INSERT INTO balance VALUES (1, 0)")
    _change(database, "CREATE TABLE done (at BIGINT PRIMARY KEY)")
    apps = {age: _late(database, age) for age in ("recent", "old")}
    took = dict.fromkeys([*apps, "by hand"], 0.0)
    each = CAUGHT_UP // TICKS
    for number in range(TICKS):
        took["by hand"] += timed(lambda base=number * each: _loop(database, base, each))[0]  # type: ignore[misc]
        for age, app in apps.items():
            spent, report = timed(app.tick)
            took[age] += spent
            (job,) = [job for job in report.jobs if job.job == age]
            assert [ran.outcome for ran in job.ran] == [duly.Outcome.APPLIED] * each
    for age, app in apps.items():
        assert app.missing(age).total == 0
        app.close()
    return [
        Measured(
            database.name,
            f"{CAUGHT_UP:,} {age} periods caught up",
            took[age],
            "s",
            took["by hand"],
            1 / 0.7,
        )
        for age in apps
    ]


TASKS: tuple[Callable[[Database], list[Measured]], ...] = (gaps, backlog, idle, caught_up)


# What is measured


def minutely(url: str) -> duly.App:
    app = duly.App(url)
    app.job("minutely", schedule="* * * * *", starts=START, catch_up="none")(_nothing)
    return app


def behind(url: str) -> duly.App:
    app = duly.App(url)
    app.job("behind", schedule="* * * * *", starts=START, max_per_tick=PER_TICK)(_nothing)
    return app


def _missing(app: duly.App) -> list[int]:
    with app.database.session() as session:
        known = registry.read(session, "minutely")
        assert known is not None
        return list(planning.missing(session, known, now=LAST).nominal_us)


def _missing_by_hand(database: Database) -> list[int]:
    first, end = to_us(START), to_us(START) + PERIODS * STEP_US
    connection = database.connect()
    cursor = connection.cursor()
    cursor.execute(OLDEST)
    spans = [(first - STEP_US, cursor.fetchone()[0])]
    cursor.execute(WINDOW.format(end=end))
    spans += cursor.fetchall()
    connection.close()
    return [us for one, other in sorted(spans) for us in range(one + STEP_US, other, STEP_US)]


def _tick_behind(app: duly.App) -> None:
    (job,) = [job for job in app.tick(now=LAST).jobs if job.job == "behind"]
    assert job.missing > PERIODS - 100
    assert len(job.ran) == PER_TICK


def _late(database: Database, age: str) -> duly.App:
    """A job that has missed all of its periods."""
    app = duly.App(database.url)
    if age == "recent":
        step, ends = timedelta(seconds=5), datetime.now(UTC)  # all of them within the day
        starts = ends - CAUGHT_UP * step
        schedule: Any = duly.Every(step, anchor=starts)
    else:
        schedule, starts, ends = "* * * * *", START, START + CAUGHT_UP * MINUTE
    options: dict[str, Any] = {"schedule": schedule, "starts": starts, "ends": ends}

    @app.job(age, max_per_tick=CAUGHT_UP // TICKS, **options)
    def late(run: duly.Run) -> None:
        run.execute("UPDATE balance SET units = units + 10 WHERE id = 1")

    app.register()
    return app


# Memory


def grown_mb(task: str, database: Database) -> float:
    """How much the peak of memory grows while a process of its own does a task."""
    command = [sys.executable, __file__, *sys.argv[1:], "--memory", task, database.url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def grow(task: str, url: str) -> None:
    """Do the task, and print how much the peak grew."""
    app = minutely(url) if task == "missing" else behind(url)
    with app.database.session() as session:
        session.clock_us()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what is now
    before = _peak_mb()
    if task == "missing":
        assert len(_missing(app)) == HOLES
    else:
        _tick_behind(app)
    print(_peak_mb() - before)
    app.close()


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


# By hand, and what both need


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def _nothing(run: duly.Run) -> None:
    """A handler without an effect of its own."""


def _settle(database: Database, numbers: list[int]) -> None:
    first = to_us(START)
    connection = database.connect()
    cursor = connection.cursor()
    for at in range(0, len(numbers), 10_000):
        times = (first + number * STEP_US for number in numbers[at : at + 10_000])
        rows = ", ".join(f"('minutely', {us}, '', 1, 'waived', 1)" for us in times)
        cursor.execute(
            "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
            f" recorded_us) VALUES {rows}"
        )
    connection.commit()
    connection.close()
    # That table alone: PostgreSQL would note that there are no attempts yet, and a session that
    # begins then looks through all of them at each deferred check, until it is analysed again.
    word = "ANALYZE TABLE" if database.name == "mariadb" else "ANALYZE"
    _change(database, f"{word} duly_occurrence")


def _loop(database: Database, base: int, count: int) -> None:
    mark = "?" if database.name == "sqlite" else "%s"
    connection = database.connect()
    if database.name == "sqlite":
        connection.isolation_level = None
    cursor = connection.cursor()
    for number in range(count):
        if database.name == "sqlite":
            cursor.execute("BEGIN IMMEDIATE")  # the drivers of the servers begin by themselves
        cursor.execute(f"INSERT INTO done (at) VALUES ({mark})", (base + number,))
        cursor.execute("UPDATE balance SET units = units + 10 WHERE id = 1")
        if database.name == "sqlite":
            cursor.execute("COMMIT")
        else:
            connection.commit()
    connection.close()


def _change(database: Database, sql: str) -> None:
    connection = database.connect()
    connection.cursor().execute(sql)
    connection.commit()
    connection.close()


def table(results: list[Measured]) -> list[str]:
    lines = ["| database | task | duly | by hand | ratio | limit |", "|---|---|---|---|---|---|"]
    for each in results:
        hand = "" if each.by_hand is None else f"{each.by_hand:.2f} {each.unit}"
        limit = "" if each.limit is None else f"{each.limit:.3g}"
        mine = f"{each.mine:.2f} {each.unit}"
        cells = (each.database, each.task, mine, hand, each.ratio, limit)
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    began = time.perf_counter()
    results: list[Measured] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-"))
        facts = machine.facts(folder)
        for database in databases(stack, Path(folder)):
            for task in TASKS:
                found = task(database)
                results += found
                print("\n".join(table(found)[2:]), flush=True)
    took = time.perf_counter() - began
    facts.append(f"load at the end {machine.load()}; the whole run took {took / 60:.1f} minutes")
    listed = [f"- {fact}" for fact in facts]
    lines = ["# What catching up costs", "", *listed, "", *table(results), "", ABOUT, ""]
    if "--no-file" not in sys.argv and not SMALL:
        RESULTS.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    if "--memory" in sys.argv:
        grow(*sys.argv[-2:])
    else:
        main()
