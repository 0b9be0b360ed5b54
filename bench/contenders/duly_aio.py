"""`duly.aio`: an `async def` handler, one attempt after the other in a worker."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duly
from duly import aio

if TYPE_CHECKING:
    from place import Place

NAME = "duly.aio App.run"
HAS_KEY = True


def connect(place: Place) -> Any:
    runner = asyncio.Runner()
    # A URL without its driver chooses the one that awaits.
    app = aio.App(place.url.replace("+pymysql", "").replace("+psycopg", ""))
    app.job("credit-aio")(_credit)
    runner.run(_start(app))
    return runner, app, datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def once(worker: Any, name: str, number: int) -> bool:  # noqa: ARG001 - the handler knows it
    runner, app, hour = worker
    result = runner.run(app.run("credit-aio", hour, partition=name, wait=60))
    return result.outcome is duly.Outcome.APPLIED


def close(worker: Any) -> None:
    runner, app, _hour = worker
    runner.run(app.close())
    runner.close()


async def _start(app: Any) -> None:
    await app.init()
    await app.register()


async def _credit(run: Any) -> None:
    account = int(run.partition.rpartition("-")[2]) % 1000
    await run.execute("UPDATE account SET units = units + 10 WHERE id = :id", {"id": account})
