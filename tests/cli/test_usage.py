"""Bad input: each is one clear line with the right code, and nothing is done."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Bank, Duly, Ended

DAY = "2026-09-13T00:00:00Z"


def refused(ended: Ended, code: int, *words: str) -> None:
    """One line on stderr, none on stdout, and that code."""
    assert ended.code == code, ended
    assert ended.out == ""
    assert ended.err.startswith("duly: error: ")
    assert ended.err.count("\n") == 1
    assert "Traceback" not in ended.err
    for word in words:
        assert word in ended.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["daily-credti"], "did you mean 'daily-credit'?"),
        (["Daily Credit"], "no job is called"),
        (["daily-credit", "--at", "2026-09-13T00:00:00"], "has no offset"),
        (["daily-credit", "--at", "yesterday"], "not RFC 3339"),
        (["daily-credit", "--at", "2026-02-30"], "no date of the calendar"),
        (["daily-credit", "--at", "2026-09-13T00:00:01Z"], "not a nominal time"),
        (["hourly", "--at", "2026-09-13"], "24 nominal times"),
        (["ending", "--at", "2026-09-13"], "no schedule"),
        (["ending"], "no schedule"),
        (["daily-credit", "--at", "9000-01-01T00:00:00Z"], "--early"),
        (["daily-credit", "--payload", "{units: 10}"], "not JSON"),
        (["daily-credit", "--payload", '{"a": 1, "a": 2}'], "payload.a is given more than once"),
        (["daily-credit", "--payload", '{"a": 12345678901234567890}'], "12345678901234567890"),
        (["daily-credit", "--payload", '{"a": 0.1000000000000000055511}'], "0.1000"),
        (["daily-credit", "--payload", json.dumps("x" * 70_000)], "65536 bytes"),
        (["daily-credit", "--payload", "1", "--payload-file", "x"], "give one of them"),
        (["daily-credit", "--payload-file", "absent.json"], "absent.json"),
        (["daily-credit", "--partition", "x" * 201], "200 characters"),
        (["daily-credit", "--wait", "-1"], "number of seconds"),
        (["daily-credit", "--wait", "nan"], "number of seconds"),
        (["daily-credit", "--started-by", " "], "empty"),
        (["daily-credit", "--started-by", "a\nb"], "line break"),
        (["daily-credit", "--no-such-option"], "duly run --help"),
        ([], "'JOB'"),
    ],
)
def test_wrong_start_is_refused_with_2(
    file_bank: Bank, duly: Duly, arguments: list[str], word: str
) -> None:
    refused(duly("--app", file_bank.app, "run", *arguments), 2, word)
    assert file_bank.units() == 0


@pytest.mark.parametrize(
    ("source", "name", "words"),
    [
        ("", "absent:app", ["no module 'absent'", "working directory"]),
        ("", "broken_jobs", ["MODULE:ATTRIBUTE"]),
        ("import duly\napp = 1", "broken_jobs:app", ["is a int, not a duly.App"]),
        ("def app(): ...", "broken_jobs:app", ["which is not called"]),
        ("import duly\nbank = duly.App('sqlite:///b.db')", "broken_jobs:app", ["broken_jobs:bank"]),
        ("import no_such_thing", "broken_jobs:app", ["no_such_thing", "broken_jobs.py, line 1"]),
        ("x = 1\n1 / 0", "broken_jobs:app", ["ZeroDivisionError", "line 2"]),
        ("def f(:", "broken_jobs:app", ["SyntaxError", "line 1"]),
        ("raise SystemExit(0)", "broken_jobs:app", ["SystemExit"]),
        (
            "import duly\napp = duly.App('sqlite:///b.db')\napp.job('a')(print)\napp.job('a')(len)",
            "broken_jobs:app",
            ["defined twice"],
        ),
        (
            "import duly\napp = duly.App('sqlite:///b.db')\napp.job('a')(3)",
            "broken_jobs:app",
            ["cannot be called"],
        ),
        (
            "import duly\napp = duly.App('sqlite:///b.db')\napp.job('a', schedule='x')(print)",
            "broken_jobs:app",
            ["'x'"],
        ),
        ("import duly\napp = duly.App('oracle://x')", "broken_jobs:app", ["oracle"]),
        ("import duly\napp = duly.App('sqlite://')", "broken_jobs:app", ["in memory"]),
    ],
)
def test_app_that_cannot_be_had_is_refused_with_2(
    duly: Duly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str,
    words: list[str],
) -> None:  # fmt: skip
    monkeypatch.delitem(__import__("sys").modules, "broken_jobs", raising=False)
    monkeypatch.setattr("sys.dont_write_bytecode", True)  # one name, many texts, one second
    (tmp_path / "broken_jobs.py").write_text(source)
    refused(duly("--app", name, "run", "daily-credit"), 2, *words)


def test_target_is_named_once(file_bank: Bank, duly: Duly) -> None:
    """No app, no database, both: never a guess."""
    refused(duly("run", "daily-credit"), 2, "DULY_APP")
    refused(duly("history", "daily-credit"), 2, "--database URL")
    refused(duly("--database", file_bank.url, "run", "daily-credit"), 2, "--app")
    both = ["--app", file_bank.app, "--database", file_bank.url]
    refused(duly(*both, "history", "daily-credit"), 2, "give one of them")


def test_command_that_does_not_exist_is_refused_with_2(duly: Duly) -> None:
    refused(duly("histroy"), 2, "did you mean history?")
    assert duly().code == 2


def test_missing_file_is_refused_with_its_absolute_path(duly: Duly, tmp_path: Path) -> None:
    """A relative path under another working directory names another place."""
    ended = duly("--database", "sqlite:///bank.db", "history", "daily-credit")
    refused(ended, 2, str(tmp_path / "bank.db"), "duly init")
    assert not (tmp_path / "bank.db").exists()
    refused(duly("--database", "sqlite:///no/folder/bank.db", "init"), 2, "make it first")


def test_init_makes_a_missing_file_and_changes_nothing_twice(duly: Duly, tmp_path: Path) -> None:
    line = ["--database", "sqlite:///bank.db", "init"]
    assert "created" in duly(*line).out
    assert (tmp_path / "bank.db").exists()
    assert "nothing to do" in duly(*line).out
    assert duly(*line, "--json").json["before"] == duly(*line, "--json").json["after"]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mariadb"])
def test_init_prints_the_sql_of_each_database(duly: Duly, dialect: str, tmp_path: Path) -> None:
    """Nothing is run: there is no database to run it on."""
    text = duly("init", "--sql", "--dialect", dialect).out
    assert "CREATE TABLE" in text
    assert "duly_occurrence" in text
    assert list(tmp_path.glob("*.db")) == []
    refused(duly("init", "--dialect", dialect), 2, "--sql")
    refused(duly("init", "--sql"), 2, "no database is named")


def test_printed_sql_makes_a_ledger(file_bank: Bank, duly: Duly) -> None:
    """What `init --sql` prints is what `init` does."""
    with sqlite3.connect(file_bank.database.path) as connection:
        connection.executescript(duly("--database", file_bank.url, "init", "--sql").out)
    connection.close()
    assert "nothing to do" in duly("--database", file_bank.url, "init").out


@pytest.mark.parametrize(
    ("version", "word"), [("0000", "upgrade them"), ("9999", "upgrade duly on this host")]
)
def test_ledger_of_another_version_exits_3(bank: Bank, duly: Duly, version: str, word: str) -> None:
    bank.execute(f"UPDATE duly_schema_version SET version_num = '{version}'")
    refused(duly("--app", bank.app, "run", "daily-credit"), 3, word)


def test_server_without_a_ledger_exits_3(postgres: object, duly: Duly) -> None:
    url = postgres.create_database()  # type: ignore[attr-defined]
    try:
        refused(duly("--database", url, "history", "daily-credit"), 3, "duly init")
    finally:
        postgres.drop(url)  # type: ignore[attr-defined]


@pytest.mark.parametrize("scheme", ["postgresql", "mariadb"])
def test_server_that_is_not_there_exits_75_without_the_password(duly: Duly, scheme: str) -> None:
    """Port 1 answers nobody; the driver's many lines become one."""
    url = f"{scheme}://ann:geheim99@127.0.0.1:1/bank"
    ended = duly("--database", url, "history", "daily-credit")
    refused(ended, 75, "127.0.0.1:1")
    assert "geheim99" not in ended.err
    debugged = duly("--database", url, "--debug", "--json", "history", "daily-credit")
    assert "geheim99" not in debugged.err
    assert debugged.error["error"] == "connection_lost"


