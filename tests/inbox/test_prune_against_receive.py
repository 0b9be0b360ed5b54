"""A prune of the inbox never lets a message through twice, however it meets a late delivery of it.

Every interleaving is forced: the delivery is held between two of its statements while the prune
goes as far as it can, and the other way round. The late delivery is a duplicate, or it is parked;
one that was never seen before is handled once, or parked.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._sync import receive as receive_module
from tests.inbox.post import SOURCE
from tests.races.bank import SERVER_LEVELS, connect, is_contention
from tests.races.steps import (
    BOUND_S,
    PRUNE_PLACES,
    LockWatch,
    Stops,
    start,
    wait_until_reached,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tests.inbox.post import Post

# Older than what any other test of this ledger sends, so that a prune is of these alone.
SENT = datetime(2001, 1, 1, tzinfo=UTC)
BOUND = SENT + timedelta(days=1)

RECEIVE_PLACES = (
    "before Begin",
    "after Begin",
    "before LockGuard",
    "after LockGuard",
    "after ReadHorizon",
    "before Claim",
    "after Claim",
    "before Commit",
    "after Commit",
)
CALLER_PLACES = ("before LockGuard", "after LockGuard", "after ReadHorizon", "after Claim")

_numbers = count()


class Case:
    """One message of a consumer of its own, and a prune that passes it.

    Args:
        seen: It was handled once before.
    """

    def __init__(self, post: Post, *, seen: bool) -> None:
        self.post = post
        self.seen = seen
        self.consumer = f"{post.consumer}-{next(_numbers)}"
        self.before = post.effects
        self.late, self.pruner = post.app(), post.app()
        post.consumer_on(self.late, self.consumer)
        assert self.receive(message_id="other") == "new"  # what makes the prune come by
        if seen:
            assert self.receive() == "new"

    def receive(self, message_id: str = "m-1") -> str:
        """A delivery in duly's transaction; how it ended."""
        try:
            found = self.late.receive(
                self.consumer, source=SOURCE, message_id=message_id, payload=1, sent_at=SENT,
                wait=20.0,
            )  # fmt: skip
        except duly.MessageParked as error:
            return str(error.details["why"])
        return "new" if found.is_new else "duplicate"

    def receive_in_caller(self, raw: Any) -> str:
        """A delivery in the transaction that is open on *raw*, which is ended."""
        try:
            found = duly.receive(
                raw, consumer=self.consumer, source=SOURCE, message_id="m-1", payload=1,
                sent_at=SENT, wait=20.0,
            )  # fmt: skip
            if found.is_new:
                self.post.change(raw)
            raw.commit()
        except duly.MessageParked as error:
            raw.commit()
            return str(error.details["why"])
        except Exception as error:
            raw.rollback()
            if not is_contention(error):
                raise
            return "again"
        return "new" if found.is_new else "duplicate"

    def prune(self) -> Future[Any]:
        return start(self.pruner.prune_inbox, older_than=BOUND, clock_is_right=True)

    def let_go_as_far_as_it_can(self, other: Future[Any]) -> None:
        """To its end, or until it waits for whoever is held."""
        if self.post.name != "sqlite":
            seen: Any = _Seen(self.post)
            LockWatch(seen).wait_until_waiting(1, other)
        elif not self._is_locked:
            other.exception(BOUND_S)

    @property
    def _is_locked(self) -> bool:
        """Somebody has SQLite's write lock: whoever is held, or the other one for a moment."""
        path = self.post.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return True
        return False

    def check(self, outcome: str, pruned: Future[Any], what: str) -> None:
        """The late delivery made an effect if nobody had, and no later one makes any."""
        assert self.consumer in [each.job for each in pruned.result(BOUND_S)], what
        assert outcome in ({"duplicate", "expired"} if self.seen else {"new", "expired"}), what
        effects = self.before + 1 + (self.seen or outcome == "new")
        assert self.post.effects == effects, what
        assert self.receive() == "expired", what
        assert self.post.effects == effects, what
        self.pruner.prune_inbox(older_than=BOUND, clock_is_right=True)
        rows = self.post.run(f"SELECT count(*) FROM duly_inbox WHERE consumer = '{self.consumer}'")
        assert rows[0][0] == 0, what


class _Seen:
    """A post office as `LockWatch` looks at it."""

    def __init__(self, post: Post) -> None:
        self.name, self.rows = post.name, post.run

    def value(self, sql: str) -> Any:
        return self.rows(sql)[0][0]


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never-seen"])
def test_delivery_held_between_two_statements_while_a_prune_passes(post: Post, seen: bool) -> None:
    for place in RECEIVE_PLACES:
        case = Case(post, seen=seen)
        case.late._probe = stops = Stops()
        stop = stops.at(place)
        received = start(case.receive)
        wait_until_reached(stop, received)
        pruned = case.prune()
        case.let_go_as_far_as_it_can(pruned)
        stop.go()
        case.check(received.result(BOUND_S), pruned, f"held {place}")


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never-seen"])
def test_prune_held_between_two_statements_while_a_delivery_passes(post: Post, seen: bool) -> None:
    for place in PRUNE_PLACES:
        case = Case(post, seen=seen)
        case.pruner._probe = stops = Stops()
        stop = stops.at(place)
        pruned = case.prune()
        assert wait_until_reached(stop, pruned)
        received = start(case.receive)
        case.let_go_as_far_as_it_can(received)
        stop.go()
        case.check(received.result(BOUND_S), pruned, f"held {place}")


# ---------------------------------------------------------------------------- callers' transactions


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never-seen"])
@pytest.mark.parametrize("level", SERVER_LEVELS)
def test_caller_whose_snapshot_is_older_than_a_whole_prune(
    server_post: Post, level: str, seen: bool
) -> None:
    """It is told so, or to roll back; tried again, it is told so."""
    case = Case(server_post, seen=seen)
    with closing(connect(server_post.name, server_post.url, level)) as raw:
        _look(raw)
        pruned = case.prune()
        pruned.result(BOUND_S)
        outcome = case.receive_in_caller(raw)
        if outcome == "again":
            outcome = case.receive_in_caller(raw)
    assert outcome == "expired"
    case.check(outcome, pruned, level)


@pytest.mark.parametrize("seen", [True, False], ids=["seen", "never-seen"])
@pytest.mark.parametrize("level", SERVER_LEVELS)
def test_caller_held_between_two_statements_while_a_prune_passes(
    server_post: Post, level: str, seen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = receive_module._Rows.perform
    for place in CALLER_PLACES:
        case = Case(server_post, seen=seen)
        stops = Stops()
        stop = stops.at(place)

        def stepped(rows: Any, op: Any, stops: Stops = stops) -> Any:
            stops("before", op, rows)
            reply = perform(rows, op)
            stops("after", op, rows)
            return reply

        monkeypatch.setattr(receive_module._Rows, "perform", stepped)
        with closing(connect(server_post.name, server_post.url, level)) as raw:
            _look(raw)
            received = start(case.receive_in_caller, raw)
            wait_until_reached(stop, received)
            pruned = case.prune()
            case.let_go_as_far_as_it_can(pruned)
            stop.go()
            outcome = received.result(BOUND_S)
            if outcome == "again":
                outcome = case.receive_in_caller(raw)
        case.check(outcome, pruned, f"held {place}")


def _look(raw: Any) -> None:
    """Take the snapshot, where the level has one."""
    raw.rollback()
    with closing(raw.cursor()) as cursor:
        cursor.execute("SELECT count(*) FROM balance WHERE id = 0")
        cursor.fetchall()
