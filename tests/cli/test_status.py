"""`duly status` and `missing`: in a pipe, as JSON, from the database alone; the exit code."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Bank, Duly

MODULE = """
import duly
from datetime import UTC, datetime, timedelta

app = duly.App({url!r})
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

def ago(days):
    return TODAY - timedelta(days=days)

def handler(run):
    if run.key.startswith("bad:"):
        raise ValueError("no luck")

{definitions}
"""


@pytest.fixture
def written(tmp_path: Path, bank: Bank) -> Callable[[str], str]:
    """Writes a module with an App on the bank; returns what `--app` takes."""

    def write(definitions: str) -> str:
        module = f"jobs_{uuid.uuid4().hex[:8]}"
        text = MODULE.format(url=bank.url, definitions=definitions)
        (tmp_path / f"{module}.py").write_text(text)
        return f"{module}:app"

    return write


def day(ago: int) -> str:
    return f"{datetime.now(UTC) - timedelta(days=ago):%Y-%m-%d}T00:00:00Z"


def short(ago: int) -> str:
    return f"{day(ago)[:10]} 00:00Z"


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_status_is_one_line_a_job_with_or_without_the_code(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """State, last completed and its lag, missing with the oldest, next due, and what is wrong."""
    app = written(
        'app.job("bad", schedule="0 0 * * *", starts=ago(1))(handler)\n'
        'app.job("good", schedule="0 0 * * *", starts=ago(1))(handler)\n'
        'app.job("named")(handler)'
    )
    duly("--app", app, "tick")

    ended = duly("--database", bank.url, "status")

    assert (ended.code, ended.err) == (0, "")
    assert duly("--app", app, "status").out.splitlines()[0] == ended.out.splitlines()[0]
    header, *found = rows(ended.out)
    bad, good, named = (row for row in found if row[0] in {"bad", "good", "named"})
    assert header[:3] == ["job", "state", "last completed"]
    assert bad[:7] == ["bad", "failing", "", "", "2", short(1), short(-1)]
    assert bad[7].startswith("failed 2 times since 20")
    assert ": ValueError: no luck; tried again from 20" in bad[7]
    assert good[:3] == ["good", "ok", short(0)]
    assert [*good[4:7], good[7]] == ["", "", short(-1), ""]
    assert named[:2] == ["named", "unscheduled"]
    [only] = rows(duly("--database", bank.url, "status", "good").out)[1:]
    assert only[:2] == ["good", "ok"]
    whole = duly("--database", bank.url, "status", "bad", "--json").json
    [job] = whole["jobs"]
    assert (job["state"], job["missing"], job["oldest_missing"]) == ("failing", 2, day(1))
    assert (job["failing"]["attempts"], job["failing"]["error"]) == (2, "ValueError: no luck")
    assert job["schedule"].startswith("cron 0 0 * * *")


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("deadline=timedelta(minutes=0)", 4),
        ("deadline=timedelta(days=400)", 0),
        ("retry=duly.Retry(attempts=1)", 4),
        ("", 0),
    ],
)
def test_check_of_the_status_exits_4_if_one_is_overdue_or_given_up(
    bank: Bank, written: Callable[[str], str], duly: Duly, options: str, code: int
) -> None:
    """Missing or failing alone is 0; without --check everything is."""
    app = written(f'app.job("bad", schedule="0 0 * * *", starts=ago(0), {options})(handler)')
    duly("--app", app, "tick")

    assert duly("--database", bank.url, "status", "--check").code == code
    assert duly("--app", app, "status", "--check", "bad").code == code
    assert duly("--app", app, "status").code == 0


def test_missing_lists_oldest_first_and_says_how_many_more(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """Of one job, or of all; in a span; also a hole behind the newest."""
    app = written(
        'app.job("daily", schedule="0 0 * * *", starts=ago(3))(handler)\n'
        'app.job("other", schedule="0 0 * * *", starts=ago(0))(handler)'
    )
    assert duly("--app", app, "run", "daily", "--at", day(2)).code == 0
    assert duly("--app", app, "run", "daily", "--at", day(0)).code == 0

    ended = duly("--database", bank.url, "missing", "daily")
    assert ended.code == 0
    assert [row[:3] for row in rows(ended.out)[1:]] == [
        [f"daily:{day(3)}", short(3), "missing"],
        [f"daily:{day(1)}", short(1), "missing"],
    ]
    every = duly("--app", app, "missing")
    assert [row[0] for row in rows(every.out)[1:]] == [
        f"daily:{day(3)}", f"daily:{day(1)}", f"other:{day(0)}",
    ]  # fmt: skip
    limited = duly("--app", app, "missing", "daily", "--limit", "1").out.splitlines()
    assert limited[-1] == "# daily: 1 more are missing; see them with --limit"
    span = ["--since", day(2)[:10], "--until", day(0)]
    assert len(rows(duly("--app", app, "missing", "daily", *span).out)) == 2
    whole = duly("--app", app, "missing", "daily", *span, "--json").json
    [job] = whole["jobs"]
    assert (job["missing"], [o["key"] for o in job["occurrences"]]) == (1, [f"daily:{day(1)}"])
    wrong = duly("--app", app, "missing", "daily", "--since", "soon")
    assert (wrong.code, "since 'soon'" in wrong.err) == (2, True)


def test_unknown_job_exits_2_and_suggests_the_nearest(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    app = written('app.job("daily", schedule="0 0 * * *")(handler)')
    duly("--app", app, "init")
    for command in ("status", "missing"):
        ended = duly("--database", bank.url, command, "dayly")
        assert (ended.code, "daily" in ended.err) == (2, True)


def test_check_finds_the_newest_due_from_the_database_alone(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """Also a date, in the zone that the ledger knows; a job that nobody defined needs the code."""
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(1))(handler)')
    alone = ["--database", bank.url, "check", "daily"]
    assert duly(*alone).code == 2
    duly("--app", app, "init")
    assert duly(*alone).code == 4
    duly("--app", app, "run", "daily")
    assert duly(*alone).code == 0
    assert duly(*alone, "--at", day(0)[:10]).code == 0
    assert duly(*alone, "--at", day(1)[:10]).code == 4


def test_check_of_an_edited_job_asks_for_what_was_due(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """By the schedule that was in force, not by the new one's past."""
    old = written('app.job("daily", schedule="0 0 * * *", starts=ago(1))(handler)')
    new = written('app.job("daily", schedule="0 12 1 1 *", starts=ago(1))(handler)')
    duly("--app", old, "run", "daily")
    duly("--app", new, "init")
    assert f"daily:{day(0)} completed" in duly("--app", new, "check", "daily").out


def test_status_of_an_empty_ledger_is_a_header(bank: Bank, duly: Duly) -> None:
    """A new ledger knows no job but those of its App."""
    assert len(rows(duly("--app", bank.app, "status").out)) == 8
    assert duly("--app", bank.app, "missing").code == 0


def test_clock_that_is_behind_is_told_with_the_next_step(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(0))(handler)')
    duly("--app", app, "tick")
    ahead = int((datetime.now(UTC) + timedelta(days=9)).timestamp()) * 1_000_000
    bank.execute(
        "SET FOREIGN_KEY_CHECKS = 0" if bank.database.name == "mariadb" else "SELECT 1",
        f"UPDATE duly_attempt SET nominal_us = {ahead}",
        f"UPDATE duly_occurrence SET nominal_us = {ahead}",
    )
    lines = rows(duly("--app", app, "tick").out)
    assert lines[-1][:2] == ["daily", "clock behind"]
    assert "set the clock right" in lines[-1][5]
