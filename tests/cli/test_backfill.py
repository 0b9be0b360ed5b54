"""`duly backfill`: a span is run, told of line by line, stopped and repeated."""

from __future__ import annotations

import os
import pty
import signal
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly

SPAN = ["--since", "2026-09-11", "--until", "2026-09-14"]
PATIENT = """
@app.job("patient", schedule="0 0 * * *", payload=PAYLOAD)
def patient(run):
    print("inside", flush=True)
    while not Path("go-on").exists():
        time.sleep(0.01)
    run.execute(CREDIT, run.payload)
"""
DAYS = [f"2026-09-{day}T00:00:00Z" for day in (11, 12, 13)]


def test_span_is_run_line_by_line_and_repeating_it_does_nothing(bank: Bank, duly: Duly) -> None:
    """In a pipe each occurrence is a line; the last one sums up."""
    assert duly("--app", bank.app, "run", "daily-credit", "--at", "2026-09-12").code == 0
    line = ["--app", bank.app, "backfill", "daily-credit", *SPAN]

    dry = duly(*line, "--dry-run")
    assert dry.code == 0
    assert dry.out == (
        f"daily-credit: would run 2, from daily-credit:{DAYS[0]} to daily-credit:{DAYS[2]};"
        " nothing was done\n"
    )
    done = duly(*line, "--reason", "the source was late", "--actor", "ann")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            f"applied daily-credit:{DAYS[0]}",
            f"applied daily-credit:{DAYS[2]}",
            "daily-credit: 2 of 2 done (applied 2)",
        ],
    )
    assert bank.units() == 30
    again = duly(*line)
    assert (again.code, again.out) == (
        0,
        "daily-credit: nothing to run, each one that is due is settled\n",
    )
    assert duly(*line, "--json").json["total"] == 0


@pytest.mark.parametrize("workers", ["1", "3"])
def test_failures_are_told_and_exit_1(bank: Bank, duly: Duly, workers: str) -> None:
    """Each is recorded, and the rest goes on."""
    line = ["--app", bank.app, "backfill", "broken", *SPAN, "--workers", workers]

    ended = duly(*line)

    assert ended.code == 1
    lines = ended.out.splitlines()
    assert sorted(lines[:3]) == [f"failed broken:{at}  ValueError: no" for at in DAYS]
    assert lines[3:] == ["broken: 3 of 3 done (failed 3)"]
    assert bank.units() == 0


def test_first_failure_may_stop_it(bank: Bank, duly: Duly) -> None:
    line = ["--app", bank.app, "backfill", "broken", *SPAN, "--stop-on-failure", "--json"]

    ended = duly(*line)

    assert ended.code == 1
    told = ended.json
    assert (told["total"], told["done"], told["failed"], told["stopped"]) == (3, 1, 1, True)
    assert told["failures"][0]["key"] == f"broken:{DAYS[0]}"


@pytest.mark.parametrize(
    "more",
    [
        ["--since", "2026-09-12", "--until", "2026-09-11"],
        ["--since", "9000-09-12", "--until", "9000-09-13"],
        ["--since", "2026-09-31", "--until", "2026-10-02"],
        [*SPAN, "--workers", "0"],
        [*SPAN, "--workers", "13"],
        [*SPAN, "--reason", " "],
        ["--since", "2026-09-12"],
    ],
    ids=" ".join,
)
def test_order_that_makes_no_sense_is_refused_with_2(
    file_bank: Bank, duly: Duly, more: list[str]
) -> None:
    ended = duly("--app", file_bank.app, "backfill", "daily-credit", *more)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert file_bank.units() == 0


def test_backfill_needs_the_code_and_a_schedule(file_bank: Bank, duly: Duly) -> None:
    alone = duly("--database", file_bank.url, "backfill", "daily-credit", *SPAN)
    assert (alone.code, "--app" in alone.err) == (2, True)
    without = duly("--app", file_bank.app, "backfill", "ending", *SPAN)
    assert (without.code, "has no schedule" in without.err) == (2, True)
    unknown = duly("--app", file_bank.app, "backfill", "daily-crdit", *SPAN)
    assert (unknown.code, "daily-credit" in unknown.err) == (2, True)


def begin_slow(bank: Bank, duly_process: Callable[..., Any], *more: str) -> Any:
    """A process whose handler is at work on the first of three."""
    process = duly_process("--app", bank.app, "backfill", "slow", *SPAN, *more)
    assert process.stdout.readline() == "inside\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_rolls_back_what_is_under_way_and_the_rest_can_be_run(
    bank: Bank, duly: Duly, duly_process: Callable[..., Any], number: signal.Signals
) -> None:
    """It says how far it came; nothing is half done."""
    process = begin_slow(bank, duly_process)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)

    assert process.returncode == 128 + number
    assert "slow: 0 of 3 done" in err
    assert err.count("\n") == 1
    assert bank.units() == 0
    (bank.folder / "go-on").touch()
    assert duly("--app", bank.app, "backfill", "slow", *SPAN).code == 0
    assert bank.units() == 30


def test_signal_lets_workers_end_what_is_under_way(
    bank: Bank, duly_process: Callable[..., Any]
) -> None:
    """With threads, what was begun ends, is counted, and nothing more is begun."""
    if bank.database.name == "sqlite":
        pytest.skip("its one writer keeps the second out of its handler")
    with (bank.folder / f"{bank.app[:-4]}.py").open("a") as module:
        module.write(PATIENT)
    process = duly_process("--app", bank.app, "backfill", "patient", *SPAN, "--workers", "2")
    assert [process.stdout.readline() for _ in range(2)] == ["inside\n", "inside\n"]
    process.send_signal(signal.SIGTERM)
    (bank.folder / "go-on").touch()
    out, err = process.communicate(timeout=60)

    assert process.returncode == 143, err
    assert "inside" not in out
    assert "patient: 2 of 3 done (applied 2)" in err
    assert bank.units() == 20


def test_terminal_sees_a_bar_and_the_failures(
    file_bank: Bank, duly_process: Callable[..., Any]
) -> None:
    """What succeeds is counted, what fails is a line."""
    ours, theirs = pty.openpty()
    process = duly_process(
        "--app", file_bank.app, "backfill", "broken", *SPAN, stdout=theirs, env={"TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait(60) == 1
    text = shown.decode()
    assert "3/3" in text
    assert text.count("ValueError: no") == 3
    assert "broken: 3 of 3 done (failed 3)" in text
