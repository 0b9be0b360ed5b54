"""The lines of a recurrence: DTSTART, RRULE, RDATE and EXDATE.

Decides where a recurrence starts, in which zone it is written, and which single dates it adds
or leaves out (RFC 5545, sections 3.8.2.4 and 3.8.5). Must never invent a start: one that is
taken from a clock moves with every deploy, and all keys with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from duly._core.schedules.rrule_parts import Rule, parse, stamp
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Recurrence", "read"]

TEXT_MAX: Final = 50_000
DATES_MAX: Final = 1_000

NAMES: Final = ("DTSTART", "RRULE", "RDATE", "EXDATE")
LINE: Final = re.compile(r"([A-Za-z-]+)((?:;[^:;]*)*):(.*)")
WALL: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A recurrence, read; all of its times are naive wall times in one zone.

    Attributes:
        rule: The recurrence rule.
        start: What it counts from; itself one of its times only if the rule names it.
        zone: The name of the zone.
        added: RDATE, ascending.
        excluded: EXDATE, ascending.
    """

    rule: Rule
    start: datetime
    zone: str
    added: tuple[datetime, ...] = ()
    excluded: tuple[datetime, ...] = ()

    @property
    def lines(self) -> str:
        """The rule, with the dates that it adds and leaves out: one line without them."""
        dates = (("RDATE", self.added), ("EXDATE", self.excluded))
        listed = [f"{name}:{_listed(found)}" for name, found in dates if found]
        return "\n".join([f"RRULE:{self.rule.text}", *listed]) if listed else self.rule.text

    @property
    def text(self) -> str:
        """The canonical description but for the policies."""
        dates = (("rdate", self.added), ("exdate", self.excluded))
        listed = "".join(f"; {name}={_listed(found)}" for name, found in dates if found)
        return f"{self.rule.text}{listed}; start={self.start.isoformat()}; zone={self.zone}"


