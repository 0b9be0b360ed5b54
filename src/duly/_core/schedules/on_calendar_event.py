"""A calendar event of systemd as data: what each field names, and its normal form.

Decides which days and times the fields name, and the one text that they are written back in
(systemd.time(7), "CALENDAR EVENTS"; `systemd-analyze calendar` prints the same form). Must
never read a text that a person wrote, and must never know a zone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = [
    "DAY",
    "DAY_FROM_END",
    "HOUR",
    "MINUTE",
    "MONTH",
    "SECOND",
    "WEEKDAYS",
    "YEAR",
    "CalendarEvent",
    "Field",
    "Kind",
    "Term",
    "field",
]

WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
RUN_MIN: Final = 3  # weekdays in a row that are written as a range

MICROSECONDS: Final = 1_000_000
LAST_YEAR: Final = 9999  # of the calendar; a repetition without an end goes on to it


@dataclass(frozen=True, slots=True)
class Kind:
    """What one field may hold.

    Attributes:
        name: What it is called in a message.
        low: Its least value.
        high: Its greatest value.
        digits: How many digits a value has in the normal form.
        unit: How many of its values are one step; seconds count in microseconds.
    """

    name: str
    low: int
    high: int
    digits: int = 2
    unit: int = 1

    @property
    def allowed(self) -> str:
        """The values of this field, for a message."""
        return f"{self.written(self.low)}-{self.written(self.high)}"

    def written(self, value: int, *, digits: int = 1) -> str:
        """A value or a step as text, with six decimals where it has a fraction."""
        whole, fraction = divmod(value, self.unit)
        return f"{whole:0{digits}}.{fraction:06}" if fraction else f"{whole:0{digits}}"


YEAR: Final = Kind("year", 1970, 2199, digits=4)
MONTH: Final = Kind("month", 1, 12)
DAY: Final = Kind("day of month", 1, 31)
DAY_FROM_END: Final = Kind("day from the end of the month", 1, 28)
HOUR: Final = Kind("hour", 0, 23)
MINUTE: Final = Kind("minute", 0, 59)
SECOND: Final = Kind("second", 0, 60 * MICROSECONDS - 1, unit=MICROSECONDS)


@dataclass(frozen=True, slots=True)
class Term:
    """One member of a field's list.

    Attributes:
        first: The value, or the first of several.
        last: The end of a range, included; None for one value and for a repetition without end.
        step: How far apart the values are; None for one value.
    """

    first: int
    last: int | None = None
    step: int | None = None

    @property
    def key(self) -> tuple[int, int, int]:
        """The order of the normal form."""
        return (
            self.first,
            -1 if self.last is None else self.last,
            0 if self.step is None else self.step,
        )


@dataclass(frozen=True, slots=True)
class Field:
    """One field; make it with `field`, which brings the terms into normal form.

    Attributes:
        kind: What it may hold.
        terms: The members of its list; none for `*`, which in seconds means each whole second.
    """

    kind: Kind
    terms: tuple[Term, ...] = ()

    @property
    def starred(self) -> bool:
        """Whether it counts as a `*` at the start of a cron field does.

        A repetition without end from the least value, such as `00/2`, is how this text
        writes `*/2`.
        """
        return not self.terms or any(
            term.first == self.kind.low and term.last is None and term.step is not None
            for term in self.terms
        )

    @property
    def text(self) -> str:
        """The normal form."""
        return ",".join(self._written(term) for term in self.terms) or "*"

    def spans(self) -> list[range]:
        """The values of each term. Days from the end count from 1, the last day."""
        if not self.terms:
            return [range(self.kind.low, self.kind.high + 1, self.kind.unit)]
        return [self._span(term) for term in self.terms]

    def values(self) -> list[int]:
        """Every value once, ascending."""
        return sorted({value for span in self.spans() for value in span})

    def _span(self, term: Term) -> range:
        if term.step is None:
            return range(term.first, term.first + 1)
        if term.last is not None:
            return range(term.first, term.last + 1, term.step)
        if self.kind is DAY_FROM_END:
            return range(term.first, 0, -term.step)  # towards the end of the month
        end = LAST_YEAR if self.kind is YEAR else self.kind.high
        return range(term.first, end + 1, term.step)

    def _written(self, term: Term) -> str:
        kind = self.kind
        text = kind.written(term.first, digits=kind.digits)
        if term.last is not None:
            text += f"..{kind.written(term.last, digits=kind.digits)}"
        if term.step is not None and (term.last is None or term.step != kind.unit):
            text += f"/{kind.written(term.step)}"
        return text


def field(kind: Kind, terms: Iterable[Term]) -> Field:
    """A field in normal form: ranges end at their last value, terms are sorted, none twice.

    Args:
        kind: What it may hold.
        terms: Its members, each value within the kind's bounds; none for `*`.
    """
    found = sorted({_trimmed(term) for term in terms}, key=lambda term: term.key)
    if kind is DAY_FROM_END and not found:
        return Field(DAY)  # every day from the end is every day
    if kind is SECOND and found == [Term(0, step=kind.unit)]:
        return Field(kind)
    return Field(kind, tuple(found))


def _trimmed(term: Term) -> Term:
    if term.last is None or term.step is None:
        return term
    last = term.last - (term.last - term.first) % term.step
    return Term(term.first) if last == term.first else Term(term.first, last, term.step)


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """A calendar event: a date must match its weekday and its three date fields.

    Attributes:
        weekdays: The days of the week that it names, Monday is 0; all seven by default.
        day: Of kind `DAY`, or `DAY_FROM_END` where `~` stands before it.
        second: In microseconds.
    """

    weekdays: frozenset[int] = frozenset(range(7))
    year: Field = Field(YEAR)
    month: Field = Field(MONTH)
    day: Field = Field(DAY)
    hour: Field = Field(HOUR, (Term(0),))
    minute: Field = Field(MINUTE, (Term(0),))
    second: Field = Field(SECOND, (Term(0),))

    @property
    def text(self) -> str:
        """The normal form, such as `Mon..Fri *-*-* 09:00:00`, without a zone."""
        weekdays = f"{_written_weekdays(self.weekdays)} " if len(self.weekdays) < 7 else ""
        sign = "~" if self.day.kind is DAY_FROM_END else "-"
        return (
            f"{weekdays}{self.year.text}-{self.month.text}{sign}{self.day.text} "
            f"{self.hour.text}:{self.minute.text}:{self.second.text}"
        )

    @property
    def last_year(self) -> int | None:
        """The last year that can match; None if there is no last one."""
        spans = self.year.spans() if self.year.terms else []
        last = max((span[-1] for span in spans), default=None)
        endless = any(term.step is not None and term.last is None for term in self.year.terms)
        return None if endless else last

    @property
    def years(self) -> range | list[int]:
        """The years that can match, ascending."""
        return self.year.values() if self.year.terms else range(1, LAST_YEAR + 1)

    def days_of(self, first_weekday: int, length: int) -> list[int]:
        """The days that match in a month of that shape, ascending.

        Args:
            first_weekday: The weekday of its first day, Monday is 0.
            length: How many days it has.
        """
        days = self.day.values()
        if self.day.kind is DAY_FROM_END:
            days = [length + 1 - day for day in reversed(days)]
        return [
            day for day in days if day <= length and (first_weekday + day - 1) % 7 in self.weekdays
        ]


def _written_weekdays(weekdays: frozenset[int]) -> str:
    return ",".join(_runs(weekdays))


def _runs(weekdays: frozenset[int]) -> Iterator[str]:
    """Days in a row as a range, where that is shorter."""
    run: list[int] = []
    for day in [*sorted(weekdays), 8]:
        if run and day != run[-1] + 1:
            if len(run) >= RUN_MIN:
                yield f"{WEEKDAYS[run[0]]}..{WEEKDAYS[run[-1]]}"
            else:
                yield from (WEEKDAYS[each] for each in run)
            run = []
        run.append(day)
