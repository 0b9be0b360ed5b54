"""pgqueuer: enqueued under a dedupe key, then worked off."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.errors import DuplicateJobError
from pgqueuer.types import QueueExecutionMode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

NAME = "pgqueuer"
HAS_KEY = True
STALE = timedelta(seconds=1)
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)


class Worker:
    """A connection for the change, one for the queue, and what was applied here."""

    def __init__(self, place: Place) -> None:
        at = place.address()
        self.at = {"dbname": at.pop("database"), **at}
        self.applied: set[str] = set()
        self.runner = asyncio.Runner()
        self.business = self.runner.run(psycopg.AsyncConnection.connect(**self.at))

    async def queue(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(**self.at, autocommit=True)

    async def work(self, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
        async with await self.queue() as connection:
            queuer = PgQueuer.from_psycopg_connection(connection)
            queuer.entrypoint("credit")(self.credit)
            for name, number in zip(names, numbers, strict=True):
                payload = f"{number} {name}".encode()
                with suppress(DuplicateJobError):
                    await queuer.qm.queries.enqueue("credit", payload, dedupe_key=name)
            await queuer.qm.run(mode=QueueExecutionMode.drain, heartbeat_timeout=STALE)
        return [name in self.applied for name in names]

    async def credit(self, job: Any) -> None:
        number, _, name = job.payload.decode().partition(" ")
        async with self.business.transaction():
            update = "UPDATE account SET units = units + 10 WHERE id = %s"
            await self.business.execute(update, (int(number) % 1000,))
        self.applied.add(name)


def prepare(place: Place) -> None:
    worker = Worker(place)

    async def install() -> None:
        async with await worker.queue() as connection:
            await PgQueuer.from_psycopg_connection(connection).qm.queries.install()

    worker.runner.run(install())
    close(worker)


def connect(place: Place) -> Worker:
    return Worker(place)


def many(worker: Worker, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
    return worker.runner.run(worker.work(names, numbers))


def close(worker: Worker) -> None:
    worker.runner.run(worker.business.close())
    worker.runner.close()
