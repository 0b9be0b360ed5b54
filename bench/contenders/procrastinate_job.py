"""procrastinate: deferred under a queueing lock that is the key, then worked off."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import procrastinate
import psycopg
from procrastinate.exceptions import AlreadyEnqueued

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

NAME = "procrastinate"
HAS_KEY = True
SHARES = True
logging.getLogger("procrastinate").setLevel(logging.CRITICAL)


class Worker:
    """An app, its worker's connection for the change, and what was applied here."""

    def __init__(self, place: Place) -> None:
        at = place.address()
        kwargs = {"dbname": at.pop("database"), **at}
        self.app = procrastinate.App(connector=procrastinate.PsycopgConnector(kwargs=kwargs))
        self.applied: set[str] = set()
        self.runner = asyncio.Runner()
        self.task = self.app.task(name="credit")(self.credit)
        self.runner.run(self.open())
        self.business = self.runner.run(psycopg.AsyncConnection.connect(**kwargs))

    async def credit(self, name: str, number: int) -> None:
        update = "UPDATE account SET units = units + 10 WHERE id = %s"
        await self.business.execute(update, (number % 1000,))
        await self.business.commit()
        self.applied.add(name)

    async def revive(self) -> None:
        """What its documentation tells to do with the jobs of workers that died."""
        manager = self.app.job_manager
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=0.1):
            await manager.retry_job(job)

    async def work(self, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
        self.applied.clear()
        for name, number in zip(names, numbers, strict=True):
            try:
                deferrer = self.task.configure(queueing_lock=name)
                await deferrer.defer_async(name=name, number=number)
            except AlreadyEnqueued:
                pass
        await self.app.run_worker_async(wait=False, install_signal_handlers=False)
        return [name in self.applied for name in names]

    async def open(self) -> None:
        await self.app.open_async()

    async def close(self) -> None:
        await self.business.close()
        await self.app.close_async()


def prepare(place: Place) -> None:
    worker = Worker(place)
    worker.runner.run(worker.app.schema_manager.apply_schema_async())
    close(worker)


def connect(place: Place) -> Worker:
    worker = Worker(place)
    worker.runner.run(worker.revive())
    return worker


def many(worker: Worker, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
    return worker.runner.run(worker.work(names, numbers))


def close(worker: Worker) -> None:
    worker.runner.run(worker.close())
    worker.runner.close()
