"""Every op of a start whose work is a command, before and after it, times every fault.

Kills are in tests/script/test_exec_killed.py, where duly is a process of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from duly._core import ops
from duly._sync.commanding import HOLD, RETRY, Commanding
from tests.faults.matrix import STOPS
from tests.faults.scenarios import DATABASES, MOMENTS, WAIT_S, Moment, driver_error, young

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.faults.conftest import Ledgers
    from tests.faults.ledger import Facts, Ledger

JOB = "command"
KINDS = ("cut", "contention", "refused", "plain", "interrupt", "terminate")
EFFECT = (
    'echo "$DULY_PARTITION" >> "$STARTED";'
    " echo \"INSERT INTO effect (occurrence, attempt) VALUES ('$DULY_KEY', '$DULY_ATTEMPT');\""
    ' > "$DULY_SQL_OUT"'
)
_HELD = ("Begin", "Claim", "Hold", "Commit", "RunCommand", "Begin")


@dataclass(frozen=True)
class Scenario:
    """One way for a start to go when nothing more happens.

    Attributes:
        command: What the shell runs; the retry makes the effect.
        lands: The place of the COMMIT of the effect, if there is one.
        frees: The command told its end, and its key is free for the next start.
    """

    name: str
    after_crash: str
    ops: tuple[str, ...]
    command: str = EFFECT
    ending: str = "applied"
    lands: int | None = None
    frees: bool = False
    databases: tuple[str, ...] = DATABASES


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("hold", HOLD, (*_HELD, "Resume", "CallHandler", "Seal", "Commit"), lands=9),
        Scenario(
            "hold-failing",
            HOLD,
            (*_HELD, "Release", "Commit"),
            f"{EFFECT}; exit 3",
            "CommandFailed",
            frees=True,
        ),
        Scenario(
            "hold-killed", HOLD, (*_HELD[:5], "Record"), f"{EFFECT}; kill -9 $$", "CommandHeld"
        ),
        Scenario(
            "retry",
            RETRY,
            ("TakeTurn", "Begin", "Claim", "Rollback", "RunCommand", "Begin", "Claim",
             "CallHandler", "Seal", "Commit"),
            lands=9,
            databases=("sqlite",),  # on a server it is an ordinary attempt
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One fault: *kind* happens at the op at *place* of *scenario* on *database*."""

    database: str
    scenario: str
    place: int
    moment: Moment
    kind: str

    def __str__(self) -> str:
        return f"{self.database}-{self.scenario}-{self.place}-{self.moment}-{self.op}-{self.kind}"

    @property
    def plan(self) -> Scenario:
        return SCENARIOS[self.scenario]

    @property
    def op(self) -> str:
        return self.plan.ops[self.place]

    @property
    def skip(self) -> int:
        return self.plan.ops[: self.place].count(self.op)

    @property
    def has_landed(self) -> bool:
        return self.place == self.plan.lands and self.moment == "after"

    @property
    def is_a_lie(self) -> bool:
        """No database answers with an error what it has committed."""
        return self.op == "Commit" and self.moment == "after" and self.kind in {
            "contention", "refused",
        }  # fmt: skip


def _cells() -> Iterator[Any]:
    for plan in SCENARIOS.values():
        for database in plan.databases:
            for place, op in enumerate(plan.ops):
                for number, kind in enumerate(KINDS):
                    for moment in MOMENTS:
                        cell = Cell(database, plan.name, place, moment, kind)
                        sharp = op == "Commit" or moment == MOMENTS[(place + number) % 2]
                        marks = [] if sharp else [pytest.mark.torture]
                        yield pytest.param(cell, id=str(cell), marks=marks)


class Stage:
    """Starts of one key by commands that note that they ran."""

    def __init__(self, ledger: Ledger, plan: Scenario, partition: str, folder: Path) -> None:
        self.app, self.plan = ledger.bank.app, plan
        self.occurrence = duly.Occurrence(JOB, young(), partition)
        self._started = folder / "started"
        if JOB not in self.app.jobs:
            self.app.job(JOB)(lambda run: None)

    @property
    def ran(self) -> int:
        """How often a command was started."""
        return len(self._started.read_text().splitlines()) if self._started.exists() else 0

    def start(self, command: str) -> duly.Result | BaseException:
        line = ["sh", "-c", f"STARTED='{self._started}'; {command}"]
        work = Commanding(line, self.app.database, after_crash=self.plan.after_crash)
        self.app.jobs[JOB] = replace(self.app.jobs[JOB], handler=work)
        at, partition = self.occurrence.nominal_time, self.occurrence.partition
        try:
            return self.app.run(JOB, at, partition=partition, wait=WAIT_S)
        except BaseException as error:
            return error
        finally:
            work.close()


