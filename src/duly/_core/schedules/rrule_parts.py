"""The parts of a recurrence rule: `FREQ=MONTHLY;BYDAY=-1FR` and the like.

Decides which rules are read, and what a refusal says (RFC 5545, section 3.3.10). Must never
take what the RFC does not know, or what its readers read in two ways.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal, NoReturn

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

__all__ = ["COUNT_MAX", "Rule", "Until", "parse", "stamp"]

COUNT_MAX: Final = 10_000
INTERVAL_MAX: Final = 999_999_999
RULE_MAX: Final = 10_000

FREQS: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
WEEKDAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

# The lists of numbers: the lowest, the highest, and whether -1 is the last.
NUMBERS: Final = {
    "BYMONTH": (1, 12, False),
    "BYWEEKNO": (1, 53, True),
    "BYYEARDAY": (1, 366, True),
    "BYMONTHDAY": (1, 31, True),
    "BYHOUR": (0, 23, False),
    "BYMINUTE": (0, 59, False),
    "BYSECOND": (0, 59, False),
    "BYSETPOS": (1, 366, True),
}

# The order of the canonical text; nothing else is a part.
PARTS: Final = (
    "FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYMONTH", "BYWEEKNO", "BYYEARDAY",
    "BYMONTHDAY", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS",
)  # fmt: skip

# With which FREQ the RFC's table allows a part; any, if it is not listed.
ALLOWED_WITH: Final = {
    "BYWEEKNO": ("YEARLY",),
    "BYYEARDAY": ("YEARLY", "HOURLY", "MINUTELY", "SECONDLY"),
    "BYMONTHDAY": tuple(freq for freq in FREQS if freq != "WEEKLY"),
}

# Weeks of which some days can lie in another calendar year.
STRADDLING: Final = frozenset({1, 52, 53, -1, -52, -53})

WEEKDAY: Final = re.compile(rf"([+-]?[0-9]{{1,2}})?({'|'.join(WEEKDAYS)})")
STAMP: Final = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z?))?")


@dataclass(frozen=True, slots=True)
class Until:
    """The last moment of a rule, itself included.

    Attributes:
        at: Naive: in UTC, on the wall clock, or the last microsecond of a date.
        form: How it was written: an instant in UTC, a wall time, or a whole local day.
        text: As in the rule.
    """

    at: datetime
    form: Literal["utc", "wall", "date"]
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A recurrence rule, read.

    Attributes:
        text: Its canonical text: parts in one order, lists sorted, defaults left out.
        freq: One of `FREQS`.
        interval: From one period of *freq* to the next.
        count: How many there are; None without end.
        until: The last moment; None without end.
        wkst: The day a week starts with; 0 is Monday.
        by: The lists of numbers that are written, by part, ascending.
        weekdays: BYDAY as (ordinal, weekday), 0 for every one of its kind.
    """

    text: str
    freq: str
    interval: int = 1
    count: int | None = None
    until: Until | None = None
    wkst: int = 0
    by: dict[str, tuple[int, ...]] = field(default_factory=dict)
    weekdays: tuple[tuple[int, int], ...] = ()


def parse(text: str) -> Rule:
    """Read the value of an RRULE.

    Raises:
        ScheduleInvalid: It cannot be read, or can be read in two ways; the message names the
            part and what is allowed.
    """
    parts = _split(text)
    freq = parts.get("FREQ")
    if freq is None:
        _refuse(text, f"it has no FREQ; write FREQ= and one of {', '.join(FREQS)}")
    if freq not in FREQS:
        _refuse(text, f"FREQ {shown(freq)} is not allowed; allowed are {', '.join(FREQS)}")
    wkst = parts.get("WKST", "MO")
    if wkst not in WEEKDAYS:
        _refuse(text, f"WKST {shown(wkst)} is not allowed; allowed are {', '.join(WEEKDAYS)}")
    by = {name: _numbers(text, name, parts[name]) for name in NUMBERS if name in parts}
    until = _until(text, parts["UNTIL"]) if "UNTIL" in parts else None
    rule = Rule(
        "",
        freq,
        interval=_positive(text, "INTERVAL", parts.get("INTERVAL", "1"), INTERVAL_MAX),
        count=_positive(text, "COUNT", parts["COUNT"], COUNT_MAX) if "COUNT" in parts else None,
        until=until,
        wkst=WEEKDAYS.index(wkst),
        by=by,
        weekdays=_weekdays(text, parts["BYDAY"]) if "BYDAY" in parts else (),
    )
    _must_fit(text, rule)
    return Rule(_canonical(rule), *(getattr(rule, name) for name in Rule.__slots__[1:]))


def stamp(text: str) -> tuple[datetime, Literal["utc", "wall", "date"]] | None:
    """A date or date-time of RFC 5545 and its form; None if it is neither."""
    match = STAMP.fullmatch(text)
    if match is None:
        return None
    day, clock, zulu = match.groups()
    try:
        at = datetime.fromisoformat(f"{day}T{clock or '000000'}")
    except ValueError:
        return None
    return at, "date" if clock is None else "utc" if zulu else "wall"


def _split(text: str) -> dict[str, str]:
    """The parts by name, each once, all known."""
    if len(text) > RULE_MAX:
        raise ScheduleInvalid(
            f"a recurrence rule of {len(text)} characters is too long; write at most {RULE_MAX}"
        )
    if text != text.upper():
        _refuse(text, f"its parts are written in upper case; write {shown(text.upper())}")
    if re.search(r"\s", text):
        _refuse(text, "it has a blank inside; remove it")
    parts: dict[str, str] = {}
    for part in text.split(";"):
        name, equals, value = part.partition("=")
        if part == "":
            _refuse(text, "it has an empty part, a semicolon too many; remove it")
        if name not in PARTS:
            _refuse(text, f"part {shown(name)} is unknown; allowed are {', '.join(PARTS)}")
        if not equals or value == "":
            _refuse(text, f"{name} has no value; write {name}= and its value")
        if name in parts:
            _refuse(text, f"{name} is given twice; give it once")
        parts[name] = value
    return parts


