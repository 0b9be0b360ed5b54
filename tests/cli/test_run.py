"""`duly run`: one start, one line, one code; whose error it was is never confused."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly

DAY = "2026-09-13T00:00:00Z"


def test_run_of_a_new_key_applies_once(bank: Bank, duly: Duly) -> None:
    """Twice the same line: one effect, exit 0 both times."""
    first = duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    second = duly("--app", bank.app, "run", "daily-credit", "--at", "2026-09-13")

    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert first.out.startswith(f"applied daily-credit:{DAY}  attempt ")
    assert first.out.endswith('ms  {"credited": 10}\n')
    assert second.out.startswith(f"duplicate daily-credit:{DAY}  applied before, by attempt ")
    assert bank.units() == 10


def test_run_with_json_prints_one_object(bank: Bank, duly: Duly) -> None:
    """The flag counts before the command's name and after it."""
    before = duly("--json", "--app", bank.app, "run", "daily-credit", "--at", DAY)
    after = duly("run", "daily-credit", "--at", DAY, "--app", bank.app, "--json")

    assert set(before.json) == {
        "outcome", "key", "attempt_id", "value", "duration_s", "source", "late_s",
    }  # fmt: skip
    assert before.json["outcome"] == "applied"
    assert after.json["outcome"] == "duplicate"
    assert after.json["attempt_id"] == before.json["attempt_id"]
    assert after.json["value"] == {"credited": 10}


def test_run_without_at_starts_the_newest_due(bank: Bank, duly: Duly) -> None:
    ended = duly("--app", bank.app, "run", "daily-credit", "--json")
    assert ended.json["outcome"] == "applied"
    assert ended.json["key"].endswith("T00:00:00Z")


@pytest.mark.parametrize(
    ("job", "word"),
    [
        ("broken", "ValueError: no luck"),
        ("ending", "UsageError: run.connection refuses commit"),
        ("leaving", "SystemExit: 5"),
        ("unstorable", "ResultInvalid"),
    ],
)
def test_failed_handler_exits_1_whatever_it_raised(
    bank: Bank, duly: Duly, job: str, word: str
) -> None:
    """Its own exception, one of duly's, an exit, or a result that is no JSON."""
    ended = duly("--app", bank.app, "run", job, "--at", DAY)
    assert ended.code == 1
    assert ended.err.startswith("duly: error: the handler failed, and its work was rolled back: ")
    assert word in ended.err
    assert ended.err.count("\n") == 1
    assert bank.units() == 0
    # The key stays free, and the failure is on record.
    assert "failed" in duly("--app", bank.app, "history", job).out


def test_failure_with_json_is_one_object_on_stderr(bank: Bank, duly: Duly) -> None:
    ended = duly("--app", bank.app, "run", "broken", "--at", DAY, "--json")
    assert ended.out == ""
    assert ended.error["error"] == "handler_failed"
    assert ended.error["type"] == "ValueError"
    assert ended.error["key"] == f"broken:{DAY}"
    assert "traceback" not in ended.error


def test_traceback_is_shown_with_debug_only(file_bank: Bank, duly: Duly) -> None:
    line = ["--app", file_bank.app, "run", "broken", "--at", DAY]
    assert "Traceback" not in duly(*line).err
    debugged = duly(*line, "--debug").err
    assert "Traceback" in debugged
    assert debugged.splitlines()[-1].startswith("duly: error: ")


def test_other_payload_is_refused_with_3(bank: Bank, duly: Duly) -> None:
    line = ["--app", bank.app, "run", "daily-credit", "--at", DAY]
    assert duly(*line, "--payload", '{"units": 1}').code == 0
    ended = duly(*line, "--payload", '{"units": 2}', "--json")
    assert ended.code == 3
    assert ended.error["error"] == "conflict"
    assert ended.error["stored_fingerprint"] != ended.error["given_fingerprint"]
    assert bank.units() == 1


def test_payload_comes_from_a_file(file_bank: Bank, duly: Duly) -> None:
    (file_bank.folder / "payload.json").write_text('{"units": 7}')
    line = ["--app", file_bank.app, "run", "daily-credit", "--at", DAY]
    assert duly(*line, "--payload-file", "payload.json").code == 0
    assert file_bank.units() == 7


def test_held_key_exits_75_within_the_wait(file_bank: Bank, duly: Duly) -> None:
    """A rival holds the database: try again, says the code."""
    assert duly("--app", file_bank.app, "init").code == 0
    with sqlite3.connect(file_bank.database.path, isolation_level=None) as rival:
        rival.execute("BEGIN IMMEDIATE")
        ended = duly("--app", file_bank.app, "run", "daily-credit", "--wait", "0.2")
        rival.execute("ROLLBACK")
    rival.close()
    assert ended.code == 75
    assert "stayed busy" in ended.err


def test_partition_and_starter_reach_the_record(bank: Bank, duly: Duly) -> None:
    line = ["--app", bank.app, "run", "daily-credit", "--at", DAY, "--partition", "a/b ü"]
    key = duly(*line, "--started-by", "cron on db1", "--json").json["key"]
    assert key == f"daily-credit:{DAY}:a%2Fb%20%C3%BC"
    (attempt,) = duly("--database", bank.url, "explain", key, "--json").json["attempts"]
    assert attempt["partition"] == "a/b ü"
    assert attempt["started_by"] == "cron on db1"