def read(text: str, *, start: datetime | str | None, timezone: str | None) -> Recurrence:
    """Read a rule alone, or the lines of a recurrence.

    Args:
        text: `FREQ=…`, `RRULE:FREQ=…`, or lines with one RRULE.
        start: The naive wall time of DTSTART, where the text has none.
        timezone: The zone's name, where the text has none; UTC if neither has.

    Raises:
        ScheduleInvalid: It cannot be read, has no start, or says two things.
    """
    rules: list[str] = []
    starts = [] if start is None else [_wall(start)]
    zones = {} if timezone is None else {"timezone=": timezone}
    dates: dict[str, set[datetime]] = {"RDATE": set(), "EXDATE": set()}
    for name, parameters, value in _lines(text):
        if name == "RRULE":
            rules.append(value)
            continue
        for at, zone in _times(name, parameters, value):
            if zone is not None:
                zones[name] = zone
            _must_agree(zones)
            if name == "DTSTART":
                starts.append(at)
            else:
                dates[name].add(at)
    if len(rules) != 1:
        raise ScheduleInvalid(
            f"a recurrence has one RRULE, and {shown(text)} has {len(rules)}; "
            "define one job for each rule"
        )
    rule = parse(rules[0])
    found = Recurrence(
        rule,
        _one_start(starts, text),
        next(iter(zones.values()), "UTC"),
        tuple(sorted(dates["RDATE"])),
        tuple(sorted(dates["EXDATE"])),
    )
    _must_follow(found)
    return found


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Name, parameters and value of each line."""
    if not _is_text(text):
        raise ScheduleInvalid(f'a recurrence rule is text, not {shown(text)}; write "FREQ=DAILY"')
    if len(text) > TEXT_MAX:
        raise ScheduleInvalid(
            f"a recurrence of {len(text)} characters is too long; write at most {TEXT_MAX}"
        )
    unfolded = re.sub(r"\r?\n[ \t]", "", text.strip())  # RFC 5545, section 3.1
    lines = [line for line in re.split(r"\r?\n", unfolded) if line.strip()]
    if len(lines) == 1 and ":" not in lines[0]:
        yield "RRULE", "", lines[0]
        return
    for line in lines:
        match = LINE.fullmatch(line.strip())
        if match is None or match[1] not in NAMES or (match[1] == "RRULE" and match[2]):
            raise ScheduleInvalid(
                f"line {shown(line)} cannot be read; allowed are DTSTART, RDATE and EXDATE with "
                "local date-times and one RRULE, such as RRULE:FREQ=DAILY"
            )
        yield match[1], match[2], match[3]


def _times(name: str, parameters: str, value: str) -> Iterator[tuple[datetime, str | None]]:
    """The date-times of a line, each with the zone that it names."""
    zone = None
    for parameter in parameters.split(";")[1:]:
        key, _, given = parameter.partition("=")
        if key == "TZID" and given:
            zone = given
        elif parameter != "VALUE=DATE-TIME":
            raise ScheduleInvalid(
                f"{name}: parameter {shown(parameter)} is not allowed; allowed are "
                "TZID=Europe/Berlin and VALUE=DATE-TIME; a whole day is a time such as T000000"
            )
    terms = [value] if name == "DTSTART" else value.split(",")
    if len(terms) > DATES_MAX:
        raise ScheduleInvalid(
            f"{name} lists {len(terms)} dates; give at most {DATES_MAX}, or list them as Dates"
        )
    for term in terms:
        found = stamp(term)
        if found is None or found[1] == "date":
            raise ScheduleInvalid(
                f"{name} {shown(term)} is no date-time; write it as 20260131T090000"
            )
        if found[1] == "utc" and zone is not None:
            raise ScheduleInvalid(f"{name} {shown(term)} has both a Z and a TZID; remove one")
        yield found[0], "UTC" if found[1] == "utc" else zone


def _must_agree(zones: dict[str, str]) -> None:
    if len(set(zones.values())) > 1:
        said = ", ".join(f"{name} {shown(zone)}" for name, zone in zones.items())
        raise ScheduleInvalid(f"a recurrence has one zone, and here are two: {said}; give one")


def _one_start(starts: list[datetime], text: str) -> datetime:
    if not starts:
        raise ScheduleInvalid(
            f"rrule {shown(text)} has no start: taken from a clock it would move with every "
            "deploy, and every key with it; give start=datetime(2026, 1, 31, 9) or a line "
            "DTSTART:20260131T090000"
        )
    if len(set(starts)) > 1:
        said = " and ".join(start.isoformat() for start in starts)
        raise ScheduleInvalid(f"a recurrence has one start, and here are {said}; give one")
    return starts[0]


def _wall(start: object) -> datetime:
    """The given start as a naive wall time in whole seconds."""
    if isinstance(start, str) and WALL.fullmatch(start):
        try:
            return datetime.fromisoformat(start)
        except ValueError:
            pass
    if not isinstance(start, datetime):
        raise ScheduleInvalid(
            f"start {shown(start)} is no local time; give a naive datetime, or text such as "
            "2026-01-31T09:00:00"
        )
    if start.tzinfo is not None:
        raise ScheduleInvalid(
            f"start {start.isoformat()} has a zone; give the local time without one, and the "
            "zone as timezone="
        )
    if start.microsecond:
        raise ScheduleInvalid(
            f"start {start.isoformat()} has a fraction, which RFC 5545 has not; give whole seconds"
        )
    # Rebuilt, so that neither a subclass nor a `fold` gets into the text.
    return datetime(start.year, start.month, start.day, start.hour, start.minute, start.second)


def _must_follow(found: Recurrence) -> None:
    """Refuse dates before the start, and an end that lies there."""
    until = found.rule.until
    # An instant in UTC is compared once the zone is known.
    if until is not None and until.form != "utc" and until.at < found.start:
        raise ScheduleInvalid(
            f"UNTIL {until.text} is before the start {found.start.isoformat()}; give a later one"
        )
    for name, dates in (("RDATE", found.added), ("EXDATE", found.excluded)):
        if dates and dates[0] < found.start:
            raise ScheduleInvalid(
                f"{name} {_listed(dates[:1])} is before the start {found.start.isoformat()}; "
                "remove it, or give an earlier start"
            )


def _listed(dates: tuple[datetime, ...]) -> str:
    return ",".join(at.strftime("%Y%m%dT%H%M%S").zfill(15) for at in dates)


def _is_text(text: Any) -> bool:
    return isinstance(text, str)
