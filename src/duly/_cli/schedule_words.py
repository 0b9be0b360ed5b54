"""A schedule and what a switch of the zone did to it, in words.

Decides how a schedule's rules and the notes of a timetable are worded. It must never decide
what happened: that is the core's, and each word here is one of its facts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, assert_never

from duly import zones
from duly._core.schedules.business import BusinessSchedule
from duly._core.schedules.period import PeriodSchedule
from duly._core.timetable import Line, Note, walls_of

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duly._core.schedules import Schedule

SECOND: Final = timedelta(seconds=1)
MICROSECOND: Final = timedelta(microseconds=1)

GAP_WORDS: Final = {
    "skip": "a time that does not exist is not run",
    "next": "a time that does not exist runs at the first instant after the gap",
    "shift": "a time that does not exist runs later by the length of the gap",
}
FOLD_WORDS: Final = {
    "first": "a time that comes twice runs the first time only",
    "last": "a time that comes twice runs the second time only",
    "both": "a time that comes twice runs both times",
}
SHIFT_WORDS: Final = {
    "skip": "only on business days",
    "next": "a day that is no business day moves to the next one",
    "previous": "a day that is no business day moves to the one before",
}


@dataclass(frozen=True)
class Subject:
    """What is shown: a schedule, its zone, and the job that has it, if any."""

    schedule: Schedule
    zone: ZoneInfo
    name: str | None = None
    jitter: timedelta = timedelta(0)


def head(subject: Subject) -> list[tuple[str, str]]:
    """The schedule in words: what, when, where, and by which rules; label and text."""
    from duly._cli.cron_words import in_words

    walls = walls_of(subject.schedule)
    found = []
    if subject.name is not None:
        found.append(("job", subject.name))
    if (words := in_words(subject.schedule)) is not None:
        found.append(("words", words))
    found.append(("text", subject.schedule.text))
    if isinstance(walls, BusinessSchedule):
        found.append(("business", _business_words(walls)))
    if isinstance(subject.schedule, PeriodSchedule):
        found.append(("period", _period_words(subject.schedule)))
    if subject.jitter:
        found.append(("jitter", f"a start is put off by up to {length(subject.jitter)}"))
    found.append(("zone", f"{subject.zone.key}, by tzdata {zones.data_version()}"))
    if walls is not None and walls.zone.key != "UTC":
        found.append(("gap", GAP_WORDS[walls.gap]))
        found.append(("fold", FOLD_WORDS[walls.fold]))
    return found


def length(duration: timedelta) -> str:
    """A length exactly, in whole units: `23 h`, `3 d`, `1 h 30 min`, `0.5 s`."""
    hours, rest = divmod(duration, timedelta(hours=1))
    minutes, seconds = divmod(rest, timedelta(minutes=1))
    days, hours = divmod(hours, 24) if hours >= 48 else (0, hours)
    parts = [f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h")) if count]
    if minutes:
        parts.append(f"{minutes} min")
    if seconds or not parts:
        exact = f"{seconds // SECOND}.{seconds % SECOND // MICROSECOND:06d}"
        parts.append(f"{exact.rstrip('0').rstrip('.')} s")
    return " ".join(parts)


def clock(local: datetime) -> str:
    """Hours and minutes, and what is below them if it is not zero."""
    if local.microsecond:
        return f"{local:%H:%M:%S.%f}"
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def note_words(subject: Subject, line: Line, note: Note) -> str:
    """What a switch did to a line, such as `02:30 does not exist, moved to 03:00`."""
    named = _named(line, note)
    exist = f"{named} does not exist" if note.count == 1 else f"{named} do not exist"
    is_period = isinstance(subject.schedule, PeriodSchedule)
    if note.of == "period" and isinstance(subject.schedule, PeriodSchedule):
        period = subject.schedule.period
        if note.kind == "moved":
            return f"{exist}, the {period} starts at {clock(line.local)}"
        which = "second" if note.kind == "last_of_both" else "first"
        return f"{named} comes twice, the {period} starts at the {which}"
    words = _due_words(subject, line, note, named, exist)
    return f"due time: {words}" if is_period and line.due_at is not None else words


def _due_words(subject: Subject, line: Line, note: Note, named: str, exist: str) -> str:
    match note.kind:
        case "skipped":
            return f"{exist}, not run"
        case "moved":
            moved_to = _due_local(subject, line)
            day = "" if moved_to.date() == note.last.date() else f"{moved_to:%Y-%m-%d} "
            beside = ", which is due anyway" if note.beside else ""
            return f"{exist}, moved to {day}{clock(moved_to)}{beside}"
        case "only_first":
            other = f"the second at {_other(note)} is not run"
            return f"{named} comes twice, this is the first; {other}"
        case "only_last":
            other = f"the first at {_other(note)} is not run"
            return f"{named} comes twice, this is the second; {other}"
        case "first_of_both":
            return f"{named} comes twice, this is the first"
        case "last_of_both":
            return f"{named} comes twice, this is the second"
        case _:
            assert_never(note.kind)


def _named(line: Line, note: Note) -> str:
    """The wall times of a note; with their date, where the line does not show it."""
    day = "" if note.first.date() == line.local.date() else f"{note.first:%Y-%m-%d} "
    first = f"{day}{clock(note.first)}"
    if note.count == 1:
        return first
    end_day = "" if note.last.date() == note.first.date() else f"{note.last:%Y-%m-%d} "
    return f"{first} to {end_day}{clock(note.last)} ({note.count} times)"


def _other(note: Note) -> str:
    assert note.other is not None
    return f"{clock(note.other)}Z"


def _due_local(subject: Subject, line: Line) -> datetime:
    walls = walls_of(subject.schedule)
    assert walls is not None
    assert line.due_at is not None
    return line.due_at.astimezone(walls.zone)


def _period_words(schedule: PeriodSchedule) -> str:
    """Which period a start is for."""
    number, period = abs(schedule.offset), schedule.period
    if not number:
        return f"each is for the {period} that its due time lies in"
    side = "before" if schedule.offset < 0 else "after"
    what = f"the {period}" if number == 1 else f"{number} {period}s"
    return f"each is for {what} {side} the one that its due time lies in"


def _business_words(schedule: BusinessSchedule) -> str:
    """Where other days go, by which calendar and, if it is a library's, which release."""
    calendar = schedule.calendar
    name, version = (getattr(calendar, attribute, None) for attribute in ("name", "version"))
    release = f", by holidays {version}" if version else ""
    return f"{SHIFT_WORDS[schedule.shift]}; calendar {name or calendar.text}{release}"
