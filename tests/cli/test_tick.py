"""`duly tick`, `plan` and `init` with jobs: what is printed, and how each way of it ends."""

from __future__ import annotations

import os
import pty
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from duly._cli import exits
from duly._cli.tick_cmd import code_of
from duly._core.states import Outcome
from duly._sync.ticking import JobTick, Ran, TickReport
from duly.errors import (
    AlreadySettled,
    Busy,
    ConnectionLost,
    DefinitionStale,
    InvariantBroken,
    PayloadConflict,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Bank, Duly

HEADER = "job\twhat\tkey\ttook\tlate\tnote"
MODULE = """
import duly
from datetime import UTC, datetime, timedelta

app = duly.App({url!r})
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)

def ago(days):
    return TODAY - timedelta(days=days)

def credit(run):
    run.execute("UPDATE balance SET units = units + 10 WHERE id = 1")

def broken(run):
    raise ValueError("no\\nluck password=hunter2")

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


def rows(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.splitlines()]


def test_tick_prints_a_line_for_each_that_it_ran_and_what_stays(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """With the three ways to close the gap that its limit leaves."""
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(3), max_per_tick=2)(credit)')

    ended = duly("--app", app, "tick")

    assert (ended.code, ended.err) == (0, "")
    header, first, second, left = rows(ended.out)
    assert "\t".join(header) == HEADER
    assert [first[:3], second[:3]] == [
        ["daily", "applied", f"daily:{day(3)}"],
        ["daily", "applied", f"daily:{day(2)}"],
    ]
    assert first[4].startswith("3 d ")
    assert left[:2] == ["daily", "missing"]
    assert left[5].startswith("2 stay missing: one tick does no more (max_per_tick=2)")
    for way in ("`duly backfill daily --since ", "`duly waive KEY --reason …`", "reconcile"):
        assert way in left[5]
    assert bank.units() == 20


def test_tick_with_nothing_to_do_says_nothing_but_the_header(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    app = written('app.job("daily", schedule="0 0 * * *")(credit)')
    assert duly("--app", app, "tick").out == f"{HEADER}\n"
    whole = duly("--app", app, "tick", "--json").json
    assert (whole["jobs"], whole["clock_behind"]) == ([], [])
    assert bank.units() == 0


def test_failed_handler_ends_a_tick_with_1_and_the_rest_ran(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """Its error is one line, and a password in it is not shown; then it waits."""
    app = written(
        'app.job("bad", schedule="0 0 * * *", starts=ago(0))(broken)\n'
        'app.job("good", schedule="0 0 * * *", starts=ago(0))(credit)'
    )

    ended = duly("--app", app, "tick")
    assert ended.code == 1
    bad, good = rows(ended.out)[1:]
    assert bad[:3] == ["bad", "failed", f"bad:{day(0)}"]
    assert bad[5].startswith("ValueError: no luck password=")
    assert "hunter2" not in ended.out
    assert good[:2] == ["good", "applied"]

    again = duly("--app", app, "tick")
    assert again.code == 0
    [waits] = rows(again.out)[1:]
    assert waits[:3] == ["bad", "waits", f"bad:{day(0)}"]
    assert "tried again from 20" in waits[5]
    whole = duly("--app", app, "tick", "--json").json
    [job] = whole["jobs"]
    assert [each["decision"] for each in job["waiting"]] == ["retry later"]
    assert bank.units() == 10


def test_occurrence_that_is_given_up_ends_each_tick_with_3(
    written: Callable[[str], str], duly: Duly
) -> None:
    """Until a person acts; the line says how."""
    app = written(
        "retry = duly.Retry(attempts=1)\n"
        'app.job("bad", schedule="0 0 * * *", starts=ago(0), retry=retry)(broken)'
    )
    assert duly("--app", app, "tick").code == 1
    ended = duly("--app", app, "tick")
    assert ended.code == 3
    [line] = rows(ended.out)[1:]
    assert line[1] == "given up"
    assert f"`duly explain 'bad:{day(0)}'`" in line[5]


def test_skipped_and_superseded_are_counted(written: Callable[[str], str], duly: Duly) -> None:
    app = written(
        'app.job("one", schedule="0 0 * * *", starts=ago(3), catch_up="reconcile")(credit)\n'
        'app.job("two", schedule="0 0 * * *", starts=ago(3), catch_up="skip",'
        " skip_after=timedelta(hours=24))(credit)\n"
        'app.job("three", schedule="0 0 * * *", starts=ago(3), catch_up="none")(credit)'
    )
    ended = duly("--app", app, "tick")
    assert ended.code == 0
    said = {(row[0], row[1]): row[5] for row in rows(ended.out)[1:]}
    assert said["one", "superseded"].startswith("3 older ones")
    assert said["two", "skipped"] == "3 settled: due longer ago than skip_after=1 day, 0:00:00"
    assert said["three", "missing"].startswith('3 stay missing: catch_up="none"')


def test_stale_definition_ends_init_and_tick_with_3_until_it_is_adopted(
    written: Callable[[str], str], duly: Duly
) -> None:
    """And the other jobs are recorded, and run."""
    other = 'app.job("other", schedule="0 0 * * *", starts=ago(0))(credit)'
    old = written(f'app.job("daily", schedule="0 0 * * *")(credit)\n{other}')
    new = written('app.job("daily", schedule="0 1 * * *")(credit)')
    first = duly("--app", old, "init")
    assert first.code == 0
    assert "job daily: first revision, expects from 20" in first.out
    assert f"job other: first revision, expects from {day(0)[:10]} 00:00:00Z" in first.out
    assert "nothing to do" in duly("--app", old, "init").out
    assert "job daily: revision 2 (edit), in force from 20" in duly("--app", new, "init").out

    ended = duly("--app", old, "init")
    assert ended.code == 3
    assert "refused: job daily: this code has revision 1" in ended.out
    whole = duly("--app", old, "init", "--json")
    assert (whole.code, whole.json["refused"][0]["error"]) == (3, "definition_stale")
    ticked = duly("--app", old, "tick")
    assert ticked.code == 3
    assert [row[:2] for row in rows(ticked.out)[1:]] == [["other", "applied"], ["daily", "refused"]]
    assert ["daily", "refused"] in [row[:2] for row in rows(duly("--app", old, "plan").out)]

    adopted = duly("--app", old, "init", "--adopt", "--json")
    assert adopted.code == 0
    assert [(r["job"], r["why"]) for r in adopted.json["revisions"]] == [("daily", "adopted")]
    assert duly("--app", old, "tick").code == 0


def test_plan_shows_each_decision_and_changes_nothing(
    bank: Bank, written: Callable[[str], str], duly: Duly
) -> None:
    """First with the code alone, later from the database alone."""
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(3), max_per_tick=3)(credit)')

    for _ in range(2):
        ended = duly("--app", app, "plan")
        assert ended.code == 0
        header, record, *runs, left = rows(ended.out)
        assert header == ["job", "what", "key", "due at", "why"]
        assert record[:2] == ["daily", "record"]
        assert [row[1:3] for row in runs] == [["run", f"daily:{day(ago)}"] for ago in (3, 2, 1)]
        assert left[1] == "missing"
        assert left[4].startswith("1 stay missing")
    assert "daily:" not in duly("--database", bank.url, "plan").out

    duly("--app", app, "tick")
    found = duly("--database", bank.url, "plan", "--json").json
    [job] = [each for each in found["jobs"] if each["job"] == "daily"]
    assert [(s["key"], s["decision"]) for s in job["steps"]] == [(f"daily:{day(0)}", "run")]
    limited = duly("--app", app, "plan", "--limit", "1")
    assert "more decisions" not in limited.out
    assert bank.units() == 30


def test_plan_tells_how_many_decisions_it_does_not_show(
    written: Callable[[str], str], duly: Duly
) -> None:
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(4))(credit)')
    lines = rows(duly("--app", app, "plan", "--limit", "2").out)
    assert [row[1] for row in lines[1:]] == ["record", "run", "run", "…"]
    assert lines[-1][4].startswith("3 more decisions")


def test_tick_and_plan_on_a_terminal_are_aligned_lines(
    bank: Bank, written: Callable[[str], str], duly_process: Callable[..., object]
) -> None:
    """The key stands whole, and what there is to say stands below its line."""
    app = written('app.job("daily", schedule="0 0 * * *", starts=ago(1), max_per_tick=1)(credit)')

    def typed(*arguments: str) -> str:
        ours, theirs = pty.openpty()
        process = duly_process("--app", app, *arguments, stdout=theirs, env={"TERM": "xterm"})
        os.close(theirs)
        text = b""
        while chunk := _read(ours):
            text += chunk
        os.close(ours)
        process.wait(30)  # type: ignore[attr-defined]
        return text.decode()

    planned = typed("plan")
    assert f"daily:{day(1)}" in planned
    ticked = typed("tick").splitlines()
    assert f"daily:{day(1)}" in ticked[1]
    assert ticked[3].lstrip("\x1b[3m").startswith("    1 stay missing")
    typed("tick")
    assert typed("tick").startswith("nothing to do: nothing of 1 jobs is missing at ")
    assert bank.units() == 20


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        return b""


def test_tick_needs_the_code(bank: Bank, duly: Duly) -> None:
    ended = duly("--database", bank.url, "tick")
    assert (ended.code, "--app" in ended.err) == (2, True)


# --------------------------------------------------------------------------------------- exit codes


def ran(outcome: Outcome | None, error: Exception | None = None) -> Ran:
    return Ran("a:2026-09-13T00:00:00Z", outcome, timedelta(0), error=error)


APPLIED = ran(Outcome.APPLIED)
FAILED = ran(Outcome.FAILED, ValueError("no"))
BUSY = ran(Outcome.BUSY, Busy("held"))
CONFLICT = ran(Outcome.CONFLICT, PayloadConflict("other"))


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        ([], exits.OK),
        ([APPLIED, ran(Outcome.DUPLICATE)], exits.OK),
        ([APPLIED, FAILED], exits.HANDLER_FAILED),
        ([BUSY], exits.TRY_AGAIN),
        ([ran(None, ConnectionLost("gone"))], exits.TRY_AGAIN),
        ([FAILED, BUSY], exits.HANDLER_FAILED),
        ([CONFLICT], exits.OPERATOR),
        ([FAILED, CONFLICT, BUSY], exits.OPERATOR),
        ([ran(None, AlreadySettled("skipped", disposition="skipped"))], exits.OK),
        ([ran(None, AlreadySettled("torn", disposition="torn"))], exits.OPERATOR),
        ([ran(Outcome.FAILED, InvariantBroken("slot"))], exits.INTERNAL),
        # The handler's own, whatever its class.
        ([ran(Outcome.FAILED, PayloadConflict("mine"))], exits.HANDLER_FAILED),
    ],
)
def test_exit_code_of_a_tick_is_the_worst_of_its_parts(ended: list[Ran], code: int) -> None:
    """3 over 1 over 75 over 0."""
    report = TickReport(datetime.now(UTC), [JobTick("a", "a", ran=ended)])
    assert code_of(report) == code


def test_refused_job_ends_a_tick_with_3_whatever_the_others_did() -> None:
    jobs = [JobTick("a", "a", ran=[FAILED]), JobTick("b", "b", refused=DefinitionStale("old"))]
    assert code_of(TickReport(datetime.now(UTC), jobs)) == exits.OPERATOR
