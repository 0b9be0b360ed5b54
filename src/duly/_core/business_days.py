"""A calendar's own content: a base, the days that a user adds to it, and what they make.

Decides which days are business days, which years are known, and the canonical text. Must
never load a base or know where it comes from, and must never take a day for a business day
because the holidays of its year are unknown.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CLOSED_MAX", "DATES_MAX", "WEEK", "BaseDays", "OwnCalendar"]

WEEK: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ISO: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

# The dates are part of the canonical text, which is stored with each revision of a job.
DATES_MAX: Final = 1000

# The years of a calendar that has no base and lists no date, and the most that any may claim:
# whoever looks through all of them must come to an end.
DEFAULT_YEARS: Final = (1901, 2100)
YEARS_MAX: Final = 400

# A list that closes a calendar for so many days in a row was meant as something else.
CLOSED_MAX: Final = 300

DAY: Final = timedelta(days=1)


class BaseDays(Protocol):
    """Whose weekend and holidays a calendar starts from."""

    @property
    def name(self) -> str:
        """The name that loads it again."""
        ...

    @property
    def first_year(self) -> int:
        """The first year that it knows."""
        ...

    @property
    def last_year(self) -> int:
        """The last year that it knows."""
        ...

    def days_off(self, year: int, weekend: frozenset[int] | None) -> set[date]:
        """The days of a known year that are no business days; Monday is 0 in *weekend*."""
        ...


class OwnCalendar:
    """Which days are business days, from a base and from lists of days; see `duly.Calendar`."""

    def __init__(
        self,
        name: str,
        *,
        holidays: Iterable[date | str] = (),
        workdays: Iterable[date | str] = (),
        weekend: Iterable[str] | None = None,
        base: BaseDays | None = None,
        years: tuple[int, int] | None = None,
    ) -> None:
        """Check the definition.

        Raises:
            ScheduleInvalid: A name, date, day or year that cannot be read or contradicts
                another, too many dates, or a calendar without business days.
        """
        self._base = base
        self.name = name if base is not None and name == base.name else _name(name)
        self.holidays = _dates("holidays", holidays)
        self.workdays = _dates("workdays", workdays)
        if weekend is None and base is None:
            self._must_list_something()
            weekend = ("SAT", "SUN")
        self.weekend = None if weekend is None else _weekend(weekend)
        self._weekend = None if self.weekend is None else frozenset(map(WEEK.index, self.weekend))
        self._says_years = base is None or years is not None
        self.first_year, self.last_year = self._known_years(years)
        self._off: dict[int, frozenset[date]] = {}
        self._must_agree()

    @property
    def text(self) -> str:
        """How a canonical text names the calendar, with all its content: enough to rebuild it."""
        parts = {
            "base": None if self._base is None else self._base.name,
            "weekend": None if self.weekend is None else ",".join(self.weekend),
            "holidays": ",".join(map(str, self.holidays)) or None,
            "workdays": ",".join(map(str, self.workdays)) or None,
            "years": f"{self.first_year}-{self.last_year}" if self._says_years else None,
        }
        said = {key: value for key, value in parts.items() if value is not None}
        if said == {"base": self.name}:
            return self.name
        return f"{self.name}({'; '.join(f'{key}={value}' for key, value in said.items())})"

    def is_business_day(self, day: date) -> bool:
        """Whether *day* is a business day.

        Raises:
            ScheduleInvalid: *day* is no date, or lies in a year that the calendar does not know.
        """
        # A schedule asks this of every day of a year, and the year is nearly always there.
        off = self._off.get(day.year) if type(day) is date else None
        return day not in (off if off is not None else self._off_in_year_of(day))

    def next_business_day(self, after: date) -> date | None:
        """The first business day after *after*; None past the last year that it knows.

        Raises:
            ScheduleInvalid: As for `is_business_day`.
        """
        return self._nearest(after, 1)

    def previous_business_day(self, before: date) -> date | None:
        """The last business day before *before*; None before the first year that it knows.

        Raises:
            ScheduleInvalid: As for `is_business_day`.
        """
        return self._nearest(before, -1)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, OwnCalendar) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def _nearest(self, day: date, step: int) -> date | None:
        self._off_in_year_of(day)
        first = date(self.first_year, 1, 1).toordinal()
        last = date(self.last_year, 12, 31).toordinal()
        ordinal = day.toordinal() + step
        while first <= ordinal <= last:
            if self.is_business_day(found := date.fromordinal(ordinal)):
                return found
            ordinal += step
        return None

    def _off_in_year_of(self, day: Any) -> frozenset[date]:
        if not isinstance(day, date) or isinstance(day, datetime):
            raise ScheduleInvalid(
                f"a business day is a date, not {shown(day)}; give one such as date(2026, 12, 24)"
            )
        if not self.first_year <= day.year <= self.last_year:
            raise ScheduleInvalid(
                f"calendar {shown(self.name)} knows the years {self.first_year} to "
                f"{self.last_year}, not {day.year}; ask within them, or give a calendar that "
                "knows more"
            )
        if day.year not in self._off:
            self._off[day.year] = self._off_in(day.year)
        return self._off[day.year]

    def _off_in(self, year: int) -> frozenset[date]:
        if self._base is not None:
            off = self._base.days_off(year, self._weekend)
        else:
            first, last = date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
            days = map(date.fromordinal, range(first, last + 1))
            off = {day for day in days if day.weekday() in (self._weekend or ())}
        return frozenset(off.union(self.holidays).difference(self.workdays))

    def _known_years(self, given: Any) -> tuple[int, int]:
        listed = sorted(day.year for day in (*self.holidays, *self.workdays))
        if given is not None:
            first, last = _years(given)
        elif self._base is not None:
            first, last = self._base.first_year, self._base.last_year
        else:
            # What follows the last year that somebody has looked into is unknown.
            first, last = (listed[0], listed[-1]) if listed else DEFAULT_YEARS
        if self._base is not None:
            _must_lie_within(first, last, self._base)
        if listed and not first <= listed[0] <= listed[-1] <= last:
            year = listed[0] if listed[0] < first else listed[-1]
            raise ScheduleInvalid(
                f"calendar {shown(self.name)} lists a day of {year} and knows the years {first} "
                f"to {last}; leave the day out, or widen years="
            )
        return first, last

    def _must_list_something(self) -> None:
        if not self.holidays and not self.workdays:
            raise ScheduleInvalid(
                f"calendar {shown(self.name)} has no holidays; give holidays=, base= with a "
                'calendar such as "DE", or weekend= if only weekends count'
            )

    def _must_agree(self) -> None:
        """Refuse days listed twice over, and a list that leaves no business day for long."""
        if both := set(self.holidays) & set(self.workdays):
            raise ScheduleInvalid(
                f"calendar {shown(self.name)} lists {min(both)} as a holiday and as a workday; "
                "keep one"
            )
        reached = date.min
        for day in self.holidays:
            if day < reached:
                continue
            following = self.next_business_day(day)
            reached = following or date(self.last_year, 12, 31)
            if (reached - day).days > CLOSED_MAX:
                raise ScheduleInvalid(
                    f"calendar {shown(self.name)} has no business day for more than {CLOSED_MAX} "
                    f"days after {day}; list fewer holidays"
                )


def _name(given: Any) -> str:
    if not isinstance(given, str) or NAME.fullmatch(given) is None:
        raise ScheduleInvalid(
            f"calendar name {shown(given)} is not allowed; allowed are letters, digits, '.', '_' "
            "and '-', at most 100, a letter or digit first"
        )
    return given


def _dates(what: str, given: Any) -> tuple[date, ...]:
    """The days of a list, ascending, each once."""
    dates = {_date(what, item) for item in _items(what, given, "[date(2026, 12, 24)]")}
    return tuple(sorted(dates))


def _date(what: str, given: Any) -> date:
    if isinstance(given, date) and not isinstance(given, datetime):
        return date(given.year, given.month, given.day)
    if isinstance(given, str) and ISO.fullmatch(given):
        try:
            return date.fromisoformat(given)
        except ValueError:
            pass
    raise ScheduleInvalid(
        f"{what}= holds {shown(given)}, which is no date; give date(2026, 12, 24) or '2026-12-24'"
    )


def _weekend(given: Any) -> tuple[str, ...]:
    days = _items("weekend", given, '("SAT", "SUN")')
    for day in days:
        if day not in WEEK:
            raise ScheduleInvalid(
                f"weekend day {shown(day)} is not allowed; allowed are {', '.join(WEEK)}"
            )
    if len(set(days)) == len(WEEK):
        raise ScheduleInvalid(
            "a weekend of all seven days leaves no business day; leave one out of weekend="
        )
    return tuple(day for day in WEEK if day in days)


def _items(what: str, given: Any, example: str) -> list[Any]:
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        raise ScheduleInvalid(f"{what}= is a list, not {shown(given)}; give one such as {example}")
    items = list(islice(given, DATES_MAX + 1))
    if len(items) > DATES_MAX:
        raise ScheduleInvalid(
            f"{what}= holds more than {DATES_MAX} entries; leave out years that are past, or name "
            "a base= that has them"
        )
    return items


def _years(given: Any) -> tuple[int, int]:
    match given:
        case (int(first), int(last)) if 1 <= first <= last <= 9999 and last - first < YEARS_MAX:
            return int(first), int(last)
        case (int(first), int(last)):
            said = f"({shown(first)}, {shown(last)})"
        case _:
            said = shown(given)
    raise ScheduleInvalid(
        f"years= is the first and the last year that the calendar knows, not {said}; give a pair "
        f"such as (2025, 2027), from 1 to 9999 and at most {YEARS_MAX} years"
    )


def _must_lie_within(first: int, last: int, base: BaseDays) -> None:
    if not base.first_year <= first <= last <= base.last_year:
        raise ScheduleInvalid(
            f"years=({first}, {last}) goes beyond calendar {shown(base.name)}, which knows "
            f"{base.first_year} to {base.last_year}; give years within them"
        )
