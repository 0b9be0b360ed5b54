"""`RRule`: a recurrence rule of RFC 5545 in a zone.

Decides nothing of its own; it loads the zone and hands it to the core.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duly import zones
from duly._core.schedules.rrule import RRuleSchedule
from duly._core.schedules.rrule_text import read

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.wall_time import Fold, Gap

__all__ = ["RRule", "from_text"]

TEXT: Final = re.compile(
    r"rrule (\S+)(?:; rdate=(\S+))?(?:; exdate=(\S+))?; start=(\S+); zone=([^;]+); "
    r"gap=([^;]+); fold=([^;]+)"
)


class RRule(RRuleSchedule):
    """A recurrence rule, such as `RRule("FREQ=DAILY", start="2026-01-31T09:00:00")`.

    The rule is read on the wall clock of its zone, from a fixed start on, which stands for what
    the rule does not say (RFC 5545, section 3.3.10). What the RFC leaves open is decided so:

    - The start is a nominal time only if the rule names it.
    - A month without the day is passed over: `BYMONTHDAY=31` fires seven times a year. The last
      day of each month is `BYMONTHDAY=-1`.
    - An UNTIL with `Z` is an instant; without, a local time; a date is that whole local day. The
      moment itself is included.
    - `HOURLY` and shorter count on the wall clock too; for elapsed time, take `Every`.
    - A wall time that the zone skips has no instant, and COUNT does not count it (`gap="skip"`);
      `"next"` is the first instant after the gap, `"shift"` is later by the gap's length.
    - A repeated wall time is its first instant (`fold="first"`), its `"last"`, or `"both"`.

    No question walks from the start: one looks at no more than the months, weeks or periods
    of the rule from the asked time to the next that fires, a tenth of a second at worst, for
    rules that fire once in thousands of years. A rule that never fires is refused here, in
    under a second. The times of a COUNT, 10,000 at most, are listed when first asked for.
    """

    def __init__(
        self,
        rule: str,
        *,
        start: datetime | str | None = None,
        timezone: str | None = None,
        gap: Gap = "skip",
        fold: Fold = "first",
    ) -> None:
        """Read the rule and load the zone.

        Args:
            rule: `FREQ=…`, `RRULE:FREQ=…`, or lines of DTSTART, one RRULE, RDATE and EXDATE.
            start: The naive local time that the rule counts from, in whole seconds, or its text
                such as `2026-01-31T09:00:00`; may be left out if *rule* has a DTSTART.
            timezone: A name of the IANA zone data; by default the TZID of *rule*, or UTC.
            gap: `skip`, `next` or `shift`.
            fold: `first`, `last` or `both`.

        Raises:
            ScheduleInvalid: The rule, the start, the zone or a policy cannot be read, two of
                them disagree, there is no start, or the rule never fires.
        """
        found = read(rule, start=start, timezone=timezone)
        super().__init__(found, zones.load(found.zone), gap=gap, fold=fold)

    def __reduce__(self) -> tuple[Any, ...]:
        # A zone read from a file cannot be pickled; its name can.
        start, zone = self.recurrence.start, self.zone.key
        make = partial(RRule, start=start, timezone=zone, gap=self.gap, fold=self.fold)
        return make, (self.recurrence.lines,)


def from_text(text: str) -> RRule | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    rule, added, excluded, start, zone, gap, fold = match.groups()
    lines = [f"RRULE:{rule}"]
    lines += [f"RDATE:{added}"] if added else []
    lines += [f"EXDATE:{excluded}"] if excluded else []
    return RRule("\n".join(lines), start=start, timezone=zone, gap=gap, fold=fold)  # type: ignore[arg-type]
