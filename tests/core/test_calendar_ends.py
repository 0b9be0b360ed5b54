"""The ends of the calendar: no question to any schedule crashes in the years 1 and 9999."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import pytest

from duly import zones
from duly._core.schedules.period import PeriodSchedule
from duly.errors import NominalTimeInvalid
from duly.schedules import Cron, Every
from duly.schedules.business import BusinessDays
from duly.schedules.dates import Dates
from duly.schedules.on_calendar import OnCalendar
from duly.schedules.rrule import RRule

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.schedules import Schedule

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
WEEK = timedelta(days=7)
DISTANCES = [
    timedelta(0),
    MICROSECOND,
    timedelta(hours=5),
    timedelta(hours=14, seconds=1),
    timedelta(days=1),
    timedelta(days=2, hours=13),
]
EDGES = [*(FIRST + by for by in DISTANCES), *(LAST - by for by in DISTANCES)]

KINDS: dict[str, Callable[[str], Schedule]] = {
    "cron": lambda zone: Cron("0 */6 * * *", zone),
    "cron with seconds": lambda zone: Cron("*/7 0 */6 * * *", zone),
    "cron of last days": lambda zone: Cron("0 0 L,1 * *", zone),
    "calendar event": lambda zone: OnCalendar("*-*-* 0/6:00", zone),
    "recurrence rule": lambda zone: RRule("FREQ=DAILY", start=datetime(1, 1, 1), timezone=zone),
    "dates": lambda zone: Dates(["0001-01-01", "9999-12-31"], at="12:00", timezone=zone),
    "business days": lambda zone: BusinessDays(Cron("0 6 * * *", zone), "DE"),
    "days": lambda zone: PeriodSchedule(
        Cron("0 6 * * *", zone), "day", offset=-1, zone=zones.load(zone)
    ),
    "hours": lambda zone: PeriodSchedule(
        Cron("5 * * * *", zone), "hour", offset=1, zone=zones.load(zone)
    ),
    "interval": lambda _: Every(timedelta(hours=6), anchor=FIRST),
    "long interval": lambda _: Every(timedelta(days=900_000), anchor=FIRST),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "zone", ["UTC", "Asia/Tokyo", "America/New_York", "Pacific/Kiritimati", "Etc/GMT+12"]
)
def test_schedule_asked_at_the_ends_of_the_calendar_answers(kind: str, zone: str) -> None:
    """Where a local year 0 or 10000 would begin there is an answer or None, never an error."""
    schedule = KINDS[kind](zone)

    for at in EDGES:
        following, newest = schedule.next(at), schedule.previous(at)
        assert following is None or following > at
        assert newest is None or newest <= at
        if following is not None:
            assert schedule.previous(following) == following
        if newest is not None:
            assert list(schedule.between(newest, newest + MICROSECOND)) == [newest]
    for start, end in ((FIRST, FIRST + WEEK), (LAST - WEEK, LAST)):
        found = list(islice(schedule.between(start, end), 200))
        assert all(earlier < later for earlier, later in pairwise(found))
        assert all(start <= t < end for t in found)


@pytest.mark.parametrize("kind", KINDS)
def test_schedule_asked_outside_the_calendar_says_so(kind: str) -> None:
    """An instant whose year in UTC is 0 or 10000 is refused by its name."""
    schedule = KINDS[kind]("UTC")
    past = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5)))
    before = datetime(1, 1, 1, 1, tzinfo=timezone(timedelta(hours=5)))

    for instant in (past, before):
        for name, ask in (
            ("after", schedule.next),
            ("at", schedule.previous),
            ("end", lambda at: schedule.between(FIRST, at)),
            ("start", lambda at: schedule.between(at, LAST)),
        ):
            with pytest.raises(NominalTimeInvalid, match=f"^{name} .*outside the years 1 to 9999"):
                ask(instant)
