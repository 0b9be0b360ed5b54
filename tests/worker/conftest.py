"""Real workers: processes of `duly worker` on a database of the test's own.

- `place`: on each database; `file_place`, `postgres_place`: on one of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.servers.database import Database
from tests.servers.processes import heard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.postgresql import PostgresServer

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0

JOBS = """
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
import duly

app = duly.App({url!r})
SECOND = duly.Every(timedelta(seconds=1), anchor=datetime(2026, 1, 1, tzinfo=UTC))
COUNT = "INSERT INTO effect (nominal_us) VALUES (:us)"

def count(run):
    run.execute(COUNT, {{"us": run.occurrence.nominal_us}})
"""
SECONDLY = """
@app.job("secondly", schedule=SECOND)
def secondly(run):
    count(run)
"""


@dataclass
class Place:
    """A database with duly's tables and a table of effects, and the workers on it."""

    database: Database
    folder: Path
    jobs: str = ""
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def define(self, jobs: str) -> None:
        self.jobs = jobs
        (self.folder / "jobs.py").write_text(JOBS.format(url=self.database.url) + jobs)
        app = duly.App(self.database.url)
        app.init()
        app.close()
        self.ask("CREATE TABLE effect (nominal_us BIGINT NOT NULL)")

    def worker(self, *options: str) -> subprocess.Popen[str]:
        """A new worker; its stdout is line after line."""
        return self.start("worker", *options)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DULY_")}
        environment["PYTHONPATH"] = str(ROOT / "src")
        number = len(self.started)
        with (
            (self.folder / f"out-{number}").open("w") as out,
            (self.folder / f"err-{number}").open("w") as err,
            heard(signal.SIGHUP),
        ):
            process = subprocess.Popen(
                [sys.executable, "-m", "duly", "--app", "jobs:app", *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
            )
        self.started.append(process)
        return process

    def out(self, process: subprocess.Popen[str]) -> str:
        return (self.folder / f"out-{self.started.index(process)}").read_text()

    def err(self, process: subprocess.Popen[str]) -> str:
        return (self.folder / f"err-{self.started.index(process)}").read_text()

    def ask(self, statement: str) -> list[Any]:
        with closing(self.database.connect()) as connection:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows

    def effects(self) -> list[int]:
        return [int(row[0]) for row in self.ask("SELECT nominal_us FROM effect ORDER BY 1")]

    def settled(self) -> list[int]:
        """The nominal times of what is applied, in microseconds."""
        rows = self.ask(
            "SELECT nominal_us FROM duly_occurrence WHERE disposition = 'applied' ORDER BY 1"
        )
        return [int(row[0]) for row in rows]

    def assert_whole(self) -> None:
        """Each second from the first to the last once, and as many effects."""
        settled, effects = self.settled(), self.effects()
        assert effects == settled
        assert settled == list(range(settled[0], settled[-1] + 1, 1_000_000))


def within(true: Callable[[], object], what: str, *, seconds: float = PATIENCE_S) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def _place(database: Database, folder: Path) -> Iterator[Place]:
    place = Place(database, folder)
    yield place
    for process in place.started:
        process.kill()
        process.wait()


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Iterator[Place]:
    yield from _place(database, tmp_path)


@pytest.fixture
def file_place(tmp_path: Path) -> Iterator[Place]:
    yield from _place(Database.in_file(tmp_path / "test.db"), tmp_path)


@pytest.fixture
def postgres_place(postgres: PostgresServer, tmp_path: Path) -> Iterator[Place]:
    url = postgres.create_database()
    yield from _place(Database("postgresql", url, postgres), tmp_path)
    postgres.drop(url)


@pytest.fixture
def private_place(postgres_private: PostgresServer, tmp_path: Path) -> Iterator[Place]:
    """On a server of its own, which the test may stop."""
    url = postgres_private.create_database()
    yield from _place(Database("postgresql", url, postgres_private), tmp_path)