def test_starter_is_the_command_line_by_default(file_bank: Bank, duly: Duly) -> None:
    duly("--app", file_bank.app, "run", "daily-credit")
    (attempt,) = duly("--app", file_bank.app, "history", "daily-credit", "--json").json["attempts"]
    assert attempt["started_by"].startswith("cli:")


def test_early_and_off_schedule_are_asked_for(file_bank: Bank, duly: Duly) -> None:
    line = ["--app", file_bank.app, "run", "daily-credit", "--at"]
    future = [*line, "9000-01-01T00:00:00Z"]
    odd = [*line, "2026-09-13T00:00:01Z"]
    assert (duly(*future).code, duly(*odd).code) == (2, 2)
    assert "--early" in duly(*future).err
    assert (duly(*future, "--early").code, duly(*odd, "--off-schedule").code) == (0, 0)


def test_correction_of_a_handler_that_fails_exits_1(file_bank: Bank, duly: Duly) -> None:
    """`correct` runs the handler, so its failure is a handler's too."""
    text = (file_bank.folder / f"{file_bank.app[:-4]}.py").read_text()
    assert duly("--app", file_bank.app, "run", "daily-credit", "--at", DAY).code == 0
    (file_bank.folder / "later_jobs.py").write_text(
        text.replace('return {"credited"', 'raise ValueError("later"); return {"credited"')
    )
    key = f"daily-credit:{DAY}"
    order = ["correct", key, "--reason", "it was too little"]
    assert duly("--app", "later_jobs:app", *order).code == 1
    done = duly("--app", file_bank.app, *order, "--json")
    assert done.json["key"] == f"{key}#2"
    audit = duly("--app", file_bank.app, "explain", f"{key}#2", "--json").json["audit"]
    assert [entry["reason"] for entry in audit] == ["it was too little"]


@pytest.mark.parametrize("sink", ["closed pipe", "full disk"])
def test_gone_or_full_stdout_does_not_change_the_exit_code(
    file_bank: Bank, duly_process: Callable[..., Any], sink: str
) -> None:
    """A real process: a broken pipe is no failed handler, a full disk no lost effect."""
    if sink == "full disk":
        with Path("/dev/full").open("w") as full:
            process = duly_process("--app", file_bank.app, "run", "daily-credit", stdout=full)
            _, err = process.communicate(timeout=60)
    else:
        process = duly_process("--app", file_bank.app, "run", "daily-credit")
        process.stdout.close()
        process.stdout = None
        _, err = process.communicate(timeout=60)
    said = "duly: warning: stdout takes no more text" if sink == "full disk" else ""
    assert (process.returncode, err.partition(":  ")[0].startswith(said)) == (0, True)
    assert err.count("\n") == (1 if said else 0)
    assert file_bank.units() == 10


@pytest.mark.parametrize("command", ["run", "check"])
def test_gone_reader_does_not_change_what_a_command_answers(
    file_bank: Bank, duly_process: Callable[..., Any], command: str
) -> None:
    """An occurrence that is not completed is none, also where nobody reads the verdict."""
    app = duly_process("--app", file_bank.app, "init")
    assert app.wait(60) == 0
    job = "broken" if command == "run" else "daily-credit"
    process = duly_process("--app", file_bank.app, command, job, "--at", DAY)
    process.stdout.close()
    process.stdout = None
    process.communicate(timeout=60)
    assert process.returncode == (1 if command == "run" else 4)


def test_app_named_in_the_environment_is_taken(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DULY_APP", file_bank.app)
    assert duly("run", "daily-credit").code == 0
    # An explicit database is not overruled by an app that the environment names.
    assert duly("history", "daily-credit", "--database", f"sqlite:///{tmp_path}/no.db").code == 2


def test_json_output_is_ascii(file_bank: Bank, duly: Duly) -> None:
    """No encoding of any terminal or pipe can break it."""
    ended = duly("--app", file_bank.app, "run", "broken", "--partition", "ü", "--json")
    assert ended.err.isascii()
    assert json.loads(ended.err)["key"].endswith(":%C3%BC")


BROKEN_PIPES = {
    "pipes": "raise BrokenPipeError(32, 'of the handler\\'s own')",
    "mute": "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()",
    "wrapper": "raise type('Wrapper', (Exception,), {'orig': 'no exception'})('wrapped text')",
}


@pytest.mark.parametrize("job", sorted(BROKEN_PIPES))
def test_handler_with_an_odd_error_has_failed_and_exits_1(
    file_bank: Bank, duly: Duly, tmp_path: Path, job: str
) -> None:
    """Only our own stdout's broken pipe is quiet; an error that cannot speak is one too."""
    text = (
        f"import duly\napp = duly.App({file_bank.url!r})\n\n@app.job({job!r})\ndef handler(run):\n"
    )
    (tmp_path / f"jobs_{job}.py").write_text(f"{text}    {BROKEN_PIPES[job]}\n")
    line = ["--app", f"jobs_{job}:app", "run", job, "--at", DAY]
    ended = duly(*line)
    assert (ended.code, ended.err.count("\n")) == (1, 1), ended
    history = duly("--database", file_bank.url, "history", job, "--json").json
    assert [attempt["outcome"] for attempt in history["attempts"]] == ["failed"]
