"""Which occurrence a start means: `at`, the schedule and now -> the nominal time and its source.

Decides whether a start names one nominal time of the job, and says what to write when it does
not. A starter's instant is floored onto the nominal times; must never do that to an instant
that a person gave (it is a nominal time of the job or it is refused), and must never read a
clock (now is the caller's, in service the database's, PROTOCOL 26).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from itertools import islice
from typing import TYPE_CHECKING, Final

from duly._core import timing
from duly._core.instants import as_utc, format_instant, parse_instant
from duly._core.start import Start
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, NotDue, OffSchedule

if TYPE_CHECKING:
    from duly._core.schedules import Schedule

__all__ = ["TOLERANCE", "TOLERANCE_MAX", "Nominal", "nominal_time", "not_due"]

# Clocks that are being set, and leap seconds, start jobs up to a second early.
TOLERANCE: Final = timedelta(seconds=1)
TOLERANCE_MAX: Final = timedelta(minutes=1)

LOCAL_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
CHOICES_SHOWN: Final = 5
CHOICES_COUNTED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Nominal:
    """A resolved nominal time.

    Attributes:
        time: The nominal time, aware UTC.
        source: Where it came from: `schedule` (the newest due), `explicit` (it was given), or
            the starter that said it.
        due_at: When the schedule starts it, aware UTC.
    """

    time: datetime
    source: str
    due_at: datetime


def nominal_time(
    at: Start | datetime | date | str | None,
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
        at: None for the newest due; what a starter says; an aware datetime; RFC 3339 text with
            an offset; or a local date, as a `date` or as text such as `2026-09-13`, where the
            schedule has exactly one nominal time on that date.
        schedule: The job's schedule; None if it has none.
        zone: The job's zone, in which a local date is read.
        now: The caller's clock, aware.
        off_schedule: Whether an instant that is not on the schedule is wanted.
        early: Whether an instant in the future is wanted.
        tolerance: How far in the future a due time may lie and still be due.

    Raises:
        NominalTimeInvalid: *at* or *now* is naive, *at* does not parse, is missing without a
            schedule, is a date with no or several nominal times, or is an instant of a
            starter that cannot be one.
        OffSchedule: *at* is not on the schedule and *off_schedule* is not set.
        NotDue: Nothing is due yet, or *at* is in the future and *early* is not set.
    """
    now = as_utc(now, name="now")
    due_until = _due_until(now, tolerance)
    if isinstance(at, Start) and at.at is not None:
        return _of_starter(at, as_utc(at.at, name=at.said), schedule, now, due_until, early)
    if at is None or isinstance(at, Start):
        return _with_due(_newest_due(schedule, due_until), "schedule", schedule)
    local_date = _local_date(at)
    if local_date is not None:
        given = _only_one_on(local_date, schedule, zone)
    else:
        given = _instant(at)
        if schedule is not None and not off_schedule:
            _must_be_on(schedule, given)
    found = _with_due(given, "explicit", schedule)
    if found.due_at > due_until and not early:
        raise not_due(found)
    return found


def _of_starter(
    start: Start,
    said_at: datetime,
    schedule: Schedule | None,
    now: datetime,
    due_until: datetime,
    early: bool,
) -> Nominal:
    """The nominal time that a starter's instant lies at or after."""
    if start.oldest is not None and now - said_at > start.oldest:
        raise NominalTimeInvalid(
            f"{start.said} means {format_instant(said_at)}, {(now - said_at).days} days ago, "
            f"which {start.starter} cannot have scheduled; give --at the time that is meant",
            source=start.starter,
        )
    if said_at > due_until and not early:
        raise NotDue(
            f"{start.said} means {format_instant(said_at)}, which is in the future; check the "
            f"clock of {start.starter}, start it then, or pass early=True (duly run --early)",
            due_at=format_instant(said_at),
        )
    if schedule is None:
        return Nominal(said_at, start.starter, said_at)
    # A clock that is being set may be the starter's as well as ours.
    found = timing.newest_due(schedule, said_at)
    if start.means == "interval_start":
        found = schedule.next(said_at if found is None else found)
    if found is None:
        first = schedule.next(said_at)
        raise NominalTimeInvalid(
            f"{start.said} means {format_instant(said_at)}, before any nominal time of "
            f"{schedule.text}{f' (the first is {format_instant(first)})' if first else ''}; "
            "give --at the time that is meant",
            source=start.starter,
        )
    nominal = _with_due(found, start.starter, schedule)
    if nominal.due_at > due_until and not early:
        raise not_due(nominal)
    return nominal


def _with_due(found: datetime, source: str, schedule: Schedule | None) -> Nominal:
    return Nominal(found, source, timing.due_time(schedule, found))


def not_due(found: Nominal) -> NotDue:
    """The refusal of a start that comes too soon."""
    due = format_instant(found.due_at)
    what = format_instant(found.time)
    when = "is in the future" if found.due_at == found.time else f"is due at {due}"
    return NotDue(
        f"{what} {when}, and starting it now would use up its key; "
        f"start it from {due} on, or pass early=True (duly run --early)",
        due_at=due,
    )


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
    newest = timing.newest_due(schedule, due_until)
    if newest is None:
        upcoming = schedule.next(due_until)
        first = None if upcoming is None else timing.due_time(schedule, upcoming)
        when = "and nothing will be" if first is None else f"the first is {format_instant(first)}"
        raise NotDue(
            f"nothing is due yet on {schedule.text}: {when}; start it then, or pass at= with "
            "early=True (--at, --early)",
            due_at=_text_or_none(first),
        )
    return newest


def _local_date(at: object) -> date | None:
    """The date that *at* is; None if it is an instant, in whatever form.

    Raises:
        NominalTimeInvalid: Text in the form of a date that the calendar does not have.
    """
    if isinstance(at, datetime):
        return None
    if isinstance(at, date):
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
    if isinstance(at, datetime):
        return as_utc(at, name="at")
    if isinstance(at, str):
        return parse_instant(at, name="at")
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
    found = list(islice(timing.on_date(schedule, zone, day), CHOICES_COUNTED + 1))
    match found:
        case [only]:
            return only
        case []:
            start, _ = timing.bounds(day, zone)
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


def _nearest(before: datetime | None, after: datetime | None) -> str:
    """The next step: the nominal times on both sides."""
    known = [format_instant(t) for t in (before, after) if t is not None]
    return f"the nearest are {' and '.join(known)}" if known else "it has none near"


def _text_or_none(instant: datetime | None) -> str | None:
    return None if instant is None else format_instant(instant)
