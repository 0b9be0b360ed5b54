"""Calendars: which days are business days, which names are known, and what a user may add."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import holidays
import pytest
from holidays.registry import COUNTRIES, FINANCIAL
from hypothesis import given, settings
from hypothesis import strategies as st

import duly
from duly._core.business_days import CLOSED_MAX, DATES_MAX, YEARS_MAX
from duly.calendars import Calendar, from_text, load
from duly.errors import ScheduleInvalid

DAY = timedelta(days=1)


def day(text: str) -> date:
    return date.fromisoformat(text)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("DE", "2026-01-01", False),
        ("DE", "2026-01-02", True),
        ("DE", "2026-01-03", False),
        ("DE", "2026-01-06", True),
        ("DE-BY", "2026-01-06", False),  # Epiphany is a holiday of Bavaria
        ("GB-SCT", "2026-04-06", True),  # Easter Monday is one of England, not of Scotland
        ("GB-ENG", "2026-04-06", False),
        ("XNYS", "2026-04-03", False),  # Good Friday closes the exchange, not the country
        ("US", "2026-04-03", True),
        ("XNYS", "2026-11-27", True),  # a half day
        ("XNYS", "2026-07-03", False),  # Independence Day, observed
        ("AE", "2026-06-05", True),  # a Friday; the weekend of the Emirates is not everybody's
        ("IL", "2026-06-05", False),  # Friday
        ("IL", "2026-06-07", True),  # Sunday
        ("SA", "2010-06-03", False),  # Thursday, weekend until 2013
        ("SA", "2026-06-04", True),
        ("CN", "2026-02-14", True),  # a Saturday, worked in exchange for a day of the New Year
        ("CN", "2025-01-26", True),  # a Sunday, as well
        ("CN", "2026-02-20", False),
        ("CN", "2011-12-31", True),  # a Saturday, in exchange for a day of the next year
        ("XSHG", "2026-02-14", False),  # the exchange does not work it
        ("XNYS", "1914-09-01", False),
        ("XNYS", "1950-03-04", True),  # a Saturday, when it still traded on them
    ],
)
def test_day_is_a_business_day_as_the_library_knows_it(name: str, text: str, expected: Any) -> None:
    """Weekends, holidays, exchanged days and half days are those of the place and the year."""
    assert load(name).is_business_day(day(text)) is expected


@settings(deadline=None)  # the library is slow to load
@given(
    st.sampled_from(["DE", "CN", "RU", "US-CA", "IN", "XNYS", "IL", "KW", "JP", "LK"]),
    st.data(),
)
def test_calendar_agrees_with_the_library_asked_for_one_day(name: str, data: Any) -> None:
    """Whatever was asked before, the answer is that of the library for the years around."""
    calendar = load(name)
    years = st.integers(calendar.first_year + 1, calendar.last_year - 1)
    year = data.draw(years)
    when = data.draw(st.dates(date(year, 1, 1), date(year, 12, 31)))
    code, _, part = name.partition("-")
    make = holidays.financial_holidays if name == "XNYS" else holidays.country_holidays
    fresh = make(code, subdiv=part or None, years=(year - 1, year, year + 1), expand=False)

    assert calendar.is_business_day(when) == fresh.is_working_day(when)


def test_every_calendar_of_the_library_knows_its_first_and_last_year() -> None:
    """No name that is accepted fails or warns when it is used, at either end."""
    names = [name[1] for name in COUNTRIES.values()]
    names += [code for known in FINANCIAL.values() for code in known[1:]]

    assert len(names) > 250
    for name in names:
        calendar = load(name)
        assert 1 <= calendar.first_year <= calendar.last_year
        assert calendar.last_year - calendar.first_year < YEARS_MAX
        for ordinary in (date(calendar.first_year, 6, 1), date(calendar.last_year, 6, 1)):
            assert calendar.next_business_day(ordinary) is not None


def test_calendar_does_not_depend_on_the_language_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library reads the environment for names of holidays; the days stay the same."""
    found = []
    for language in ("en_US", "th", "de", ""):
        monkeypatch.setenv("LANGUAGE", language)
        fresh = [Calendar("c", base=name, weekend=("SUN",)) for name in ("CN", "DE", "SA", "XNYS")]
        found.append(
            [
                calendar.is_business_day(date(2025, 1, 1) + n * DAY)
                for calendar in fresh
                for n in range(730)
            ]
        )

    assert all(one == other for one, other in pairwise(found))


