"""Fixtures of the command line's tests: a bank, its jobs, and two ways to type a command.

- `bank`: a balance of zero on each of the three databases, and the module with its jobs.
- `awaited_bank`: the same with a `duly.aio.App`.
- `file_bank`: the first on SQLite only.
- `duly`: runs a command line in this process; `duly_process` starts a real one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from duly._cli.main import main
from tests.contract.bank import async_url
from tests.servers.database import Database
from tests.servers.processes import heard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]

JOBS = """
import time
from pathlib import Path
import duly

app = duly.App({url!r})
PAYLOAD = {{"units": 10}}
CREDIT = "UPDATE balance SET units = units + :units WHERE id = 1"

@app.job("daily-credit", schedule="0 0 * * *", payload=PAYLOAD)
def daily_credit(run):
    run.execute(CREDIT, run.payload)
    return {{"credited": run.payload["units"]}}

@app.job("broken", schedule="0 0 * * *", payload=PAYLOAD)
def broken(run):
    run.execute(CREDIT, run.payload)
    raise ValueError("no\\nluck")

@app.job("ending", payload=PAYLOAD)
def ending(run):
    run.execute(CREDIT, run.payload)
    run.connection.commit()

@app.job("leaving", payload=PAYLOAD)
def leaving(run):
    run.execute(CREDIT, run.payload)
    raise SystemExit(5)

@app.job("unstorable", payload=PAYLOAD)
def unstorable(run):
    run.execute(CREDIT, run.payload)
    return {{1, 2}}

@app.job("slow", schedule="0 0 * * *", payload=PAYLOAD)
def slow(run):
    run.execute(CREDIT, run.payload)
    print("inside", flush=True)
    if Path("go-on").exists():
        return
    time.sleep(60)

@app.job("hourly", schedule="0 * * * *", payload=PAYLOAD)
def hourly(run):
    run.execute(CREDIT, run.payload)
"""

AWAITED_JOBS = """
import asyncio, time
from datetime import UTC, datetime, timedelta
from pathlib import Path
import duly, duly.aio

app = duly.aio.App({async_url!r})
PAYLOAD = {{"units": 10}}
CREDIT = "UPDATE balance SET units = units + :units WHERE id = 1"
SECOND = duly.Every(timedelta(seconds=1), anchor=datetime(2026, 1, 1, tzinfo=UTC))

@app.job("daily-credit", schedule="0 0 * * *", payload=PAYLOAD)
async def daily_credit(run):
    await run.execute(CREDIT, run.payload)
    return {{"credited": run.payload["units"]}}

@app.job("broken", schedule="0 0 * * *", payload=PAYLOAD)
async def broken(run):
    await run.execute(CREDIT, run.payload)
    raise ValueError("no\\nluck")

@app.job("leaving", payload=PAYLOAD)
async def leaving(run):
    await run.execute(CREDIT, run.payload)
    raise SystemExit(5)

@app.job("slow", schedule="0 0 * * *", payload=PAYLOAD)
async def slow(run):
    await run.execute(CREDIT, run.payload)
    print("inside", flush=True)
    if not Path("go-on").exists():
        await asyncio.sleep(60)

@app.job("blocking", payload=PAYLOAD)
async def blocking(run):
    await run.execute(CREDIT, run.payload)
    print("inside", flush=True)
    time.sleep(60)

@app.job("secondly", schedule=SECOND, starts=datetime.now(UTC) - timedelta(seconds=3))
async def secondly(run):
    await run.execute(CREDIT, {{"units": 1}})
    if Path("wait").exists():
        Path("inside").touch()
        await asyncio.sleep(600)
"""


@dataclass(frozen=True)
class Ended:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object that it printed."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The one JSON object on stderr."""
        return json.loads(self.err)


@dataclass(frozen=True)
class Bank:
    """A business database with one balance, and a module of jobs on it.

    Attributes:
        app: What `--app` takes.
        folder: The working directory of its commands.
    """

    database: Database
    app: str
    folder: Path

    @property
    def url(self) -> str:
        return self.database.url

    def units(self) -> int:
        """The balance, read on a connection of its own."""
        connection = self.database.connect()
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT units FROM balance WHERE id = 1")
            return int(cursor.fetchone()[0])
        finally:
            connection.close()

    def ask(self, query: str) -> list[Any]:
        """The rows of a query, read on a connection of its own."""
        connection = self.database.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(query)
            return list(cursor.fetchall())
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        connection = self.database.connect()
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            connection.commit()
        finally:
            connection.close()


class Duly(Protocol):
    def __call__(self, *arguments: str) -> Ended: ...


def _bank(database: Database, folder: Path, jobs: str = JOBS) -> Bank:
    # A name of its own, because modules stay imported for as long as the process lives.
    module = f"jobs_{uuid.uuid4().hex[:8]}"
    text = jobs.format(url=database.url, async_url=async_url(database.url))
    (folder / f"{module}.py").write_text(text)
    bank = Bank(database, f"{module}:app", folder)
    bank.execute(
        "CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)",
        "INSERT INTO balance (id, units) VALUES (1, 0)",
    )
    return bank


@pytest.fixture
def bank(database: Database, tmp_path: Path, duly: Duly) -> Bank:
    """Made ready with `duly init`."""
    bank = _bank(database, tmp_path)
    assert duly("--app", bank.app, "init").code == 0
    return bank


@pytest.fixture
def awaited_bank(database: Database, tmp_path: Path, duly: Duly) -> Bank:
    """The same with a `duly.aio.App`."""
    bank = _bank(database, tmp_path, AWAITED_JOBS)
    assert duly("--app", bank.app, "init").code == 0
    return bank


@pytest.fixture
def file_bank(tmp_path: Path) -> Bank:
    """In a SQLite file, where duly's tables come by themselves."""
    return _bank(Database.in_file(tmp_path / "test.db"), tmp_path)


@pytest.fixture
def duly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Duly:
    """A command line in this process, its working directory `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("DULY_APP", "DULY_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        for name in [name for name in sys.modules if name.startswith("jobs_")]:
            del sys.modules[name]  # each command line begins as a process of its own would
        code = main(arguments)
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def duly_process(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `python -m duly …` in `tmp_path`; what still runs is killed at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str, **more: Any) -> subprocess.Popen[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DULY_")}
        environment |= {"PYTHONPATH": str(ROOT / "src"), **more.pop("env", {})}
        with heard(signal.SIGHUP):
            process = subprocess.Popen(
                [sys.executable, "-m", "duly", *arguments],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=more.pop("stdout", subprocess.PIPE),
                stderr=subprocess.PIPE,
                text=True,
                **more,
            )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
