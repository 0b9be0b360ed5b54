"""The text of a cron expression: five fields, or one of the words that stand for them.

Decides which minutes, hours, days, months and weekdays an expression names, and what a refusal
says (crontab(5) of Vixie cron). Must never wrap a range round, guess what a step past its
range means, or take a form that another cron reads differently.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

__all__ = ["Expression", "Field", "parse"]

TEXT_MAX: Final = 1_000

WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

MONTHS: Final = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN")
MONTHS_LATER: Final = ("JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

# The longest that each month ever is.
MONTH_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

TERM: Final = re.compile(
    r"(?:(?P<star>\*)|(?P<low>[0-9]{1,4}|[A-Z]{3})(?:-(?P<high>[0-9]{1,4}|[A-Z]{3}))?)"
    r"(?:/(?P<step>[0-9]{1,4}))?"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What one field may hold."""

    name: str
    low: int
    high: int
    names: dict[str, int]

    @property
    def allowed(self) -> str:
        """The values of this field, for a message."""
        words = list(self.names)
        named = f" or {words[0]}-{words[-1]}" if words else ""
        return f"{self.low}-{self.high}{named}"


KINDS: Final = (
    Kind("minute", 0, 59, {}),
    Kind("hour", 0, 23, {}),
    Kind("day of month", 1, 31, {}),
    Kind("month", 1, 12, {name: n for n, name in enumerate(MONTHS + MONTHS_LATER, 1)}),
    Kind("day of week", 0, 7, {name: n for n, name in enumerate(WEEKDAYS)}),
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field, read.

    Attributes:
        values: What it names; Sunday is 0, never 7.
        starred: Its text starts with `*`, which Vixie cron's rules ask for days and switches.
    """

    values: frozenset[int]
    starred: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """A cron expression, read.

    Attributes:
        text: Its five fields in canonical text: one blank between them, names in upper case,
            a word such as `@daily` written out.
    """

    text: str
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field


def parse(text: str) -> Expression:
    """Read a cron expression of five fields, or a word such as `@daily`.

    Raises:
        ScheduleInvalid: It cannot be read, or never fires; the message names the field, the
            place and what is allowed.
    """
    if not _is_text(text):
        raise ScheduleInvalid(f'a cron expression is text, not {shown(text)}; write "30 2 * * *"')
    if len(text) > TEXT_MAX:
        raise ScheduleInvalid(
            f"a cron expression of {len(text)} characters is too long; write at most {TEXT_MAX}"
        )
    spelled = _written_out(text)
    parts = [(part.group().upper(), part.start() + 1) for part in re.finditer(r"\S+", spelled)]
    if len(parts) != len(KINDS):
        raise ScheduleInvalid(
            f"cron {shown(text)} has {len(parts)} fields; "
            "write five: minute, hour, day of month, month, day of week"
        )
    fields = [
        _field(part, kind, where=f"cron {shown(text)}: {kind.name} (field {number})", column=column)
        for number, (kind, (part, column)) in enumerate(zip(KINDS, parts, strict=True), 1)
    ]
    expression = Expression(" ".join(part for part, _ in parts), *fields)
    _must_fire(expression, text)
    return expression


def _is_text(text: object) -> bool:
    return isinstance(text, str)


def _written_out(text: str) -> str:
    """The five fields that a word stands for, or the text as it is."""
    word = text.strip()
    if not word.startswith("@"):
        if re.match(r"(CRON_)?TZ=", word):
            raise ScheduleInvalid(f"cron {shown(text)} sets a zone in its text; give timezone=")
        return text
    if word == "@reboot":
        raise ScheduleInvalid(
            "cron '@reboot' names no time, so it has no nominal time to be done once; "
            "give a time, or run the job by name at start"
        )
    if word not in WORDS:
        raise ScheduleInvalid(f"cron {shown(text)} is unknown; write one of {', '.join(WORDS)}")
    return WORDS[word]


def _field(part: str, kind: Kind, *, where: str, column: int) -> Field:
    """Read one field: terms between commas."""
    values: set[int] = set()
    for term in part.split(","):
        place = f"{where}, character {column}"
        match = TERM.fullmatch(term)
        if match is None:
            raise ScheduleInvalid(f"{place}: {shown(term)} {_why_not(term, kind)}")
        values.update(_term(match, kind, place))
        column += len(term) + 1
    if kind.name == "day of week" and 7 in values:
        values = values - {7} | {0}
    return Field(frozenset(values), part.startswith("*"))


def _term(match: re.Match[str], kind: Kind, place: str) -> range:
    """The values of one term: `*`, a value or a range, and perhaps a step."""
    if match["star"]:
        # A star in the weekdays is the seven days once, so that a step counts from Sunday.
        low, high = kind.low, 6 if kind.name == "day of week" else kind.high
    else:
        low = _value(match["low"], kind, place)
        high = _value(match["high"], kind, place) if match["high"] else low
        if match["high"] == "SUN" and low > 0:
            high = 7  # as in FRI-SUN
    if high < low:
        raise ScheduleInvalid(
            f"{place}: the range {shown(match.group())} runs backwards; "
            "write it as two, such as 22-23,0-4"
        )
    if match["step"] is None:
        return range(low, high + 1)
    if not match["star"] and not match["high"]:
        raise ScheduleInvalid(
            f"{place}: {shown(match.group())} steps from a single value, which crons read "
            f"differently; write {low}-{kind.high}/{match['step']}"
        )
    step = int(match["step"])
    if not 1 <= step <= high - low + 1:
        raise ScheduleInvalid(
            f"{place}: the step {step} does not fit its range {low}-{high}; "
            f"allowed are 1 to {high - low + 1}"
        )
    return range(low, high + 1, step)


def _value(word: str, kind: Kind, place: str) -> int:
    value = int(word) if word.isdigit() else kind.names.get(word)
    if value is None or not kind.low <= value <= kind.high:
        raise ScheduleInvalid(f"{place}: {word} is not allowed; allowed are {kind.allowed}")
    return value


def _why_not(term: str, kind: Kind) -> str:
    """Why a term cannot be read, and what is allowed."""
    if term == "":
        return "is empty, a comma too many; remove it"
    if term == "?":
        return "is another scheduler's word for any; write *"
    return (
        f"cannot be read; allowed are {kind.allowed}, *, ranges such as "
        f"{kind.low}-{kind.low + 4}, steps such as */2, and lists of them"
    )


def _must_fire(expression: Expression, text: str) -> None:
    """Refuse an expression whose days exist in none of its months."""
    day, month = expression.day, expression.month
    if not day.starred and not expression.weekday.starred:
        return  # either may match, and every month has every weekday
    if all(min(day.values) > MONTH_DAYS[number - 1] for number in month.values):
        raise ScheduleInvalid(
            f"cron {shown(text)} never fires: no month of field 4 has day {min(day.values)} of "
            "field 3; choose a day that the month has"
        )
