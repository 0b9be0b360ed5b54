"""The schedules that users write, one kind a file: `Cron`, `Every`, ….

Decides which kind a canonical text is of. Must never evaluate a schedule or read a zone from
anywhere but `duly.zones`, and must never load a kind that is not asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from duly._core.wording import shown
from duly.errors import ScheduleInvalid
from duly.schedules.cron import Cron
from duly.schedules.every import Every

if TYPE_CHECKING:
    from duly._core.schedules import Schedule

__all__ = ["Cron", "Every", "from_text"]

# The first word of a canonical text, and the module whose `from_text` reads it.
KINDS: Final = {
    "business": "duly.schedules.business",
    "cron": "duly.schedules.cron",
    "dates": "duly.schedules.dates",
    "every": "duly.schedules.every",
    "oncalendar": "duly.schedules.on_calendar",
    "period": "duly.schedules.period",
    "rrule": "duly.schedules.rrule",
}


def from_text(text: str) -> Schedule:
    """The schedule that a canonical text describes, as stored with a job's revision.

    Raises:
        ScheduleInvalid: No schedule of this version has that text.
    """
    home = KINDS.get(text.partition(" ")[0])
    found: Schedule | None = None if home is None else import_module(home).from_text(text)
    if found is None:
        raise ScheduleInvalid(
            f"{shown(text)} describes no schedule of this version; "
            "run the duly that wrote it, or define the job again"
        )
    return found
