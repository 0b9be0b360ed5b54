"""One key by every way in at once; and a prune beside a start by each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.callers import ClaimDoor
from tests.races import test_prune_against_attempt as pruning
from tests.races.bank import OLD, Bank, key_at, recent
from tests.races.starter import Starter, race
from tests.races.steps import BOUND_S, LockWatch, Stops, start, wait_until_reached
from tests.races.ways import WAYS, opened, until_settled

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.contract.doors import Door

ledger, late = pruning.ledger, pruning.late
PROCESSES = 2


def test_every_way_in_at_once_on_one_key_has_one_effect(bank: Bank) -> None:
    """Threads, tasks, Django, sessions and plain drivers race for the same keys (E07, E12)."""
    keys = [key_at(recent(1)), key_at(OLD), key_at(recent(2)), key_at(recent(3))]
    starters = [Starter(bank, "ways", ways=WAYS, keys=keys) for _ in range(PROCESSES)]

    ended = race(starters)

    starts = PROCESSES * len(WAYS) * len(keys)
    assert ended == {"applied": len(keys), "duplicate": starts - len(keys)}
    assert bank.effects() == dict.fromkeys(keys, 1)
    settled = bank.rows("SELECT disposition, attempt_id FROM duly_occurrence")
    sealed = bank.rows("SELECT id FROM duly_attempt WHERE outcome = 'applied'")
    assert [row[0] for row in settled] == ["applied"] * len(keys)
    assert sorted(row[1] for row in settled) == sorted(row[0] for row in sealed)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def _long(place: str) -> Any:
    """A place for the whole matrix."""
    return pytest.param(place, marks=pytest.mark.torture)


def _late_start(bank: Bank, way: str, stops: Stops | None = None) -> Future[str]:
    """Start the late key by that way, on a thread that opens it."""

    def run() -> str:
        with opened(bank, way) as door:
            if stops is not None:
                _hold(door, stops)
            return until_settled(door, pruning.KEY)

    return start(run)


def _hold(door: Door, stops: Stops) -> None:
    if not isinstance(door, ClaimDoor):  # those are held by `held_claims`
        attempts = getattr(door, "attempts", None)
        if attempts is not None:
            attempts.probe = stops
        else:
            door.app._probe = stops  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["after LockGuard", "after Claim", _long("after ReadHorizon")])
def test_start_by_any_way_held_while_a_prune_passes_is_no_second_effect(
    late: Bank, way: str, place: str
) -> None:
    stops = Stops()
    stop = stops.at(place)
    with pruning.held_claims(stops):
        started = _late_start(late, way, stops)
        wait_until_reached(stop, started)
        pruned = pruning.prune(late)
        pruning.let_prune_go_as_far_as_it_can(late, pruned)
        stop.go()
        outcome = pruning.settle(started, pruned)
    pruning.expect_never_twice(late, outcome, f"{way} held {place}")


@pytest.mark.parametrize(
    "place", ["after TouchGuard", _long("after DeleteBatch"), _long("after Commit")]
)
def test_start_by_any_way_beside_a_held_prune_is_no_second_effect(
    late: Bank, way: str, place: str
) -> None:
    stops = Stops()
    stop = stops.at(place)
    pruned = pruning.prune(late, stops)
    assert wait_until_reached(stop, pruned)
    started = _late_start(late, way)
    LockWatch(late).wait_until_waiting(1, started)
    stop.go()
    pruning.expect_never_twice(late, pruning.settle(started, pruned), f"{way} held {place}")
    assert started.result(BOUND_S) in {"expired", "duplicate"}
