"""`duly.claim` in the transaction that one would write by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duly

if TYPE_CHECKING:
    from place import Place

NAME = "duly.claim"
HAS_KEY = True


def connect(place: Place) -> Any:
    raw = place.connect()
    update = f"UPDATE account SET units = units + 10 WHERE id = {place.mark}"
    today = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return raw, raw.cursor(), update, today, place.name == "sqlite"


def once(worker: Any, name: str, number: int) -> bool:
    raw, cursor, update, today, begins = worker
    if begins:
        cursor.execute("BEGIN IMMEDIATE")
    if not duly.claim(raw, duly.Occurrence("claimed", today, name)).is_new:
        raw.rollback()
        return False
    cursor.execute(update, (number % 1000,))
    raw.commit()
    return True


def close(worker: Any) -> None:
    worker[0].close()
