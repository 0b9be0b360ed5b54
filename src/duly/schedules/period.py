"""`Periods`: business periods on a schedule; users write `period=` on the job.

Decides nothing of its own; it loads the zone and hands it to the core.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duly import schedules, zones
from duly._core.schedules.period import PeriodSchedule

if TYPE_CHECKING:
    from duly._core.schedules import Schedule
    from duly._core.schedules.period import Period

__all__ = ["Periods", "from_text"]

TEXT: Final = re.compile(r"period ([a-z]+) (-?[0-9]{1,3}); zone=([^;]+); of=(.+)")


class Periods(PeriodSchedule):
    """A schedule whose nominal times are the starts of periods in a zone."""

    def __init__(
        self,
        schedule: Schedule,
        period: Period,
        *,
        offset: int = 0,
        timezone: str,
        is_checked: bool = False,
    ) -> None:
        """Load the zone.

        Args:
            schedule, period, offset, is_checked: As `PeriodSchedule`.
            timezone: The name of the zone.

        Raises:
            ScheduleInvalid: As `PeriodSchedule`, or an unknown zone.
        """
        zone = zones.load(timezone)
        super().__init__(schedule, period, offset=offset, zone=zone, is_checked=is_checked)

    def __reduce__(self) -> tuple[Any, ...]:
        # A zone read from a file cannot be pickled; its name can.
        return from_text, (self.text,)


def from_text(text: str) -> Periods | None:
    """The schedule of a canonical text, which was checked; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    period, offset, zone, inner = match.groups()
    of = schedules.from_text(inner)
    return Periods(of, period, offset=int(offset), timezone=zone, is_checked=True)  # type: ignore[arg-type]
