"""`Dates`: an explicit list of dates in a zone, or of instants.

Decides which of the two a list is; it loads the zone and hands it to the core.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duly import zones
from duly._core.schedules.dates import DateSchedule, InstantSchedule, are_instants
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from datetime import date, datetime

    from duly._core.wall_time import Fold, Gap

__all__ = ["Dates", "from_text"]

TEXT: Final = re.compile(r"dates ([0-9,-]+); at=([0-9:]+); zone=([^;]+); gap=([^;]+); fold=([^;]+)")
INSTANTS: Final = re.compile(r"dates ([0-9TZ:.,-]+)")


class Dates:
    """A list of dates, such as `Dates(["2026-01-31", "2026-02-28"], at="09:00")`, or of instants.

    Dates lie on the calendar of one zone and have one time of day. Where the zone skips that
    time, it is the first instant after the gap (`gap="next"`), has no instant (`"skip"`), or is
    later by the length of the gap (`"shift"`); where the zone repeats it, it is its first
    instant (`fold="first"`), its `"last"`, or `"both"`.

    Aware datetimes, or RFC 3339 texts with an offset, are instants as they stand, and take none
    of `at=`, `timezone=`, `gap=` and `fold=`.

    The order does not matter. A list has at least one and at most 10,000, no two equal.
    """

    def __new__(cls, dates: Collection[date | datetime | str], **_: object) -> Dates:
        """Make the kind that the list is of."""
        if cls is Dates:
            return object.__new__(_InstantDates if are_instants(dates) else _LocalDates)
        return object.__new__(cls)

    def __init__(
        self,
        dates: Collection[date | datetime | str],
        *,
        at: str | None = None,
        timezone: str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        """Read the list and load the zone.

        Args:
            dates: Dates or texts such as `2026-01-31`, or aware datetimes or texts such as
                `2026-01-31T09:00:00+01:00`; all of one sort.
            at: The time of day of dates, `HH:MM` or `HH:MM:SS`; midnight if left out.
            timezone: A name of the IANA zone data for dates; UTC if left out.
            gap: `skip`, `next` (if left out) or `shift`.
            fold: `first` (if left out), `last` or `both`.

        Raises:
            ScheduleInvalid: Something listed cannot be read, is naive, of another sort than the
                first, or twice there; nothing or too much is listed; the time of day, the zone
                or a policy cannot be read, or is given for instants.
        """
        raise NotImplementedError  # each kind has its own, and of what follows

    @property
    def text(self) -> str:
        """The canonical description, which `duly.schedules.from_text` reads."""
        raise NotImplementedError

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The nominal times in [*start*, *end*), aware UTC, strictly increasing."""
        raise NotImplementedError

    def next(self, after: datetime) -> datetime | None:
        """The first nominal time strictly later than *after*; None past the last."""
        raise NotImplementedError

    def previous(self, at: datetime) -> datetime | None:
        """The last nominal time at or before *at*; None before the first."""
        raise NotImplementedError


class _LocalDates(DateSchedule, Dates):
    def __init__(
        self,
        dates: Collection[date | str],
        *,
        at: str | None = None,
        timezone: str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        super().__init__(
            dates,
            "00:00" if at is None else at,
            zones.load("UTC" if timezone is None else timezone),
            gap="next" if gap is None else gap,
            fold="first" if fold is None else fold,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # A zone read from a file cannot be pickled; its name can.
        at, zone = self.at.isoformat(), self.zone.key
        return partial(Dates, at=at, timezone=zone, gap=self.gap, fold=self.fold), (self.dates,)


class _InstantDates(InstantSchedule, Dates):
    def __init__(
        self,
        dates: Collection[datetime | str],
        *,
        at: str | None = None,
        timezone: str | None = None,
        gap: Gap | None = None,
        fold: Fold | None = None,
    ) -> None:
        super().__init__(dates)
        policies = {"at": at, "timezone": timezone, "gap": gap, "fold": fold}
        for name, policy in policies.items():
            if policy is not None:
                raise ScheduleInvalid(
                    f"{name}={shown(policy)} is for dates, and the list has instants, which stand "
                    "for themselves; leave it out, or list dates"
                )

    def __reduce__(self) -> tuple[Any, ...]:
        return Dates, (self.instants,)


def from_text(text: str) -> Dates | None:
    """The schedule of a canonical text; None if it is of another form."""
    if (match := INSTANTS.fullmatch(text)) is not None:
        return Dates(match[1].split(","))
    if (match := TEXT.fullmatch(text)) is None:
        return None
    dates, at, zone, gap, fold = match.groups()
    return Dates(dates.split(","), at=at, timezone=zone, gap=gap, fold=fold)  # type: ignore[arg-type]
