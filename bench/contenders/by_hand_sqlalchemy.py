"""The same two statements through SQLAlchemy's pool and `text()`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import sqlalchemy
from sqlalchemy import text

if TYPE_CHECKING:
    from place import Place

NAME = "by hand, SQLAlchemy"
HAS_KEY = True


def connect(place: Place) -> Any:
    options = {"connect_args": {"timeout": 60}} if place.name == "sqlite" else {}
    engine = sqlalchemy.create_engine(place.url, **options)
    if place.name == "sqlite":
        sqlalchemy.event.listen(engine, "connect", _full)
    # SQLAlchemy asks MariaDB to count the rows found: ON DUPLICATE KEY UPDATE counts one always.
    ignore, end = (" IGNORE", "") if place.name == "mariadb" else ("", "ON CONFLICT DO NOTHING")
    insert = text(f"INSERT{ignore} INTO done (name, recorded_us) VALUES (:name, :at) {end}")
    return engine, insert, text("UPDATE account SET units = units + 10 WHERE id = :id")


def once(worker: Any, name: str, number: int) -> bool:
    engine, insert, update = worker
    with engine.begin() as connection:
        at = time.time_ns() // 1000
        if connection.execute(insert, {"name": name, "at": at}).rowcount != 1:
            return False
        connection.execute(update, {"id": number % 1000})
        return True


def close(worker: Any) -> None:
    worker[0].dispose()


def _full(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA synchronous = FULL")