@pytest.mark.parametrize("cell", list(_cells()))
def test_fault_at_any_op_of_a_command_leaves_one_effect_or_none(
    cell: Cell, ledgers: Ledgers, partition: str, tmp_path: Path
) -> None:
    """No half, no double, no leak, a true answer; with hold no command is started again."""
    ledger = ledgers(cell.database)
    stage = Stage(ledger, cell.plan, partition, tmp_path)

    error = (
        driver_error(cell.kind, cell.database) if cell.kind in {"contention", "refused"} else None
    )
    kind: Any = cell.kind if cell.kind in {"cut", "interrupt", "terminate"} else "raise"
    with testing.fault(
        stage.app, op=cell.op, when=cell.moment, skip=cell.skip, kind=kind, error=error
    ) as injected:
        ended = stage.start(cell.plan.command)

    assert injected.fired == 1
    ledger.wait_until_quiet()
    facts = ledger.facts(stage.occurrence)
    assert len(facts.effects) <= 1
    if not cell.is_a_lie:
        _check_facts(facts)
        _check_answer(cell, ended, facts)
    ran = stage.ran
    again = stage.start(EFFECT)
    ledger.wait_until_quiet()
    later = ledger.facts(stage.occurrence)
    assert len(later.effects) <= 1
    if facts.disposition == "torn":
        assert isinstance(again, duly.AlreadySettled), again
        assert stage.ran == ran
        return
    assert isinstance(again, duly.Result), again
    assert again.outcome == ("duplicate" if facts.effects else "applied")
    assert later.effects == [str(again.attempt_id)]
    assert later.applied == [again.attempt_id]
    if cell.plan.after_crash == HOLD and not cell.plan.frees:
        assert stage.ran == 1, "a command was started again"


def _check_facts(facts: Facts) -> None:
    if facts.disposition == "torn":
        assert (facts.effects, facts.applied) == ([], [])
        assert facts.attempt_id is None
    else:
        assert facts.is_sound
    ids = [attempt_id for attempt_id, _, _ in facts.attempts]
    assert len(ids) == len(set(ids)), "two rows of one attempt"


def _check_answer(cell: Cell, ended: object, facts: Facts) -> None:
    outcomes = [outcome for _, outcome, _ in facts.attempts]
    if cell.kind in STOPS:
        assert isinstance(ended, STOPS[cell.kind]), ended
    elif isinstance(ended, duly.Result):
        assert [str(ended.attempt_id)] == facts.effects
        assert ended.outcome == "applied"
    else:
        assert not isinstance(ended, ops.Fault), "a fault came out of the protocol"
        assert not facts.effects, ended
    if isinstance(ended, duly.CommandHeld):
        assert facts.disposition == "torn"
    if facts.disposition == "torn" and cell.op != "Record":
        assert outcomes == ["torn"]
    elif not facts.effects:
        assert set(outcomes) <= {"failed", "torn", "busy"}
    if cell.has_landed:
        assert facts.effects


@pytest.mark.parametrize(
    ("name", "database"),
    [(plan.name, database) for plan in SCENARIOS.values() for database in plan.databases],
)
def test_scenario_of_a_command_performs_the_ops_that_the_matrix_counts_on(
    name: str, database: str, ledgers: Ledgers, partition: str, tmp_path: Path
) -> None:
    """A change of the protocol that would move the cells is noticed here first."""
    ledger = ledgers(database)
    plan = SCENARIOS[name]
    stage = Stage(ledger, plan, partition, tmp_path)

    with testing.fault(stage.app, op="Unclaim") as watched:
        ended = stage.start(plan.command)

    assert tuple(watched.seen) == plan.ops
    ending = ended.outcome if isinstance(ended, duly.Result) else type(ended).__name__
    assert ending == plan.ending
