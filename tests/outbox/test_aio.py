"""Messages of `duly.aio`: staged by a coroutine, delivered by anybody's relay."""

from __future__ import annotations

import asyncio
import threading
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

import duly
import duly.aio
from duly._core import ops
from duly._core.states import MessageState
from duly.channels import Answer, Call, Http
from tests.contract.bank import async_url

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from duly.channels.base import Message
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


@pytest.mark.parametrize("of", ["connection", "session"])
def test_message_of_awaited_work_that_a_savepoint_took_back_is_not_kept(
    desk: Desk, of: str
) -> None:
    """Also where nothing was executed in it."""

    async def main() -> None:
        async with duly.aio.App(async_url(desk.database.url)) as app:
            app.destination(desk.to, Call(lambda message: None))

            @app.job(desk.job)
            async def bill(run: duly.aio.Run) -> None:
                for name, fails in (("a", True), ("b", False)):
                    with suppress(ValueError):
                        async with getattr(run, of).begin_nested():
                            run.send(desk.to, 1, name=name)
                            if fails:
                                raise ValueError(name)

            await app.run(desk.job, at=desk.at)

    asyncio.run(main())
    assert desk.rows("name") == ["b"]


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


@asynccontextmanager
async def billing(desk: Desk, channel: Any, **settings: Any) -> AsyncIterator[duly.aio.App]:
    """An App of `duly.aio` with the desk's job and destination."""
    async with duly.aio.App(async_url(desk.database.url), evidence_after=60) as app:
        app.destination(desk.to, channel, **settings)

        @app.job(desk.job, schedule=duly.Every(timedelta(days=1), anchor=desk.at))
        async def bill(run: duly.aio.Run) -> None:
            run.send(desk.to, {"n": 1})

        yield app


async def came(happened: threading.Event) -> None:
    """Wait for what another thread tells of, while the loop turns."""
    assert await asyncio.to_thread(happened.wait, 20)


def test_async_app_delivers_what_is_due_and_comes_back(desk: Desk, peer: Peer) -> None:
    """The relay of `duly.aio` decides as every other: it is the same."""
    desk.receive(Http(peer.url))
    for _ in range(3):
        desk.start()

    async def main() -> None:
        async with billing(desk, Http(peer.url)) as app:
            assert (await app.deliver(once=True)).sent == 3
            with pytest.raises(duly.UnknownDestination):
                await app.deliver(once=True, only=["nowhere"])

    asyncio.run(main())
    assert sorted(peer.keys) == sorted(desk.ids)
    assert desk.rows() == ["sent"] * 3


def test_relay_of_an_async_app_wakes_when_a_message_is_committed(desk: Desk) -> None:
    """It polls once in an hour, and the loop turns meanwhile."""
    got, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with billing(desk, Call(lambda message: got.set())) as app:
            relay = asyncio.create_task(app.deliver(stop=stop, poll=3600))
            for _ in range(3):
                got.clear()
                await app.run(desk.job, at=desk.at, off_schedule=True)
                await came(got)
            async with duly.aio.once(
                async_url(desk.database.url), f"{desk.job}-o:{_at(desk)}"
            ) as run:
                got.clear()
                if run.is_new:
                    run.send(desk.to, {"n": 2})
            await came(got)
            stop.set()
            assert (await relay).sent == 4

    asyncio.run(main())


def test_worker_of_an_async_app_is_a_relay_too(desk: Desk) -> None:
    got, stop = threading.Event(), asyncio.Event()

    async def main() -> None:
        async with billing(desk, Call(lambda message: got.set())) as app:
            worker = asyncio.create_task(app.work(stop=stop, threads=1))
            await app.run(desk.job, at=desk.at, off_schedule=True)
            await came(got)
            stop.set()
            assert (await worker).is_clean

    asyncio.run(main())
    assert desk.rows() == ["sent"]


