"""What one would write: BEGIN, INSERT of the key, UPDATE, COMMIT, on the prepared raw driver."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from place import Place

NAME = "by hand"
HAS_KEY = True


def connect(place: Place) -> Any:
    raw, mark = place.connect(), place.mark
    insert = f"INSERT INTO done (name, recorded_us) VALUES ({mark}, {mark})"
    insert += (
        " ON DUPLICATE KEY UPDATE name = name"
        if place.name == "mariadb"
        else " ON CONFLICT DO NOTHING"
    )
    update = f"UPDATE account SET units = units + 10 WHERE id = {mark}"
    return raw, raw.cursor(), insert, update, place.name == "sqlite"


def once(worker: Any, name: str, number: int) -> bool:
    raw, cursor, insert, update, begins = worker
    if begins:
        cursor.execute("BEGIN IMMEDIATE")
    cursor.execute(insert, (name, time.time_ns() // 1000))
    if cursor.rowcount != 1:
        raw.rollback()
        return False
    cursor.execute(update, (number % 1000,))
    raw.commit()
    return True


def close(worker: Any) -> None:
    worker[0].close()
