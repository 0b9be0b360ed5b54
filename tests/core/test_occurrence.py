"""Identity: which occurrences are equal, and the one text of each key."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from duly._core.instants import format_instant, from_us, parse_instant, to_us
from duly._core.occurrence import CORRECTION_MAX, PARTITION_MAX, Occurrence
from duly.errors import KeyInvalid, NominalTimeInvalid

DAY = datetime(2026, 9, 13, tzinfo=UTC)

jobs = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,99}", fullmatch=True)
instants = st.datetimes(timezones=st.just(UTC))
partitions = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=PARTITION_MAX
)
occurrences = st.builds(Occurrence, jobs, instants, partitions, st.integers(1, CORRECTION_MAX))


@pytest.mark.parametrize(
    ("occurrence", "key"),
    [
        (Occurrence("daily-credit", DAY), "daily-credit:2026-09-13T00:00:00Z"),
        (
            Occurrence("j", DAY + timedelta(microseconds=1500)),
            "j:2026-09-13T00:00:00.001500Z",
        ),
        (Occurrence("j", DAY, "a b/ä~:#%"), "j:2026-09-13T00:00:00Z:a%20b%2F%C3%A4~%3A%23%25"),
        (Occurrence("j", DAY, correction=2), "j:2026-09-13T00:00:00Z#2"),
        (Occurrence("j", DAY, "p", 3), "j:2026-09-13T00:00:00Z:p#3"),
        (Occurrence("j", datetime(1, 1, 1, tzinfo=UTC)), "j:0001-01-01T00:00:00Z"),
    ],
)
def test_key_of_an_occurrence_is_the_documented_text(occurrence: Occurrence, key: str) -> None:
    """The canonical text is what the documentation says, character by character."""
    assert occurrence.key == key
    assert str(occurrence) == key
    assert Occurrence.parse(key) == occurrence


@given(occurrences)
def test_key_parsed_after_formatting_gives_the_same_occurrence(occurrence: Occurrence) -> None:
    """Parsing what was formatted gives the same occurrence, whatever the partition's text."""
    parsed = Occurrence.parse(occurrence.key)

    assert parsed == occurrence
    assert hash(parsed) == hash(occurrence)
    assert parsed.key == occurrence.key
    assert occurrence.key.isascii()


@given(st.lists(occurrences, unique=True, min_size=2, max_size=6))
def test_keys_of_different_occurrences_differ(several: list[Occurrence]) -> None:
    """No two identities share a key."""
    assert len({occurrence.key for occurrence in several}) == len(several)


@given(st.text(max_size=60))
@example("j:2026-09-13T00:00:00Z:\u0661")
@example("j:2026-09-13T00:00:00Z#1")
def test_key_text_that_parses_is_written_back_unchanged(text: str) -> None:
    """Parse accepts nothing that format would not write."""
    try:
        occurrence = Occurrence.parse(text)
    except KeyInvalid:
        return
    assert occurrence.key == text


@given(
    st.datetimes(timezones=st.just(UTC)).filter(lambda instant: 1 < instant.year < 9999),
    st.integers(-1439, 1439),
    st.integers(-1439, 1439),
)
def test_equal_instants_in_other_zones_give_one_key(
    instant: datetime, one_minutes: int, other_minutes: int
) -> None:
    """The zone is no part of the identity."""
    one = instant.astimezone(timezone(timedelta(minutes=one_minutes)))
    other = instant.astimezone(timezone(timedelta(minutes=other_minutes)))

    assert Occurrence("j", one) == Occurrence("j", other)
    assert Occurrence("j", one).key == Occurrence("j", other).key


def test_repeated_hour_of_a_zone_gives_two_keys() -> None:
    """Both passes of a repeated hour keep their own identity, and `fold` stays out of it."""
    berlin = ZoneInfo("Europe/Berlin")
    first = Occurrence("j", datetime(2026, 10, 25, 2, 30, tzinfo=berlin))
    second = Occurrence("j", datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=berlin))

    assert first.key == "j:2026-10-25T00:30:00Z"
    assert second.key == "j:2026-10-25T01:30:00Z"
    assert second.nominal_time.fold == 0


class Stamp(datetime):
    """A datetime as other libraries subclass it."""


