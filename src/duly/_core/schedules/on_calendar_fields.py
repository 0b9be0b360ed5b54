"""The text of a calendar event of systemd: weekdays, a date, a time, a zone.

Decides what each part of a text means and what a refusal says (systemd.time(7), "CALENDAR
EVENTS", and the reader of systemd 252 where the manual is silent). Must never take a form that
systemd refuses, or guess what a part means; a zone is only found here, never loaded.
"""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NoReturn

from duly._core.schedules.on_calendar_event import (
    DAY,
    DAY_FROM_END,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    CalendarEvent,
    Field,
    Term,
)
from duly._core.schedules.on_calendar_terms import NAMES, Part, read_field, read_weekdays
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from duly._core.schedules.on_calendar_event import Kind

__all__ = ["TIMES_MAX", "parse"]

TEXT_MAX: Final = 1_000

# One a second. All of them are held in memory, and each is an occurrence of its own.
TIMES_MAX: Final = 86_400

WORDS: Final = {
    "minutely": "*-*-* *:*:00",
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "yearly": "*-01-01 00:00:00",
    "annually": "*-01-01 00:00:00",
    "anually": "*-01-01 00:00:00",  # systemd keeps this spelling
    "quarterly": "*-01,04,07,10-01 00:00:00",
    "semiannually": "*-01,07-01 00:00:00",
    "semi-annually": "*-01,07-01 00:00:00",
    "biannually": "*-01,07-01 00:00:00",
    "bi-annually": "*-01,07-01 00:00:00",
}
PART: Final = re.compile(r"[^ ]+")
INSTANT: Final = re.compile(r"@[0-9]+")
EPOCH: Final = datetime(1970, 1, 1)
UNIX_MAX: Final = (datetime(YEAR.high + 1, 1, 1) - EPOCH) // timedelta(seconds=1) - 1

# The years of the Gregorian calendar, with their weekdays, come again after this many.
CYCLE: Final = 400


def parse(text: str) -> tuple[CalendarEvent, str | None]:
    """Read a calendar event.

    Args:
        text: Such as `Mon..Fri 09:00 Europe/Berlin`, `*-*~01 23:00` or `daily`. Blanks around
            it count for nothing, as in a unit file.

    Returns:
        The event, and the zone that the text names, if any.

    Raises:
        ScheduleInvalid: It cannot be read, names too many times, or never fires; the message
            names the field, the place and what is allowed.
    """
    if not _is_text(text):
        raise ScheduleInvalid(f'OnCalendar is text, not {shown(text)}; write "Mon..Fri 09:00"')
    if len(text) > TEXT_MAX:
        raise ScheduleInvalid(
            f"an OnCalendar text of {len(text)} characters is too long; write at most {TEXT_MAX}"
        )
    return _Reader(text).read()


def _is_text(text: object) -> bool:
    return isinstance(text, str)