def _positive(text: str, name: str, value: str, high: int) -> int:
    if re.fullmatch(r"[0-9]{1,12}", value) is None or not 1 <= int(value) <= high:
        why = ", which are kept in memory" if name == "COUNT" else ""
        _refuse(text, f"{name} {shown(value)} is not allowed; allowed are 1 to {high:,}{why}")
    return int(value)


def _numbers(text: str, name: str, value: str) -> tuple[int, ...]:
    low, high, signed = NUMBERS[name]
    found = set()
    for term in value.split(","):
        number = int(term) if re.fullmatch(r"[+-]?[0-9]{1,3}", term) else None
        size = number if number is None or not signed else abs(number)
        if size is None or not low <= size <= high or (not signed and term.startswith("+")):
            last = f" and -{high} to -{low}" if signed else ""
            _refuse(text, f"{name} {shown(term)} is not allowed; allowed are {low} to {high}{last}")
        found.add(number)
    return tuple(sorted(n for n in found if n is not None))


def _weekdays(text: str, value: str) -> tuple[tuple[int, int], ...]:
    found = set()
    for term in value.split(","):
        match = WEEKDAY.fullmatch(term)
        if match is None or (match[1] is not None and int(match[1]) == 0):
            allowed = f"{', '.join(WEEKDAYS)}, with an ordinal such as 1MO or -1FR before them"
            _refuse(text, f"BYDAY {shown(term)} is not allowed; allowed are {allowed}")
        found.add((int(match[1] or 0), WEEKDAYS.index(match[2])))
    return tuple(sorted(found))


def _until(text: str, value: str) -> Until:
    found = stamp(value)
    if found is None:
        _refuse(
            text,
            f"UNTIL {shown(value)} is not allowed; write an instant in UTC such as "
            "20261231T225959Z, a local time such as 20261231T235959, or a date such as 20261231, "
            "which is that whole local day",
        )
    at, form = found
    whole_day = timedelta(days=1, microseconds=-1) if form == "date" else timedelta(0)
    return Until(at + whole_day, form, value)


def _must_fit(text: str, rule: Rule) -> None:
    """Refuse parts that contradict each other, or that two readers combine differently."""
    if rule.count is not None and rule.until is not None:
        _refuse(text, "COUNT and UNTIL exclude each other; leave one out")
    if "BYSETPOS" in rule.by and len(rule.by) == 1 and not rule.weekdays:
        _refuse(text, "BYSETPOS picks from another BY part, and there is none; add one, or BYDAY")
    for name, freqs in ALLOWED_WITH.items():
        if name in rule.by and rule.freq not in freqs:
            _refuse(
                text,
                f"{name} is not allowed with FREQ={rule.freq}; allowed are {', '.join(freqs)}",
            )
    _weeks_must_fit(text, rule)
    _ordinals_must_fit(text, rule)


def _weeks_must_fit(text: str, rule: Rule) -> None:
    if "BYWEEKNO" not in rule.by:
        return
    if not rule.weekdays:
        _refuse(
            text,
            "BYWEEKNO alone is one day to some readers and seven to others; add BYDAY with "
            "the days of the week that you mean",
        )
    straddling = STRADDLING.intersection(rule.by["BYWEEKNO"])
    if straddling and (rule.interval > 1 or "BYSETPOS" in rule.by):
        _refuse(
            text,
            f"BYWEEKNO {min(straddling)} can reach into another year, and with "
            f"{'INTERVAL' if rule.interval > 1 else 'BYSETPOS'} readers differ whose year counts; "
            "allowed are 2 to 51 and -51 to -2",
        )


def _ordinals_must_fit(text: str, rule: Rule) -> None:
    ordinals = [ordinal for ordinal, _ in rule.weekdays if ordinal]
    if not ordinals:
        return
    if rule.freq not in ("YEARLY", "MONTHLY") or "BYWEEKNO" in rule.by:
        _refuse(
            text,
            f"BYDAY with an ordinal such as {ordinals[0]} is allowed with FREQ=MONTHLY, and with "
            "FREQ=YEARLY without BYWEEKNO; write the weekday alone",
        )
    of_month = rule.freq == "MONTHLY" or "BYMONTH" in rule.by
    high = 5 if of_month else 53
    for ordinal in ordinals:
        if abs(ordinal) > high:
            _refuse(
                text,
                f"BYDAY ordinal {ordinal} is more than a {'month' if of_month else 'year'} has; "
                f"allowed are 1 to {high} and -{high} to -1",
            )


def _canonical(rule: Rule) -> str:
    values = {"FREQ": rule.freq}
    if rule.interval > 1:
        values["INTERVAL"] = str(rule.interval)
    if rule.count is not None:
        values["COUNT"] = str(rule.count)
    if rule.until is not None:
        values["UNTIL"] = rule.until.text
    if rule.wkst:
        values["WKST"] = WEEKDAYS[rule.wkst]
    if rule.weekdays:
        values["BYDAY"] = ",".join(f"{n or ''}{WEEKDAYS[day]}" for n, day in rule.weekdays)
    values |= {name: ",".join(map(str, numbers)) for name, numbers in rule.by.items()}
    return ";".join(f"{name}={values[name]}" for name in PARTS if name in values)


def _refuse(text: str, why: str) -> NoReturn:
    raise ScheduleInvalid(f"rrule {shown(text)}: {why}")
