"""pgqueuer: enqueued under a dedupe key, and awaited from the worker in the same process."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.errors import DuplicateJobError

from contenders.endless import Endless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

NAME = "pgqueuer"
HAS_KEY = True
SHARES = True
STALE = timedelta(seconds=2)
POLL = timedelta(seconds=0.5)
PATIENCE_S = 60
_LEFT = "SELECT count(*) FROM pgqueuer WHERE dedupe_key = ANY(%s)"
logging.getLogger("pgqueuer").setLevel(logging.CRITICAL)


class Worker:
    """A connection for the change, two for the queue, and what was applied here."""

    def __init__(self, place: Place) -> None:
        at = place.address()
        self._at = {"dbname": at.pop("database"), **at}
        self._applied: set[str] = set()
        self._changed = asyncio.Event()
        self._alone = asyncio.Lock()
        self.runner = Endless()

    async def open(self) -> None:
        connect = psycopg.AsyncConnection.connect
        self._business = await connect(**self._at)
        self._starter = await connect(**self._at, autocommit=True)
        self._queue = await connect(**self._at, autocommit=True)

    async def install(self) -> None:
        await PgQueuer.from_psycopg_connection(self._queue).qm.queries.install()

    async def start(self) -> None:
        self._queries = PgQueuer.from_psycopg_connection(self._starter).qm.queries
        queuer = PgQueuer.from_psycopg_connection(self._queue)
        queuer.entrypoint("credit")(self._credit)
        self._running = asyncio.create_task(
            queuer.qm.run(dequeue_timeout=POLL, heartbeat_timeout=STALE)
        )

    async def work(self, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
        self._applied.clear()
        for name, number in zip(names, numbers, strict=True):
            with suppress(DuplicateJobError):
                await self._queries.enqueue("credit", f"{number} {name}".encode(), dedupe_key=name)
        async with asyncio.timeout(PATIENCE_S):
            while not self._applied.issuperset(names):
                self._changed.clear()
                try:
                    await asyncio.wait_for(self._changed.wait(), 0.1)
                except TimeoutError:  # another process may have taken the rest
                    found = await self._business.execute(_LEFT, (list(names),))
                    if (await found.fetchone()) == (0,):
                        break
        return [name in self._applied for name in names]

    async def close(self) -> None:
        self._running.cancel()
        for connection in (self._business, self._starter, self._queue):
            await connection.close()

    async def _credit(self, job: Any) -> None:
        number, _, name = job.payload.decode().partition(" ")
        update = "UPDATE account SET units = units + 10 WHERE id = %s"
        async with self._alone:  # it starts several at once
            await self._business.execute(update, (int(number) % 1000,))
            await self._business.commit()
        self._applied.add(name)
        self._changed.set()


def prepare(place: Place) -> None:
    worker = Worker(place)
    worker.runner.run(worker.open())
    worker.runner.run(worker.install())


def connect(place: Place) -> Worker:
    worker = Worker(place)
    worker.runner.run(worker.open())
    worker.runner.run(worker.start())
    return worker


def many(worker: Worker, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
    found: list[bool] = worker.runner.run(worker.work(names, numbers))
    return found


def close(worker: Worker) -> None:
    worker.runner.run(worker.close())
