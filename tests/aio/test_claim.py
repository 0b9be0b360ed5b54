"""`duly.aio.claim` on what it must refuse, and cancelled; the contract suite has the rest."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import duly
import duly.aio
from tests.contract.asynchronous import connected, execute
from tests.contract.bank import OLD, UNITS, async_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.contract.bank import Bank


BOUND_S = 10.0
"""Far above what a stop needs, and far below what it would wait for."""


class Base(DeclarativeBase):
    pass


class Balance(Base):
    __tablename__ = "balance"
    id: Mapped[int] = mapped_column(primary_key=True)
    units: Mapped[int]


def with_connection(
    bank: Bank, work: Callable[[Any], Awaitable[Any]], *, autocommit: bool = False
) -> None:
    """Do *work* with a new connection of the driver's own."""

    async def main() -> None:
        connection = await connected(bank.database, autocommit=autocommit)
        try:
            await work(connection)
        finally:
            with suppress(Exception):
                await closed(connection)

    asyncio.run(main())


async def closed(connection: Any) -> None:
    """Close it; asyncmy's `close` is no coroutine."""
    answer = connection.close()
    if answer is not None:
        await answer


def refused(bank: Bank, raised: Any) -> None:
    """One line, and nothing was written."""
    assert "\n" not in str(raised.value)
    assert (bank.settled, bank.outcomes) == ([], [])


def test_claim_in_autocommit_without_a_transaction_is_refused(bank: Bank) -> None:
    """The claim and the change would commit apart."""

    async def work(connection: Any) -> None:
        await duly.aio.claim(connection, bank.occurrence())

    with pytest.raises(duly.NoTransaction, match="autocommit") as raised:
        with_connection(bank, work, autocommit=True)
    refused(bank, raised)


def test_claim_on_an_engine_in_autocommit_is_refused(bank: Bank) -> None:
    """SQLAlchemy begins nothing there, whatever its block says."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url), isolation_level="AUTOCOMMIT")
        try:
            async with engine.begin() as connection:
                await duly.aio.claim(connection, bank.occurrence())
        finally:
            await engine.dispose()

    with pytest.raises(duly.NoTransaction) as raised:
        asyncio.run(main())
    refused(bank, raised)


def test_claim_on_a_closed_connection_is_refused(bank: Bank) -> None:
    """It says so, whatever the driver's own error is."""

    async def work(connection: Any) -> None:
        await closed(connection)
        await duly.aio.claim(connection, bank.occurrence())

    with pytest.raises(duly.NoTransaction) as raised:
        with_connection(bank, work)
    refused(bank, raised)


