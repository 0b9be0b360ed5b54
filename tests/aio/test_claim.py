"""`duly.aio.claim` in a transaction of a task's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine

import duly
import duly.aio
from tests.contract.bank import OLD, UNITS, async_url

if TYPE_CHECKING:
    from tests.contract.bank import Bank


@pytest.mark.parametrize("kind", [AsyncConnection, AsyncSession])
def test_claim_of_sqlalchemys_is_new_then_a_duplicate_and_free_after_a_rollback(
    bank: Bank, kind: type[AsyncConnection | AsyncSession]
) -> None:
    """The key goes with the caller's transaction, whichever way that ends."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url))
        key = bank.occurrence(OLD)
        made = engine.connect if kind is AsyncConnection else lambda: AsyncSession(engine)
        async with made() as connection:
            lost = await duly.aio.claim(connection, key, payload={"units": UNITS})
            assert lost.is_new
            await connection.execute(sqlalchemy.text(bank.credit()))
            await connection.rollback()
            found = await duly.aio.claim(connection, key, payload={"units": UNITS})
            assert found.is_new
            await connection.execute(sqlalchemy.text(bank.credit()))
            await connection.commit()
            again = await duly.aio.claim(connection, key, payload={"units": UNITS})
            assert again.outcome is duly.Outcome.DUPLICATE
            assert again.attempt_id == found.attempt_id
            await connection.rollback()
            with pytest.raises(duly.PayloadConflict):
                await duly.aio.claim(connection, key, payload={"units": 999})
            await connection.rollback()
        await engine.dispose()

    asyncio.run(main())
    assert bank.units == UNITS
    assert len(bank.settled) == 1
