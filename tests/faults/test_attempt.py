"""Every op of an attempt, before and after it, times every fault; then the database is asked."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

import pytest

import duly
from duly import testing
from duly._core import ops
from tests.faults.matrix import (
    FIRST_WAY,
    HELD,
    OTHER_WAYS,
    STOPS,
    Cell,
    cells,
    kinds_of,
    sharp,
)
from tests.faults.scenarios import DATABASES, SCENARIOS, end
from tests.faults.staging import Stage

if TYPE_CHECKING:
    from tests.faults.conftest import Ledgers
    from tests.faults.ledger import Facts, Ledger
    from tests.faults.victims import Victims

SIGKILLED = -9
# Unclaim happens only in a caller's transaction: test_claim.py. Those of a command have a matrix of
# their own, test_command.py.
ELSEWHERE = {ops.Unclaim, ops.TakeTurn, ops.RunCommand, ops.Hold, ops.Resume, ops.Release}
OPS = tuple(op.__name__ for op in get_args(ops.Op) if op not in ELSEWHERE)


def _parameters() -> list[Any]:
    chosen = sharp()
    return [
        pytest.param(cell, id=str(cell), marks=[] if cell in chosen else [pytest.mark.torture])
        for cell in cells()
    ]


@pytest.mark.parametrize("cell", _parameters())
@pytest.mark.usefixtures("real_signals")
def test_fault_at_any_op_leaves_one_effect_or_none(
    cell: Cell, ledgers: Ledgers, victims: Victims, partition: str
) -> None:
    """Whatever fails where: no half, no double, no leak, a true answer; a retry completes it."""
    ledger = ledgers(cell.database)
    bank = ledger.bank_of(cell.way)
    stage = Stage(cell.database, bank, cell.plan, partition, cell.plan.at())
    stage.prepare()
    before = ledger.facts(stage.occurrence)

    if cell.kind == "kill":
        ended = None
        status = victims.kill_one(
            "tests.faults.victims:start_attempt",
            cell=asdict(cell),
            url=ledger.url,
            partition=partition,
            at=stage.at.isoformat(),
        )
        assert status == SIGKILLED
    else:
        ended = _start(stage, cell)

    ledger.wait_until_quiet()
    facts = ledger.facts(stage.occurrence)
    _check_facts(cell, facts)
    _check_covered(cell, stage, ledger, facts)
    if cell.kind == "kill":
        landed = before.effects or cell.has_landed
        assert len(facts.effects) == bool(landed or _is_torn_for_good(cell, facts))
    elif cell.kind in STOPS:
        _check_stopped(cell, ended, facts, before)
    else:
        _check_answer(cell, ended, facts, before)
        _check_mended(cell, ended, stage)
    _check_retry(cell, stage, ledger, facts)


def _start(stage: Stage, cell: Cell) -> duly.Result | BaseException:
    with stage.faulted(cell) as injected:
        try:
            ended: duly.Result | BaseException = stage.start()
        except BaseException as error:
            ended = error
    assert injected.fired == 1
    return ended


def _check_facts(cell: Cell, facts: Facts) -> None:
    others = {attempt_id for attempt_id, outcome, _ in facts.attempts if outcome != "applied"}
    assert others.isdisjoint(facts.applied) or _is_a_lie_of_the_test(cell)
    if cell.plan.does is end and cell.database == "mariadb":
        # The handler's own COMMIT landed its effect; it must never look completed.
        assert not facts.applied
        assert len(facts.effects) <= 1
        return
    if facts.disposition == "torn":
        assert not facts.effects
        assert not facts.applied
        return
    assert facts.is_sound


def _check_covered(cell: Cell, stage: Stage, ledger: Ledger, facts: Facts) -> None:
    """Effect, completion and all that it covers are there together, or none of them is."""
    if stage.by_hand is None:
        return
    covered = {each.key: ledger.facts(each) for each in stage.older}
    by_hand = covered.pop(stage.by_hand.key)
    assert by_hand.is_sound
    assert len(by_hand.effects) == 1
    assert not any(each.effects or each.attempts for each in covered.values())
    dispositions = {each.disposition for each in covered.values()}
    if _is_torn_for_good(cell, facts) and facts.disposition == "applied":
        # Killed after the handler's own COMMIT, before it could be held: torn to every reader.
        assert dispositions == {"superseded"}
    elif cell.database == "mariadb" and facts.effects and facts.disposition == "torn":
        assert dispositions == {"torn"}
    else:
        assert dispositions == ({"superseded"} if facts.effects else {None})


def _check_stopped(cell: Cell, ended: object, facts: Facts, before: Facts) -> None:
    """Ctrl-C and SIGTERM are never lost; the attempt was rolled back and recorded, or settled."""
    assert isinstance(ended, STOPS[cell.kind]), ended
    assert (
        len(facts.effects)
        == bool(
            before.effects
            or cell.has_landed
            or _is_torn_for_good(cell, facts)
            or (cell.kind in HELD and cell.op in {"Seal", "Commit"})
            # The task awaits nothing between its handler's last line and the seal.
            or (cell.op, cell.moment, cell.kind) == ("CallHandler", "after", "cancel")
        )
        or facts.disposition == "torn"
    )
    # A stop while a commit's fate is sought records nothing: it might be applied after all.
    is_settling = cell.place < cell.plan.settled
    # A start that found no slot was none; a signal is held until that is known.
    is_none = cell.plan.name == "no-slot" and (
        cell.kind in HELD or (cell.op == "Rollback" and cell.moment == "after")
    )
    if not facts.effects and not facts.disposition and not is_settling and not is_none:
        assert facts.attempts


def _check_answer(cell: Cell, ended: object, facts: Facts, before: Facts) -> None:
    """What the caller was told is what the database says."""
    if isinstance(ended, duly.Result):
        assert [str(ended.attempt_id)] == facts.effects
        # A key that this very start has applied is never called a duplicate.
        expected = "duplicate" if before.effects and not cell.plan.corrects else "applied"
        assert ended.outcome == expected or _is_a_lie_of_the_test(cell)
    elif not _is_a_lie_of_the_test(cell) and not _is_torn_for_good(cell, facts):
        assert facts.effects == before.effects, ended


def _check_mended(cell: Cell, ended: object, stage: Stage) -> None:
    """Where duly can go on by itself, nobody notices; and a settled effect is not made again."""
    key = stage.occurrence.key
    if cell.has_landed:
        assert stage.bank.calls[key] <= cell.plan.ops[: cell.place + 1].count("CallHandler")
    if cell.plan.name not in {"applied", "old", "covering", "covering-old"}:
        return
    last = "Cover" if cell.plan.covers else "Claim"  # of duly's own before the handler
    free = cell.op in {"Begin", "LockGuard", "ReadHorizon", "Claim", "Cover"} and not (
        cell.op == last and cell.moment == "after"
    )
    if cell.is_past_block and not cell.has_landed:
        # Nobody can do the block again, so whoever started it is told that nothing was done.
        if cell.kind == "contention":
            assert isinstance(ended, duly.Busy), ended
            assert "start it again" in str(ended)
        elif cell.kind in {"cut", "plain"} and not isinstance(ended, duly.Result):
            assert cell.op == "CallHandler" or "run it again" in str(ended), ended
        return
    if (
        (cell.kind == "contention" and not cell.has_landed)
        or (cell.kind == "cut" and (free or cell.is_past_seal))
        or (cell.kind == "plain" and (cell.is_past_seal or cell.op == "Seal"))
    ):
        assert isinstance(ended, duly.Result), ended


def _check_retry(cell: Cell, stage: Stage, ledger: Ledger, earlier: Facts) -> None:
    """An ordinary start afterwards completes what is not completed, and nothing else."""
    try:
        ended: duly.Result | Exception = stage.retry()
    except Exception as error:
        ended = error
    facts = ledger.facts(stage.occurrence)
    ledger.wait_until_quiet()
    _check_covered(cell, stage, ledger, facts)
    if earlier.disposition == "torn" or _is_torn_for_good(cell, earlier):
        assert isinstance(ended, duly.AlreadySettled), ended
        assert facts.effects == earlier.effects
        return
    if cell.plan.retried in {"PayloadConflict", "Expired"}:
        assert type(ended).__name__ == cell.plan.retried
        assert facts.effects == earlier.effects
        return
    assert isinstance(ended, duly.Result), ended
    assert ended.outcome == ("duplicate" if earlier.effects else "applied")
    assert facts.is_sound
    assert facts.effects == [str(ended.attempt_id)]


def _is_torn_for_good(cell: Cell, facts: Facts) -> bool:
    """MariaDB obeyed the handler's COMMIT: the effect is there, without its completion."""
    return cell.plan.does is end and cell.database == "mariadb" and bool(facts.effects)