@pytest.mark.parametrize("state", ["closed", "never started"])
def test_claim_on_a_connection_of_sqlalchemys_that_is_not_open_is_refused(
    bank: Bank, state: str
) -> None:
    """Its own words are wrapped in what to do."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url))
        connection: Any = engine.connect()
        if state == "closed":
            await connection.start()
            await connection.close()
        try:
            await duly.aio.claim(connection, bank.occurrence())
        finally:
            await engine.dispose()

    with pytest.raises(duly.NoTransaction) as raised:
        asyncio.run(main())
    refused(bank, raised)


def test_claim_in_an_aborted_transaction_is_refused(postgres_bank: Bank) -> None:
    """Nothing of it could be committed."""
    bank = postgres_bank

    async def work(connection: Any) -> None:
        with pytest.raises(Exception, match="nowhere"):
            await execute(connection, "SELECT 1 FROM nowhere")
        await duly.aio.claim(connection, bank.occurrence())

    with pytest.raises(duly.NoTransaction, match="aborted") as raised:
        with_connection(bank, work)
    refused(bank, raised)


@pytest.mark.parametrize("kind", ["engine", "object", "text", "class"])
def test_claim_on_something_else_is_refused_by_name(sqlite_bank: Bank, kind: str) -> None:
    """The message says what is taken."""
    bank = sqlite_bank

    async def main() -> None:
        given: dict[str, Any] = {
            "engine": create_async_engine(async_url(bank.url)),
            "object": object(),
            "text": bank.url,
            "class": AsyncSession,
        }
        await duly.aio.claim(given[kind], bank.occurrence())

    with pytest.raises(duly.UsageError, match="claim") as raised:
        asyncio.run(main())
    refused(bank, raised)


def test_claim_after_a_change_that_is_not_flushed_is_refused(bank: Bank) -> None:
    """Such a change would be committed with a duplicate too; the session stays usable."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url))
        async with AsyncSession(engine) as session, session.begin():
            (await session.get_one(Balance, bank.account)).units += UNITS
            with pytest.raises(duly.UsageError, match="changed: 1"):
                await duly.aio.claim(session, bank.occurrence())
            await session.flush()
            assert (await duly.aio.claim(session, bank.occurrence())).is_new
        await engine.dispose()

    asyncio.run(main())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_claim_takes_a_scoped_session(bank: Bank) -> None:
    """The session of the task that asks."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url))
        made: Any = lambda: AsyncSession(engine)  # noqa: E731 - as SQLAlchemy's own examples
        scoped = async_scoped_session(made, scopefunc=asyncio.current_task)
        assert (await duly.aio.claim(scoped, bank.occurrence())).is_new
        await scoped.commit()
        await scoped.remove()
        await engine.dispose()

    asyncio.run(main())
    assert bank.outcomes == ["applied"]


def test_claim_of_the_key_that_its_handler_holds_is_refused(sqlite_bank: Bank) -> None:
    """The handler is the attempt at it already."""
    bank = sqlite_bank

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> None:
                await duly.aio.claim(run.connection, run.key)

            await app.run(bank.job, OLD)

    with pytest.raises(duly.UsageError, match="holds that key already"):
        asyncio.run(main())


def test_claim_on_a_synchronous_connection_is_taken_all_the_same(sqlite_bank: Bank) -> None:
    """It blocks the loop as its own statements do; its promise is the same."""
    bank = sqlite_bank

    async def main() -> None:
        connection = bank.connect()
        assert (await duly.aio.claim(connection, bank.occurrence())).is_new
        connection.commit()

    asyncio.run(main())
    assert bank.outcomes == ["applied"]


def test_claim_that_does_not_wait_refuses_an_asynchronous_connection(bank: Bank) -> None:
    """`duly.claim` names its twin."""

    async def work(connection: Any) -> None:
        duly.claim(connection, bank.occurrence())

    with pytest.raises(duly.UsageError, match=r"await duly\.aio\.claim") as raised:
        with_connection(bank, work)
    refused(bank, raised)


def test_claim_that_waits_beside_another_in_its_transaction_can_be_cancelled(
    server_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of the first claim is not taken along where the second is stopped."""
    monkeypatch.setattr("duly._db.sessions.stopping.CANCEL_S", 3600.0)
    held, ours = (server_bank.occurrence(partition=each) for each in ("held", "ours"))

    async def main() -> None:
        first, second = [await connected(server_bank.database) for _ in range(2)]
        try:
            assert (await duly.aio.claim(first, held)).is_new
            assert (await duly.aio.claim(second, ours)).is_new
            task = asyncio.create_task(duly.aio.claim(second, held, wait=25.0))
            await asyncio.to_thread(server_bank.wait_until_blocked)
            task.cancel()
            await asyncio.wait([task], timeout=BOUND_S)
            assert task.cancelled()
            await second.rollback()
        finally:
            await closed(first)
            await closed(second)

    asyncio.run(main())
    assert server_bank.settled == []


def test_claim_that_is_cancelled_while_it_waits_leaves_a_usable_connection(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statement has ended, the rival is not disturbed, and the caller may roll back."""
    # Else a statement that cannot be stopped loses its connection after some seconds.
    monkeypatch.setattr("duly._db.sessions.stopping.CANCEL_S", 3600.0)

    async def work(first: Any, second: Any) -> None:
        assert (await duly.aio.claim(first, bank.occurrence())).is_new
        task = asyncio.create_task(duly.aio.claim(second, bank.occurrence(), wait=25.0))
        if bank.name == "sqlite":
            # It waits in its connection's thread, and tells nobody of it.
            await asyncio.sleep(0.5)
        await asyncio.to_thread(bank.wait_until_blocked)
        task.cancel()
        await asyncio.wait([task], timeout=BOUND_S)
        assert task.cancelled()
        await second.rollback()
        await execute(first, bank.credit())
        await first.commit()
        found = await duly.aio.claim(second, bank.occurrence())
        assert found.outcome is duly.Outcome.DUPLICATE
        await second.rollback()

    async def main() -> None:
        first, second = await connected(bank.database), await connected(bank.database)
        try:
            await work(first, second)
        finally:  # aiosqlite's threads would keep the process
            await closed(first)
            await closed(second)

    asyncio.run(main())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])
