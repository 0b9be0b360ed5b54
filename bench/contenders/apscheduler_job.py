"""APScheduler: a job of its store, whose id is the key, that is due now."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.base import ConflictingIdError
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

NAME = "APScheduler"
HAS_KEY = True
SHARES = True
PATIENCE_S = 3
logging.getLogger("apscheduler").setLevel(logging.CRITICAL)
# Its thread ends with an error where another process took the job first; the work then waits.
threading.excepthook = lambda _given: None
_business: Any = None
_applied: set[str] = set()
_changed = threading.Condition()


def credit(name: str, number: int) -> None:
    """Found by its name, as the store demands."""
    update = "UPDATE account SET units = units + 10 WHERE id = %s"
    _business.execute(update, (number % 1000,))
    _business.commit()
    with _changed:
        _applied.add(name)
        _changed.notify_all()


def prepare(place: Place) -> None:
    close(connect(place))


def connect(place: Place) -> BackgroundScheduler:
    global _business  # noqa: PLW0603 - a job is a name, and gets nothing that is not pickled
    _business = place.connect()
    scheduler = BackgroundScheduler(
        jobstores={"default": SQLAlchemyJobStore(url=place.url)},
        executors={"default": ThreadPoolExecutor(1)},
        job_defaults={"misfire_grace_time": None},
        timezone="UTC",
    )
    scheduler.start()
    return scheduler


def many(worker: Any, names: Sequence[str], numbers: Sequence[int]) -> list[bool]:
    _applied.clear()
    for name, number in zip(names, numbers, strict=True):
        with suppress(ConflictingIdError):
            worker.add_job(f"{__name__}:credit", args=[name, number], id=name)
    deadline = time.monotonic() + PATIENCE_S
    waited = list(names)
    while waited and time.monotonic() < deadline:
        with _changed:
            _changed.wait_for(lambda: _applied.issuperset(names), timeout=0.05)
        waited = [name for name in waited if name not in _applied]
        if waited and worker.get_job(waited[-1]) is None:  # another process took it
            waited.pop()
    return [name in _applied for name in names]


def close(worker: Any) -> None:
    worker.shutdown()
    _business.close()
