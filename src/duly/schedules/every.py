"""`Every`: a fixed interval from an anchor.

Decides nothing of its own; the core has the class, this reads its text.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from duly._core.instants import parse_instant
from duly._core.schedules.every import Every

__all__ = ["Every", "from_text"]

TEXT: Final = re.compile(r"every ([0-9]+)(?:\.([0-9]{6}))?s; anchor=(.+)")


def from_text(text: str) -> Every | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    seconds, us, anchor = match.groups()
    interval = timedelta(seconds=int(seconds), microseconds=int(us or 0))
    return Every(interval, anchor=parse_instant(anchor, name="anchor"))
