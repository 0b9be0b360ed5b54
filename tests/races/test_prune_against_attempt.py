"""A prune never frees a key, however it interleaves with a late attempt.

Every interleaving is forced: the attempt is held between two of its statements while the prune
goes as far as it can, and the other way round, at every isolation level, with a horizon from
an earlier prune and without one. The late attempt may be `expired` or a `duplicate`; a caller's
transaction may have to be tried again. It is never applied a second time.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

import pytest

import duly
from duly._sync import claim as claim_module
from tests.races.bank import (
    CALLER_LEVELS,
    ENGINE_LEVELS,
    JOB,
    OLD,
    SERVER_LEVELS,
    Bank,
    Caller,
    key_at,
)
from tests.races.steps import (
    BOUND_S,
    PRUNE_PLACES,
    LockWatch,
    Stop,
    Stops,
    start,
    wait_until_reached,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from tests.servers.server import Server

LATE = OLD + timedelta(days=30)
"""The nominal time of the late attempt: applied long ago, about to be pruned."""
BOUND = OLD + timedelta(days=60)
KEY = key_at(LATE)

Name = Literal["postgresql", "mariadb"]

ATTEMPT_PLACES = (
    "before Begin",
    "after Begin",
    "before LockGuard",
    "after LockGuard",
    "after ReadHorizon",
    "before Claim",
    "after Claim",
    "after Explain",
)
CLAIM_PLACES = (
    "before LockGuard",
    "after LockGuard",
    "after ReadHorizon",
    "after Claim",
    "after Explain",
)


# ------------------------------------------------------------------------------------------ arrange


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Bank]:
    """One database for all interleavings on one kind of server; emptied before each."""
    name: Name = request.param
    server: Server = request.getfixturevalue("postgres" if name == "postgresql" else name)
    url = server.create_database()
    bank = Bank.found(name, url)
    yield bank
    bank.close()
    server.drop(url)


@pytest.fixture(params=[False, True], ids=["never-pruned", "pruned-before"])
def late(request: pytest.FixtureRequest, ledger: Bank) -> Bank:
    """A ledger in which the key was applied long ago, and a later one stays."""
    arrange(ledger, pruned_before=request.param)
    return ledger


def arrange(bank: Bank, *, pruned_before: bool) -> None:
    """Empty the ledger, apply the late key, and prune below it or not."""
    bank.dismiss_callers()
    bank.empty()
    app = bank.kept_app("arranger")
    if pruned_before:
        app.run(JOB, OLD)
        app.prune(older_than=OLD)
        assert bank.horizon() is not None
    else:
        assert bank.horizon() is None
    assert app.run(JOB, LATE).outcome is duly.Outcome.APPLIED
    app.run(JOB, BOUND + timedelta(days=1))


@contextmanager
def held_claims(stops: Stops) -> Iterator[None]:
    """Let `duly.claim` call *stops* before and after each of its ops."""
    perform = claim_module._perform

    def stepped(session: Any, op: Any, *rest: Any) -> Any:
        stops("before", op, session)
        reply = perform(session, op, *rest)
        stops("after", op, session)
        return reply

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(claim_module, "_perform", stepped)
        yield


def prune(bank: Bank, stops: Stops | None = None) -> Future[Any]:
    """Start a prune past the late key, on a thread."""
    app = bank.kept_app("pruner")
    app._probe = stops
    return start(app.prune, older_than=BOUND)


def attempt(bank: Bank, level: str | None, stops: Stops | None = None) -> Future[str]:
    """Start the late attempt on duly's own connection, on a thread."""
    app = bank.kept_app("late", level)
    app._probe = stops

    def run() -> str:
        try:
            return app.run(JOB, LATE, wait=20).outcome.value
        except duly.Expired:
            return "expired"

    return start(run)


def settle(late: Future[str], pruned: Future[Any]) -> str:
    """Both to their ends; the prune must have done its work."""
    outcome = late.result(BOUND_S)
    (job,) = pruned.result(BOUND_S)
    assert job.job == JOB
    return outcome