def test_library_is_loaded_only_for_a_calendar_of_its_data() -> None:
    """Importing duly, a cron schedule or a list of one's own does not pay for the library."""
    code = """
import sys, duly
duly.Cron("0 9 * * *")
duly.BusinessDays("0 9 * * *", duly.Calendar("own", holidays=["2026-12-24"]))
assert "holidays" not in sys.modules
duly.BusinessDays("0 9 * * *", "DE")
assert "holidays" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_calendar_tells_the_release_of_its_data_and_does_not_store_it() -> None:
    """The version can be recorded beside a decision; the text is the same under every release."""
    assert load("DE").version == holidays.__version__  # type: ignore[attr-defined]
    assert Calendar("own", base="DE", holidays=["2026-12-24"]).version == load("DE").version
    assert Calendar("own", holidays=["2026-12-24"]).version is None
    assert load("DE").text == "DE"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("de", r"calendar 'de' is spelt otherwise; write DE$"),
        ("xnys", r"write XNYS$"),
        ("de-by", r"write DE-BY$"),
        ("DE_BY", r"write DE-BY$"),
        ("DE-by", r"is in another case; write DE-BY$"),
        ("au-nsw western", r"write AU-NSW Western$"),
        ("DEU", r"is another name of DE; write DE$"),
        ("UK", r"is another name of GB; write GB$"),
        ("Germany", r"is another name of DE; write DE$"),
        ("united states", r"is another name of US; write US$"),
        ("Germny", r"is unknown; did you mean DE\?$"),
        ("XNYX", r"is unknown; did you mean XNYS\?$"),
        ("DE-Bayern", r"is another name; write DE-BY$"),
        ("DE-Bayer", r"is unknown; did you mean DE-BY\?$"),
        ("DE-XX", r"is unknown; the subdivisions of DE are BB, BE, BW, BY, "),
        ("DE-", r"is unknown; the subdivisions of DE are"),
        ("XNYS-NY", r"is unknown: XNYS has no subdivisions; write XNYS$"),
        ("QQQQQQ", r"is unknown to holidays [0-9.]+; give a country such as DE"),
        ("", r"is unknown to holidays"),
        ("HolidayBase", r"is unknown"),
        ("D\nE", r"calendar 'D\\nE' is unknown"),
        ("x" * 5000, r"\(5000 characters\) is unknown"),
        (None, r"a calendar is a name or a duly.Calendar, not None"),
        (["DE"], r"a calendar is a name or a duly.Calendar, not a value of type list"),
    ],
)
def test_calendar_name_that_is_unknown_is_refused_with_the_next_step(
    name: Any, message: str
) -> None:
    """Another case, another name or a slip is told what to write, in one line."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        load(name)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 400


def test_calendar_of_ones_own_adds_days_to_its_base() -> None:
    """A company's holidays close, its working days open, and the rest is the base's."""
    bank = Calendar(
        "bank", base="DE", holidays=[date(2026, 12, 24), "2026-12-31"], workdays=["2026-12-26"]
    )

    assert not bank.is_business_day(day("2026-12-24"))
    assert not bank.is_business_day(day("2026-12-25"))
    assert bank.is_business_day(day("2026-12-26"))  # a Saturday and a holiday of the base
    assert not bank.is_business_day(day("2026-12-31"))
    assert bank.is_business_day(day("2027-12-31"))
    assert (bank.first_year, bank.last_year) == (load("DE").first_year, load("DE").last_year)


def test_calendar_with_a_weekend_of_its_own_keeps_the_holidays_of_its_base() -> None:
    """Only the weekend is replaced; what the base works in exchange stays worked."""
    shop = Calendar("shop", base="DE", weekend=("SUN",))
    china = Calendar("china", base="CN", weekend=("SAT", "SUN", "MON"))

    assert shop.is_business_day(day("2026-01-03"))  # Saturday
    assert not shop.is_business_day(day("2026-01-04"))
    assert not shop.is_business_day(day("2026-10-03"))  # a holiday on a Saturday
    assert china.is_business_day(day("2026-02-14"))
    assert not china.is_business_day(day("2026-03-02"))


