"""`run.session` of an async handler: SQLAlchemy's AsyncSession in duly's transaction."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
from sqlalchemy import MetaData
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, registry
from sqlmodel import Field, SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession as SqlModelSession

import duly
import duly.aio
from tests.contract.bank import OLD, UNITS, async_url

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sqlalchemy.ext.asyncio import AsyncSession

    from tests.contract.bank import Bank


class Base(DeclarativeBase):
    pass


class Balance(Base):
    __tablename__ = "balance"
    id: Mapped[int] = mapped_column(primary_key=True)
    units: Mapped[int]


class Own(SQLModel, registry=registry()):
    """Models of this module's own: another one has a `balance` too."""

    metadata = MetaData()


class Account(Own, table=True):
    __tablename__ = "balance"
    id: int = Field(primary_key=True)
    units: int


async def credit(bank: Bank, session: AsyncSession) -> None:
    """An effect that the session holds back until it is flushed."""
    (await session.get_one(Balance, bank.account)).units += UNITS


def run(bank: Bank, handler: Callable[[duly.aio.Run], Awaitable[Any]]) -> duly.Result:
    """Start the bank's occurrence with that handler."""

    async def main() -> duly.Result:
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> Any:
                return await handler(run)

            return await app.run(bank.job, OLD)

    return asyncio.run(main())


def assert_nothing_kept(bank: Bank) -> None:
    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])


def test_change_of_an_object_lands_with_the_completion_once(bank: Bank) -> None:
    """The handler's return flushes; a duplicate flushes nothing."""

    async def handler(run: duly.aio.Run) -> int:
        await credit(bank, run.session)
        return 7

    assert run(bank, handler).outcome is duly.Outcome.APPLIED
    again = run(bank, handler)
    assert (again.outcome, again.value) == (duly.Outcome.DUPLICATE, 7)
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_session_sees_what_the_connection_did_and_the_other_way(bank: Bank) -> None:
    """All three of a run's ways are in one transaction."""

    async def handler(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())
        balance = await run.session.get_one(Balance, bank.account)
        assert balance.units == UNITS
        balance.units += UNITS
        await run.session.flush()
        found = await run.connection.execute(
            sqlalchemy.text(f"SELECT units FROM balance WHERE id = {bank.account}")
        )
        assert found.scalar_one() == 2 * UNITS

    run(bank, handler)
    assert bank.units == 2 * UNITS


def test_session_of_sqlmodels_class_has_its_own_methods(bank: Bank) -> None:
    """`session_of` makes the session that was asked for, `exec` and all."""

    async def handler(run: duly.aio.Run) -> None:
        session = run.session_of(SqlModelSession)
        found = await session.exec(select(Account).where(Account.id == bank.account))
        account = found.one()
        account.units += UNITS
        session.add(account)

    run(bank, handler)
    assert bank.units == UNITS


ENDS: dict[str, Callable[[AsyncSession], Any]] = {
    "commit": lambda session: session.commit(),
    "rollback": lambda session: session.rollback(),
    "close": lambda session: session.close(),
    "aclose": lambda session: session.aclose(),
    "reset": lambda session: session.reset(),
    "invalidate": lambda session: session.invalidate(),
    "begin": lambda session: session.begin(),
    "commit of its sync session": lambda session: session.run_sync(lambda sync: sync.commit()),
    "close all": lambda session: session.__aexit__(None, None, None),
}


@pytest.mark.parametrize("end", ENDS)
def test_session_refuses_to_be_ended_and_nothing_of_its_work_lands(bank: Bank, end: str) -> None:
    """The transaction is duly's to end, however the session is asked."""

    async def handler(run: duly.aio.Run) -> None:
        await credit(bank, run.session)
        await ENDS[end](run.session)

    with pytest.raises(duly.UsageError, match=r"run\.session refuses"):
        run(bank, handler)
    assert_nothing_kept(bank)


def test_savepoint_of_the_sessions_is_rolled_back_alone(bank: Bank) -> None:
    """What may fail has a place: the rest of the session's work stays."""

    async def handler(run: duly.aio.Run) -> None:
        await credit(bank, run.session)
        try:
            async with run.session.begin_nested():
                run.session.add(Balance(id=bank.account + 10**6, units=1))
                await run.session.flush()
                raise LookupError
        except LookupError:
            pass

    run(bank, handler)
    assert bank.units == UNITS
    assert bank.run(f"SELECT count(*) FROM balance WHERE id = {bank.account + 10**6}")[0][0] == 0


def test_error_of_the_session_that_is_hidden_keeps_nothing(bank: Bank) -> None:
    """The session lost its work; what the handler did beside it does not land alone."""

    async def handler(run: duly.aio.Run) -> None:
        await run.session.execute(sqlalchemy.text(bank.credit()))
        run.session.add(Balance(id=bank.account, units=1))
        with suppress(sqlalchemy.exc.IntegrityError):
            await run.session.flush()
        await run.execute(bank.credit())

    with pytest.raises(duly.SwallowedError):
        run(bank, handler)
    assert_nothing_kept(bank)


def test_transaction_of_the_session_that_was_ended_keeps_nothing(bank: Bank) -> None:
    """A way around the refusals is found when the handler returns."""

    async def handler(run: duly.aio.Run) -> None:
        await run.session.run_sync(lambda sync: sync.execute(sqlalchemy.text(bank.credit())))
        transaction = run.session.sync_session.get_transaction()
        assert transaction is not None
        await run.session.run_sync(lambda _sync: transaction.rollback())
        await run.execute(bank.credit())

    with pytest.raises(duly.UsageError, match=r"ended the transaction of run\.session"):
        run(bank, handler)
    assert_nothing_kept(bank)


def test_error_of_the_flush_at_the_end_is_the_handlers(bank: Bank) -> None:
    """It comes out as it is, and the attempt is recorded as failed."""

    async def handler(run: duly.aio.Run) -> None:
        run.session.add(Balance(id=bank.account, units=1))

    with pytest.raises(sqlalchemy.exc.IntegrityError):
        run(bank, handler)
    assert_nothing_kept(bank)


def test_session_that_outlives_its_run_is_refused(bank: Bank) -> None:
    """Its connection went back to the pool, and may be another's."""
    kept: list[AsyncSession] = []

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> None:
                kept.append(run.session)
                await credit(bank, run.session)

            await app.run(bank.job, OLD)
            with pytest.raises(duly.UsageError, match="the run is over"):
                await kept[0].execute(sqlalchemy.text(bank.credit()))

    asyncio.run(main())
    assert bank.units == UNITS


@pytest.mark.parametrize("kind", [Session, dict, "AsyncSession"])
def test_session_of_another_kind_is_refused_by_name(bank: Bank, kind: Any) -> None:
    """A class whose sessions would block the event loop is none of an async run's."""

    async def handler(run: duly.aio.Run) -> None:
        run.session_of(kind)

    with pytest.raises(duly.UsageError, match="derived from SQLAlchemy's AsyncSession"):
        run(bank, handler)


def test_second_session_of_another_class_is_refused(bank: Bank) -> None:
    """Two sessions in one transaction would not see each other's objects."""

    async def handler(run: duly.aio.Run) -> None:
        assert run.session is run.session
        run.session_of(SqlModelSession)

    with pytest.raises(duly.UsageError, match="already"):
        run(bank, handler)
