"""Business periods on a schedule, from their canonical text; users write `period=` on the job."""

from __future__ import annotations

import re
from typing import Final

from duly import schedules, zones
from duly._core.schedules.period import PeriodSchedule

__all__ = ["from_text"]

TEXT: Final = re.compile(r"period ([a-z]+) (-?[0-9]{1,3}); zone=([^;]+); of=(.+)")


def from_text(text: str) -> PeriodSchedule | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    period, offset, zone, inner = match.groups()
    of = schedules.from_text(inner)
    return PeriodSchedule(of, period, offset=int(offset), zone=zones.load(zone))  # type: ignore[arg-type]
