"""Real processes, real signals: one line, the right code, and the database agrees."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly

    Start = Callable[..., subprocess.Popen[str]]

DAY = "2026-09-13T00:00:00Z"
KEY = f"slow:{DAY}"
STOPS = [
    (signal.SIGTERM, 143, "SIGTERM"),
    (signal.SIGINT, 130, "Ctrl-C"),
    (signal.SIGHUP, 129, "SIGHUP"),
]


def inside(process: subprocess.Popen[str]) -> None:
    """Wait until the handler has made its change."""
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"


def within(seconds: float, true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("number", "code", "name"), STOPS)
def test_signal_in_the_handler_rolls_back(
    bank: Bank, duly: Duly, duly_process: Start, number: int, code: int, name: str
) -> None:
    """No effect, no completion, a record of it, and the retry applies."""
    process = duly_process("--app", bank.app, "run", "slow", "--at", DAY)
    inside(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    assert process.returncode == code
    assert err == f"duly: stopped by {name}: rolled back; {KEY} is not done, run it again\n"
    assert bank.units() == 0
    (attempt,) = duly("--database", bank.url, "history", "slow", "--json").json["attempts"]
    assert (attempt["outcome"], attempt["error_origin"]) == ("failed", "signal")
    (bank.folder / "go-on").touch()
    assert duly("--app", bank.app, "run", "slow", "--at", DAY).code == 0
    assert bank.units() == 10


@pytest.mark.parametrize(("number", "code", "name"), STOPS)
def test_signal_while_the_key_is_waited_for_does_nothing(
    file_bank: Bank, duly: Duly, duly_process: Start, number: int, code: int, name: str
) -> None:
    """A rival holds the database; the stop does not wait for it."""
    assert duly("--app", file_bank.app, "init").code == 0
    rival = sqlite3.connect(file_bank.database.path, isolation_level=None)
    rival.execute("BEGIN IMMEDIATE")
    (file_bank.folder / "jobs_wait.py").write_text(
        f"""
from {file_bank.app[:-4]} import app
from duly._core import ops

def probe(when, op, shell):
    if when == "before" and isinstance(op, ops.Begin):
        print("inside", flush=True)

app._probe = probe
"""
    )
    process = duly_process("--app", "jobs_wait:app", "run", "slow", "--at", DAY, "--wait", "60")
    inside(process)
    process.send_signal(number)
    began = time.monotonic()
    _, err = process.communicate(timeout=30)
    rival.execute("ROLLBACK")
    rival.close()

    assert time.monotonic() - began < 5
    assert process.returncode == code
    assert err == f"duly: stopped by {name}: before the handler began, so nothing was done\n"
    assert file_bank.units() == 0


def test_signal_while_the_commit_is_on_its_way_is_answered_after_it(
    file_bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """Settled first: the effect is there, and the line says so."""
    # The process stops itself at the very commit, where the signal is held back.
    (file_bank.folder / "jobs_commit.py").write_text(
        f"""
import os, signal
from {file_bank.app[:-4]} import app
from duly._core import ops

def probe(when, op, shell):
    if when == "before" and isinstance(op, ops.Commit):
        os.kill(os.getpid(), signal.SIGTERM)

app._probe = probe
"""
    )
    process = duly_process("--app", "jobs_commit:app", "run", "daily-credit", "--at", DAY)
    _, err = process.communicate(timeout=30)

    key = f"daily-credit:{DAY}"
    assert process.returncode == 143
    assert err == (
        f"duly: stopped by SIGTERM: {key} was applied first, its commit was already on its way\n"
    )
    assert file_bank.units() == 10
    assert duly("--app", file_bank.app, "check", "daily-credit", "--at", DAY).code == 0


def test_signal_during_the_import_of_the_app_is_one_line(
    file_bank: Bank, duly_process: Start
) -> None:
    (file_bank.folder / "jobs_import.py").write_text(
        "import time\nprint('inside', flush=True)\ntime.sleep(60)\n"
    )
    process = duly_process("--app", "jobs_import:app", "run", "slow")
    inside(process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (143, "", "duly: stopped by SIGTERM\n")


def test_stop_with_json_is_one_object(file_bank: Bank, duly_process: Start) -> None:
    import json

    process = duly_process("--app", file_bank.app, "run", "slow", "--at", DAY, "--json")
    inside(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    said = json.loads(err)
    assert (said["error"], said["fate"], said["key"]) == ("stopped", "rolled_back", KEY)


def test_ignored_sigterm_stays_ignored(file_bank: Bank, duly_process: Start) -> None:
    """Whoever started us with SIGTERM ignored had a reason."""
    process = duly_process(
        "--app",
        file_bank.app,
        *("run", "slow", "--at", DAY),
        preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    )
    inside(process)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.communicate(timeout=1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130


def test_killed_process_leaves_nothing_and_the_retry_applies(
    bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """Kill -9 inside the handler, end to end, as a person would do it."""
    process = duly_process("--app", bank.app, "run", "slow", "--at", DAY)
    inside(process)
    line = ["--database", bank.url, "history", "slow"]

    def outcome() -> str:
        rows = [row.split("\t") for row in duly(*line).out.splitlines()[2:]]
        return " ".join(row[1] for row in rows)

    within(20, lambda: duly(*line).code == 0 and outcome() == "running")
    process.kill()
    process.communicate()
    within(20, lambda: outcome() == "abandoned")
    assert bank.units() == 0
    assert duly("--database", bank.url, "check", "slow", "--at", DAY).code == 4

    (bank.folder / "go-on").touch()
    retry = duly_process("--app", bank.app, "run", "slow", "--at", DAY)
    out, _ = retry.communicate(timeout=30)
    assert retry.returncode == 0
    assert out.splitlines()[1].startswith(f"applied {KEY}  attempt ")
    assert bank.units() == 10
    assert outcome() == "applied abandoned"
    check = duly_process("--app", bank.app, "check", "slow", "--at", DAY)
    check.communicate(timeout=30)
    assert check.returncode == 0
