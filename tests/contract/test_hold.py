"""A key that is held for a command, and freed because the command failed, is a hole again."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._sync.commanding import HOLD, Commanding

if TYPE_CHECKING:
    from pathlib import Path

    from tests.contract.bank import Bank

HELD = "touch inside; while [ ! -e go-on ]; do sleep 0.05; done; exit 3"


class Command:
    """A start of the newest occurrence by a command that waits, and then fails."""

    def __init__(self, bank: Bank, folder: Path) -> None:
        self.folder = folder
        # More than the ledger waits for until it is told how far a job is complete.
        starts = midnight() - timedelta(days=80)
        self.job: dict[str, Any] = {
            "schedule": "0 0 * * *",
            "starts": starts,
            "max_per_tick": 100,
            "retry": duly.Retry(first=timedelta(0), most=timedelta(0)),
        }
        self.app = bank.define(bank.app(evidence_after=0), **self.job)
        self.app.register()
        self.work = Commanding(
            ["sh", "-c", f"cd '{folder}'; {HELD}"], self.app.database, after_crash=HOLD
        )
        job = self.app.jobs[bank.job]
        self.app.jobs[bank.job] = replace(job, handler=self.work)
        self.raised: list[BaseException] = []
        self.thread = threading.Thread(target=self._start, args=[bank.job])

    def begin(self) -> None:
        self.thread.start()
        until = time.monotonic() + 30
        while not (self.folder / "inside").exists():
            assert not self.raised
            assert time.monotonic() < until
            time.sleep(0.02)

    def fail(self) -> None:
        (self.folder / "go-on").touch()
        self.thread.join(30)
        self.work.close()
        assert [type(error) for error in self.raised] == [duly.CommandFailed]

    def _start(self, job: str) -> None:
        try:
            self.app.run(job, midnight())
        except BaseException as error:
            self.raised.append(error)


def midnight() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


@pytest.mark.parametrize("when", ["after the mark", "before the mark"])
def test_occurrence_whose_held_command_failed_is_missing_although_a_tick_passed_it_by(
    bank: Bank, tmp_path: Path, when: str
) -> None:
    """The tick saw no hole; what it remembers of that is not believed any more."""
    command = Command(bank, tmp_path)
    others = bank.define(bank.app(), **command.job)
    command.begin()
    if when == "before the mark":
        ticking: Any = others._ticking
        mark = ticking._mark_complete

        def marked(*given: Any) -> None:
            command.fail()
            mark(*given)

        ticking._mark_complete = marked
        others.tick()
        ticking._mark_complete = mark
    else:
        others.tick()
        command.fail()

    (ran,) = [ran for job in others.tick().jobs for ran in job.ran]
    assert duly.Occurrence.parse(ran.key).nominal_time == midnight()
    assert ran.outcome is duly.Outcome.APPLIED


def test_command_that_runs_on_another_host_is_not_taken_for_dead(
    server_bank: Bank, tmp_path: Path
) -> None:
    """Nobody waits for a key that is held, so the key proves no death: only that host can know."""
    bank = server_bank
    command = Command(bank, tmp_path)
    others = bank.define(bank.app(), **command.job)
    command.begin()
    until = time.monotonic() + 30
    while not bank.run("SELECT 1 FROM duly_running"):
        assert time.monotonic() < until, "no marker was written"
        time.sleep(0.02)
    bank.run("UPDATE duly_running SET process = 'another/host/1/1'")

    found = others.sweep()
    during = others.history(bank.job)
    command.fail()

    assert (found, during.attempts) == (0, ())
    assert [each.occurrence.nominal_time for each in during.held] == [midnight()]
    (attempt,) = others.history(bank.job).attempts
    assert attempt.outcome is duly.Outcome.FAILED
