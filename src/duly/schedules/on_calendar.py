"""`OnCalendar`: a calendar event of systemd in a zone.

Decides which zone an event is read in: the one that the text or the argument names. Must never
take the host's own zone, which two hosts may set apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duly import zones
from duly._core.schedules.on_calendar import OnCalendarSchedule
from duly._core.schedules.on_calendar_fields import parse
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duly._core.wall_time import Fold, Gap

__all__ = ["OnCalendar", "from_text"]

TEXT: Final = re.compile(r"oncalendar ([^;]+); zone=([^;]+); gap=([^;]+); fold=([^;]+)")


class OnCalendar(OnCalendarSchedule):
    """A calendar event of systemd, such as `OnCalendar("Mon..Fri 09:00 Europe/Berlin")`.

    The text is that of systemd.time(7), "CALENDAR EVENTS": weekdays, date, time and zone, each
    of which may be left out, with lists, `..` ranges, `/` repetitions and `~` for days from the
    end of the month; `daily` and its like; `@` and Unix seconds. A date must match its weekday
    and its date fields.

    duly reads it as systemd does, except that:

    - Without a zone, in the text or in *timezone*, it is UTC. systemd takes the host's zone,
      which two hosts may set apart.
    - A time in a gap of the zone runs at the first instant after it (`gap="next"`), and a
      repeated time runs once (`fold="first"`). Where the hour, the minute or the second is `*`
      or repeats without end from 0 (`00/2` is cron's `*/2`), the text counts elapsed time: it
      skips the gap and runs in `both` repeated hours. That is the rule of `Cron`, so that a job
      means the same in either text. systemd drops the day of a time in a gap, and a timer of
      every minute rests for the whole repeated hour.
    - `*:00/7` has its 00:00. systemd 252 loses it where the day changes.
    - Years end at 9999, not at 2199, where the text does not end them.
    - A text that names more than one time a second on the average of a day is refused, and so
      is one that never fires.

    Two schedules are equal if their normal forms are, as `systemd-analyze calendar` prints
    them: `1..3` and `1,2,3` name the same days in two forms.
    """

    def __init__(
        self,
        expression: str,
        timezone: str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Read the event and load the zone.

        Args:
            expression: The event.
            timezone: A name of the IANA zone data, such as `Europe/Berlin`; by default the one
                in the text, or else UTC. If both name one, they must be equal.
            gap: `skip`, `next` or `shift`.
            fold: `first`, `last` or `both`.

        Raises:
            ScheduleInvalid: The event, the zone or a rule cannot be read, two zones are named,
                or the schedule never fires.
        """
        event, named = parse(expression)
        super().__init__(event, _zone(expression, named, timezone), gap=gap, fold=fold)

    def __reduce__(self) -> tuple[Any, ...]:
        # A zone read from a file cannot be pickled; its name can.
        return OnCalendar, (self.expression, self.zone.key, self.gap, self.fold)


def _zone(expression: str, named: str | None, timezone: str | None) -> ZoneInfo:
    if named is None:
        return zones.load("UTC" if timezone is None else timezone)
    zone = zones.load(named)
    if timezone is not None and zones.load(timezone).key != named:
        raise ScheduleInvalid(
            f"OnCalendar {shown(expression)} is in zone {named}, and timezone= says {timezone}; "
            "leave one out"
        )
    return zone


def from_text(text: str) -> OnCalendar | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    expression, zone, gap, fold = match.groups()
    return OnCalendar(expression, zone, gap=gap, fold=fold)  # type: ignore[arg-type]
