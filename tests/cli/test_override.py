"""`duly waive` a span, `pause`, `resume`, `retire`: what a person decides from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Bank, Duly

WHY = ["--reason", "the source is down", "--actor", "ann"]


JOB = """
from datetime import UTC, datetime

@app.job("nightly", schedule="0 0 * * *", starts=datetime(2026, 9, 10, tzinfo=UTC), payload=PAYLOAD)
def nightly(run):
    run.execute(CREDIT, run.payload)
"""


def begin(bank: Bank, duly: Duly) -> None:
    """The ledger expects `nightly` since the 10th; the 12th is done."""
    with (bank.folder / f"{bank.app[:-4]}.py").open("a") as module:
        module.write(JOB)
    ended = duly("--app", bank.app, "run", "nightly", "--at", "2026-09-12")
    assert ended.code == 0, ended.err


def test_missing_span_is_counted_and_then_waived(bank: Bank, duly: Duly) -> None:
    """From the database alone; what is settled stays, and repeating it does nothing."""
    begin(bank, duly)
    line = ["--database", bank.url, "waive", "nightly", *WHY]
    span = ["--since", "2026-09-11", "--until", "2026-09-15"]

    dry = duly(*line, *span, "--dry-run")
    assert (dry.code, dry.out) == (0, "would waive 3 missing of nightly; nothing was done\n")
    done = duly(*line, *span)
    assert done.out == "waived 3 missing of nightly  by ann: the source is down\n"
    again = duly(*line, *span, "--json")
    assert again.json == {
        "job": "nightly",
        "waived": 0,
        "would_be_waived": None,
        "actor": "ann",
        "reason": "the source is down",
    }
    assert bank.units() == 10
    said = duly("--database", bank.url, "explain", "nightly:2026-09-14T00:00:00Z").out
    assert "ann: waive, the source is down" in said


@pytest.mark.parametrize(
    "more",
    [
        ["--since", "2026-09-11"],
        ["--until", "2026-09-11"],
        ["--dry-run"],
        ["--since", "2026-09-12", "--until", "2026-09-11"],
        ["--since", "2026-09-31", "--until", "2026-10-11"],
        ["--since", "yesterday", "--until", "2026-10-11"],
    ],
    ids=" ".join,
)
def test_span_that_is_none_is_refused_with_2(bank: Bank, duly: Duly, more: list[str]) -> None:
    begin(bank, duly)
    ended = duly("--database", bank.url, "waive", "nightly", *WHY, *more)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.count("\n") == 1


def test_job_is_paused_and_resumed(bank: Bank, duly: Duly) -> None:
    """Saying it twice is refused; a start by name still works."""
    begin(bank, duly)
    alone = ["--database", bank.url]

    paused = duly(*alone, "pause", "nightly", *WHY)
    assert (paused.code, paused.out.startswith("paused nightly  since 2")) == (0, True)
    twice = duly(*alone, "pause", "nightly", *WHY)
    assert (twice.code, "is paused since" in twice.err) == (3, True)
    assert duly("--app", bank.app, "run", "nightly", "--at", "2026-09-13").code == 0
    resumed = duly(*alone, "resume", "nightly", "--catch-up", *WHY, "--json")
    assert (resumed.json["did"], resumed.json["catch_up"]) == ("resumed", True)
    idle = duly(*alone, "resume", "nightly", *WHY)
    assert (idle.code, "is not paused" in idle.err) == (3, True)
    assert duly(*alone, "pause", "nihgtly", *WHY).code == 2


def test_job_is_retired(bank: Bank, duly: Duly) -> None:
    """Its code is told on its next start."""
    begin(bank, duly)

    retired = duly("--database", bank.url, "retire", "nightly", *WHY)
    assert (retired.code, retired.out.startswith("retired nightly  nothing is")) == (0, True)
    assert duly("--database", bank.url, "retire", "nightly", *WHY).code == 3
    stale = duly("--app", bank.app, "run", "nightly", "--at", "2026-09-13")
    assert (stale.code, "duly init --adopt" in stale.err) == (3, True)


@pytest.mark.parametrize("command", ["pause", "resume", "retire"])
def test_reason_is_asked_for(bank: Bank, duly: Duly, command: str) -> None:
    ended = duly("--app", bank.app, command, "nightly")
    assert (ended.code, "--reason" in ended.err) == (2, True)
