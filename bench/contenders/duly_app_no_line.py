"""`App.run` on SQLite as it would be without the line of writers: with the busy handler alone."""

from __future__ import annotations

from contenders import duly_app
from contenders.duly_app import close, once
from duly._db import connect as opening

NAME = "duly App.run, busy handler"
HAS_KEY = True
__all__ = ["HAS_KEY", "NAME", "close", "once", "connect"]


def connect(place: duly_app.Place) -> object:
    opening.queue_of = lambda _path: None  # type: ignore[assignment,return-value]
    return duly_app.connect(place)