def test_calendar_without_a_base_knows_the_years_that_it_lists() -> None:
    """The year after the last holiday that somebody wrote down is unknown, not free of them."""
    own = Calendar("own", holidays=["2026-12-24", "2027-12-24", "2026-12-24"])

    assert own.weekend == ("SAT", "SUN")
    assert own.holidays == (day("2026-12-24"), day("2027-12-24"))
    assert (own.first_year, own.last_year) == (2026, 2027)
    with pytest.raises(ScheduleInvalid, match="knows the years 2026 to 2027, not 2028; ask within"):
        own.is_business_day(day("2028-01-03"))
    assert own.next_business_day(day("2027-12-30")) == day("2027-12-31")
    assert own.next_business_day(day("2027-12-31")) is None
    assert own.previous_business_day(day("2026-01-01")) is None
    assert Calendar("own", holidays=["2026-12-24"], years=(2026, 2030)).last_year == 2030
    assert Calendar("weekends", weekend=("FRI",)).next_business_day(day("2100-12-31")) is None


def test_business_day_before_and_after_a_day_are_other_days() -> None:
    """Neighbours are strict, whether the day itself is a business day or not."""
    nyse = load("XNYS")

    assert nyse.next_business_day(day("2026-07-02")) == day("2026-07-06")
    assert nyse.previous_business_day(day("2026-07-06")) == day("2026-07-02")
    assert nyse.next_business_day(day("2026-07-04")) == day("2026-07-06")
    assert nyse.previous_business_day(day("2026-07-04")) == day("2026-07-02")
    assert nyse.next_business_day(day("1914-07-30")) == day("1914-11-28")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (datetime(2026, 1, 2, tzinfo=UTC), r"a business day is a date, not"),
        ("2026-01-02", r"a business day is a date, not '2026-01-02'"),
        (None, r"a business day is a date, not None"),
        (date(1066, 10, 14), r"calendar 'DE' knows the years 1991 to [0-9]+, not 1066"),
    ],
)
@pytest.mark.parametrize(
    "question", ["is_business_day", "next_business_day", "previous_business_day"]
)
def test_calendar_asked_about_no_day_of_its_years_refuses(
    question: str, asked: Any, message: str
) -> None:
    """An instant has no day without a zone, and an unknown year has no answer."""
    with pytest.raises(ScheduleInvalid, match=message):
        getattr(load("DE"), question)(asked)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"calendar 'c' has no holidays; give holidays=, base= .* or weekend="),
        ({"name": "bank holidays", "base": "DE"}, r"calendar name 'bank holidays' is not allowed"),
        ({"name": "a(b", "base": "DE"}, r"calendar name 'a\(b' is not allowed"),
        ({"name": 5, "base": "DE"}, r"calendar name 5 is not allowed"),
        ({"base": "de"}, r"calendar 'de' is spelt otherwise; write DE"),
        ({"base": 5}, r"a calendar is a name or a duly.Calendar, not 5"),
        ({"holidays": "2026-12-24"}, r"holidays= is a list, not '2026-12-24'"),
        ({"holidays": 5}, r"holidays= is a list, not 5"),
        ({"holidays": ["24.12.2026"]}, r"holidays= holds '24.12.2026', which is no date"),
        ({"holidays": ["20261224"]}, r"holds '20261224', which is no date"),
        ({"holidays": ["2026-02-30"]}, r"holds '2026-02-30', which is no date"),
        ({"workdays": [datetime(2026, 1, 1, tzinfo=UTC)]}, r"workdays= holds .* which is no date"),
        (
            {"holidays": ["2026-12-24"], "workdays": ["2026-12-24"]},
            r"lists 2026-12-24 as a holiday and as a workday; keep one",
        ),
        (
            {"holidays": (date(1, 1, 1) + n * DAY for n in range(10**9))},
            rf"holidays= holds more than {DATES_MAX} entries",
        ),
        ({"weekend": "SAT"}, r"weekend= is a list, not 'SAT'"),
        ({"weekend": ("Sat",)}, r"weekend day 'Sat' is not allowed; allowed are MON, TUE"),
        ({"weekend": (5,)}, r"weekend day 5 is not allowed"),
        (
            {"weekend": ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")},
            r"a weekend of all seven days leaves no business day",
        ),
        ({"holidays": ["2030-01-01"], "years": (2026, 2027)}, r"lists a day of 2030 and knows"),
        ({"holidays": ["2020-01-01"], "years": (2026, 2027)}, r"lists a day of 2020 and knows"),
        ({"holidays": ["1066-10-14"], "base": "DE"}, r"lists a day of 1066 and knows the years"),
        ({"weekend": (), "years": (2027, 2026)}, r"years= is .*, not \(2027, 2026\); give a pair"),
        ({"weekend": (), "years": (1, 9999)}, r"at most 400 years"),
        ({"weekend": (), "years": 2026}, r"years= is the first and the last year .* not 2026"),
        ({"weekend": (), "years": (0, 5)}, r"not \(0, 5\)"),
        ({"base": "DE", "years": (1900, 2030)}, r"goes beyond calendar 'DE', which knows 1991"),
        (
            {"holidays": [date(2026, 1, 1) + n * DAY for n in range(365)]},
            rf"no business day for more than {CLOSED_MAX} days after 2026-01-01",
        ),
        (
            {"base": "DE", "holidays": [date(2026, 2, 1) + n * DAY for n in range(400)]},
            r"no business day for more than 300 days after 2026-02-01",
        ),
    ],
)
def test_calendar_of_ones_own_that_makes_no_sense_is_refused(
    arguments: dict[str, Any], message: str
) -> None:
    """A definition that contradicts itself, or cannot be read, says so in one line."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        Calendar(**{"name": "c"} | arguments)

    assert "\n" not in caught.value.message


def test_calendar_closed_for_a_season_is_allowed() -> None:
    """A long closure is a fact; only a year without a business day is a mistake."""
    season = Calendar("season", holidays=[date(2026, 1, 1) + n * DAY for n in range(200)])

    assert season.next_business_day(day("2026-01-01")) == day("2026-07-20")


own = st.builds(
    lambda name, off, on, weekend, base: Calendar(
        name, holidays=off, workdays=on - off, weekend=weekend, base=base
    ),
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True),
    st.sets(st.dates(date(2000, 1, 1), date(2030, 12, 31)), min_size=1, max_size=20),
    st.sets(st.dates(date(2000, 1, 1), date(2030, 12, 31)), max_size=20),
    st.sets(st.sampled_from(["MON", "FRI", "SAT", "SUN"])) | st.none(),
    st.sampled_from([None, "DE", "US-CA", "XNYS"]),
)


@settings(deadline=None)  # the library is slow to load
@given(own)
def test_calendar_of_ones_own_survives_text_pickling_and_repr(calendar: Calendar) -> None:
    """All its content is in its text, so what is rebuilt answers the same."""
    rebuilt: tuple[Any, ...] = (
        from_text(calendar.text),
        pickle.loads(pickle.dumps(calendar)),  # noqa: S301 - our own bytes
        eval(repr(calendar)),  # noqa: S307 - our own text
    )

    for again in rebuilt:
        assert again == calendar
        assert hash(again) == hash(calendar)
        assert (again.first_year, again.last_year) == (calendar.first_year, calendar.last_year)
        year = calendar.holidays[0].year
        for n in range(365):
            when = date(year, 1, 1) + n * DAY
            assert again.is_business_day(when) == calendar.is_business_day(when)


@pytest.mark.parametrize("text", ["", "(base=DE)", "x(base=DE", "x(color=red)", "x()y"])
def test_calendar_text_of_another_form_is_not_read(text: str) -> None:
    """What another version wrote is not read in part."""
    assert from_text(text) is None


def test_calendar_is_a_public_name() -> None:
    """Users reach it beside the schedules."""
    assert duly.Calendar is Calendar
    assert Calendar("DE", base="DE") == load("DE")
    assert Calendar("own", base="DE") != load("DE")
    assert load("DE") != "DE"
