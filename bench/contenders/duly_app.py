"""`App.run`, whose handler makes the change with `run.execute`; threads share the App."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duly

if TYPE_CHECKING:
    from place import Place

NAME = "duly App.run"
HAS_KEY = True
_apps: dict[str, tuple[duly.App, datetime]] = {}
_lock = threading.Lock()


def connect(place: Place) -> Any:
    with _lock:
        if place.url not in _apps:
            app = duly.App(place.url)
            app.job("credit")(_credit)
            app.init()
            app.register()
            hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
            _apps[place.url] = (app, hour)
        return _apps[place.url]


def once(worker: Any, name: str, number: int) -> bool:  # noqa: ARG001 - the handler knows it
    app, hour = worker
    return app.run("credit", hour, partition=name, wait=60).outcome is duly.Outcome.APPLIED


def close(worker: Any) -> None:
    worker[0].close()


def _credit(run: duly.Run) -> None:
    account = int(run.partition.rpartition("-")[2]) % 1000
    run.execute("UPDATE account SET units = units + 10 WHERE id = :id", {"id": account})
