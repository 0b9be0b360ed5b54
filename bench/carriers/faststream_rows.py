"""faststream-outbox: rows published in the caller's transaction, and a subscriber that posts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import httpx
from faststream_outbox import OutboxBroker, make_outbox_table
from sqlalchemy import MetaData, text
from sqlalchemy.ext.asyncio import create_async_engine

if TYPE_CHECKING:
    from place import Place

UPDATE = text("UPDATE account SET units = units + 10 WHERE id = :id")
METADATA = MetaData()
TABLE = make_outbox_table(METADATA, table_name="outbox")


class Carrier:
    """A broker, and its subscriber while it delivers."""

    def __init__(self, place: Place, url: str, senders: int) -> None:
        self.runner = asyncio.Runner()
        self.url, self.senders = url, senders
        self.engine = create_async_engine(_asyncpg(place), pool_size=senders + 8)
        self.broker = OutboxBroker(self.engine, outbox_table=TABLE, log_level=logging.CRITICAL)
        self.left = 0
        # Of the settings that were tried, the fastest.
        subscriber = self.broker.subscriber(
            "hook", max_workers=senders, fetch_batch_size=100, min_fetch_interval=0.01,
            terminal_flush_batch_size=20,
        )  # fmt: skip
        subscriber(self.post)

    async def post(self, body: dict[str, Any]) -> None:
        headers = {"Idempotency-Key": body["id"]}
        (await self.client.post(self.url, json=body, headers=headers)).raise_for_status()
        self.left -= 1
        if not self.left:
            self.done.set()

    def enqueue(self, messages: int) -> None:
        self.runner.run(self.published(messages))

    async def published(self, messages: int) -> None:
        rows = [{"id": number % 1000} for number in range(messages)]
        async with self.engine.begin() as connection:
            await connection.execute(UPDATE, rows)
            # Its rows have no id of their own that a retry of the caller would keep.
            (mark,) = (await connection.execute(text("SELECT gen_random_uuid()"))).one()
            bodies = [
                {"account": row["id"], "units": 10, "id": f"{mark}-{number}"}
                for number, row in enumerate(rows)
            ]
            await self.broker.publish_batch(*bodies, queue="hook", session=connection)

    def deliver(self, messages: int) -> None:
        self.runner.run(self.delivered(messages))

    async def delivered(self, messages: int) -> None:
        self.left, self.done = messages, asyncio.Event()
        limits = httpx.Limits(max_connections=self.senders)
        async with httpx.AsyncClient(limits=limits) as self.client:
            await self.broker.start()
            await self.done.wait()
            await self.broker.stop()

    def close(self) -> None:
        self.runner.run(self.engine.dispose())
        self.runner.close()


def prepare(place: Place) -> None:
    async def prepared() -> None:
        engine = create_async_engine(_asyncpg(place))
        async with engine.begin() as connection:
            await connection.run_sync(METADATA.create_all)
        await engine.dispose()

    asyncio.run(prepared())


def _asyncpg(place: Place) -> str:
    return "postgresql+asyncpg:" + place.url.partition(":")[2]
