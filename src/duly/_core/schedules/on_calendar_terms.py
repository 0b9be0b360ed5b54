"""One part of a calendar event: weekdays, or values, ranges and repetitions between commas.

Decides which lists a part takes, and what a refusal of one says (the reader of systemd 252,
whose bounds the manual does not give). Must never take a value, a range or a repetition that
systemd refuses.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from duly._core.schedules.on_calendar_event import (
    DAY_FROM_END,
    SECOND,
    WEEKDAYS,
    YEAR,
    Field,
    Kind,
    Term,
    field,
)
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

__all__ = ["NAMES", "Part", "read_field", "read_weekdays"]

# Both forms of each weekday; Monday is 0.
NAMES: Final = {
    name: number
    for number, day in enumerate(
        ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    )
    for name in (day, day[:3])
}
WEEKDAY_TERM: Final = re.compile(r"([a-z]+)(?:(?:\.\.|-)([a-z]+))?")  # systemd also takes Mon-Fri

WHOLE: Final = "[0-9]+"
DECIMAL: Final = r"[0-9]+(?:\.[0-9]+)?"
WHOLE_TERM, DECIMAL_TERM = (
    re.compile(rf"(?P<first>{number})(?:\.\.(?P<last>{number}))?(?:/(?P<step>{number}))?")
    for number in (WHOLE, DECIMAL)
)
DECIMALS: Final = 6  # that count; the seventh rounds

# Years of two digits: 70-99 are of the last century, 0-69 of this one.
CENTURY_FROM: Final = 70


class Part(NamedTuple):
    """A piece of the text, and the place of its first character, counted from 1."""

    text: str
    column: int


def read_weekdays(part: Part, *, where: str) -> frozenset[int]:
    """Read the weekdays; Monday is 0.

    Args:
        part: Their text; a comma too many at its end counts for nothing.
        where: How a refusal starts.

    Raises:
        ScheduleInvalid: They cannot be read; the message names the place and what is allowed.
    """
    found: set[int] = set()
    column = part.column
    for term in part.text.removesuffix(",").split(","):
        place = f"{where}: weekday, character {column}"
        match = WEEKDAY_TERM.fullmatch(term.lower())
        if match is None or not {match[1], match[2] or match[1]} <= NAMES.keys():
            raise ScheduleInvalid(
                f"{place}: {shown(term)} is no weekday; allowed are {WEEKDAYS[0]}-{WEEKDAYS[-1]}, "
                "full names, ranges such as Mon..Fri and lists of them; or a word such as daily"
            )
        first, last = NAMES[match[1]], NAMES[match[2] or match[1]]
        if last < first:
            raise ScheduleInvalid(
                f"{place}: the range {shown(term)} runs backwards; write it as two, such as "
                "Sat..Sun,Mon"
            )
        found.update(range(first, last + 1))
        column += len(term) + 1
    return frozenset(found)


def read_field(part: Part, kind: Kind, *, where: str) -> Field:
    """Read one field.

    Args:
        part: Its text: `*`, or a list.
        kind: What it may hold.
        where: How a refusal starts.

    Raises:
        ScheduleInvalid: It cannot be read; the message names the field, the place and what is
            allowed.
    """
    if part.text == "*":
        return field(kind, ())
    terms = []
    column = part.column
    for term in part.text.split(","):
        terms.append(_Term(term, kind, f"{where}: {kind.name}, character {column}").read())
        column += len(term) + 1
    return field(kind, terms)


class _Term:
    """One member of a list."""

    def __init__(self, text: str, kind: Kind, place: str) -> None:
        self._text = text
        self._kind = kind
        self._place = place

    def read(self) -> Term:
        match = (DECIMAL_TERM if self._kind is SECOND else WHOLE_TERM).fullmatch(self._text)
        if match is None:
            self._refuse(f"{shown(self._text)} {self._why_not()}")
        first = self._value(match["first"])
        last = None if match["last"] is None else self._value(match["last"])
        step = None if match["step"] is None else self._number(match["step"])
        if last is not None:
            return Term(first, last, self._step_of_range(first, last, step))
        if step is not None:
            self._must_repeat(first, step)
        return Term(first, step=step)

    def _step_of_range(self, first: int, last: int, step: int | None) -> int:
        kind = self._kind
        if last < first:
            self._refuse(
                f"the range {shown(self._text)} runs backwards; write the lower value first, or "
                "two ranges between a comma"
            )
        if step is not None:
            if step == 0:
                self._refuse(f"the repetition is 0; write at least {kind.written(1)}")
            return step
        if kind is SECOND and last - first < kind.unit:
            self._refuse(
                f"the range {shown(self._text)} is shorter than a second, by which it is counted; "
                "write its values, or a repetition such as /0.5"
            )
        return kind.unit

    def _must_repeat(self, first: int, step: int) -> None:
        """Refuse a repetition without end that comes not once."""
        kind = self._kind
        most = first - 1 if kind is DAY_FROM_END else kind.high - first
        if most == 0:
            self._refuse(f"{shown(self._text)}: nothing comes after {kind.written(first)}")
        if not 1 <= step <= most:
            self._refuse(
                f"the repetition of {shown(self._text)} does not fit; allowed after "
                f"{kind.written(first)} are {kind.written(1)} to {kind.written(most)}"
            )

    def _value(self, word: str) -> int:
        value = self._number(word)
        if self._kind is YEAR and value < 100:
            value += 2000 if value < CENTURY_FROM else 1900
        if not self._kind.low <= value <= self._kind.high:
            self._refuse(f"{shown(word)} is not allowed; allowed are {self._kind.allowed}")
        return value

    def _number(self, word: str) -> int:
        """The number in the field's own unit, rounded half up."""
        whole, _, fraction = word.partition(".")
        value = int(whole) * self._kind.unit
        if not fraction:
            return value
        up = fraction[DECIMALS : DECIMALS + 1] >= "5"
        return value + int(fraction[:DECIMALS].ljust(DECIMALS, "0")) + up

    def _refuse(self, why: str) -> NoReturn:
        raise ScheduleInvalid(f"{self._place}: {why}")

    def _why_not(self) -> str:
        low = self._kind.low
        if self._text == "":
            return f"is empty; write a value of {self._kind.allowed}, or *"
        if self._text.startswith("*/"):
            return f"repeats every value; write {low}{shown(self._text[1:])[1:-1]}"
        if self._text == "*":
            return "stands alone or not at all; remove the rest of the list"
        return (
            f"cannot be read; allowed are {self._kind.allowed}, *, ranges such as {low}..{low + 4},"
            f" repetitions such as {low}/2, and lists of them"
        )