def test_cancelled_relay_ends_what_is_under_way_and_leaves_no_doubt(desk: Desk) -> None:
    """A cancellation falls where it will; none falls between a claim and its sends."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(message: Message) -> None:
        begun.set()
        assert go_on.wait(20)

    async def main() -> None:
        async with billing(desk, Call(slow)) as app:
            relay = asyncio.create_task(app.deliver())
            await app.run(desk.job, at=desk.at, off_schedule=True)
            await came(begun)
            relay.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await relay

    asyncio.run(main())
    assert desk.one("state, started, finished") == ("sent", 1, 1)


def test_cancellation_during_a_claim_still_sends_what_was_claimed(desk: Desk) -> None:
    """It comes while the claim's commit is awaited, whose answer must not be lost."""
    got: list[str] = []

    async def main() -> None:
        async with billing(desk, Call(lambda message: got.append(message.id))) as app:
            await app.run(desk.job, at=desk.at, off_schedule=True)
            relay = asyncio.create_task(app.deliver())

            def cancel(when: str, op: Any, shell: Any) -> None:
                if when == "before" and isinstance(op, ops.Commit) and not relay.cancelling():
                    relay.cancel()

            app._probe = cancel
            with pytest.raises(asyncio.CancelledError):
                await relay

    asyncio.run(main())
    assert got == desk.ids
    assert desk.one("state, started, finished") == ("sent", 1, 1)


def test_commit_of_an_async_once_rings_for_the_relays_of_the_process(desk: Desk) -> None:
    rung = threading.Event()
    desk.app.database.bell.hear(rung.set)

    async def main() -> None:
        key = f"{desk.job}-once:{_at(desk)}"
        async with duly.aio.once(async_url(desk.database.url), key) as run:
            if run.is_new:
                run.send(desk.to, {"n": 2})

    asyncio.run(main())
    desk.app.database.bell.leave(rung.set)
    assert rung.is_set()
    desk.run(f"DELETE FROM duly_outbox WHERE destination = '{desk.to}'")


def _at(desk: Desk) -> str:
    return desk.at.isoformat().replace("+00:00", "Z")


def test_person_decides_through_an_async_app(desk: Desk) -> None:
    """Each method of its outbox is the synchronous one, awaited; a lookup lets the loop turn."""
    from duly._aio.outbox import Outbox
    from duly._sync.outbox import Outbox as SyncOutbox

    def public(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert public(Outbox) == public(SyncOutbox)
    unsure = Answer.ambiguous("read_timeout", "nobody answered")
    who = {"reason": "looked at the receiver", "actor": "ops"}
    asked, turned = threading.Event(), threading.Event()

    def lookup(_message: Any) -> bool:
        asked.set()
        return turned.wait(20)

    async def main() -> None:
        async with billing(desk, Call(lambda _message: unsure), lookup=lookup) as app:
            for _ in range(3):
                await app.run(desk.job, at=desk.at, off_schedule=True)
            await app.deliver(once=True)
            found = await app.outbox.messages(destination=desk.to)
            assert [each.state for each in found] == [MessageState.UNCERTAIN] * 3
            first, second, third = (each.id for each in found)
            assert await app.outbox.rehearse("confirm", first) == {first: None}
            assert await app.outbox.confirm(first, **who) == [first]
            with pytest.raises(duly.MessageSettled):
                await app.outbox.redrive(first, **who)
            assert await app.outbox.redrive(second, **who) == [second]

            looking = asyncio.create_task(app.outbox.lookup(third))
            await came(asked)
            turned.set()  # by the loop, while the lookup waits
            assert await looking == {third: MessageState.SENT}

            (decision,) = (await app.outbox.show(first)).decisions
            assert (decision["action"], decision["actor"]) == ("outbox confirm", "ops")
            (ours,) = [each for each in await app.outbox.summary() if each.destination == desk.to]
            assert (ours.pending, ours.uncertain) == (1, 0)

    asyncio.run(main())
