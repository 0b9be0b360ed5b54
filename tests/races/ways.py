"""Starts by every way in, on a bank of races."""

from __future__ import annotations

import random
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duly
from tests.contract import bank as contract
from tests.contract import ways
from tests.races.bank import JOB, is_contention
from tests.servers.database import Database

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from tests.contract.doors import Door
    from tests.races.bank import Bank

WAYS = (
    "app-url",
    "once-block",
    "app-session",
    "app-django-cursor",
    "aio-app-url",
    "aio-once-block",
    "aio-app-session",
    "claim-driver",
    "claim-sqlalchemy-session",
    "claim-django",
    "claim-aio-driver",
    "claim-aio-sqlalchemy-session",
)
"""Of each cell all that differ in more than how an engine was made."""
_BY_NAME = {way.name: way for way in ways.WAYS}


@contextmanager
def opened(bank: Bank, way: str) -> Iterator[Door]:
    """A way in, for the thread that opens it."""
    site = contract.Bank(contract.Ledger(Database(bank.name, bank.url), None), JOB)
    try:
        yield _BY_NAME[way].open(site)
    finally:
        site.close()


def until_settled(door: Door, key: str) -> str:
    """As somebody should who starts it: tried again while the database is contended."""
    occurrence = duly.Occurrence.parse(key)

    def effect(run: Callable[[str], Any]) -> None:
        run(f"INSERT INTO effect (occurrence) VALUES ('{key}')")

    deadline = time.monotonic() + 60
    while True:
        try:
            return door.start(effect, at=occurrence.nominal_time, wait=20).outcome.value
        except duly.Expired:
            return "expired"
        except Exception as error:
            if not _is_contended(error) or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.001, 0.02))


def at_once(bank: Bank, way: str, keys: list[str], together: threading.Barrier) -> list[str]:
    """Start each key once, when all others do."""
    with opened(bank, way) as door:
        found = []
        for key in keys:
            together.wait(60)
            found.append(until_settled(door, key))
        return found


def _is_contended(error: BaseException | None) -> bool:
    """Whether it is contention, or a library's error around one."""
    if error is None:
        return False
    if type(error).__module__.startswith("asyncmy"):
        return error.args[0] in {1213, 1205, 1020}
    inner: Any = getattr(error, "orig", None) or error.__cause__
    is_busy = isinstance(error, sqlite3.Error) and is_contention(error)
    return is_busy or is_contention(error) or _is_contended(inner)
