"""`duly history`, `explain`, `check`, `waive` and `prune`: also without the user's code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Bank, Duly

DAY = "2026-09-13T00:00:00Z"
KEY = f"daily-credit:{DAY}"


def test_history_tells_the_endings_apart(bank: Bank, duly: Duly) -> None:
    """Applied, a handler's failure and duplicates each have their word; JSON has it all."""
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    for _ in range(3):
        duly("--app", bank.app, "run", "daily-credit", "--at", DAY, "--started-by", "cron")
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY, "--payload", "1")

    found = duly("--database", bank.url, "history", "daily-credit")
    headline, header, *rows = found.out.splitlines()
    assert headline.startswith(f"# daily-credit: last completed {DAY}, at 20")
    assert header.split("\t")[:2] == ["nominal time", "outcome"]
    cells = [row.split("\t") for row in rows]
    assert {len(row) for row in cells} == {6}
    assert sorted(row[1] for row in cells) == ["applied", "conflict", "duplicate"]
    (duplicate,) = [row for row in cells if row[1] == "duplicate"]
    assert duplicate[4] == "cron"
    assert duplicate[5].startswith("3 times, last ")

    whole = duly("--database", bank.url, "history", "daily-credit", "--json").json
    assert whole["last_completed"]["key"] == KEY
    assert [a["outcome"] for a in whole["attempts"]] == ["conflict", "applied"]
    assert [(r["started_by"], r["times"]) for r in whole["refused"]] == [("cron", 3)]


def test_history_of_an_unknown_job_suggests_the_nearest(bank: Bank, duly: Duly) -> None:
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    ended = duly("--database", bank.url, "history", "daily-credt")
    assert ended.code == 2
    assert "daily-credit" in ended.err


def test_failure_of_the_handler_and_of_the_database_have_different_words(
    bank: Bank, duly: Duly
) -> None:
    bank.execute("DROP TABLE balance")
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    out = duly("--app", bank.app, "history", "daily-credit").out
    assert "\tfailed (database)\t" in out
    assert out.count("\n") == 3


def test_explain_starts_with_the_verdict(bank: Bank, duly: Duly) -> None:
    duly("--app", bank.app, "run", "broken", "--at", DAY)
    out = duly("--database", bank.url, "explain", f"broken:{DAY}").out
    assert out.splitlines()[0].startswith(f"broken:{DAY} is not completed; its last attempt failed")
    assert "Traceback" in out
    assert out.rstrip().endswith("ValueError: no\nluck")
    whole = duly("--database", bank.url, "explain", f"broken:{DAY}", "--json").json
    assert whole["completed"] is False
    assert whole["attempts"][0]["error_origin"] == "handler"
    assert "ValueError" in whole["attempts"][0]["error_traceback"]


def test_explain_of_a_key_that_never_began_says_so(bank: Bank, duly: Duly) -> None:
    ended = duly("--app", bank.app, "explain", KEY)
    assert ended.code == 0
    assert "no attempt" in ended.out


def test_explain_of_a_key_whose_job_nobody_knows_exits_2(bank: Bank, duly: Duly) -> None:
    """A slip in the name is not told as work that is missing; `history` ends so too."""
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)

    ended = duly("--database", bank.url, "explain", f"daily-credits:{DAY}")
    of_another_day = duly("--database", bank.url, "explain", "daily-credit:2020-01-01T00:00:00Z")

    assert (ended.code, ended.out) == (2, "")
    assert "no job is called 'daily-credits'" in ended.err
    assert "did you mean 'daily-credit'?" in ended.err
    assert (of_another_day.code, "no attempt" in of_another_day.out) == (0, True)


def test_check_exits_0_or_4(bank: Bank, duly: Duly) -> None:
    line = ["check", "daily-credit", "--at", DAY]
    assert duly("--app", bank.app, *line).code == 4
    assert duly("--database", bank.url, *line).code == 4
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    ended = duly("--database", bank.url, *line)
    assert (ended.code, ended.out[:30]) == (0, f"{KEY} completed"[:30])
    assert duly("--database", bank.url, *line, "--partition", "b").code == 4
    assert duly("--app", bank.app, "check", "daily-credit", "--at", "2026-09-13").code == 0


def test_check_without_at_means_the_newest_due(file_bank: Bank, duly: Duly) -> None:
    bare = duly("--app", file_bank.app, "check", "daily-credit")
    assert (bare.code, "duly init" in bare.err) == (3, True)  # a question makes no tables
    assert duly("--app", file_bank.app, "init").code == 0
    assert duly("--app", file_bank.app, "check", "daily-credit").code == 4
    assert duly("--app", file_bank.app, "run", "daily-credit").code == 0
    assert duly("--app", file_bank.app, "check", "daily-credit", "--json").json["applied"] is True
    alone = ["--database", file_bank.url, "check"]
    assert duly(*alone, "daily-credit").code == 0
    assert duly(*alone, "daily-credit", "--at", "2026-09-13").code == 4
    unknown = duly(*alone, "weekly-credit")
    assert (unknown.code, "--app" in unknown.err) == (2, True)


def test_torn_key_exits_3_until_a_person_settles_it(bank: Bank, duly: Duly) -> None:
    """Held, then waived from the database alone: completed, but not by its effect."""
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    bank.execute(
        "UPDATE duly_occurrence SET disposition = 'torn'",
        "UPDATE duly_attempt SET outcome = 'torn'",
    )
    line = ["--database", bank.url, "check", "daily-credit", "--at", DAY]
    assert duly(*line).code == 3
    assert duly("--app", bank.app, "run", "daily-credit", "--at", DAY).code == 3

    order = ["--database", bank.url, "waive", KEY, "--reason", "it is there"]
    waived = duly(*order, "--actor", "ann")
    assert (waived.code, waived.out) == (0, f"waived {KEY}  by ann: it is there\n")
    assert duly(*line).code == 0
    assert duly(*line, "--applied-only").code == 4
    assert "ann: waive, it is there" in duly("--database", bank.url, "explain", KEY).out


def test_prune_deletes_and_its_keys_stay_refused(bank: Bank, duly: Duly) -> None:
    """From the database alone; an older start is `expired`, exit 3."""
    old = "2020-01-01T00:00:00Z"
    assert duly("--app", bank.app, "run", "daily-credit", "--at", old).code == 0
    ended = duly("--database", bank.url, "prune", "--older-than", "2020-06-01T00:00:00Z")
    assert ended.code == 0
    assert ended.out.startswith("daily-credit: 1 occurrences and 1 attempts deleted")
    again = duly("--app", bank.app, "run", "daily-credit", "--at", old, "--json")
    assert (again.code, again.error["error"]) == (3, "expired")
    assert bank.units() == 10
    nothing = duly("--database", bank.url, "prune", "--older-than", "10000d")
    assert (nothing.code, nothing.out) == (0, "nothing to prune: no record is that old\n")


def test_prune_past_the_floor_exits_3(bank: Bank, duly: Duly) -> None:
    duly("--app", bank.app, "run", "daily-credit", "--at", DAY)
    ended = duly("--database", bank.url, "prune", "--older-than", "1d")
    assert ended.code == 3
    assert "floor" in ended.err
