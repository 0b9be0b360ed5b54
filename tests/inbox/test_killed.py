"""A consumer that is killed at any boundary: the next delivery makes one effect, or finds it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from tests.faults.conftest import victims  # noqa: F401 - a fixture
from tests.inbox.post import SOURCE

if TYPE_CHECKING:
    from tests.faults.victims import Victims
    from tests.inbox.post import Post

OPS = ("Begin", "Claim", "CallHandler", "Seal", "Commit")


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