def expect_never_twice(bank: Bank, outcome: str, what: str) -> None:
    assert outcome in {"expired", "duplicate"}, what
    assert bank.effects()[KEY] == 1, what
    left = bank.value(f"SELECT COUNT(*) FROM duly_occurrence WHERE nominal_us <= {bank.horizon()}")
    assert left == 0, what
    with pytest.raises(duly.Expired):
        bank.kept_app("arranger").run(JOB, LATE)
    assert bank.effects()[KEY] == 1, what


def let_prune_go_as_far_as_it_can(bank: Bank, pruned: Future[Any]) -> None:
    """To its end, or until it waits for the attempt."""
    LockWatch(bank).wait_until_waiting(1, pruned)


# ---------------------------------------------------------------------- attempts on own connections


@pytest.mark.parametrize("level", ENGINE_LEVELS["postgresql"])
def test_attempt_held_between_two_statements_while_a_prune_passes(
    late: Bank, level: str | None
) -> None:
    for place in ATTEMPT_PLACES:
        _reset(late)
        stops = Stops()
        stop = stops.at(place)
        attempted = attempt(late, level, stops)
        wait_until_reached(stop, attempted)
        pruned = prune(late)
        let_prune_go_as_far_as_it_can(late, pruned)
        stop.go()
        expect_never_twice(late, settle(attempted, pruned), f"held {place}")


@pytest.mark.parametrize("level", ENGINE_LEVELS["postgresql"])
def test_prune_held_between_two_statements_while_an_attempt_passes(
    late: Bank, level: str | None
) -> None:
    for place in PRUNE_PLACES:
        _reset(late)
        stops = Stops()
        stop = stops.at(place)
        pruned = prune(late, stops)
        assert wait_until_reached(stop, pruned)
        attempted = attempt(late, level)
        LockWatch(late).wait_until_waiting(1, attempted)
        stop.go()
        expect_never_twice(late, settle(attempted, pruned), f"held {place}")


def _reset(bank: Bank) -> None:
    """The same start for the next interleaving."""
    arrange(bank, pruned_before=bank.effects()[key_at(OLD)] > 0)


# --------------------------------------------------------------------------- callers' transactions


def _caller_outcome(caller: Caller, tried: str) -> str:
    return caller.until_settled(KEY) if tried == "again" else tried


def _first_try(caller: Caller) -> str:
    """The claim in a transaction that is open already."""
    return caller.finish(KEY, wait=20)


@pytest.mark.parametrize("level", SERVER_LEVELS)
def test_caller_whose_snapshot_is_older_than_a_whole_prune(late: Bank, level: str) -> None:
    caller = late.caller(level)
    caller.begin(snapshot=True)
    prune(late).result(BOUND_S)
    outcome = _caller_outcome(caller, _first_try(caller))
    expect_never_twice(late, outcome, level)


@pytest.mark.parametrize("level", SERVER_LEVELS)
def test_caller_held_between_two_statements_while_a_prune_passes(late: Bank, level: str) -> None:
    for place in CLAIM_PLACES:
        _reset(late)
        caller = late.caller(level)
        caller.begin(snapshot=True)
        stops = Stops()
        stop = stops.at(place)
        with held_claims(stops):
            claimed = start(_first_try, caller)
            wait_until_reached(stop, claimed)
            pruned = prune(late)
            let_prune_go_as_far_as_it_can(late, pruned)
            stop.go()
            outcome = _caller_outcome(caller, settle(claimed, pruned))
        expect_never_twice(late, outcome, f"held {place}")


