"""`duly exec` as a real process: signals, two starts at once, and what the command prints."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Bank, Duly

    Start = Callable[..., subprocess.Popen[str]]

DAY = "2026-09-13T00:00:00Z"
KEY = f"credit:{DAY}"
MIB = 1 << 20
# The peak of its memory, without its children's, on the last line of stderr.
MEASURED = """\
import resource, sys
from duly._cli.main import main
code = main(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def line(bank: Bank, after_crash: str, *command: str) -> list[str]:
    given = ["--schedule", "@daily", "--at", "2026-09-13", "--after-crash", after_crash]
    return ["exec", "credit", "--database", bank.url, *given, "--", *command]


@pytest.mark.parametrize("trap", ["trap 'exit 9' TERM HUP", ":"])
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
@pytest.mark.parametrize(
    ("after_crash", "fate", "check", "again"),
    [("retry", "is not done, run it again", 4, 0), ("hold", "is held", 3, 3)],
)
def test_signal_is_passed_on_and_the_fate_of_the_key_is_told(
    file_bank: Bank,
    duly: Duly,
    duly_process: Start,
    trap: str,
    number: signal.Signals,
    code: int,
    after_crash: str,
    fate: str,
    check: int,
    again: int,
) -> None:
    """Whether the command dies of it or ends by itself; with hold a person then looks."""
    script = f"{trap}; echo inside; while :; do sleep 0.05; done"
    process = duly_process(*line(file_bank, after_crash, "sh", "-c", script))
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    process.send_signal(number)
    _, err = process.communicate(timeout=30)

    said = err.splitlines()[-1]  # a shell may say that it was terminated
    assert process.returncode == code, err
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert said.startswith(f"duly: stopped by {name}: {KEY} {fate}")
    # Each command that it names asks for a reason.
    named = said.count("duly waive '") + said.count("--correct '")
    assert named == said.count(f"'{KEY}' --reason …") == (2 if after_crash == "hold" else 0)
    assert duly("--database", file_bank.url, "check", "credit", "--at", DAY).code == check
    assert duly(*line(file_bank, after_crash, "true")).code == again


@pytest.mark.parametrize("after_crash", ["retry", "hold"])
def test_two_starts_at_once_run_the_command_once(
    bank: Bank, duly_process: Start, after_crash: str
) -> None:
    """The second waits for the first, or is told at once that the key is held."""
    script = "echo started >> started; sleep 1"
    command = line(bank, after_crash, "sh", "-c", script)
    both = [duly_process(*command) for _ in range(2)]
    for process in both:
        process.communicate(timeout=60)

    assert (bank.folder / "started").read_text() == "started\n"
    assert sorted(process.returncode for process in both) in ([0, 0], [0, 3])
    last = duly_process(*command)
    last.communicate(timeout=60)
    assert last.returncode == 0
    assert (bank.folder / "started").read_text() == "started\n"


def test_much_output_is_passed_on_unchanged_and_not_kept(
    file_bank: Bank, duly_process: Start, tmp_path: Path
) -> None:
    """50 MiB of all bytes: duly grows by no more than a part of it."""
    size, block = 50, bytes(range(256)) * (MIB // 256)
    writes = (
        f"import sys\nfor _ in range({size}): sys.stdout.buffer.write(bytes(range(256)) * 4096)"
    )
    peaks = []
    for number, command in enumerate(("pass", writes)):
        given = line(file_bank, "retry", sys.executable, "-c", command)
        given[given.index("--at") + 1] = f"2026-09-1{number}"
        with (tmp_path / f"out-{number}").open("wb") as out:
            ended = subprocess.run(
                [sys.executable, "-c", MEASURED, *given],
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=60,
                check=True,
                cwd=tmp_path,
            )
        peaks.append(int(ended.stderr.splitlines()[-1]) >> 10)

    with (tmp_path / "out-1").open("rb") as file:
        passed = file.read(size * MIB)
        said = file.read()
    assert hashlib.sha256(passed).digest() == hashlib.sha256(block * size).digest()
    assert said.startswith(b"applied credit:2026-09-11"), said
    assert peaks[1] - peaks[0] < 16, peaks


def test_child_left_in_the_background_is_not_waited_for(
    file_bank: Bank, duly_process: Start
) -> None:
    """It holds both pipes and still runs after duly has ended."""
    process = duly_process(*line(file_bank, "retry", "sh", "-c", "sleep 60 & echo $! > child"))
    _, err = process.communicate(timeout=30)

    child = int((file_bank.folder / "child").read_text())
    assert process.returncode == 0, err
    os.kill(child, signal.SIGKILL)  # fails if it had ended


def test_file_that_is_not_executable_starts_nothing(file_bank: Bank, duly: Duly) -> None:
    (file_bank.folder / "report.sh").write_text("#!/bin/sh\ntouch ran\n")
    ended = duly(*line(file_bank, "retry", "./report.sh"))

    assert ended.code == 2
    assert "'./report.sh' is not found, or not executable" in ended.err
    assert ended.err.count("\n") == 1
    assert not (file_bank.folder / "ran").exists()


def test_held_key_whose_duly_died_is_shown_by_itself(
    bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """No attempt has a row before its end, and what was started since is no duplicate."""
    process = duly_process(*line(bank, "hold", "sh", "-c", "echo $$ > pid; echo inside; sleep 60"))
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    during = duly("--database", bank.url, "explain", KEY, "--json").json
    process.kill()
    os.killpg(int((bank.folder / "pid").read_text()), signal.SIGKILL)
    process.communicate(timeout=30)
    again = duly(*line(bank, "hold", "true"))

    told = duly("--database", bank.url, "history", "credit", "--json").json
    shown = duly("--database", bank.url, "history", "credit").out
    assert during["attempts"] == []
    assert again.code == 3
    assert [each["key"] for each in told["held"]] == [KEY]
    assert {each["outcome"] for each in told["attempts"]} <= {"abandoned"}
    assert "held" in shown  # by itself, or as what a sweep has found of the dead process
    assert "duplicate" not in shown


def test_lock_files_of_the_dead_go_and_that_of_a_running_command_stays(
    file_bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """There would be one for each key, for ever."""
    folder = file_bank.folder / "test.db-duly"

    def start(day: int) -> subprocess.Popen[str]:
        script = "echo $$ > pid; echo inside; while [ ! -e go-on ]; do sleep 0.05; done"
        process = duly_process(*of_day(file_bank, day, "sh", "-c", script))
        assert process.stdout is not None
        assert process.stdout.readline() == "inside\n"
        return process

    dead = start(10)
    dead.kill()
    os.killpg(int((file_bank.folder / "pid").read_text()), signal.SIGKILL)
    dead.communicate(timeout=30)
    left = set(folder.glob("exec-*"))
    running = start(11)
    assert duly(*of_day(file_bank, 12, "true")).code == 0
    during = set(folder.glob("exec-*"))
    (file_bank.folder / "go-on").touch()
    running.communicate(timeout=30)

    assert (len(left), len(during), left & during) == (1, 1, set())
    assert running.returncode == 0
    assert list(folder.glob("exec-*")) == []


def test_start_that_waits_in_vain_for_anothers_command_is_busy(
    file_bank: Bank, duly: Duly, duly_process: Start
) -> None:
    """It says who runs it, and starts nothing."""
    script = "echo inside; while [ ! -e go-on ]; do sleep 0.05; done"
    process = duly_process(*line(file_bank, "retry", "sh", "-c", script))
    assert process.stdout is not None
    assert process.stdout.readline() == "inside\n"
    busy = duly(
        *line(file_bank, "retry", "touch", "ran")[:-3], "--wait", "0.1", "--", "touch", "ran"
    )
    (file_bank.folder / "go-on").touch()
    process.communicate(timeout=30)

    assert busy.code == 75, busy.err
    assert f"{KEY} stayed busy for all of the wait" in busy.err
    assert busy.err.count("\n") == 1
    assert not (file_bank.folder / "ran").exists()
    assert process.returncode == 0


def of_day(bank: Bank, day: int, *command: str) -> list[str]:
    given = line(bank, "retry", *command)
    given[given.index("--at") + 1] = f"2026-09-{day}"
    return given