def _is_a_lie_of_the_test(cell: Cell) -> bool:
    """No database answers with an error what it has committed; no second effect even then."""
    return cell.kind in {"contention", "refused"} and cell.op == "Commit" and cell.moment == "after"


@pytest.mark.parametrize(
    ("name", "database", "way"),
    sorted({(cell.scenario, cell.database, cell.way) for cell in cells()}),
)
def test_scenario_performs_the_ops_that_the_matrix_counts_on(
    name: str, database: str, way: str, ledgers: Ledgers, partition: str
) -> None:
    """A change of the protocol that would move the cells is noticed here first."""
    ledger = ledgers(database)
    plan = SCENARIOS[name]
    bank = ledger.bank_of(way)
    stage = Stage(database, bank, plan, partition, plan.at())
    stage.prepare()

    with testing.fault(bank.app, op="Unclaim") as watched:
        try:
            ending = str(stage.start().outcome)
        except Exception as error:
            ending = type(error).__name__

    if way == "once-block" and "CallHandler" in watched.seen:
        # The op is performed in two parts, with the block between them.
        watched.seen.remove("CallHandler")
    assert tuple(watched.seen) == plan.ops_on(database)
    assert ending in plan.ending.split(" or ")
    ledger.wait_until_quiet()
    try:
        retried = str(stage.retry().outcome)
    except Exception as error:
        retried = type(error).__name__
    assert retried == plan.retried


@pytest.mark.parametrize("database", DATABASES)
def test_sharp_selection_has_every_op_and_every_fault(database: str) -> None:
    """`make test` leaves no op and no fault to the long run."""
    ours = [cell for cell in sharp() if cell.database == database]

    chosen = {(cell.op, cell.kind) for cell in ours if cell.way == FIRST_WAY}
    assert chosen >= {(op, kind) for op in OPS for kind in kinds_of(FIRST_WAY)}
    for way in OTHER_WAYS:
        of_way = {cell.op for cell in cells() if (cell.database, cell.way) == (database, way)}
        assert {c.op for c in ours if c.way == way and c.kind == "kill"} == of_way
        assert {c.kind for c in ours if c.way == way} == set(kinds_of(way))
