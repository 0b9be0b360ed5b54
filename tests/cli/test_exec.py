"""`duly exec`: a command as the work, and what its end means for the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.cli.conftest import Bank, Duly, Ended

    Exec = Callable[..., Ended]

KEY = "credit:2026-09-13T00:00:00Z"
CREDIT = 'echo "UPDATE balance SET units = units + 10 WHERE id = 1;" > "$DULY_SQL_OUT"'
BOTH = pytest.mark.parametrize("after_crash", ["retry", "hold"])


@pytest.fixture
def execute(bank: Bank, duly: Duly) -> Exec:
    def typed(after_crash: str, script: str, *more: str) -> Ended:
        given = ("--schedule", "@daily", "--at", "2026-09-13", "--after-crash", after_crash)
        return duly(
            "--database", bank.url, "exec", "credit", *given, *more, "--", "sh", "-c", script
        )

    return typed


@BOTH
def test_sql_that_the_command_wrote_is_applied_once(
    execute: Exec, bank: Bank, after_crash: str
) -> None:
    """It is committed with the completion, and a second start runs nothing."""
    first = execute(after_crash, CREDIT)
    again = execute(after_crash, CREDIT, "--json")

    assert (first.code, first.err) == (0, "")
    assert again.json["outcome"] == "duplicate"
    assert bank.units() == 10


@BOTH
def test_command_that_reports_failure_leaves_the_key_free_and_its_sql_is_dropped(
    execute: Exec, bank: Bank, duly: Duly, after_crash: str
) -> None:
    """Its last line is told, its attempt is recorded, and the next start runs it."""
    failed = execute(after_crash, f"{CREDIT}; echo oops >&2; exit 3")
    history: Any = duly("--database", bank.url, "history", "credit").out
    units = bank.units()
    again = execute(after_crash, CREDIT)

    assert failed.code == 1
    assert "ended with exit status 3: oops" in failed.err
    assert "failed" in history
    assert "torn" not in history
    assert (units, again.code, bank.units()) == (0, 0, 10)


def test_killed_command_is_held_and_never_run_again(execute: Exec, bank: Bank, duly: Duly) -> None:
    """Nobody knows what it had done, so a person settles the key."""
    killed = execute("hold", f"{CREDIT}; echo last words; kill -9 $$")
    again = execute("hold", CREDIT)
    told_json = duly("--database", bank.url, "explain", KEY, "--json").json
    told = duly("--database", bank.url, "explain", KEY)
    waived = duly("--database", bank.url, "waive", KEY, "--reason", "it was done")

    assert (killed.code, again.code, bank.units()) == (3, 3, 0)
    assert "was killed by SIGKILL" in killed.err
    assert "is held: the command was started at" in told.out
    (attempt,) = told_json["attempts"]
    assert (attempt["outcome"], attempt["error_type"]) == ("torn", "CommandFailed")
    assert attempt["error_message"] == "the command was killed by SIGKILL: last words"
    assert "was killed by SIGKILL: last words), and a person must look" in told.out
    assert "if it still runs" not in told.out
    assert waived.code == 0, waived.err


def test_killed_command_is_run_again_with_retry(execute: Exec, bank: Bank) -> None:
    """What it wrote is dropped, and the key stays free."""
    killed = execute("retry", f"{CREDIT}; kill -9 $$")
    again = execute("retry", CREDIT)

    assert (killed.code, again.code, bank.units()) == (1, 0, 10)


@BOTH
def test_held_key_is_started_again_by_a_correction_that_every_message_names(
    execute: Exec, bank: Bank, duly: Duly, after_crash: str
) -> None:
    """No App has the work of a command, so its own line is the way to a second effect."""
    killed = execute("hold", f"{CREDIT}; kill -9 $$")
    refused = execute("hold", CREDIT)
    explained = duly("--database", bank.url, "explain", KEY).out
    elsewhere = duly("--database", bank.url, "correct", KEY, "--reason", "it was not done")
    given = ("--schedule", "@daily", "--after-crash", after_crash)
    step = ("--correct", KEY, "--reason", "it was not done")
    line = ("--database", bank.url, "exec", "credit", *given, *step, "--", "sh", "-c", CREDIT)
    corrected, again = duly(*line), duly(*line)

    assert all(f"--correct '{KEY}'" in said for said in (killed.err, refused.err, explained))
    assert "start its line with --correct KEY" in elsewhere.err
    assert (corrected.code, again.code, bank.units()) == (0, 0, 10)
    assert corrected.out.startswith(f"applied {KEY}#2")
    assert again.out.startswith(f"duplicate {KEY}#2")
    told = duly("--database", bank.url, "explain", KEY, "--json").json
    assert told["settled"]["disposition"] == "waived"
    assert [each["action"] for each in told["audit"]] == [] or told["corrections"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--correct", KEY), "say why, with --reason"),
        (("--reason", "why"), "go with --correct KEY"),
        (("--correct", KEY, "--reason", "why", "--at", "2026-09-13"), "leave --at out"),
        (("--correct", f"other-{KEY}", "--reason", "why"), "names a key of job 'other-credit'"),
        (("--correct", KEY, "--reason", "why"), "not settled, so there is nothing to correct"),
    ],
)
def test_correction_that_is_wrong_starts_nothing(
    bank: Bank, duly: Duly, typed: tuple[str, ...], said: str
) -> None:
    given = ("--schedule", "@daily", "--after-crash", "retry", *typed, "--", "touch", "ran")
    ended = duly("--database", bank.url, "exec", "credit", *given)

    assert ended.code == 2, ended.err
    assert said in ended.err
    assert not (bank.folder / "ran").exists()


@BOTH
def test_sql_that_the_database_refuses_leaves_nothing(
    execute: Exec, bank: Bank, after_crash: str
) -> None:
    """With hold the command did end well, so the key is held; with retry it stays free."""
    refused = execute(after_crash, f"{CREDIT}; echo 'UPDATE nothing SET x = 1;' >> $DULY_SQL_OUT")

    assert refused.code == (1 if after_crash == "retry" else 3)
    assert "$DULY_SQL_OUT, line 2" in refused.err
    assert bank.units() == 0


def test_sql_of_the_command_with_a_parameter_that_nobody_gives_is_told(execute: Exec) -> None:
    """There is no -p: the command has the value."""
    ended = execute("retry", "echo 'UPDATE balance SET units = :oops;' > $DULY_SQL_OUT")

    assert ended.code == 2
    assert ":oops has no value: let the command write its value" in ended.err


@BOTH
@pytest.mark.parametrize(
    "in_its_place",
    [
        "true",
        'mkfifo "$DULY_SQL_OUT"',
        'mkdir "$DULY_SQL_OUT"',
        'ln -s /dev/null "$DULY_SQL_OUT"',
        """python3 -c 'import socket, os; socket.socket(1).bind(os.environ["DULY_SQL_OUT"])'""",
        'ln -s "$DULY_SQL_OUT" "$DULY_SQL_OUT"',
    ],
    ids=["nothing", "pipe", "directory", "device", "socket", "loop"],
)
def test_command_that_leaves_no_file_for_its_sql_is_told(
    execute: Exec, bank: Bank, after_crash: str, in_its_place: str
) -> None:
    """Its SQL is not taken for none: nothing is applied, in one line that says why."""
    refused = execute(after_crash, f'{CREDIT}; rm "$DULY_SQL_OUT"; {in_its_place}')

    assert refused.code == (2 if after_crash == "retry" else 3), refused.err
    assert "$DULY_SQL_OUT cannot be read (there is no regular file any more)" in refused.err
    assert (refused.err.count("\n"), bank.units()) == (1, 0)


def test_command_that_puts_another_file_in_the_place_of_its_sql_is_heard(
    execute: Exec, bank: Bank
) -> None:
    """As programs do that write a whole file and then rename it, or that link one."""
    renamed = f'{CREDIT}; cp "$DULY_SQL_OUT" new; mv new "$DULY_SQL_OUT"'
    linked = f'{CREDIT}; mv "$DULY_SQL_OUT" kept; ln -s "$PWD/kept" "$DULY_SQL_OUT"'

    assert execute("retry", renamed).code == 0
    assert execute("retry", linked, "--partition", "b").code == 0
    assert bank.units() == 20


def test_command_killed_by_a_signal_without_a_name_is_told_its_number(execute: Exec) -> None:
    killed = execute("retry", "kill -40 $$")

    assert killed.code == 1
    assert "was killed by signal 40" in killed.err


def test_command_that_could_not_be_started_leaves_the_key_free(
    execute: Exec, bank: Bank, duly: Duly
) -> None:
    """It is there and executable, and no program: with hold nothing is held for that."""
    (bank.folder / "broken").write_bytes(b"\x7fELF, but no program")
    (bank.folder / "broken").chmod(0o755)
    given = ("--schedule", "@daily", "--at", "2026-09-13", "--after-crash", "hold")
    failed = duly("--database", bank.url, "exec", "credit", *given, "--", "./broken")

    assert failed.code == 1
    assert "could not be started" in failed.err
    assert execute("hold", CREDIT).code == 0
    assert bank.units() == 10


@BOTH
def test_marker_of_a_command_goes_with_its_attempt(
    execute: Exec, bank: Bank, after_crash: str
) -> None:
    """It is written when the command has run for a while, and is the attempt's to the end."""
    assert execute(after_crash, f"sleep 0.6; {CREDIT}").code == 0

    left = list(bank.folder.glob("test.db-duly/*.running"))
    if bank.database.name != "sqlite":
        left = bank.ask("SELECT * FROM duly_running")
    assert left == []


