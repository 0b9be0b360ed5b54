"""procrastinate: jobs deferred on the caller's connection, and a worker that posts."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING
from uuid import uuid4

import httpx
import procrastinate
import psycopg

if TYPE_CHECKING:
    from place import Place

UPDATE = "UPDATE account SET units = units + 10 WHERE id = %s"
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)


class Carrier:
    """An app, and the connection of the change."""

    def __init__(self, place: Place, url: str, senders: int) -> None:
        self.runner = asyncio.Runner()
        self.url, self.senders = url, senders
        self.app, self.address = _app(place)
        self.task = self.app.task(name="post")(self.post)
        self.runner.run(self.opened())

    async def opened(self) -> None:
        await self.app.open_async()
        self.business = await psycopg.AsyncConnection.connect(**self.address)

    async def post(self, account: int, units: int, id: str) -> None:  # noqa: A002 - the body's
        headers = {"Idempotency-Key": id}
        body = {"account": account, "units": units}
        (await self.client.post(self.url, json=body, headers=headers)).raise_for_status()

    def enqueue(self, messages: int) -> None:
        self.runner.run(self.deferred(messages))

    async def deferred(self, messages: int) -> None:
        cursor = self.business.cursor()
        await cursor.executemany(UPDATE, [(number % 1000,) for number in range(messages)])
        deferrer = self.task.configure(connection=self.business)
        mark = uuid4()
        bodies = [
            {"account": number % 1000, "units": 10, "id": f"{mark}-{number}"}
            for number in range(messages)
        ]
        await deferrer.batch_defer_async(*bodies)
        await self.business.commit()

    def deliver(self, messages: int) -> None:  # noqa: ARG002 - until nothing is left
        self.runner.run(self.delivered())

    async def delivered(self) -> None:
        limits = httpx.Limits(max_connections=self.senders)
        async with httpx.AsyncClient(limits=limits) as self.client:
            await self.app.run_worker_async(
                wait=False, install_signal_handlers=False, concurrency=self.senders
            )

    def close(self) -> None:
        self.runner.run(self.closed())
        self.runner.close()

    async def closed(self) -> None:
        await self.business.close()
        await self.app.close_async()


def prepare(place: Place) -> None:
    async def prepared() -> None:
        app, _address = _app(place)
        async with app.open_async():
            await app.schema_manager.apply_schema_async()

    asyncio.run(prepared())


def _app(place: Place) -> tuple[procrastinate.App, dict[str, object]]:
    at = place.address()
    address = {"dbname": at.pop("database"), **at}
    return procrastinate.App(connector=procrastinate.PsycopgConnector(kwargs=address)), address
