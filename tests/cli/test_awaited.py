"""Every command of a person's or a scheduler's takes a `duly.aio.App` as it takes a `duly.App`."""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.test_signals import STOPS, inside

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly

    Start = Callable[..., subprocess.Popen[str]]

DAY = "2026-09-13T00:00:00Z"
KEY = f"daily-credit:{DAY}"


def test_run_applies_once_and_says_so(awaited_bank: Bank, duly: Duly) -> None:
    """The handler is awaited, and its value printed."""
    bank = awaited_bank
    first = duly("--app", bank.app, "run", "daily-credit", "--at", DAY, "--json")
    again = duly("--app", bank.app, "run", "daily-credit", "--at", DAY, "--json")

    assert (first.code, first.json["outcome"], first.json["value"]) == (
        0,
        "applied",
        {"credited": 10},
    )
    assert (again.code, again.json["outcome"]) == (0, "duplicate")
    assert bank.units() == 10


def test_error_of_the_handler_is_one_line_and_exits_with_1(awaited_bank: Bank, duly: Duly) -> None:
    """Whoever raised it: the attempt is recorded, nothing is kept."""
    ended = duly("--app", awaited_bank.app, "run", "broken", "--at", DAY)
    left = duly("--app", awaited_bank.app, "run", "leaving", "--at", DAY)

    assert (ended.code, left.code) == (1, 1)
    assert "ValueError: no luck" in ended.err
    assert "SystemExit: 5" in left.err
    assert awaited_bank.units() == 0


def test_every_other_command_takes_the_app(awaited_bank: Bank, duly: Duly) -> None:
    """What reads, and what a person decides."""
    bank = awaited_bank
    why = ("--reason", "as asked", "--actor", "ann")
    span = ("--since", "2026-09-13", "--until", "2026-09-15")
    commands: list[tuple[Any, ...]] = [
        (0, "plan"),
        (0, "missing", "daily-credit"),
        (4, "check", "daily-credit", "--at", DAY),
        (0, "run", "daily-credit", "--at", DAY),
        (0, "check", "daily-credit", "--at", DAY),
        (0, "history", "daily-credit"),
        (0, "explain", KEY),
        (0, "status"),
        (0, "correct", KEY, *why),
        (0, "backfill", "daily-credit", *span, "--workers", "2"),
        (0, "waive", "daily-credit:2026-09-20T00:00:00Z", *why),
        (0, "pause", "daily-credit", *why),
        (0, "resume", "daily-credit", *why),
        (0, "schedule", "daily-credit"),
        (0, "prune", "--older-than", "3650d"),
        (0, "retire", "slow", *why),
    ]
    for code, *arguments in commands:
        ended = duly("--app", bank.app, *arguments)
        assert (ended.code, ended.err) == (code, ""), arguments
    assert bank.units() == 30  # the first, its correction, and one of the backfill


def test_tick_runs_what_is_due(awaited_bank: Bank, duly: Duly) -> None:
    """Each second since the start, once."""
    ended = duly("--app", awaited_bank.app, "tick", "--json")

    assert ended.code == 0
    ran = [ran for job in ended.json["jobs"] for ran in job["ran"] if "secondly" in ran["key"]]
    assert [each["outcome"] for each in ran] == ["applied"] * len(ran)
    assert len(ran) >= 3
    assert awaited_bank.units() == len(ran)


@pytest.mark.parametrize(("number", "code", "name"), STOPS)
def test_signal_in_the_handler_rolls_back(
    awaited_bank: Bank, duly: Duly, duly_process: Start, number: int, code: int, name: str
) -> None:
    """No effect, no completion, a record of it, and the retry applies."""
    bank, key = awaited_bank, f"slow:{DAY}"
    process = duly_process("--app", bank.app, "run", "slow", "--at", DAY)
    inside(process)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    assert err == f"duly: stopped by {name}: rolled back; {key} is not done, run it again\n"
    assert process.returncode == code
    assert bank.units() == 0
    (attempt,) = duly("--database", bank.url, "history", "slow", "--json").json["attempts"]
    assert (attempt["outcome"], attempt["error_origin"]) == ("failed", "signal")
    (bank.folder / "go-on").touch()
    assert duly("--app", bank.app, "run", "slow", "--at", DAY).code == 0
    assert bank.units() == 10


def test_signal_reaches_a_handler_that_blocks_the_loop(
    awaited_bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """The loop cannot cancel it, so the stop is raised where it sleeps."""
    bank = awaited_bank
    process = duly_process("--app", bank.app, "run", "blocking", "--at", DAY)
    inside(process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 143
    assert f"stopped by SIGTERM: rolled back; blocking:{DAY} is not done" in err
    assert bank.units() == 0
    (attempt,) = duly("--database", bank.url, "history", "blocking", "--json").json["attempts"]
    assert (attempt["outcome"], attempt["error_origin"]) == ("failed", "signal")


def test_worker_runs_what_is_due_and_stops_cleanly(awaited_bank: Bank, duly_process: Start) -> None:
    """It tells of each occurrence, and exits with 0."""
    process = duly_process("--app", awaited_bank.app, "worker", "--json")
    assert process.stdout is not None
    told = [json.loads(process.stdout.readline()) for _ in range(4)]
    process.send_signal(signal.SIGTERM)
    rest, err = process.communicate(timeout=30)

    told += [json.loads(line) for line in rest.splitlines()]
    assert (process.returncode, err) == (0, "")
    assert {each["outcome"] for each in told} == {"applied"}
    assert awaited_bank.units() == sum("secondly" in each["key"] for each in told)


def test_worker_whose_grace_is_over_rolls_back_and_exits_with_143(
    awaited_bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """What ran is recorded, and named."""
    bank = awaited_bank
    (bank.folder / "wait").touch()
    process = duly_process("--app", bank.app, "worker", "--grace", "0.1")
    until = time.monotonic() + 30
    while not (bank.folder / "inside").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)

    assert process.returncode == 143
    assert "rolled back, and tried again by the next worker: secondly:" in err
    assert bank.units() == 0
    (attempt,) = duly("--database", bank.url, "history", "secondly", "--json").json["attempts"]
    assert (attempt["outcome"], attempt["error_type"]) == ("failed", "WorkerStopped")


@pytest.mark.parametrize("command", ["sql", "exec"])
def test_work_that_is_not_awaited_is_refused_by_name(
    awaited_bank: Bank, duly: Duly, command: str
) -> None:
    """One line says what to name instead."""
    (awaited_bank.folder / "credit.sql").write_text("UPDATE balance SET units = 1;")
    given = {
        "sql": ("sql", "daily-credit", "--at", DAY, "credit.sql"),
        "exec": ("exec", "daily-credit", "--at", DAY, "--after-crash", "retry", "--", "true"),
    }[command]
    ended = duly("--app", awaited_bank.app, *given)

    assert ended.code == 2
    assert "is a duly.aio.App" in ended.err
    assert "--database" in ended.err
    assert ended.err.count("\n") == 1
    assert awaited_bank.units() == 0


def test_jitter_of_a_start_is_waited_for(awaited_bank: Bank, duly: Duly) -> None:
    """The database's clock is asked in the loop too."""
    (awaited_bank.folder / "jobs_jitter.py").write_text(
        f"""
from datetime import timedelta
from {awaited_bank.app[:-4]} import app

@app.job("put-off", schedule="* * * * *", jitter=timedelta(microseconds=1))
async def put_off(run):
    return {datetime.now(UTC).year}
"""
    )
    ended = duly("--app", "jobs_jitter:app", "run", "put-off")
    assert (ended.code, ended.out.startswith("applied put-off:")) == (0, True)
