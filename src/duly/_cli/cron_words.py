"""A cron expression in English, by the `cron-descriptor` package.

Decides only how the two day fields are joined, which the package cannot know. It must never
fail a command: words are a help, the canonical text is what counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.schedules.business import BusinessSchedule
from duly._core.schedules.cron import CronSchedule
from duly._core.timetable import walls_of

if TYPE_CHECKING:
    from duly._core.schedules import Schedule

__all__ = ["in_words"]


def in_words(schedule: Schedule) -> str | None:
    """What a cron schedule says, in words and in 24-hour time; None for every other kind."""
    walls = walls_of(schedule)
    while isinstance(walls, BusinessSchedule):
        walls = walls.schedule
    if not isinstance(walls, CronSchedule):
        return None
    *times, day, month, weekday = walls.expression.split()
    before = " ".join(times)
    try:
        if "*" in (day, weekday):
            return _described(f"{before} {day} {month} {weekday}")
        # Vixie cron's rule for two day fields, which the package takes for "or" in every case.
        by_day = _described(f"{before} {day} {month} *")
        by_weekday = f"{before} * {month} {weekday}"
        if day.startswith("*") or weekday.startswith("*"):
            return f"{by_day}{_described(by_weekday, part='DAYOFWEEK')}"
        other = _described(by_weekday)
    except Exception:  # of the package, on a field that it does not know; the text says it too
        return None
    return f"{by_day}; or {other[:1].lower()}{other[1:]}"


def _described(expression: str, *, part: str = "FULL") -> str:
    from cron_descriptor import (  # type: ignore[import-untyped]
        DescriptionTypeEnum,
        ExpressionDescriptor,
        Options,
    )

    # The locale is named: by default it would be guessed from the environment.
    options = Options(use_24hour_time_format=True, locale_code="en_US")
    described = ExpressionDescriptor(expression, options)
    return str(described.get_description(DescriptionTypeEnum[part]))