def test_command_that_leaves_a_child_behind_is_not_waited_for(execute: Exec) -> None:
    """The child holds the pipe, but the command is over."""
    ended = execute("retry", "sleep 20 &", "--wait", "1")

    assert ended.code == 0, ended.err


def test_command_that_takes_too_long_is_ended(execute: Exec) -> None:
    """Its process group gets SIGTERM, and after the grace SIGKILL."""
    ended = execute("retry", "trap '' TERM; sleep 300", "--timeout", "0.2", "--grace", "0.2")

    assert ended.code == 1
    assert "took longer than its --timeout of 0.2 s" in ended.err


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (("--after-crash", "retry"), "no command was given"),
        (("--after-crash", "retry", "--", ""), "no command was given"),
        (("--", "true"), "--after-crash must be chosen"),
        (
            ("--after-crash", "hold", "--timeout", "0", "--", "true"),
            "would end the command at once",
        ),
        (("--after-crash", "hold", "--", "no-such-command"), "is not found, or not executable"),
    ],
)
def test_call_that_is_wrong_starts_nothing(
    bank: Bank, duly: Duly, typed: tuple[str, ...], said: str
) -> None:
    """One line, exit code 2, and no attempt."""
    ended = duly("--database", bank.url, "exec", "credit", "--at", "2026-09-13T00:00:00Z", *typed)

    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
