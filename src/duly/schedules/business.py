"""`BusinessDays`: the business days of another schedule.

Decides which schedule and calendar a text or a name stands for, and hands both to the core.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duly import calendars, schedules
from duly._core.schedules.business import BusinessSchedule
from duly._core.wording import shown
from duly.errors import ScheduleInvalid
from duly.schedules.cron import Cron

if TYPE_CHECKING:
    from duly._core.schedules import Schedule
    from duly._core.schedules.business import Shift
    from duly.calendars import Calendar

__all__ = ["BusinessDays", "from_text"]

TEXT: Final = re.compile(r"business ([^()]+?(?:\([^()]*\))?) (skip|previous|next); of=(.+)")


class BusinessDays(BusinessSchedule):
    """The days of a schedule that are business days, and where the others go.

    - every business day: `BusinessDays("0 9 * * *", calendar="DE")`;
    - the first business day of the month:
      `BusinessDays("0 9 1 * *", calendar="DE", shift="next", timezone="Europe/Berlin")`;
    - the last trading day of the month:
      `BusinessDays("0 18 L * *", calendar="XNYS", shift="previous", timezone="America/New_York")`.

    A day moves whole, with the times it has; days that meet on one business day are one day, and
    a time that they share is one nominal time. A half holiday is a business day. What the zone's
    switches do is the inner schedule's rule, on the day that the time has moved to.

    The schedule ends with the last year that the calendar knows, `calendar.last_year`, and starts
    with the first: a day outside names nothing, nor does one that would move outside.

    Attributes:
        schedule: The inner schedule.
        calendar: The calendar; its `version` is the release of the data that answers.
        shift: `skip`, `previous` or `next`.
    """

    calendar: Calendar

    def __init__(
        self,
        schedule: Schedule | str,
        calendar: Calendar | str,
        shift: Shift = "skip",
        timezone: str | None = None,
    ) -> None:
        """Read the schedule and load the calendar.

        Args:
            schedule: Cron text, or any schedule in local time: `Cron`, `OnCalendar`, `RRule`,
                `Dates` of local dates.
            calendar: A name such as `DE`, `DE-BY` or `XNYS`, or a `duly.Calendar`.
            shift: What a day does that is no business day: it is dropped (`skip`), or moves to
                the nearest business day before it (`previous`) or after it (`next`).
            timezone: The zone of cron text, UTC by default; any other schedule has its own.

        Raises:
            ScheduleInvalid: The schedule, the calendar or a rule cannot be read, or the schedule
                never fires on a business day.
        """
        if isinstance(schedule, str):
            schedule = Cron(schedule, "UTC" if timezone is None else timezone)
        elif timezone is not None:
            raise ScheduleInvalid(
                f"timezone {shown(timezone)} is given twice, here and in the schedule; leave it "
                "out here"
            )
        super().__init__(schedule, _calendar(calendar), shift=shift)

    def __repr__(self) -> str:
        plain = self.calendar.text == self.calendar.name
        calendar = self.calendar.name if plain else self.calendar
        return f"BusinessDays({self.schedule!r}, calendar={calendar!r}, shift={self.shift!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return BusinessDays, (self.schedule, self.calendar, self.shift)


def from_text(text: str) -> BusinessDays | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    name, shift, inner = match.groups()
    if (calendar := calendars.from_text(name)) is None:
        return None
    return BusinessDays(schedules.from_text(inner), calendar, shift)  # type: ignore[arg-type]


def _calendar(given: Any) -> Calendar:
    return given if isinstance(given, calendars.Calendar) else calendars.load(given)