def test_nominal_time_is_kept_as_a_plain_datetime_without_fold() -> None:
    """Neither a subclass nor a `fold` given in UTC gets into what is compared and stored."""
    for given_time in (DAY.replace(fold=1), Stamp(2026, 9, 13, tzinfo=UTC)):
        kept = Occurrence("j", given_time).nominal_time
        assert (type(kept), kept.fold, kept.tzinfo, kept) == (datetime, 0, UTC, DAY)


def test_occurrences_are_ordered_by_job_then_time_then_partition_then_correction() -> None:
    """Sorting occurrences sorts by identity, part by part."""
    ordered = [
        Occurrence("a", DAY + timedelta(days=1)),
        Occurrence("b", DAY),
        Occurrence("b", DAY, correction=2),
        Occurrence("b", DAY, "p"),
        Occurrence("b", DAY + timedelta(microseconds=1)),
    ]

    assert sorted(ordered[index] for index in (3, 0, 4, 2, 1)) == ordered


def test_partitions_that_a_database_may_confuse_give_four_keys() -> None:
    """Case, accents and trailing blanks are part of the identity (case E16)."""
    keys = {Occurrence("j", DAY, partition).key for partition in ("Ä", "ä", "a", "a ")}

    assert len(keys) == 4


def test_partitions_in_other_unicode_forms_stay_apart() -> None:
    """Nothing is normalised: composed and decomposed text are two partitions."""
    assert Occurrence("j", DAY, "\u00e9") != Occurrence("j", DAY, "e\u0301")


@pytest.mark.parametrize("job", ["", "Job", "-a", ".a", "a b", "a:b", "a#b", "ä", "a\n", "a" * 101])
def test_job_name_outside_the_pattern_is_refused(job: str) -> None:
    """A job's name has one alphabet and at most 100 characters."""
    with pytest.raises(KeyInvalid, match=r"job name .* use 1 to 100"):
        Occurrence(job, DAY)


def test_key_longer_than_its_column_is_refused_before_any_sql() -> None:
    """One character too many is refused, never truncated (case E17)."""
    assert Occurrence("a" * 100, DAY, "\U0001f600" * PARTITION_MAX).partition

    with pytest.raises(KeyInvalid, match="longer than 200 characters; shorten it"):
        Occurrence("j", DAY, "x" * (PARTITION_MAX + 1))


def test_longest_key_columns_fit_the_smallest_index() -> None:
    """The longest identity stays below MariaDB's 3,072 bytes of index."""
    longest = Occurrence("a" * 100, DAY, "\U0010ffff" * PARTITION_MAX, CORRECTION_MAX)

    assert len(longest.job.encode()) + len(longest.partition.encode()) + 8 + 4 < 3072


@pytest.mark.parametrize(
    ("partition", "problem"),
    [
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        (5, "must be text"),
        (None, "must be text"),
        (b"a", "must be text"),
    ],
)
def test_partition_that_a_database_cannot_keep_is_refused(partition: Any, problem: str) -> None:
    """A partition is text that every database stores unchanged."""
    with pytest.raises(KeyInvalid, match=problem):
        Occurrence("j", DAY, partition)


@pytest.mark.parametrize("correction", [0, -1, CORRECTION_MAX + 1, True, 1.0, "2", None])
def test_correction_out_of_bounds_is_refused(correction: Any) -> None:
    """A correction is a whole number from 1 on; True is not 1."""
    with pytest.raises(KeyInvalid, match=r"correction .* give an int from 1"):
        Occurrence("j", DAY, correction=correction)


