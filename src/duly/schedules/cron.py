"""`Cron`: a cron expression in a zone.

Decides nothing of its own; it loads the zone and hands it to the core.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from duly import zones
from duly._core.schedules.cron import CronSchedule
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from duly._core.wall_time import Fold, Gap

__all__ = ["Cron", "from_text"]

TEXT: Final = re.compile(r"cron ([^;]+); zone=([^;]+); gap=([^;]+); fold=([^;]+)")


class Cron(CronSchedule):
    """A cron expression in a zone, such as `Cron("30 2 * * *", timezone="Europe/Berlin")`.

    Each nominal time is an instant; what the zone's switches do is decided once, here:

    - a wall time in a gap has no instant (`gap="skip"`), is the first instant after the gap
      (`"next"`), or is later by the length of the gap (`"shift"`);
    - a repeated wall time is its first instant (`fold="first"`), its `"last"`, or `"both"`.

    By default (`dst="cron"`) the rule of Vixie cron holds: an expression whose second, minute or
    hour starts with `*` counts elapsed time (`skip` and `both`), any other runs once a day
    (`next` and `first`). Two day fields that are both restricted mean either; a `*` at the
    start of one makes it both. 0 and 7 are Sunday.

    Beyond crontab(5): six fields start with the seconds, as in Quartz (croniter reads them
    last, and no text says which is meant); `L` is the last day of the month and `L-3` three
    days before it; `FRIL` or `5L` is the last Friday, `MON#2` or `1#2` the second Monday. These
    restrict a day field, as a number does.
    """

    def __init__(
        self,
        expression: str,
        timezone: str = "UTC",
        dst: Literal["cron"] = "cron",
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Read the expression and load the zone.

        Args:
            expression: Five fields, six with the seconds first, or a word such as `@daily`.
            timezone: A name of the IANA zone data, such as `Europe/Berlin`.
            dst: The rule for what *gap* and *fold* leave open; `cron` is the only one.
            gap: `skip`, `next` or `shift`.
            fold: `first`, `last` or `both`.

        Raises:
            ScheduleInvalid: The expression, the zone or a rule cannot be read, or the
                schedule never fires.
        """
        if dst != "cron":
            raise ScheduleInvalid(
                f'dst {shown(dst)} is not allowed; write dst="cron", or choose gap= and fold='
            )
        super().__init__(expression, zones.load(timezone), gap=gap, fold=fold)

    def __reduce__(self) -> tuple[Any, ...]:
        # A zone read from a file cannot be pickled; its name can.
        return Cron, (self.expression, self.zone.key, "cron", self.gap, self.fold)


def from_text(text: str) -> Cron | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    expression, zone, gap, fold = match.groups()
    return Cron(expression, zone, gap=gap, fold=fold)  # type: ignore[arg-type]
