"""Jitter: how much later than its due time a start is put, so that many jobs do not start at once.

Decides a delay from the key alone, so every host puts the same start at the same moment. Must
never touch the nominal time: that is the identity (Temporal gave a last slot fifty days).
"""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["delay"]

NONE: Final = timedelta(0)
MICROSECOND: Final = timedelta(microseconds=1)
SCALE: Final = 2**64


def delay(key: str, most: timedelta, *, due: datetime, next_due: datetime | None) -> timedelta:
    """The delay of one start: from 0 up to, not including, *most*, spread evenly over keys.

    Args:
        key: The logical key.
        most: The job's `jitter=`.
        due: The due time.
        next_due: The one after it; a start never gets as late as that. None: there is no next,
            so there is nothing to spread, and no delay.
    """
    if next_due is None:
        return NONE
    room_us = min(most, next_due - due) // MICROSECOND
    fraction = int.from_bytes(sha256(key.encode()).digest()[:8])
    return max(NONE, timedelta(microseconds=room_us * fraction // SCALE))
