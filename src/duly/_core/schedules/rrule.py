"""Recurrence rules of RFC 5545 as sets of wall times in a zone.

Decides where a rule ends (COUNT, UNTIL), which single dates are added or left out, and that a
rule that never fires is refused. Must never take a start from a clock, nor let a time depend
on where a search began.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from duly._core.schedules.rrule_days import RuleDays
from duly._core.schedules.rrule_ends import CountedDays, DatedDays, EndedDays, as_utc_until
from duly._core.schedules.wall import WallDays, WallSchedule
from duly._core.wall_time import instants
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duly._core.schedules.rrule_text import Recurrence
    from duly._core.wall_time import Fold, Gap

__all__ = ["RRuleSchedule"]

CALENDAR_START: Final = datetime.min.replace(tzinfo=UTC)


class RRuleSchedule(WallSchedule):
    """A recurrence rule, evaluated on the wall clock of one zone.

    Attributes:
        recurrence: The rule, its start and its single dates.
    """

    def __init__(
        self, recurrence: Recurrence, zone: ZoneInfo, *, gap: Gap = "skip", fold: Fold = "first"
    ) -> None:
        """Take the recurrence.

        Args:
            recurrence: As `rrule_text.read` gives it.
            zone: The zone that it names.
            gap: By default `skip`: the RFC ignores a time that does not exist, and COUNT does.
            fold: By default `first`, as the RFC reads a time that occurs twice.

        Raises:
            ScheduleInvalid: It never fires, ends before it starts, leaves out what it does not
                name, or a policy is unknown.
        """
        days = RuleDays(recurrence.rule, recurrence.start)
        super().__init__(days, zone, gap=gap, fold=fold)
        self.recurrence = recurrence
        if not days.fires():
            self._refuse("no date has all of its parts; choose parts that a date can have")
        self._must_fire(f'{zone.key} skips each of its times; choose gap="next" or another time')
        self._must_end_after_start()
        self._days = self._ended(days)
        if recurrence.added or recurrence.excluded:
            self._must_exclude_what_is_there()
            self._days = DatedDays(self._days, recurrence.added, recurrence.excluded)
        if recurrence.rule.count is None or recurrence.excluded:
            self._must_fire("nothing is left; give a later UNTIL, or fewer EXDATE")

    @property
    def text(self) -> str:
        """The canonical description.

        Such as `rrule FREQ=DAILY; start=2026-01-31T09:00:00; zone=UTC; gap=skip; fold=first`.
        """
        return f"rrule {self.recurrence.text}; gap={self.gap}; fold={self.fold}"

    def __repr__(self) -> str:
        return (
            f"RRule({self.recurrence.lines!r}, start={self.recurrence.start.isoformat()!r}, "
            f"timezone={self.zone.key!r}, gap={self.gap!r}, fold={self.fold!r})"
        )

    def _ended(self, days: WallDays) -> WallDays:
        rule = self.recurrence.rule
        named = partial(instants, zone=self.zone, gap=self.gap, fold=self.fold)
        if rule.count is not None:
            return CountedDays(days, rule.count, self.zone, named)
        if rule.until is not None:
            return EndedDays(days, rule.until, self.zone, named)
        return days

    def _must_fire(self, why_not: str) -> None:
        if self.next(CALENDAR_START) is None:
            self._refuse(why_not)

    def _must_end_after_start(self) -> None:
        until = self.recurrence.rule.until
        end = None if until is None else as_utc_until(until)
        if until is None or end is None:
            return
        start = self.recurrence.start
        if end < start.replace(tzinfo=self.zone):
            raise ScheduleInvalid(
                f"UNTIL {until.text} is before the start {start.isoformat()} in {self.zone.key}; "
                "give a later one"
            )
        wall = end.astimezone(self.zone).replace(tzinfo=None)
        if self.fold == "both" and len(instants(wall, self.zone, gap="skip", fold="both")) > 1:
            raise ScheduleInvalid(
                f"UNTIL {until.text} lies in an hour that {self.zone.key} repeats, and fold='both' "
                "would run past it; give one outside that hour"
            )

    def _must_exclude_what_is_there(self) -> None:
        recurrence = self.recurrence
        for at in recurrence.excluded:
            day = next(self.walls(at, at.replace(microsecond=1)), None)
            if day is None and at not in recurrence.added:
                raise ScheduleInvalid(
                    f"EXDATE {at.isoformat()} is none of the rule's times, so it leaves out "
                    "nothing; give the exact local time of one, or remove it"
                )

    def _refuse(self, why: str) -> None:
        rule, start = self.recurrence.rule, self.recurrence.start
        raise ScheduleInvalid(
            f"rrule {shown(rule.text)} never fires from {start.isoformat()} on: {why}"
        )
