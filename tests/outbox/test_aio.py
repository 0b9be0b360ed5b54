"""Messages of `duly.aio`: staged by a coroutine, delivered by anybody's relay."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import duly
import duly.aio
from duly.channels import Http
from tests.contract.bank import async_url

if TYPE_CHECKING:
    from tests.outbox.desk import Desk
    from tests.outbox.peer import Peer


def test_message_of_an_async_handler_leaves_with_its_attempt(desk: Desk, peer: Peer) -> None:
    """`run.send` only keeps it in memory, so it is not awaited; it has the id of `duly`'s own."""
    desk.receive(Http(peer.url))

    async def main() -> None:
        async with duly.aio.App(async_url(desk.database.url)) as app:
            app.destination(desk.to, Http(peer.url))

            @app.job(desk.job)
            async def bill(run: duly.aio.Run) -> str:
                await run.execute("SELECT 1")
                with pytest.raises(duly.UnknownDestination):
                    run.send("nowhere", 1)
                return run.send(desk.to, {"n": 2}, name="a", ordering_key="k")

            at = desk.at
            result = await app.run(desk.job, at=at)
            again = await app.run(desk.job, at=at)
            assert (again.outcome, again.value) == ("duplicate", result.value)
            assert [result.value] == desk.ids

    asyncio.run(main())
    assert desk.deliver().sent == 1
    assert peer.keys == desk.ids


def test_send_in_a_transaction_of_a_tasks_own_is_awaited(desk: Desk, peer: Peer) -> None:
    desk.receive(Http(peer.url))
    occurrence = duly.Occurrence(desk.job, desk.at)

    async def main() -> None:
        engine = create_async_engine(async_url(desk.database.url))
        for commits in (False, True):
            async with engine.connect() as connection:
                claim: Any = await duly.aio.claim(connection, occurrence)
                assert claim.is_new
                await duly.aio.send(connection, occurrence, desk.to, {"n": 1})
                with pytest.raises(duly.PayloadConflict):
                    await duly.aio.send(connection, occurrence, desk.to, {"n": 2})
                await (connection.commit() if commits else connection.rollback())
        await engine.dispose()

    asyncio.run(main())
    assert desk.rows() == ["pending"]
    assert desk.deliver().sent == 1
