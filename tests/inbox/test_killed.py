"""Kills at any boundary: of a consumer, of a prune of the inbox, of a person's release.

The next delivery makes one effect, or finds it; a prune leaves whole batches, a release a message
that is either held or released.
"""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import duly
from duly import testing
from duly._core import retention
from duly._core.instants import to_us
from tests.faults.conftest import victims  # noqa: F401 - a fixture
from tests.faults.victims import die_at
from tests.inbox.post import SOURCE

if TYPE_CHECKING:
    from tests.faults.victims import Victims
    from tests.inbox.post import Post

OPS = ("Begin", "Claim", "CallHandler", "Seal", "Commit")
STATEMENT_PLACES = ("before", "after", "before commit", "after commit")

BATCH = 2
# Older than what any other test of this ledger sends.
FIRST = datetime(2002, 1, 1, tzinfo=UTC)
SENT = {f"old-{each}": FIRST + timedelta(days=each) for each in range(5)}  # three batches
LAST = FIRST + timedelta(days=4)
PRUNE_OPS = (
    *("ReadFacts", "Rollback", "ListJobs", "Rollback", "OldestHeld", "Rollback"),
    *("Begin", "TouchGuard", "RaiseHorizon", "DeleteBatch", "Commit") * 3,
)


def consume(order: dict[str, Any]) -> None:
    """One delivery, in a process that is killed at an op."""
    app = duly.App(order["url"])
    app.consumer(order["consumer"])(lambda message: message.execute(order["sql"]) and None)
    with testing.fault(app, op=order["op"], when=order["when"], kind="kill"):
        app.receive(order["consumer"], source=SOURCE, message_id="m-1", payload=1)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", OPS)
def test_consumer_killed_at_a_boundary_makes_one_effect(
    op: str,
    when: Any,
    post: Post,
    victims: Victims,  # noqa: F811
) -> None:
    """Not acknowledged, so delivered again: handled then, or a duplicate if it had committed."""
    order = {"op": op, "when": when, "url": post.url, "consumer": post.consumer,
             "sql": post.credit()}  # fmt: skip
    assert victims.kill_one("tests.inbox.test_killed:consume", **order) == -signal.SIGKILL
    has_landed = (op, when) == ("Commit", "after")
    assert post.effects == has_landed
    receipt = post.deliver(wait=30.0)
    assert receipt.is_new is not has_landed
    assert not post.deliver().is_new
    assert post.effects == 1


def prune(order: dict[str, Any]) -> None:
    """A prune, in a process that is killed before the op at a place, or else at a statement."""
    app = duly.App(order["url"])
    if order["place"] == len(PRUNE_OPS):
        die_at("http_forget", "before")
        _prune(app)
    op = PRUNE_OPS[order["place"]]
    skip = PRUNE_OPS[: order["place"]].count(op)
    with testing.fault(app, op=op, when="before", kind="kill", skip=skip):
        _prune(app)


def _prune(app: duly.App) -> None:
    with mock.patch.object(retention, "BATCH_ROWS", BATCH):
        app.prune_inbox(older_than=LAST)


@pytest.mark.parametrize("place", range(len(PRUNE_OPS) + 1))
def test_prune_of_the_inbox_killed_between_two_ops_leaves_whole_batches(
    place: int,
    post: Post,
    victims: Victims,  # noqa: F811
) -> None:
    """Rows and horizon go together, and no message is ever taken a second time."""
    for message_id, sent_at in SENT.items():
        assert post.deliver(message_id, sent_at=sent_at).is_new
    order = {"url": post.url, "place": place}
    assert victims.kill_one("tests.inbox.test_killed:prune", **order) == -signal.SIGKILL

    committed = PRUNE_OPS[:place].count("Commit")
    _check_pruned(post, min(len(SENT), BATCH * committed), wait=30.0)
    _prune(post.office)
    _check_pruned(post, len(SENT))


def _check_pruned(post: Post, count: int, **named: Any) -> None:
    """The oldest *count* are gone, and everything is refused that may be one of them."""
    left = [message_id for message_id in SENT if post.row(message_id) is not None]
    assert left == list(SENT)[count:]
    horizons = post.run(f"SELECT horizon_us FROM duly_consumer WHERE name = '{post.consumer}'")
    assert [int(row[0]) for row in horizons] == ([to_us(LAST)] if count else [])
    for message_id, sent_at in SENT.items():
        if count:
            with pytest.raises(duly.MessageParked) as parked:
                post.deliver(message_id, sent_at=sent_at, **named)
            assert parked.value.details["why"] == "expired"
        else:
            assert not post.deliver(message_id, sent_at=sent_at, **named).is_new
    assert post.effects == len(SENT)


def test_prune_of_the_inbox_performs_the_ops_that_the_kills_count_on(post: Post) -> None:
    """A change of the protocol that would move the places is noticed here first."""
    for message_id, sent_at in SENT.items():
        post.deliver(message_id, sent_at=sent_at)
    with testing.fault(post.office, op="Unclaim") as watched:
        _prune(post.office)
    assert tuple(watched.seen) == PRUNE_OPS


def release(order: dict[str, Any]) -> None:
    """A person's release, in a process that is killed at a place of its one statement."""
    app = duly.App(order["url"])
    die_at("parked_settle", order["place"])
    app.release_parked(order["consumer"], SOURCE, "m-1", reason="seen", actor="ann")


@pytest.mark.parametrize("place", STATEMENT_PLACES)
def test_release_killed_at_a_place_is_whole_or_was_never_made(
    place: str,
    post: Post,
    victims: Victims,  # noqa: F811
) -> None:
    """What was not released is still refused; released, by then or again, it is handled once."""
    post.deliver()
    for _ in range(2):
        with pytest.raises(duly.MessageParked):
            post.deliver(payload=2)
    order = {"url": post.url, "consumer": post.consumer, "place": place}
    assert victims.kill_one("tests.inbox.test_killed:release", **order) == -signal.SIGKILL

    if place == "after commit":
        with pytest.raises(duly.OperatorError, match="released"):
            _release(post)
    else:
        with pytest.raises(duly.MessageParked):
            post.deliver(payload=2, wait=30.0)
        _release(post)
    assert post.deliver(payload=2).is_new
    assert not post.deliver(payload=2).is_new
    assert not post.deliver().is_new
    assert post.effects == 2


def _release(post: Post) -> None:
    post.office.release_parked(post.consumer, SOURCE, "m-1", reason="seen", actor="ann")
