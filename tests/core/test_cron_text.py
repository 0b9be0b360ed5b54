"""The text of a cron expression: what is one spelling of another, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from duly.errors import ScheduleInvalid
from duly.schedules import Cron, from_text


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("  30   2 * *  mon-Fri ", "30 2 * * MON-FRI"),
        ("0 30 2 * * *", "30 2 * * *"),
        ("00 30 2 * * *", "30 2 * * *"),
        ("0 0 l-3 * fril,mon#2", "0 0 L-3 * FRIL,MON#2"),
    ],
)
def test_cron_text_in_another_spelling_is_one_schedule(word: str, fields: str) -> None:
    """A word, blanks and case change nothing that is stored."""
    assert Cron(word) == Cron(fields)
    assert Cron(word).expression == fields
    assert hash(Cron(word)) == hash(Cron(fields))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * SUN", "0 0 * * 0"),
        ("0 0 * * FRI-SUN", "0 0 * * 5-7"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * JAN,dec *", "0 0 * 1,12 *"),
        ("0 0-23/6 * * *", "0 0,6,12,18 * * *"),
        ("05 08 * * *", "5 8 * * *"),
        ("0 0 * * */2", "0 0 * * 0,2,4,6"),
        ("0 0 * * 5L", "0 0 * * FRIL"),
        ("0 0 * * 7L", "0 0 * * 0L"),
        ("0 0 * * 7#2", "0 0 * * SUN#2"),
        ("0 0 L-30,L * 7", "0 0 L,L-30 * SUN"),
        ("0,30 0 2 * * *", "*/30 0 2 * * *"),
    ],
)
def test_cron_fields_of_equal_meaning_give_equal_times(one: str, other: str) -> None:
    """Names, 0 and 7, ranges and lists are spellings of the same days."""
    start, end = utc("2026-01-01T00:00Z"), utc("2027-01-01T00:00Z")

    assert list(Cron(one).between(start, end)) == list(Cron(other).between(start, end))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", r"has 0 fields; write five"),
        ("* * * *", r"has 4 fields; write five"),
        ("0 2 * * * root", r"day of week \(field 6 of 6, seconds first\), character 11: 'ROOT'"),
        ("0 2 * * * 30", r"day of week \(field 6 of 6, seconds first\).* 30 is not allowed"),
        ("60 0 2 * * *", r"second \(field 1 of 6, seconds first\), character 1: 60 is not"),
        ("0 0 24 * * *", r"hour \(field 3 of 6, seconds first\), character 5: 24 is not"),
        ("0 0 2 * * * *", r"has 7 fields; write five: .* or six with the second before them"),
        ("60 2 * * *", r"minute \(field 1\), character 1: 60 is not allowed; allowed are 0-59"),
        ("0 24 * * *", r"hour \(field 2\), character 3: 24 is not allowed; allowed are 0-23"),
        ("0 2 0 * *", r"day of month \(field 3\), character 5: 0 is not allowed; allowed are 1-31"),
        ("0 2 32 * *", r"day of month"),
        ("0 2 * 13 *", r"month \(field 4\), .* allowed are 1-12 or JAN-DEC"),
        ("0 2 * 0 *", r"month \(field 4\)"),
        ("0 2 * * 8", r"day of week \(field 5\), .* allowed are 0-7 or SUN-SAT"),
        ("0 2 * * FOO", r"FOO is not allowed"),
        ("0 2 * MON *", r"month \(field 4\).* MON is not allowed"),
        ("JAN 2 * * *", r"minute \(field 1\).* JAN is not allowed"),
        ("0 1,2,99 * * *", r"hour \(field 2\), character 7: 99"),
        ("0 22-4 * * *", r"'22-4' runs backwards; write it as two, such as 22-23,0-4"),
        ("0 0 * * SAT-MON", r"runs backwards"),
        ("5/15 * * * *", r"steps from a single value.* write 5-59/15"),
        ("*/0 * * * *", r"step 0 does not fit its range 0-59; allowed are 1 to 60"),
        ("*/90 * * * *", r"step 90 does not fit"),
        ("0 0 * * */8", r"step 8 does not fit its range 0-6; allowed are 1 to 7"),
        ("0 9-17/10 * * *", r"step 10 does not fit its range 9-17; allowed are 1 to 9"),
        ("1,,2 * * * *", r"'' is empty, a comma too many"),
        ("1, * * * *", r"is empty"),
        ("0 0 ? * MON", r"write \*"),
        ("-5 * * * *", r"cannot be read"),
        ("1.5 * * * *", r"cannot be read"),
        ("*5 * * * *", r"cannot be read"),
        ("0 0 1W * *", r"'1W' means the nearest weekday, .* write 1 in BusinessDays"),
        ("0 0 LW * *", r"character 5: 'LW' means the nearest weekday.* write L in BusinessDays"),
        ("0 0\u00a01 * *", r"has 4 fields"),
        ("0 0 1\u00a0* * *", r"day of month \(field 3\), character 5: '1\\xa0\*' cannot be read"),
        ("0 0 L-0 * *", r"'L-0' is not allowed; allowed are L for the last day and L-1 to L-30"),
        ("0 0 L-31 * *", r"'L-31' is not allowed"),
        ("0 0 1,L-99 * *", r"day of month \(field 3\), character 7: 'L-99' is not allowed"),
        ("0 0 L/2 * *", r"cannot be read; .* L and L-3, and lists"),
        ("0 0 1-L * *", r"cannot be read"),
        ("0 0 MON#2 * *", r"'MON#2' belongs to the day of week"),
        ("0 L * * *", r"hour \(field 2\), character 3: 'L' cannot be read"),
        ("0 0 * * L", r"alone is Saturday to some crons .* write SAT, or FRIL"),
        ("0 0 * * MON#6", r"'MON#6' is not allowed; allowed are #1 to #5, and MONL for the last"),
        ("0 0 * * MON#0", r"'MON#0' is not allowed"),
        ("0 0 * * FRI,9#1", r"day of week \(field 5\), character 13: 9 is not allowed"),
        ("0 0 * * JANL", r"JAN is not allowed; allowed are 0-7 or SUN-SAT"),
        ("0 0 * * MON-FRI#2", r"numbers a range; write each weekday by itself"),
        ("0 0 * * 1-5L", r"numbers a range"),
        ("0 0 * * 5#-1", r"cannot be read; .* MON#2 and FRIL"),
        ("0 0 * * MON#", r"cannot be read"),
        ("\u0663 * * * *", r"cannot be read"),
        ("9" * 900 + " * * * *", r"cannot be read"),
        ("* " * 600, r"too long"),
        ("0 0 30 2 *", r"never fires: no month of field 4 has day 30"),
        ("0 0 31 4,6,9,11 *", r"never fires"),
        ("0 0 30 2 */2", r"never fires"),
        ("0 0 31 2 *", r"never fires: no month of field 4 has day 31 of field 3"),
        ("0 0 0 31 2 *", r"never fires: no month of field 5 has day 31 of field 4"),
        ("0 0 L-29 2 *", r"never fires: no month of field 4 ever has a day that fields 3 and 5"),
        ("0 0 L-30 2,4 *", r"never fires"),
        ("0 0 */31 2 5#5", r"never fires"),
        ("0 0 30,31 2 */1", r"never fires"),
        ("@reboot", r"names no time"),
        ("@every 5m", r"is unknown; write one of @yearly"),
        ("@DAILY", r"is unknown; write one of"),
        ("CRON_TZ=UTC 0 2 * * *", r"give timezone="),
        (None, r"is text, not None"),
        (5, r"is text, not 5"),
    ],
)
def test_cron_text_that_cannot_be_read_is_refused_by_place(expression: Any, message: str) -> None:
    """A refusal is one line: the field, the place, and what is allowed."""
    with pytest.raises(ScheduleInvalid, match=message) as caught:
        Cron(expression)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 300


def test_cron_with_a_day_that_never_comes_still_fires_on_its_weekday() -> None:
    """Two restricted day fields mean either, so 30 February does no harm beside Monday."""
    assert Cron("0 0 30 2 MON").next(utc("2026-01-01T00:00Z")) == utc("2026-02-02T00:00Z")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gap": "jump"}, r"gap 'jump' is not allowed; allowed are skip, next, shift"),
        ({"fold": "twice"}, r"fold 'twice' is not allowed; allowed are first, last, both"),
        ({"dst": "quartz"}, r"dst 'quartz' is not allowed"),
        ({"timezone": "EST"}, r"abbreviation"),
        ({"timezone": None}, r"is a name"),
    ],
)
def test_cron_rule_that_is_unknown_is_refused(arguments: dict[str, Any], message: str) -> None:
    """A zone or a policy that is not known is never guessed."""
    with pytest.raises(ScheduleInvalid, match=message):
        Cron("0 2 * * *", **arguments)


@pytest.mark.parametrize(
    "expression", ["0 0 L-28 2 *", "0 0 29 2 *", "0 0 30 2 5#5", "0 0 */31 1 5#1"]
)
def test_cron_with_a_rare_day_is_not_refused(expression: str) -> None:
    """What some year has is a schedule, however rare."""
    assert Cron(expression).next(utc("2026-01-01T00:00Z")) is not None


def test_cron_text_with_a_plain_second_has_five_fields() -> None:
    """One set of times has one text; a second that says more than 0 stays."""
    assert Cron("0 30 2 * * *").text == "cron 30 2 * * *; zone=UTC; gap=next; fold=first"
    assert Cron("*/60 30 2 * * *").text == "cron */60 30 2 * * *; zone=UTC; gap=skip; fold=both"
    assert Cron("5 30 2 * * *").text == "cron 5 30 2 * * *; zone=UTC; gap=next; fold=first"
    assert from_text(Cron("5 30 2 * * *").text) == Cron("5 30 2 * * *")