@pytest.mark.parametrize(
    ("nominal_time", "problem"),
    [
        (DAY.replace(tzinfo=None), "naive"),
        (date(2026, 9, 13), "must be an aware datetime"),
        ("2026-09-13T00:00:00Z", "must be an aware datetime"),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))), "years 1 to 9999"),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=1))), "years 1 to 9999"),
    ],
)
def test_nominal_time_that_is_no_instant_is_refused(nominal_time: Any, problem: str) -> None:
    """A naive or impossible time is refused, never completed by a guess."""
    with pytest.raises(NominalTimeInvalid, match=problem):
        Occurrence("j", nominal_time)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "j",
        "j:",
        "2026-09-13T00:00:00Z",
        ":2026-09-13T00:00:00Z",
        "J:2026-09-13T00:00:00Z",
        "j:2026-09-13",
        "j:2026-09-13T00:00:00",
        "j:2026-09-13T00:00Z",
        "j:2026-09-13T00:00:00z",
        "j:2026-09-13t00:00:00Z",
        "j:2026-09-13 00:00:00Z",
        "j:2026-09-13T00:00:00+00:00",
        "j:2026-09-13T02:00:00+02:00",
        "j:2026-09-13T00:00:00.000000Z",
        "j:2026-09-13T00:00:00.5Z",
        "j:2026-09-13T00:00:00.5000000Z",
        "j:2026-09-13T00:00:60Z",
        "j:2026-09-13T24:00:00Z",
        "j:2026-02-30T00:00:00Z",
        "j:0000-01-01T00:00:00Z",
        "j:2026-09-13T00:00:00Z ",
        " j:2026-09-13T00:00:00Z",
        "j:2026-09-13T00:00:00Z\n",
        "j:2026-09-13T00:00:00Z:",
        "j:2026-09-13T00:00:00Z:#2",
        "j:2026-09-13T00:00:00Z:a:b",
        "j:2026-09-13T00:00:00Z:a b",
        "j:2026-09-13T00:00:00Z:a+b",
        "j:2026-09-13T00:00:00Z:ä",
        "j:2026-09-13T00:00:00Z:%c3%a4",
        "j:2026-09-13T00:00:00Z:%61",
        "j:2026-09-13T00:00:00Z:%",
        "j:2026-09-13T00:00:00Z:%ff",
        "j:2026-09-13T00:00:00Z:%00",
        "j:2026-09-13T00:00:00Z:%ED%A0%80",
        "j:2026-09-13T00:00:00Z:" + "a" * 201,
        "j:2026-09-13T00:00:00Z#",
        "j:2026-09-13T00:00:00Z#0",
        "j:2026-09-13T00:00:00Z#1",
        "j:2026-09-13T00:00:00Z#02",
        "j:2026-09-13T00:00:00Z#+2",
        "j:2026-09-13T00:00:00Z#2147483648",
        "j:2026-09-13T00:00:00Z#2#3",
        "j:2026-09-13T00:00:00Z#\u0662",
        pytest.param("j:2026-09-13T00:00:00Z#" + "9" * 5000, id="huge-correction"),
        None,
        b"j:2026-09-13T00:00:00Z",
    ],
)
def test_key_text_in_any_other_spelling_is_refused_in_one_line(key: Any) -> None:
    """A key has one spelling; every other is refused, with what to write."""
    with pytest.raises(KeyInvalid) as caught:
        Occurrence.parse(key)

    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500


def test_key_text_that_is_not_utf_8_says_so() -> None:
    """Bytes that are no text are not replaced by others in the answer."""
    with pytest.raises(KeyInvalid, match="not percent-encoded UTF-8"):
        Occurrence.parse("j:2026-09-13T00:00:00Z:%ff")


def test_key_text_in_another_spelling_is_answered_with_the_canonical_one() -> None:
    """The message carries the text to write."""
    with pytest.raises(KeyInvalid, match="write 'j:2026-09-13T00:00:00Z:a'"):
        Occurrence.parse("j:2026-09-13T00:00:00.000000Z:%61#1")


@given(st.integers(to_us(datetime.min.replace(tzinfo=UTC)), 253402300799999999))
def test_microseconds_of_an_instant_come_back_exactly(us: int) -> None:
    """Integer microseconds survive the way to a datetime and back, before 1970 too."""
    assert to_us(from_us(us)) == us
    assert parse_instant(format_instant(from_us(us))) == from_us(us)


def test_occurrence_from_stored_microseconds_equals_the_given_one() -> None:
    """What is stored names the same occurrence."""
    occurrence = Occurrence("j", DAY + timedelta(microseconds=1), "p", 2)

    assert occurrence.nominal_us == 1_789_257_600_000_001
    assert Occurrence.from_us("j", occurrence.nominal_us, "p", 2) == occurrence


@pytest.mark.parametrize("us", [True, 1.0, "1", None, 253402300800000000, -62135596800000001])
def test_microseconds_that_are_no_instant_are_refused(us: Any) -> None:
    """Only a whole number within the calendar is an instant."""
    with pytest.raises(NominalTimeInvalid, match="give an int from"):
        from_us(us)


def test_occurrence_is_a_frozen_value_that_survives_pickling() -> None:
    """An occurrence can be sent to a worker and cannot be changed."""
    occurrence = Occurrence("j", DAY, "p", 2)

    assert pickle.loads(pickle.dumps(occurrence)) == occurrence  # noqa: S301 - our own bytes
    with pytest.raises(AttributeError):
        occurrence.job = "other"  # type: ignore[misc]
