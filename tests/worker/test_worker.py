"""Real workers that are killed, stopped, cut off and told to end: each second counts once."""

from __future__ import annotations

import json
import random
import signal
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.worker.conftest import SECONDLY, Place, within

if TYPE_CHECKING:
    from tests.servers.postgresql import PostgresServer

LATE_MAX_S = 3.0
"""Far above what an idle machine needs (0.1 s); the tests of a whole suite run beside this one."""

SLOW = """
# With a backlog: its first look plans several runs.
@app.job("slow", schedule=SECOND, starts=datetime.now(UTC) - timedelta(seconds=5))
def slow(run):
    count(run)
    Path("inside").touch()
    while not Path("go-on").exists():
        time.sleep(0.05)
"""
STUCK = """
@app.job("stuck", schedule=SECOND)
def stuck(run):
    count(run)
    Path("inside").touch()
    {wait}
"""
WAITS = {
    "python": "time.sleep(600)",
    "sql": 'run.execute("SELECT pg_sleep(600)")',
}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
def test_two_workers_of_which_one_is_killed_again_and_again_lose_and_double_nothing(
    place: Place,
) -> None:
    """SIGKILL at random moments: every second is settled once, with one effect."""
    place.define(SECONDLY)
    chance = random.Random()
    workers = [place.worker(), place.worker()]
    within(place.settled, "the first second was not settled")
    kills = 0
    until = time.monotonic() + 15
    while time.monotonic() < until:
        time.sleep(chance.uniform(0.5, 2.0))
        victim = chance.randrange(2)
        workers[victim].kill()
        workers[victim].wait()
        workers[victim] = place.worker()
        kills += 1
    last = place.settled()[-1]
    within(lambda: place.settled()[-1] > last + 3_000_000, "it did not go on")
    for worker in workers:
        worker.kill()
        worker.wait()

    assert kills > 5
    place.assert_whole()


def test_worker_that_was_stopped_over_two_due_times_catches_up(place: Place) -> None:
    """SIGSTOP, as a suspended machine: what fell due is run when it goes on."""
    place.define(SECONDLY)
    worker = place.worker()
    within(place.settled, "the first second was not settled")
    worker.send_signal(signal.SIGSTOP)
    time.sleep(3.5)
    seen = place.settled()[-1]
    worker.send_signal(signal.SIGCONT)
    within(lambda: place.settled()[-1] > seen + 4_000_000, "it did not catch up")
    end([worker])

    place.assert_whole()


def test_worker_survives_a_database_that_is_stopped_and_started_again(
    private_place: Place, postgres_private: PostgresServer
) -> None:
    """It says so once, asks again, and runs what fell due meanwhile."""
    place = private_place
    place.define(SECONDLY)
    worker = place.worker()
    within(place.settled, "the first second was not settled")
    postgres_private.kill()
    within(lambda: "database_away" in place.err(worker), "it did not notice")
    time.sleep(2)
    assert worker.poll() is None
    postgres_private.start()
    seen = place.settled()[-1]
    within(lambda: place.settled()[-1] > seen + 6_000_000, "it did not resume")
    end([worker])

    place.assert_whole()
    assert place.err(worker).count("database_away") == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stop_waits_for_what_runs_and_starts_nothing_new(place: Place, number: int) -> None:
    place.define(SLOW)
    worker = place.worker()
    within((place.folder / "inside").exists, "the handler did not begin")
    worker.send_signal(number)
    time.sleep(0.5)
    assert worker.poll() is None
    (place.folder / "go-on").touch()

    assert worker.wait(30) == 0
    assert len(place.effects()) == len(place.settled()) == 1
    assert place.out(worker).startswith("applied slow:")


