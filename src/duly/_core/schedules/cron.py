"""Cron expressions as sets of wall times in a zone.

Decides which rule holds at a switch of the zone where none is chosen (that of Vixie cron,
cron(8)), and that an expression fires at all. Must never use a library's evaluator: the
nominal time is the identity, and a library's change of mind would change keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.schedules.cron_days import CronDays
from duly._core.schedules.cron_fields import Expression, parse
from duly._core.schedules.wall import WallSchedule
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duly._core.wall_time import Fold, Gap

__all__ = ["CronSchedule"]


class CronSchedule(WallSchedule):
    """A cron expression, evaluated on the wall clock of one zone.

    Attributes:
        expression: The fields in canonical text: five, or six with the seconds first.
    """

    def __init__(
        self,
        expression: str,
        zone: ZoneInfo,
        *,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Read the expression.

        Args:
            expression: Five fields, six with the seconds first, or a word such as `@daily`.
            zone: A zone with a `key`.
            gap: By default cron's rule: `skip` if the second, the minute or the hour starts
                with `*`, otherwise `next`.
            fold: By default cron's rule: `both` if the second, the minute or the hour starts
                with `*`, otherwise `first`.

        Raises:
            ScheduleInvalid: The expression cannot be read or never fires, or a policy is
                unknown.
        """
        parsed = parse(expression)
        days = CronDays(parsed)
        if not days.fires():
            raise ScheduleInvalid(f"cron {shown(expression)} never fires: {_why_never(parsed)}")
        elapsed = parsed.second.starred or parsed.minute.starred or parsed.hour.starred
        self.expression = parsed.text
        super().__init__(
            days,
            zone,
            gap=gap if gap is not None else ("skip" if elapsed else "next"),
            fold=fold if fold is not None else ("both" if elapsed else "first"),
        )

    @property
    def text(self) -> str:
        """The canonical description, such as `cron 0 2 * * *; zone=UTC; gap=next; fold=first`."""
        return f"cron {self.expression}; zone={self.zone.key}; gap={self.gap}; fold={self.fold}"

    def __repr__(self) -> str:
        return (
            f"Cron({self.expression!r}, timezone={self.zone.key!r}, "
            f"gap={self.gap!r}, fold={self.fold!r})"
        )


def _why_never(expression: Expression) -> str:
    """Which fields exclude each other, and the next step."""
    day, weekday = expression.day, expression.weekday
    day_field = expression.count - 2
    if day.before_last or weekday.ordinals:
        return (
            f"no month of field {day_field + 1} ever has a day that fields {day_field} and "
            f"{day_field + 2} name; choose days that the month has"
        )
    return (
        f"no month of field {day_field + 1} has day {min(day.values)} of field {day_field}; "
        "choose a day that the month has"
    )
