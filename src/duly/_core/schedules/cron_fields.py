"""The text of a cron expression: five fields, six, or one of the words that stand for them.

Decides which seconds, minutes, hours, days, months and weekdays an expression names, and what a
refusal says (crontab(5) of Vixie cron; seconds, `L` and `#` as in Quartz, but Sunday is 0).
Must never wrap a range round, guess what a step past its range means, or take a form that
another cron reads differently; where the seconds stand is the one exception, as five fields
cannot be told from six with the seconds last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

__all__ = ["LAST", "Expression", "Field", "parse"]

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

# The ordinal of a month's last weekday of its name.
LAST: Final = -1

BEFORE_LAST_MAX: Final = 30
ORDINAL_MAX: Final = 5

TERM: Final = re.compile(
    r"(?:(?P<star>\*)|(?P<low>[0-9]{1,4}|[A-Z]{3})(?:-(?P<high>[0-9]{1,4}|[A-Z]{3}))?)"
    r"(?:/(?P<step>[0-9]{1,4}))?"
)

LAST_DAY: Final = re.compile(r"L(?:-(?P<before>[0-9]{1,4}))?")
ORDINAL: Final = re.compile(r"(?P<weekday>[0-9]{1,4}|[A-Z]{3})(?:#(?P<ordinal>[0-9]{1,4})|L)")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one field may hold."""

    name: str
    low: int
    high: int
    names: dict[str, int]
    more: str = ""

    @property
    def allowed(self) -> str:
        """The values of this field, for a message."""
        words = list(self.names)
        named = f" or {words[0]}-{words[-1]}" if words else ""
        return f"{self.low}-{self.high}{named}"


SECOND: Final = Kind("second", 0, 59, {})
DAY: Final = Kind("day of month", 1, 31, {}, ", L and L-3")
WEEKDAY: Final = Kind(
    "day of week", 0, 7, {name: n for n, name in enumerate(WEEKDAYS)}, ", MON#2 and FRIL"
)
FIVE: Final = (
    Kind("minute", 0, 59, {}),
    Kind("hour", 0, 23, {}),
    DAY,
    Kind("month", 1, 12, {name: n for n, name in enumerate(MONTHS + MONTHS_LATER, 1)}),
    WEEKDAY,
)


@dataclass(frozen=True, slots=True)
class Field:
    """One field, read.

    Attributes:
        values: What it names outright; Sunday is 0, never 7.
        starred: Its text starts with `*`, which Vixie cron's rules ask for days and switches.
        before_last: Days of the month, by how many days before the last one they lie.
        ordinals: Weekdays of the month, each with which one of its name it is, or `LAST`.
    """

    values: frozenset[int]
    starred: bool = False
    before_last: frozenset[int] = frozenset()
    ordinals: frozenset[tuple[int, int]] = frozenset()


ON_THE_MINUTE: Final = Field(frozenset((0,)))


@dataclass(frozen=True, slots=True)
class Expression:
    """A cron expression, read.

    Attributes:
        text: Its fields in canonical text: one blank between them, names in upper case, a word
            such as `@daily` written out, five where a sixth would only say the second 0.
        count: How many fields were written.
    """

    text: str
    count: int
    second: Field
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field


def parse(text: str) -> Expression:
    """Read a cron expression of five or six fields, or a word such as `@daily`.

    Raises:
        ScheduleInvalid: It cannot be read; the message names the field, the place and what is
            allowed.
    """
    if not _is_text(text):
        raise ScheduleInvalid(f'a cron expression is text, not {shown(text)}; write "30 2 * * *"')
    if len(text) > TEXT_MAX:
        raise ScheduleInvalid(
            f"a cron expression of {len(text)} characters is too long; write at most {TEXT_MAX}"
        )
    spelled = _written_out(text)
    parts = [(part.group().upper(), part.start() + 1) for part in re.finditer(r"(?a:\S+)", spelled)]
    kinds = (SECOND, *FIVE) if len(parts) == len(FIVE) + 1 else FIVE
    if len(parts) != len(kinds):
        raise ScheduleInvalid(
            f"cron {shown(text)} has {len(parts)} fields; write five: minute, hour, day of month, "
            "month, day of week; or six with the second before them"
        )
    first = " of 6, seconds first" if len(kinds) > len(FIVE) else ""
    fields = [
        _field(part, kind, f"cron {shown(text)}: {kind.name} (field {number}{first})", column)
        for number, (kind, (part, column)) in enumerate(zip(kinds, parts, strict=True), 1)
    ]
    words = [part for part, _ in parts]
    if len(kinds) == len(FIVE):
        return Expression(" ".join(words), len(kinds), ON_THE_MINUTE, *fields)
    plain = fields[0] == ON_THE_MINUTE
    return Expression(" ".join(words[1:] if plain else words), len(kinds), *fields)


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


