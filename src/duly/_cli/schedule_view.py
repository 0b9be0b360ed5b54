"""A timetable as a table, as rows and as JSON.

Decides which cells a line has in each form. It must never leave out a line that it was given,
or cut an instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from duly import zones
from duly._cli import output
from duly._cli.schedule_words import SECOND, Subject, clock, head, length, note_words
from duly._core.instants import format_instant
from duly._core.schedules.period import PeriodSchedule
from duly._core.timetable import walls_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.timetable import Line

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


@dataclass(frozen=True)
class Timetable:
    """The lines found for a subject from *start* to *until*, and whether there are more."""

    subject: Subject
    start: datetime
    until: datetime | None
    lines: tuple[Line, ...]
    is_more: bool


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
        console.print(Text.assemble((f"{label:<10}", "dim"), output.plain(text)), soft_wrap=True)
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


def _cells(subject: Subject, line: Line) -> tuple[str, ...]:
    """As they stand under `HEADER`; empty where there is nothing."""
    nominal = "" if line.nominal_time is None else format_instant(line.nominal_time)
    due = "" if line.due_at is None else format_instant(line.due_at)
    start = "" if line.interval is None else format_instant(line.interval.start)
    about = "" if line.interval is None else length(line.interval.end - line.interval.start)
    return nominal, due, _local(line.local), _offset(line), start, about, _notes(subject, line)


def _shown_cells(line: Line, *, is_period: bool) -> tuple[str, ...]:
    none = NONE if output.speaks(NONE) else "-"
    nominal = none if line.nominal_time is None else format_instant(line.nominal_time)
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
    return f"{WEEKDAYS[local.weekday()]} {local:%Y-%m-%d} {clock(local)}"


def _offset(line: Line) -> str:
    """`+01:00`; zones of long ago also have seconds."""
    if line.offset is None:
        return ""
    sign = "-" if line.offset < timedelta(0) else "+"
    minutes, seconds = divmod(abs(line.offset), timedelta(minutes=1))
    text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    return f"{text}:{seconds // SECOND:02d}" if seconds else text


def _end(found: Timetable) -> str:
    assert found.until is not None
    return format_instant(found.until)
