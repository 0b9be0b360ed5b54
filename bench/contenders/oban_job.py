"""Oban for Python: enqueued, and awaited from the worker in the same process."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import psycopg
from oban import Oban, worker
from oban.schema import install_sql

from contenders.endless import Endless

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

NAME = "Oban for Python"
HAS_KEY = False  # its open version has no unique jobs
SHARES = True
PATIENCE_S = 60
RESCUE = {"interval": 0.5, "rescue_after": 2.0}
_LEFT = (
    "SELECT count(*) FROM oban_jobs WHERE id = ANY(%s)"
    " AND state IN ('available', 'executing', 'retryable', 'scheduled')"
)
logging.getLogger("oban").setLevel(logging.CRITICAL)
_applied: set[str] = set()
_changed = asyncio.Event()
_business: Any = None


@worker(queue="default")
class Credit:
    async def process(self, job: Any) -> None:
        update = "UPDATE account SET units = units + 10 WHERE id = %s"
        await _business.execute(update, (job.args["number"] % 1000,))
        await _business.commit()
        _applied.add(job.args["name"])
        _changed.set()


class Worker:
    """An instance with its pool, and a connection for the change."""

    def __init__(self, place: Place) -> None:
        at = place.address()
        self._at = {"dbname": at.pop("database"), **at}
        self.runner = Endless()

    async def install(self) -> None:
        async with await psycopg.AsyncConnection.connect(**self._at) as connection:
            await connection.execute(install_sql())

    async def start(self) -> None:
        global _business  # noqa: PLW0603 - its worker is a class that it makes itself
        _business = await psycopg.AsyncConnection.connect(**self._at)
        self._reading = await psycopg.AsyncConnection.connect(**self._at, autocommit=True)
        dsn = psycopg.conninfo.make_conninfo(**self._at)
        self._pool = await Oban.create_pool(dsn, min_size=1, max_size=4)
        self._oban = Oban(pool=self._pool, queues={"default": 1}, lifeline=RESCUE)
        await self._oban.start()

    async def work(self, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
        _applied.clear()
        ids = []
        for name, number in zip(names, numbers, strict=True):
            job = await self._oban.enqueue(Credit.new({"name": name, "number": number}))
            ids.append(job.id)
        async with asyncio.timeout(PATIENCE_S):
            while not _applied.issuperset(names):
                _changed.clear()
                try:
                    await asyncio.wait_for(_changed.wait(), 0.1)
                except TimeoutError:  # another process may have taken the rest
                    found = await self._reading.execute(_LEFT, (ids,))
                    if (await found.fetchone()) == (0,):
                        break
        return [name in _applied for name in names]

    async def close(self) -> None:
        await self._oban.stop()
        await self._pool.close()
        for connection in (_business, self._reading):
            await connection.close()


def prepare(place: Place) -> None:
    made = Worker(place)
    made.runner.run(made.install())


def connect(place: Place) -> Worker:
    made = Worker(place)
    made.runner.run(made.start())
    return made


def many(made: Worker, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
    found: list[bool] = made.runner.run(made.work(names, numbers))
    return found


def close(made: Worker) -> None:
    made.runner.run(made.close())