def test_wrong_password_exits_3_without_showing_it(mariadb: object, duly: Duly) -> None:
    """A person must act; what was typed stays secret."""
    url = mariadb.create_database()  # type: ignore[attr-defined]
    try:
        from sqlalchemy.engine import make_url

        wrong = make_url(url).set(username="nobody-here", password="geheim99")
        text = wrong.render_as_string(hide_password=False)
        ended = duly("--database", text, "history", "daily-credit")
        refused(ended, 3, "refused")
        assert "geheim99" not in ended.err
    finally:
        mariadb.drop(url)  # type: ignore[attr-defined]


def test_read_only_file_exits_3(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so the file is opened read-only instead."""
    assert duly("--app", file_bank.app, "init").code == 0
    connect = sqlite3.connect

    def read_only(database: str, **more: object) -> sqlite3.Connection:
        return connect(database.replace("mode=rw", "mode=ro"), **more)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(sqlite3, "connect", read_only)
    refused(duly("--app", file_bank.app, "run", "daily-credit"), 3, "read-only")


@pytest.mark.parametrize(
    "key",
    [
        "daily-credit",
        "daily-credit:2026-09-13",
        "daily-credit:2026-09-13T02:00:00+02:00",
        "daily-credit:2026-09-13T00:00:00Z#1",
        "daily-credit:2026-09-13T00:00:00.000Z",
        "daily-credit:2026-09-13T00:00:00Z:a/b",
        "Daily:2026-09-13T00:00:00Z",
    ],
)
def test_key_that_is_not_canonical_is_refused_with_2(file_bank: Bank, duly: Duly, key: str) -> None:
    refused(duly("--database", file_bank.url, "explain", key), 2)


def test_waive_and_correct_ask_for_a_reason_and_a_key_that_fits(
    file_bank: Bank, duly: Duly
) -> None:
    key = f"daily-credit:{DAY}"
    waive = ["--app", file_bank.app, "waive", key]
    correct = ["--app", file_bank.app, "correct", key]
    for line in (waive, correct):
        refused(duly(*line), 2, "--reason")
        refused(duly(*line, "--reason", "  "), 2, "empty")
    refused(duly(*correct, "--reason", "why not"), 2, "not settled")
    assert duly("--app", file_bank.app, "run", "daily-credit", "--at", DAY).code == 0
    refused(duly(*waive, "--reason", "why not"), 3, "settled as applied")
    refused(duly("--database", file_bank.url, "correct", key, "--reason", "x"), 2, "--app")


@pytest.mark.parametrize("age", ["", "400", "0d", "99999999d", "yesterday", "2026-01-01", "-3d"])
def test_age_that_is_none_is_refused_with_2(file_bank: Bank, duly: Duly, age: str) -> None:
    refused(duly("--database", file_bank.url, "prune", f"--older-than={age}"), 2)


def test_unexpected_error_exits_70_and_names_debug(
    file_bank: Bank, duly: Duly, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours is one line too, and says how to see more."""

    def bug(*_arguments: object, **_more: object) -> None:
        raise RuntimeError("a bug\nwith password='geheim'")

    assert duly("--app", file_bank.app, "init").code == 0
    monkeypatch.setattr("duly._sync.questions.history", bug)
    ended = duly("--database", file_bank.url, "history", "daily-credit")
    refused(ended, 70, "RuntimeError", "--debug")
    assert "geheim" not in ended.err


def test_broken_invariant_exits_70(file_bank: Bank, duly: Duly) -> None:
    assert duly("--app", file_bank.app, "init").code == 0
    file_bank.execute("DELETE FROM duly_guard")
    ended = duly("--app", file_bank.app, "run", "daily-credit", "--json")
    assert (ended.code, ended.error["error"]) == (70, "invariant_broken")