def _field(part: str, kind: Kind, where: str, column: int) -> Field:
    """Read one field: terms between commas."""
    values: set[int] = set()
    before_last: set[int] = set()
    ordinals: set[tuple[int, int]] = set()
    for term in part.split(","):
        place = f"{where}, character {column}"
        if kind is DAY and (match := LAST_DAY.fullmatch(term)):
            before_last.add(_before_last(match, place))
        elif kind is WEEKDAY and (match := ORDINAL.fullmatch(term)):
            ordinals.add(_ordinal(match, kind, place))
        elif match := TERM.fullmatch(term):
            values.update(_term(match, kind, place))
        else:
            raise ScheduleInvalid(f"{place}: {shown(term)} {_why_not(term, kind)}")
        column += len(term) + 1
    if kind is WEEKDAY and 7 in values:
        values = values - {7} | {0}
    return Field(
        frozenset(values), part.startswith("*"), frozenset(before_last), frozenset(ordinals)
    )


def _before_last(match: re.Match[str], place: str) -> int:
    """How many days before the last one of the month: 0 for `L`."""
    if match["before"] is None:
        return 0
    days = int(match["before"])
    if not 1 <= days <= BEFORE_LAST_MAX:
        raise ScheduleInvalid(
            f"{place}: {shown(match.group())} is not allowed; allowed are L for the last day and "
            f"L-1 to L-{BEFORE_LAST_MAX} for days before it"
        )
    return days


def _ordinal(match: re.Match[str], kind: Kind, place: str) -> tuple[int, int]:
    """A weekday and which one of the month it is: `MON#2`, or `FRIL` for the last."""
    weekday = _value(match["weekday"], kind, place) % 7
    if match["ordinal"] is None:
        return weekday, LAST
    ordinal = int(match["ordinal"])
    if not 1 <= ordinal <= ORDINAL_MAX:
        raise ScheduleInvalid(
            f"{place}: {shown(match.group())} is not allowed; allowed are #1 to #{ORDINAL_MAX}, "
            f"and {match['weekday']}L for the last"
        )
    return weekday, ordinal


def _term(match: re.Match[str], kind: Kind, place: str) -> range:
    """The values of one term: `*`, a value or a range, and perhaps a step."""
    if match["star"]:
        # A star in the weekdays is the seven days once, so that a step counts from Sunday.
        low, high = kind.low, 6 if kind is WEEKDAY else kind.high
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
    if kind is WEEKDAY and term == "L":
        return (
            "alone is Saturday to some crons and an error to others; "
            "write SAT, or FRIL for the last Friday of the month"
        )
    if kind is WEEKDAY and re.fullmatch(r".+[-/].*(#[0-9]+|L)", term):
        return "numbers a range; write each weekday by itself, such as MON#2,TUE#2"
    if kind is DAY and re.fullmatch(r"L?W|[0-9]+W|W[0-9]+", term):
        return (
            "means the nearest weekday, whatever the holidays; write "
            f'{term.strip("W") or "L"} in BusinessDays(…, shift="previous"), or shift="next"'
        )
    if kind is DAY and "#" in term:
        return "belongs to the day of week, such as MON#2 in the last field"
    return (
        f"cannot be read; allowed are {kind.allowed}, *, ranges such as "
        f"{kind.low}-{kind.low + 4}, steps such as */2{kind.more}, and lists of them"
    )
