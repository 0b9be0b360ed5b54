"""Business-day calendars: by name from the `holidays` library, or a user's own.

Decides which names are accepted and what the library's data says of a year. Must never import
the library before its data is asked for (it is slow to load), and must never answer for a year
that the library does not know.
"""

from __future__ import annotations

import difflib
import re
from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from duly._core.business_days import OwnCalendar
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holidays import HolidayBase

__all__ = ["Calendar", "from_text", "load"]

EXAMPLE: Final = "give a country such as DE, a part of one such as DE-BY, or a market such as XNYS"
TEXT: Final = re.compile(r"([^()]+)(?:\(([^()]*)\))?")

SEPARATOR: Final = re.compile(r"[-_/ ]")

# Where the data ends before the library says so: it warns, and leaves holidays out.
KNOWN_YEARS: Final = {"IN": (2001, 2035)}


class Calendar(OwnCalendar):
    """Which days are business days: those that are neither weekend nor holiday.

    A calendar of the library has its country's weekend, the days off that it moves to a
    weekday, and the weekend days that are worked in exchange. Only full public holidays close
    a day: a half holiday, a bank, school or optional holiday leaves it a business day. What
    the library expects of the future (moon sightings, decrees not yet published) can change
    with its release. Outside the years that it knows, a calendar answers nothing.

    Attributes:
        name: What it is called.
        base: The calendar of the library that it starts from, or None.
        holidays: The days that it closes besides, ascending.
        workdays: The days that it works besides, ascending.
        weekend: The days of its weekend; None if they are the base's.
        first_year: The first year that it knows.
        last_year: The last year that it knows.
        version: The release of the library that answers, such as `0.109`; None without a base.
    """

    def __init__(
        self,
        name: str,
        *,
        holidays: Iterable[date | str] = (),
        workdays: Iterable[date | str] = (),
        weekend: Iterable[str] | None = None,
        base: str | None = None,
        years: tuple[int, int] | None = None,
    ) -> None:
        """Check the definition and load the base.

        Args:
            name: Letters, digits, `.`, `_` and `-`.
            holidays: Days that are no business days, as dates or ISO text.
            workdays: Days that are business days, whatever the weekend and the base say.
            weekend: Days such as `("SAT", "SUN")`; by default the base's, else these two.
            base: A name that `load` accepts.
            years: The first and the last year that the calendar knows; by default the base's,
                else those of the dates listed, else 1901 to 2100.

        Raises:
            ScheduleInvalid: A name, date, day or year that cannot be read, is unknown or
                contradicts another, too many dates, or a calendar without business days.
        """
        source = None if base is None else _library(base)
        super().__init__(
            name, holidays=holidays, workdays=workdays, weekend=weekend, base=source, years=years
        )
        self.base = base
        self.version = None if source is None else source.version

    def __repr__(self) -> str:
        given = {"base": self.base, "weekend": self.weekend}
        arguments = [repr(self.name), *(f"{k}={v!r}" for k, v in given.items() if v is not None)]
        for key, dates in (("holidays", self.holidays), ("workdays", self.workdays)):
            if dates:
                arguments.append(f"{key}={[str(day) for day in dates]!r}")
        if self._says_years:
            arguments.append(f"years={(self.first_year, self.last_year)!r}")
        return f"Calendar({', '.join(arguments)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # The library's objects are large and are loaded again by name.
        return from_text, (self.text,)


def load(name: str) -> Calendar:
    """The calendar of that name, from the `holidays` library.

    Args:
        name: A country (`DE`), a subdivision by its code in the library, which is that of
            ISO 3166-2 (`DE-BY`), or a market (`XNYS`).

    Raises:
        ScheduleInvalid: The library has no calendar of that name; the message says what to
            write.
    """
    _must_be_text(name)
    return Calendar(name, base=name)


def from_text(text: str) -> Calendar | None:
    """The calendar that a schedule's canonical text names; None if it is of another form."""
    if (match := TEXT.fullmatch(text)) is None:
        return None
    name, content = match.groups()
    if content is None:
        return load(name)
    parts = dict(part.partition("=")[::2] for part in content.split("; "))
    years = tuple(int(year) for year in parts.pop("years", "").split("-") if year.isdecimal())
    base = parts.pop("base", None)
    lists = {key: [item for item in value.split(",") if item] for key, value in parts.items()}
    if not lists.keys() <= {"holidays", "workdays", "weekend"}:
        return None
    return Calendar(name, base=base, years=years or None, **lists)  # type: ignore[arg-type]


