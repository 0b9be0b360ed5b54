"""Huey on SQLite: `put_if_empty` of the key, then the change; queue and worker in one process."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huey import SqliteHuey

if TYPE_CHECKING:
    from place import Place

NAME = "Huey"
HAS_KEY = True
SHARES = True
logging.getLogger("huey").setLevel(logging.CRITICAL)


def connect(place: Place) -> Any:
    name = place.address()["database"]
    file = Path(os.environ["BENCH_FOLDER"]) / f"{name}.huey"
    huey = SqliteHuey(name, filename=str(file), fsync=True, timeout=60, results=False)
    business = place.connect()
    applied: set[str] = set()

    @huey.task()
    def credit(name: str, number: int) -> None:
        if huey.put_if_empty(name, "1"):
            update = "UPDATE account SET units = units + 10 WHERE id = %s"
            business.execute(update, (number % 1000,))
            business.commit()
            applied.add(name)

    return business, huey, credit, applied


def once(worker: Any, name: str, number: int) -> bool:
    _business, huey, credit, applied = worker
    applied.clear()
    credit(name, number)
    while (task := huey.dequeue()) is not None:  # as its consumer does
        huey.execute(task)
    return name in applied


def close(worker: Any) -> None:
    worker[0].close()