class _Reader:
    """One reading of one text; it knows the places for the messages."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._where = f"OnCalendar {shown(text)}"
        self._columns: dict[str, int] = {}

    def read(self) -> tuple[CalendarEvent, str | None]:
        parts = [Part(found.group(), found.start() + 1) for found in PART.finditer(self._text)]
        zone = self._take_zone(parts)
        if not parts:
            self._refuse("names no time; write such as Mon..Fri 09:00, or daily")
        if (word := parts[0].text.lower()) in WORDS:
            if len(parts) > 1:
                self._refuse(f"a word stands alone; write {WORDS[word]} and change that", parts[1])
            return _Reader(WORDS[word]).read()[0], zone
        event = CalendarEvent()
        if parts[0].text[:1].isalpha():
            self._columns["weekday"] = parts[0].column
            weekdays = read_weekdays(parts.pop(0), where=self._where)
            event = replace(event, weekdays=weekdays)
        if parts and parts[0].text.startswith("@"):
            event = self._instant(event, parts, zone)
            zone = "UTC"
        else:
            event = self._date_and_time(event, parts)
        self._must_be_few(event)
        self._must_fire(event)
        return event, zone

    def _take_zone(self, parts: list[Part]) -> str | None:
        """The zone, taken off the end; it is the only part but the first that is a word."""
        if len(parts) < 2 or not parts[-1].text[:1].isalpha():
            return None
        found = parts.pop()
        if found.text[:3].lower() in NAMES and "/" not in found.text:
            self._refuse(
                f"{shown(found.text)}: weekdays stand first and once; join them by commas", found
            )
        return "UTC" if found.text.upper() == "UTC" else found.text

    def _instant(self, event: CalendarEvent, parts: list[Part], zone: str | None) -> CalendarEvent:
        """Unix seconds: one instant, which is the same in every zone."""
        at = parts[0]
        if INSTANT.fullmatch(at.text) is None or len(parts) > 1:
            self._refuse(f"{shown(at.text)} cannot be read; write @ and whole Unix seconds", at)
        if zone not in (None, "UTC"):
            self._refuse("Unix seconds are in UTC; leave the zone out", at)
        seconds = int(at.text[1:])
        if seconds > UNIX_MAX:
            self._refuse(f"allowed are 0-{UNIX_MAX}, to the end of {YEAR.high}", at, "year")
        time = EPOCH + timedelta(seconds=seconds)
        self._columns.update(dict.fromkeys(("year", "month", "day"), at.column))
        return CalendarEvent(
            event.weekdays,
            Field(YEAR, (Term(time.year),)),
            Field(MONTH, (Term(time.month),)),
            Field(DAY, (Term(time.day),)),
            Field(HOUR, (Term(time.hour),)),
            Field(MINUTE, (Term(time.minute),)),
            Field(SECOND, (Term(time.second * SECOND.unit),)),
        )

    def _date_and_time(self, event: CalendarEvent, parts: list[Part]) -> CalendarEvent:
        if parts and ":" not in parts[0].text:
            event = self._date(event, parts.pop(0))
        if parts and ":" in parts[0].text:
            event = self._time(event, parts.pop(0))
        if parts:
            self._refuse(
                f"{shown(parts[0].text)} is left over; write weekdays, date, time and zone in this "
                "order, each at most once",
                parts[0],
            )
        return event

    def _date(self, event: CalendarEvent, part: Part) -> CalendarEvent:
        pieces, signs = _pieces(part, "-~")
        if signs not in ("-", "~", "--", "-~"):
            self._refuse(
                f"the date {shown(part.text)} cannot be read; write YEAR-MONTH-DAY or MONTH-DAY, "
                "or YEAR-MONTH~DAY to count the day from the end of the month",
                part,
            )
        return replace(
            event,
            year=self._field("year", pieces[-3], YEAR) if len(pieces) > 2 else Field(YEAR),
            month=self._field("month", pieces[-2], MONTH),
            day=self._field("day", pieces[-1], DAY_FROM_END if signs.endswith("~") else DAY),
        )

    def _time(self, event: CalendarEvent, part: Part) -> CalendarEvent:
        if "-" in part.text:
            self._refuse(
                f"{shown(part.text)} is no time; a blank stands between date and time, and a "
                "zone is a name",
                part,
            )
        pieces, signs = _pieces(part, ":")
        if len(signs) > 2:
            self._refuse(
                f"the time {shown(part.text)} cannot be read; write HH:MM or HH:MM:SS", part
            )
        self._columns["second"] = pieces[-1].column
        return replace(
            event,
            hour=self._field("hour", pieces[0], HOUR),
            minute=self._field("minute", pieces[1], MINUTE),
            second=self._field("second", pieces[2], SECOND) if len(pieces) > 2 else event.second,
        )

    def _field(self, name: str, part: Part, kind: Kind) -> Field:
        self._columns[name] = part.column
        return read_field(part, kind, where=self._where)

    def _must_be_few(self, event: CalendarEvent) -> None:
        """Refuse what names more times a day than can be held, before they are counted out."""
        in_minute = sum(len(span) for span in event.second.spans())
        if in_minute <= TIMES_MAX:
            in_minute = len(event.second.values())
        count = len(event.hour.values()) * len(event.minute.values()) * in_minute
        if count > TIMES_MAX:
            self._refuse(
                f"it names {count} times a day; allowed are {TIMES_MAX}, one a second; repeat "
                "less often",
                Part("", self._columns["second"]),
                SECOND.name,
            )

    def _must_fire(self, event: CalendarEvent) -> None:
        """Refuse a text none of whose dates exists."""
        if _has_a_date(event):
            return
        if not _has_a_date(replace(event, weekdays=CalendarEvent().weekdays)):
            self._refuse(
                f"never fires: no month that the text names has the day {event.day.text}; choose "
                "a day that the month has",
                Part("", self._columns["day"]),
                event.day.kind.name,
            )
        self._refuse(
            "never fires: none of the dates that the text names is on that weekday; remove the "
            "weekday or change the date",
            Part("", self._columns["weekday"]),
            "weekday",
        )

    def _refuse(self, why: str, at: Part | None = None, name: str = "") -> NoReturn:
        named = f"{name}, " if name else ""
        place = "" if at is None else f" {named}character {at.column}:"
        raise ScheduleInvalid(f"{self._where}:{place} {why}")


def _pieces(part: Part, signs: str) -> tuple[list[Part], str]:
    """What stands between the signs, and the signs that stood there."""
    pieces, found, column = [], "", part.column
    for piece in re.split(f"([{signs}])", part.text):
        if piece and piece in signs:
            found += piece
        else:
            pieces.append(Part(piece, column))
        column += len(piece)
    return pieces, found


def _has_a_date(event: CalendarEvent) -> bool:
    """Whether any day of the calendar matches."""
    months = event.month.values()
    seen: set[tuple[int, int]] = set()
    for year in event.years[:CYCLE]:
        for month in months:
            shape = monthrange(year, month)
            if shape not in seen and event.days_of(*shape):
                return True
            seen.add(shape)
    return False
