"""The business change alone: the floor, and the control that must apply a resend twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from place import Place

NAME = "bare change, no key"
HAS_KEY = False


def connect(place: Place) -> Any:
    raw = place.connect()
    update = f"UPDATE account SET units = units + 10 WHERE id = {place.mark}"
    return raw, raw.cursor(), update, place.name == "sqlite"


def once(worker: Any, name: str, number: int) -> bool:  # noqa: ARG001 - the key is not looked at
    raw, cursor, update, begins = worker
    if begins:
        cursor.execute("BEGIN IMMEDIATE")
    cursor.execute(update, (number % 1000,))
    raw.commit()
    return True


def close(worker: Any) -> None:
    worker[0].close()