@pytest.mark.parametrize("level", SERVER_LEVELS)
@pytest.mark.parametrize("snapshot", ["before", "during"])
def test_prune_held_between_two_statements_while_a_caller_passes(
    late: Bank, level: str, snapshot: str
) -> None:
    """The caller's snapshot is taken before the prune begins, or in the midst of it."""
    for place in PRUNE_PLACES:
        _reset(late)
        caller = late.caller(level)
        if snapshot == "before":
            caller.begin(snapshot=True)
        stops = Stops()
        stop = stops.at(place)
        pruned = prune(late, stops)
        assert wait_until_reached(stop, pruned)
        if snapshot == "during":
            caller.begin(snapshot=True)
        claimed = start(_first_try, caller)
        LockWatch(late).wait_until_waiting(1, claimed)
        stop.go()
        outcome = _caller_outcome(caller, settle(claimed, pruned))
        expect_never_twice(late, outcome, f"held {place}")


@pytest.mark.parametrize("level", SERVER_LEVELS)
def test_old_key_claimed_for_the_first_time_is_not_applied_again_after_a_prune(
    late: Bank, level: str
) -> None:
    """The claim is open, so the prune waits for it; afterwards the key is expired."""
    first = OLD + timedelta(days=31)
    key = key_at(first)
    caller = late.caller(level)
    caller.begin(snapshot=True)
    assert caller.claim(key).is_new
    pruned = prune(late)
    assert LockWatch(late).wait_until_waiting(1, pruned), "the prune passed an open claim"
    caller.raw.commit()
    pruned.result(BOUND_S)
    assert late.caller(level).until_settled(key, snapshot=True) == "expired"
    with pytest.raises(duly.Expired):
        late.kept_app("late", level).run(JOB, first)
    assert late.effects()[key] == 1


# ------------------------------------------------------------------------------------------- SQLite


@pytest.mark.parametrize("pruned_before", [False, True])
@pytest.mark.parametrize("level", CALLER_LEVELS["sqlite"])
def test_sqlite_caller_whose_snapshot_is_older_than_a_prune(
    tmp_path: Any,
    level: str,
    pruned_before: bool,
) -> None:
    """There a claim has the one write lock, or is told to try again."""
    from tests.servers.database import Database

    database = Database.in_file(tmp_path / "test.db")
    bank = Bank.found("sqlite", database.url)
    arrange(bank, pruned_before=pruned_before)
    caller = bank.caller(level)
    caller.begin(snapshot=True)
    pruned = prune(bank)
    if level == "DEFERRED":
        pruned.result(BOUND_S)
    outcome = _caller_outcome(caller, _first_try(caller))
    pruned.result(BOUND_S)
    assert outcome == ("expired" if level == "DEFERRED" else "duplicate")
    assert caller.until_settled(KEY) == "expired"
    assert bank.effects()[KEY] == 1
    bank.close()


def test_sqlite_attempt_beside_a_held_prune(tmp_path: Any) -> None:
    from tests.servers.database import Database

    for place in PRUNE_PLACES:
        database = Database.in_file(tmp_path / f"{place}.db")
        bank = Bank.found("sqlite", database.url)
        arrange(bank, pruned_before=False)
        stops = Stops()
        stop: Stop = stops.at(place)
        pruned = prune(bank, stops)
        assert wait_until_reached(stop, pruned)
        outcome = _during(bank, place, stop)
        pruned.result(BOUND_S)
        assert outcome in {"expired", "duplicate"}
        with pytest.raises(duly.Expired):
            bank.kept_app("arranger").run(JOB, LATE)
        assert bank.effects()[KEY] == 1
        bank.close()


def _during(bank: Bank, place: str, stop: Stop) -> str:
    """The attempt's outcome; where the prune has the write lock, the attempt must wait for it."""
    attempted = attempt(bank, None)
    if place in {"before TouchGuard", *_with_write_lock()}:
        assert not attempted.done()
    else:
        attempted.exception(BOUND_S)
    stop.go()
    return attempted.result(BOUND_S)


def _with_write_lock() -> Sequence[str]:
    return ("after TouchGuard", "after RaiseHorizon", "after DeleteBatch", "before Commit")
