"""`duly.receive`: the inbox in a transaction of the caller's own, on every kind of connection."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import duly
import duly.aio
from tests.contract.bank import async_url
from tests.contract.callers import ClaimDoor
from tests.contract.doors import executor
from tests.contract.ways import WAYS
from tests.inbox.post import OLD, SOURCE
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.bank import Ledger
    from tests.inbox.post import Post
    from tests.servers.database import DatabaseName

CELLS = [
    pytest.param((name, way), id=f"{name}-{way.name}")
    for name in DATABASES
    for way in WAYS
    if not way.own and way.mode == "sync" and name in way.databases
]


@pytest.fixture(params=CELLS)
def door(
    request: pytest.FixtureRequest,
    ledgers: Callable[[DatabaseName], Ledger],
) -> Iterator[ClaimDoor]:
    from tests.inbox.post import Post

    name, way = request.param
    post = Post(ledgers(name))
    opened = way.open(post)
    assert isinstance(opened, ClaimDoor)
    yield opened
    post.close()


def receive(connection: Any, post: Any, payload: Any = 1, **named: Any) -> duly.InboxReceipt:
    given = {"consumer": post.consumer, "source": SOURCE, "message_id": "m-1", **named}
    return duly.receive(connection, payload=payload, **given)


def test_message_is_received_once_on_every_kind_of_connection(door: ClaimDoor) -> None:
    """Receive, change, commit; a duplicate gets the stored result, and is counted."""
    post: Any = door.bank
    for expected in (True, False, False):
        with door.transaction() as connection:
            receipt = receive(connection, post)
            assert receipt.is_new is expected
            if receipt.is_new:
                executor(connection)(post.credit())
                receipt.store({"done": 1})
                receipt.confirm()
            else:
                assert receipt.value == {"done": 1}
    row = post.row()
    assert (post.effects, row["duplicates"]) == (1, 2)


def test_what_the_caller_rolls_back_leaves_no_trace(door: ClaimDoor) -> None:
    post: Any = door.bank

    def fail_late() -> None:
        with door.transaction() as connection:
            receive(connection, post)
            executor(connection)(post.credit())
            raise LookupError

    with pytest.raises(LookupError):
        fail_late()
    assert (post.effects, post.row()) == (0, None)
    with door.transaction() as connection:
        assert receive(connection, post).is_new


def test_other_body_is_parked_if_the_caller_commits(door: ClaimDoor) -> None:
    """The record is part of the caller's transaction; released, the message is new once."""
    post: Any = door.bank
    with door.transaction() as connection:
        receive(connection, post, 1)
    for _ in range(2):
        with door.transaction() as connection, pytest.raises(duly.MessageParked):
            receive(connection, post, 2)
    assert post.parked == [("m-1", "conflict", "held", 2)]
    post.office.release_parked(post.consumer, SOURCE, "m-1", reason="r", actor="ann")
    for expected in (True, False):
        with door.transaction() as connection:
            receipt = receive(connection, post, 2)
            assert receipt.is_new is expected
            if receipt.is_new:
                receipt.store("second")
            else:
                assert receipt.value == "second"


def test_message_below_the_horizon_is_parked_in_a_callers_transaction(post: Post) -> None:
    """A prune is seen also where the host's clock would not look for it."""
    post.deliver("m-1", 1, sent_at=OLD)
    post.office.prune_inbox(older_than=OLD)
    connection = post.connect()
    with pytest.raises(duly.MessageParked) as caught:
        receive(connection, post, 1, sent_at=OLD)
    connection.commit()
    assert caught.value.details["why"] == "expired"
    assert post.parked == [("m-1", "expired", "held", 1)]
    assert receive(connection, post, 1, message_id="m-2", sent_at=datetime.now(UTC)).is_new


def test_rival_delivery_waits_and_is_then_a_duplicate(server_post: Post) -> None:
    """Two callers at once: one effect."""
    post = server_post
    first, second = post.connect(), post.connect()
    assert receive(first, post).is_new
    found: list[duly.InboxReceipt] = []
    rival = threading.Thread(target=lambda: found.append(receive(second, post)))
    rival.start()
    post.wait_until_blocked()
    post.change(first)
    first.commit()
    rival.join()
    second.commit()
    assert not found[0].is_new
    assert post.effects == 1


def test_rival_that_waits_too_long_is_told_to_try_again(post: Post) -> None:
    first, second = post.connect(), post.connect()
    assert receive(first, post).is_new
    with pytest.raises(duly.TransientError):
        receive(second, post, wait=0.2)
    second.rollback()
    first.rollback()
    assert receive(second, post).is_new


def test_duplicates_at_once_do_not_wait_for_each_other_in_a_circle(server_post: Post) -> None:
    """Counting takes the row's lock once, not in two steps."""
    post = server_post
    connection = post.connect()
    receive(connection, post)
    connection.commit()
    ready = threading.Barrier(8)
    failures: list[BaseException] = []

    def again() -> None:
        mine = post.connect()
        ready.wait()
        try:
            for _ in range(10):
                assert not receive(mine, post).is_new
                mine.commit()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=again) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    row = post.row()
    assert row is not None
    assert row["duplicates"] == 80


def test_receipt_of_a_duplicate_can_store_nothing(post: Post) -> None:
    connection = post.connect()
    receive(connection, post).store(1)
    connection.commit()
    again = receive(connection, post)
    with pytest.raises(duly.TransactionEnded):
        again.store(2)
    with pytest.raises(duly.TransactionEnded):
        again.confirm()
    connection.rollback()
    assert receive(connection, post).value == 1


def test_connection_in_autocommit_is_refused(post: Post) -> None:
    """The key and the change would commit apart."""
    with pytest.raises(duly.NoTransaction):
        receive(post.autocommit(), post)


def test_message_is_received_once_where_the_caller_awaits(post: Post) -> None:
    """`duly.aio.receive`, on an AsyncConnection."""

    async def work() -> list[tuple[bool, Any]]:
        engine = create_async_engine(async_url(post.url))
        ended = []
        for _ in range(2):
            async with engine.begin() as connection:
                receipt = await duly.aio.receive(
                    connection, consumer=post.consumer, source=SOURCE, message_id="m-1", payload=1
                )
                if receipt.is_new:
                    await connection.execute(sqlalchemy.text(post.credit()))
                    await receipt.store("kept")
                    await receipt.confirm()
                ended.append((receipt.is_new, receipt.value))
        await engine.dispose()
        return ended

    assert asyncio.run(work()) == [(True, None), (False, "kept")]
    assert post.effects == 1
