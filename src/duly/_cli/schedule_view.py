"""A timetable in words, rows and JSON.

Decides how a schedule, its rules at a switch of the zone, and each line are worded. It must
never leave out a line that it was given, or cut an instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, assert_never

from duly import zones
from duly._cli import output
from duly._core.instants import format_instant
from duly._core.schedules.period import PeriodSchedule
from duly._core.timetable import Line, Note, walls_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from duly._core.schedules import Schedule

HEADER: Final = (
    "nominal time",
    "due at",
    "local time",
    "offset",
    "interval from",
    "interval",
    "note",
)
NONE: Final = "—"
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
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


@dataclass(frozen=True)
class Subject:
    """What is shown: a schedule, its zone, and the job that has it, if any."""

    schedule: Schedule
    zone: ZoneInfo
    name: str | None = None
    jitter: timedelta = timedelta(0)


@dataclass(frozen=True)
class Timetable:
    """The lines found for a subject from *start* to *until*, and whether there are more."""

    subject: Subject
    start: datetime
    until: datetime | None
    lines: tuple[Line, ...]
    is_more: bool


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
    if isinstance(subject.schedule, PeriodSchedule):
        found.append(("period", _period_words(subject.schedule)))
    if subject.jitter:
        found.append(("jitter", f"a start is put off by up to {length(subject.jitter)}"))
    found.append(("zone", f"{subject.zone.key}, by tzdata {zones.data_version()}"))
    if walls is not None and walls.zone.key != "UTC":
        found.append(("gap", GAP_WORDS[walls.gap]))
        found.append(("fold", FOLD_WORDS[walls.fold]))
    return found


def tail(found: Timetable) -> str | None:
    """Why there are no more lines; None where there are, or where they end as asked."""
    if found.is_more:
        return None
    if found.until is None:
        return (
            "no later nominal time: the schedule names none up to the year 9999, where the"
            " calendar ends"
        )
    if not any(line.nominal_time for line in found.lines):
        return f"no nominal time from {format_instant(found.start)} to before {_end(found)}"
    return None


def say(found: Timetable) -> None:
    """Print tab-separated rows for a pipe; what is no row begins with `#`."""
    for label, text in head(found.subject):
        output.say(f"# {label}: {output.plain(text)}")
    output.say_rows(HEADER, [_cells(found.subject, line) for line in found.lines])
    if (end := tail(found)) is not None:
        output.say(f"# {end}")


def show(found: Timetable) -> None:
    """Print a table for a terminal of 80 columns: a line each, and below it what a switch did."""
    from rich.text import Text

    console = output.console()
    for label, text in head(found.subject):
        console.print(Text.assemble((f"{label:<8}", "dim"), output.plain(text)), soft_wrap=True)
    console.print()
    is_period = isinstance(found.subject.schedule, PeriodSchedule)
    header = ("nominal time", "local time", "due at" if is_period else "from (UTC)", "length")
    rows = [_shown_cells(line, is_period=is_period) for line in found.lines]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    console.print(Text(_aligned(header, widths), style="bold"), soft_wrap=True)
    for line, row in zip(found.lines, rows, strict=True):
        console.print(Text(_aligned(row, widths)), soft_wrap=True)
        for note in line.notes:
            words = note_words(found.subject, line, note)
            style = "red" if line.nominal_time is None else "yellow"
            console.print(Text(f"    {words}", style=style), soft_wrap=True)
    if (end := tail(found)) is not None:
        console.print(Text(end, style="dim"), soft_wrap=True)


def as_json(found: Timetable) -> dict[str, Any]:
    """The same as one object; instants in UTC, lengths in seconds."""
    subject = found.subject
    walls = walls_of(subject.schedule)
    words = dict(head(subject))
    return {
        "job": subject.name,
        "schedule": subject.schedule.text,
        "words": words.get("words"),
        "timezone": subject.zone.key,
        "tzdata": zones.data_version(),
        "gap": None if walls is None else walls.gap,
        "fold": None if walls is None else walls.fold,
        "jitter_s": subject.jitter / SECOND,
        "from": format_instant(found.start),
        "until": None if found.until is None else format_instant(found.until),
        "rows": [_json_row(subject, line) for line in found.lines],
        "more": found.is_more,
    }


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


def note_words(subject: Subject, line: Line, note: Note) -> str:
    """What a switch did to a line, such as `02:30 does not exist, moved to 03:00`."""
    named = _named(line, note)
    exist = f"{named} does not exist" if note.count == 1 else f"{named} do not exist"
    is_period = isinstance(subject.schedule, PeriodSchedule)
    if note.of == "period" and isinstance(subject.schedule, PeriodSchedule):
        period = subject.schedule.period
        if note.kind == "moved":
            return f"{exist}, the {period} starts at {_clock(line.local)}"
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
            return f"{exist}, moved to {day}{_clock(moved_to)}{beside}"
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
    first = f"{day}{_clock(note.first)}"
    if note.count == 1:
        return first
    end_day = "" if note.last.date() == note.first.date() else f"{note.last:%Y-%m-%d} "
    return f"{first} to {end_day}{_clock(note.last)} ({note.count} times)"


def _other(note: Note) -> str:
    assert note.other is not None
    return f"{_clock(note.other)}Z"


def _due_local(subject: Subject, line: Line) -> datetime:
    walls = walls_of(subject.schedule)
    assert walls is not None
    assert line.due_at is not None
    return line.due_at.astimezone(walls.zone)


def _cells(subject: Subject, line: Line) -> tuple[str, ...]:
    """As they stand under `HEADER`; empty where there is nothing."""
    nominal = "" if line.nominal_time is None else format_instant(line.nominal_time)
    due = "" if line.due_at is None else format_instant(line.due_at)
    start = "" if line.interval is None else format_instant(line.interval.start)
    about = "" if line.interval is None else length(line.interval.end - line.interval.start)
    return nominal, due, _local(line.local), _offset(line), start, about, _notes(subject, line)


def _shown_cells(line: Line, *, is_period: bool) -> tuple[str, ...]:
    nominal = NONE if line.nominal_time is None else format_instant(line.nominal_time)
    local = f"{_local(line.local)} {_offset(line)}".rstrip()
    if is_period:
        start = "" if line.due_at is None else format_instant(line.due_at)
    else:
        start = "" if line.interval is None else _local(line.interval.start)[4:]
    about = "" if line.interval is None else length(line.interval.end - line.interval.start)
    return nominal, local, start, about


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "  ".join(f"{cell:<{width}}" for cell, width in pairs).rstrip()


def _json_row(subject: Subject, line: Line) -> dict[str, Any]:
    about = line.interval
    return {
        "nominal_time": None if line.nominal_time is None else format_instant(line.nominal_time),
        "due_at": None if line.due_at is None else format_instant(line.due_at),
        "local_time": f"{line.local.isoformat()}{_offset(line)}",
        "weekday": WEEKDAYS[line.local.weekday()],
        "interval": None
        if about is None
        else {
            "start": format_instant(about.start),
            "end": format_instant(about.end),
            "seconds": (about.end - about.start) / SECOND,
        },
        "notes": [
            {
                "kind": note.kind,
                "of": note.of,
                "first_local": note.first.isoformat(),
                "last_local": note.last.isoformat(),
                "count": note.count,
                "other": None if note.other is None else format_instant(note.other),
                "text": note_words(subject, line, note),
            }
            for note in line.notes
        ],
    }


def _notes(subject: Subject, line: Line) -> str:
    return "; ".join(note_words(subject, line, note) for note in line.notes)


def _local(local: datetime) -> str:
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d} {_clock(local)}"


def _clock(local: datetime) -> str:
    """Hours and minutes, and what is below them if it is not zero."""
    if local.microsecond:
        return f"{local:%H:%M:%S.%f}"
    return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"


def _offset(line: Line) -> str:
    """`+01:00`; zones of long ago also have seconds."""
    if line.offset is None:
        return ""
    sign = "-" if line.offset < timedelta(0) else "+"
    minutes, seconds = divmod(abs(line.offset), timedelta(minutes=1))
    text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds // SECOND:02d}" if seconds else text


def _period_words(schedule: PeriodSchedule) -> str:
    """Which period a start is for."""
    number, period = abs(schedule.offset), schedule.period
    if not number:
        return f"each is for the {period} that its due time lies in"
    side = "before" if schedule.offset < 0 else "after"
    what = f"the {period}" if number == 1 else f"{number} {period}s"
    return f"each is for {what} {side} the one that its due time lies in"


def _end(found: Timetable) -> str:
    assert found.until is not None
    return format_instant(found.until)
