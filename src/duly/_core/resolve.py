"""Which occurrence a start means: `at`, the schedule and now -> the nominal time and its source.

Decides whether a start names one nominal time of the job, and says what to write when it does
not. Must never read a clock (now is the caller's, in service the database's, PROTOCOL 26), and
never move an instant that a person gave: it is a nominal time of the job or it is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from duly._core.instants import as_utc, format_instant, parse_instant
from duly._core.wall_time import instants
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, NotDue, OffSchedule

if TYPE_CHECKING:
    from duly._core.schedules import Schedule

__all__ = ["TOLERANCE", "Nominal", "nominal_time"]

# Clocks that are being set, and leap seconds, start jobs up to a second early.
TOLERANCE: Final = timedelta(seconds=1)

LOCAL_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
CHOICES_SHOWN: Final = 5
CHOICES_COUNTED: Final = 1_000
DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Nominal:
    """A resolved nominal time.

    Attributes:
        time: The nominal time, aware UTC.
        source: Where it came from: `schedule` (the newest due) or `explicit` (it was given).
    """

    time: datetime
    source: Literal["schedule", "explicit"]


def nominal_time(
    at: datetime | date | str | None,
    schedule: Schedule | None,
    *,
    zone: tzinfo,
    now: datetime,
    off_schedule: bool = False,
    early: bool = False,
    tolerance: timedelta = TOLERANCE,
) -> Nominal:
    """Decide which nominal time a start means.

    Args:
        at: None for the newest due; an aware datetime; RFC 3339 text with an offset; or a
            local date, as a `date` or as text such as `2026-09-13`, where the schedule has
            exactly one nominal time on that date.
        schedule: The job's schedule; None if it has none.
        zone: The job's zone, in which a local date is read.
        now: The caller's clock, aware.
        off_schedule: Whether an instant that is not on the schedule is wanted.
        early: Whether an instant in the future is wanted.
        tolerance: How far in the future a nominal time may lie and still be due.

    Raises:
        NominalTimeInvalid: *at* or *now* is naive, *at* does not parse, is missing without a
            schedule, or is a date with no or several nominal times.
        OffSchedule: *at* is not on the schedule and *off_schedule* is not set.
        NotDue: Nothing is due yet, or *at* is in the future and *early* is not set.
    """
    due_until = _due_until(as_utc(now, name="now"), tolerance)
    if at is None:
        return Nominal(_newest_due(schedule, due_until), "schedule")
    local_date = _local_date(at)
    if local_date is not None:
        given = _only_one_on(local_date, schedule, zone)
    else:
        given = _instant(at)
        if schedule is not None and not off_schedule:
            _must_be_on(schedule, given)
    if given > due_until and not early:
        raise NotDue(
            f"{format_instant(given)} is in the future, and starting it now would use up its key; "
            f"start it from {format_instant(given)} on, or pass early=True (--early)",
            due_at=format_instant(given),
        )
    return Nominal(given, "explicit")


def _due_until(now: datetime, tolerance: timedelta) -> datetime:
    try:
        return now + tolerance
    except OverflowError:
        return now


def _newest_due(schedule: Schedule | None, due_until: datetime) -> datetime:
    if schedule is None:
        raise NominalTimeInvalid(
            "the job has no schedule, so nothing is due by itself; "
            "give at= (--at) an aware instant, such as 2026-09-13T00:00:00Z"
        )
    newest = schedule.previous(due_until)
    if newest is None:
        first = schedule.next(due_until)
        when = "and nothing will be" if first is None else f"the first is {format_instant(first)}"
        raise NotDue(
            f"nothing is due yet on {schedule.text}: {when}; start it then, or pass at= with "
            "early=True (--at, --early)",
            due_at=_text_or_none(first),
        )
    return newest


def _local_date(at: datetime | date | str) -> date | None:
    """The date that *at* is; None if it is an instant, in whatever form.

    Raises:
        NominalTimeInvalid: Text in the form of a date that the calendar does not have.
    """
    if isinstance(at, date) and not isinstance(at, datetime):
        return at
    match = LOCAL_DATE.fullmatch(at) if isinstance(at, str) else None
    if match is None:
        return None
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        raise NominalTimeInvalid(
            f"at {shown(at)} is no date of the calendar; write one such as 2026-09-13"
        ) from None


def _instant(at: object) -> datetime:
    if isinstance(at, str):
        return parse_instant(at, name="at")
    if isinstance(at, datetime):
        return as_utc(at, name="at")
    raise NominalTimeInvalid(
        f"at must be an instant or a date, not {shown(at)}; "
        "give an aware datetime, 2026-09-13T00:00:00Z, or 2026-09-13"
    )


def _must_be_on(schedule: Schedule, given: datetime) -> None:
    before = schedule.previous(given)
    if before == given:
        return
    after = schedule.next(given)
    raise OffSchedule(
        f"{format_instant(given)} is not a nominal time of {schedule.text}; "
        f"{_nearest(before, after)}, or pass off_schedule=True (--off-schedule)",
        before=_text_or_none(before),
        after=_text_or_none(after),
    )


def _only_one_on(day: date, schedule: Schedule | None, zone: tzinfo) -> datetime:
    """The one nominal time whose local date is *day*.

    Raises:
        NominalTimeInvalid: There is no schedule, or no or more than one such nominal time.
    """
    if schedule is None:
        raise NominalTimeInvalid(
            f"the job has no schedule, so the date {day} names no instant; "
            f"give one, such as {day}T00:00:00Z"
        )
    start, end = _bounds(day, zone)
    on_day = (t for t in schedule.between(start, end) if t.astimezone(zone).date() == day)
    found = list(islice(on_day, CHOICES_COUNTED + 1))
    match found:
        case [only]:
            return only
        case []:
            before, after = schedule.previous(start), schedule.next(start)
            raise NominalTimeInvalid(
                f"{schedule.text} has no nominal time on {day}; {_nearest(before, after)}",
                before=_text_or_none(before),
                after=_text_or_none(after),
            )
        case _:
            choices = [format_instant(t) for t in found[:CHOICES_SHOWN]]
            more = ", …" if len(found) > CHOICES_SHOWN else ""
            many = f"{len(found)}" if len(found) <= CHOICES_COUNTED else f"over {CHOICES_COUNTED}"
            raise NominalTimeInvalid(
                f"{day} has {many} nominal times of {schedule.text}; "
                f"give one of {', '.join(choices)}{more}",
                choices=choices,
                count=min(len(found), CHOICES_COUNTED),
            )


def _bounds(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """A span that holds every instant of a local date, also where a switch is at midnight."""
    midnight = datetime(day.year, day.month, day.day)
    first = instants(midnight, zone, gap="next", fold="first")
    start = first[0] if first else datetime.min.replace(tzinfo=UTC)
    if day == date.max:
        return start, datetime.max.replace(tzinfo=UTC)
    last = instants(midnight + DAY, zone, gap="next", fold="last")
    return start, last[0] if last else datetime.max.replace(tzinfo=UTC)


def _nearest(before: datetime | None, after: datetime | None) -> str:
    """The next step: the nominal times on both sides."""
    known = [format_instant(t) for t in (before, after) if t is not None]
    return f"the nearest are {' and '.join(known)}" if known else "it has none near"


def _text_or_none(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)