class _Library:
    """One calendar of the library; the base of a `Calendar`."""

    def __init__(self, name: str, code: str, part: str | None) -> None:
        from holidays.version import __version__

        self.name = name
        self.version: str = __version__
        self._code = code
        self._part = part
        sample = self._of()
        self.first_year, self.last_year = sample.start_year, sample.end_year
        if code in KNOWN_YEARS:
            self.first_year, self.last_year = KNOWN_YEARS[code]

    def days_off(self, year: int, weekend: frozenset[int] | None) -> set[date]:
        """The days of a known year that are no business days; Monday is 0 in *weekend*."""
        data = self._of(year)
        first, last = date(year, 1, 1).toordinal(), date(year, 12, 31).toordinal()
        days = [date.fromordinal(ordinal) for ordinal in range(first, last + 1)]
        if weekend is None:
            return {day for day in days if not data.is_working_day(day)}
        return {
            day
            for day in days
            if day not in data.weekend_workdays and (day.weekday() in weekend or day in data)
        }

    def _of(self, *years: int) -> HolidayBase:
        import holidays

        market = self._code in _names()[1]
        make = holidays.financial_holidays if market else holidays.country_holidays
        return make(self._code, subdiv=self._part, years=years, expand=False)


def _library(name: str) -> _Library:
    """The library's calendar of that name.

    Raises:
        ScheduleInvalid: There is none.
    """
    _must_be_text(name)
    return _read(name)


@cache
def _read(name: str) -> _Library:
    code, hyphen, part = name.partition("-")
    if code not in _names()[0] | _names()[1]:
        raise ScheduleInvalid(f"calendar {shown(name)} {_why_not(name)}")
    if hyphen and part not in _parts(code)[0]:
        raise ScheduleInvalid(f"calendar {shown(name)} {_why_no_part(code, part)}")
    return _Library(name, code, part or None)


@cache
def _names() -> tuple[frozenset[str], frozenset[str]]:
    """The codes of countries (of two letters), and those of markets, other names included."""
    from holidays.registry import COUNTRIES, FINANCIAL

    countries = frozenset(names[1] for names in COUNTRIES.values())
    return countries, frozenset(code for names in FINANCIAL.values() for code in names[1:])


def _parts(code: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The subdivisions of a country, and other names of theirs."""
    import holidays

    entity = getattr(holidays, code)
    return tuple(entity.subdivisions), dict(entity.subdivisions_aliases)


def _must_be_text(name: Any) -> None:
    if not isinstance(name, str):
        raise ScheduleInvalid(
            f"a calendar is a name or a duly.Calendar, not {shown(name)}; {EXAMPLE}"
        )


def _why_not(name: str) -> str:
    """Why a name of no calendar is refused, and the next step."""
    from holidays.registry import COUNTRIES, FINANCIAL
    from holidays.version import __version__

    accepted = {code.casefold(): code for code in _names()[0] | _names()[1]}
    others = {
        other.casefold().replace("_", " "): names[1]
        for registry in (FINANCIAL, COUNTRIES)
        for module, names in registry.items()
        for other in (module, names[0], *names[2:])
    }
    code, rest = SEPARATOR.split(name, maxsplit=1) if SEPARATOR.search(name) else (name, "")
    if code.casefold() in accepted:
        meant = accepted[code.casefold()]
        parts = {part.casefold(): part for part in _parts(meant)[0]}
        written = f"-{parts.get(rest.casefold(), rest.upper())}" if rest else ""
        why = f"is spelt otherwise; write {meant}{written}"
    elif (known := others.get(name.casefold().replace("_", " "))) is not None:
        why = f"is another name of {known}; write {known}"
    elif near := difflib.get_close_matches(name.casefold(), accepted | others, n=1):
        why = f"is unknown; did you mean {(accepted | others)[near[0]]}?"
    else:
        why = f"is unknown to holidays {__version__}; {EXAMPLE}"
    return why


def _why_no_part(code: str, part: str) -> str:
    """Why a subdivision is refused, and the next step."""
    known, others = _parts(code)
    folded = {name.casefold(): name for name in known}
    spelt = {name.casefold(): meant for name, meant in others.items()}
    if not known:
        why = f"is unknown: {code} has no subdivisions; write {code}"
    elif part.casefold() in folded:
        why = f"is in another case; write {code}-{folded[part.casefold()]}"
    elif part.casefold() in spelt:
        why = f"is another name; write {code}-{spelt[part.casefold()]}"
    elif near := difflib.get_close_matches(part.casefold(), folded | spelt, n=1):
        why = f"is unknown; did you mean {code}-{(folded | spelt)[near[0]]}?"
    else:
        some = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
        why = f"is unknown; the subdivisions of {code} are {some}"
    return why