@pytest.mark.parametrize("wait", ["python", "sql"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_stop_whose_grace_is_over_rolls_back_and_records_it(
    postgres_place: Place, wait: str, number: int, code: int
) -> None:
    """Whatever the handler waits for; its key is free at once."""
    place = postgres_place
    place.define(STUCK.format(wait=WAITS[wait]))
    worker = place.worker("--grace", "0.5")
    within((place.folder / "inside").exists, "the handler did not begin")
    worker.send_signal(number)

    assert worker.wait(30) == code
    assert_rolled_back(place)
    assert "rolled back, and tried again by the next worker: stuck:" in place.err(worker)


def test_stop_of_a_handler_on_sqlite_rolls_back_and_records_it(file_place: Place) -> None:
    """The stuck thread holds the file's lock to the end; the record waits beside it."""
    place = file_place
    place.define(STUCK.format(wait=WAITS["python"]))
    worker = place.worker("--grace", "0.5")
    within((place.folder / "inside").exists, "the handler did not begin")
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(30) == 143
    place.start("history", "stuck").wait(30)  # a reader brings the record in
    assert_rolled_back(place)


def test_second_signal_does_not_wait(postgres_place: Place) -> None:
    place = postgres_place
    place.define(STUCK.format(wait=WAITS["python"]))
    worker = place.worker("--grace", "600")
    within((place.folder / "inside").exists, "the handler did not begin")
    worker.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    worker.send_signal(signal.SIGTERM)

    assert worker.wait(30) == 143
    assert_rolled_back(place)


def assert_rolled_back(place: Place) -> None:
    assert place.effects() == place.settled() == []
    rows = place.ask("SELECT outcome, error_origin FROM duly_attempt")
    assert [tuple(row) for row in rows] == [("failed", "signal")]


def test_paused_job_is_not_run_until_it_is_resumed(place: Place) -> None:
    """What another process writes is seen at the next due time, or at the poll."""
    place.define(SECONDLY)
    worker = place.worker("--poll", "1")
    within(place.settled, "the first second was not settled")
    now_us, no = time.time_ns() // 1000, "false" if place.database.name == "postgresql" else "0"
    place.ask(
        f"INSERT INTO duly_pause (job, paused_us, included) VALUES ('secondly', {now_us}, {no})"
    )
    time.sleep(1.5)
    seen = place.settled()
    time.sleep(2.5)
    assert place.settled() == seen
    assert worker.poll() is None
    place.ask(f"UPDATE duly_pause SET resumed_us = {time.time_ns() // 1000}")

    within(lambda: place.settled() > seen, "it was not resumed")


def test_occurrence_is_run_within_a_second_of_its_due_time(place: Place) -> None:
    """By the ledger's own times, and each is told as one object."""
    place.define(SECONDLY)
    worker = place.worker("--json")
    within(lambda: len(place.settled()) > 6, "too few were settled")
    end([worker])

    told = [json.loads(line) for line in place.out(worker).splitlines()]
    assert [each["outcome"] for each in told] == ["applied"] * len(told)
    assert len(told) == len(place.settled())
    # The first look comes whenever the process is ready.
    assert max(each["late_s"] for each in told[2:]) <= LATE_MAX_S
    assert min(each["late_s"] for each in told) >= 0


def test_worker_that_waits_for_a_due_time_sends_no_statement_until_then(
    private_place: Place, postgres_private: PostgresServer
) -> None:
    """The server's own log is empty over five seconds; then the occurrence is run on time."""
    place = private_place
    due_at = datetime.now(UTC) + timedelta(seconds=40)
    schedule = f"duly.Every(timedelta(days=1), anchor=datetime.fromisoformat({str(due_at)!r}))"
    place.define(f'@app.job("rare", schedule={schedule})\ndef rare(run):\n    count(run)\n')
    database = postgres_private.database_of(place.database.url)
    with_autocommit(place, f"ALTER DATABASE \"{database}\" SET log_statement = 'all'")
    worker = place.worker("--poll", "60", "--json")
    log = postgres_private.directory / "server.log"
    within(lambda: "duly_pause" in log.read_text(errors="replace"), "it did not look")
    time.sleep(2)
    before = log.stat().st_size
    time.sleep(5)
    said = log.read_text(errors="replace")[before:]
    assert datetime.now(UTC) < due_at, "this machine is too slow for the test"
    assert said.count("statement:") == 0
    within(place.settled, "it was not run")
    end([worker])
    assert 0 <= json.loads(place.out(worker))["late_s"] <= LATE_MAX_S


def with_autocommit(place: Place, statement: str) -> None:
    connection: Any = place.database.connect()
    connection.autocommit = True
    connection.execute(statement)
    connection.close()


def end(workers: list[Any]) -> None:
    for worker in workers:
        worker.send_signal(signal.SIGTERM)
    for worker in workers:
        assert worker.wait(60) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--threads", "14"), "needs 16 connections, and the Engine's pool has 15"),
        (("--poll", "0.5"), "poll= must be a second at least"),
    ],
)
def test_worker_that_could_not_work_is_refused(
    postgres_place: Place, options: tuple[str, ...], said: str
) -> None:
    place = postgres_place
    place.define(SECONDLY)
    worker = place.worker(*options)

    assert worker.wait(30) == 2
    assert said in place.err(worker)


def test_worker_of_an_app_without_schedules_is_refused(file_place: Place) -> None:
    """It would wait for ever, and look as if it worked."""
    file_place.define('@app.job("by-name")\ndef by_name(run):\n    count(run)\n')
    worker = file_place.worker()

    assert worker.wait(30) == 2
    assert "no job of this App has a schedule" in file_place.err(worker)


FAILING = """
@app.job("failing", schedule=duly.Every(timedelta(days=1), anchor=datetime.now(UTC)
    + timedelta(seconds=3)), retry=duly.Retry(first=timedelta(seconds=2)))
def failing(run):
    count(run)
    if not Path("tried").exists():
        Path("tried").touch()
        raise ValueError("not yet")
"""


def test_failed_occurrence_is_tried_again_when_its_policy_says(file_place: Place) -> None:
    """Without waiting for a due time or the poll, and what waits keeps nothing else."""
    file_place.define(FAILING)
    worker = file_place.worker("--poll", "600")

    within(file_place.settled, "it was not tried again")

    end([worker])
    rows = file_place.ask("SELECT outcome, started_us FROM duly_attempt ORDER BY started_us")
    assert [row[0] for row in rows] == ["failed", "applied"]
    assert rows[1][1] - rows[0][1] >= 1_000_000  # two seconds, less up to half
    assert "failed failing:" in file_place.out(worker)
    assert "ValueError: not yet" in file_place.out(worker)


STRICT = """
@app.job("strict", schedule=SECOND, timeout=timedelta(seconds=0.5))
def strict(run):
    count(run)
    if not Path("inside").exists():
        Path("inside").touch()
        run.execute("SELECT pg_sleep(600)")
"""


def test_timeout_of_a_job_bounds_its_handler_in_a_worker(postgres_place: Place) -> None:
    """The statement is cancelled, the failure told, the next second runs."""
    place = postgres_place
    place.define(STRICT)
    worker = place.worker()

    within(lambda: len(place.settled()) > 1, "the worker stood still")

    end([worker])
    assert place.effects() == place.settled()
    first = place.out(worker).splitlines()[0]
    assert first.startswith("failed strict:")
    assert "took longer than its timeout= of 0.5 s" in first
