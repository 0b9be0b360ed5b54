"""OnCalendar: which instants a calendar event of systemd names in a zone."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from oncalendar import BaseIterator

from duly import zones
from duly._core.schedules import Schedule
from duly._core.schedules.on_calendar_fields import parse
from duly.errors import NominalTimeInvalid, ScheduleInvalid
from duly.schedules import Cron, from_text
from duly.schedules.on_calendar import OnCalendar

if TYPE_CHECKING:
    from collections.abc import Callable

MICROSECOND = timedelta(microseconds=1)
VECTORS = json.loads(Path(__file__).with_name("data").joinpath("dst.json").read_text("utf-8"))
ROWS = [row for row in VECTORS["other"] if row["kind"] == "oncalendar"]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def times(schedule: Schedule, start: str, end: str) -> list[str]:
    return [f"{at:%Y-%m-%dT%H:%MZ}" for at in schedule.between(utc(start), utc(end))]


def stepped_forward(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = schedule.next(start - MICROSECOND)
    while at is not None and at < end:
        found.append(at)
        at = schedule.next(at)
    return found


def stepped_back(schedule: Schedule, start: datetime, end: datetime) -> list[datetime]:
    found = []
    at = schedule.previous(end - MICROSECOND)
    while at is not None and at >= start:
        found.append(at)
        at = schedule.previous(at - MICROSECOND)
    return found[::-1]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_event_after_a_time_gives_the_instants_of_its_vector(row: dict[str, Any]) -> None:
    """The vectors hold, the time that systemd 252 loses where the day changes included."""
    schedule = OnCalendar(row["input"]["expr"])
    start, count = utc(row["input"]["after"]), row["input"]["n"]
    expect = row["expect"]
    expected = [utc(text) for text in (expect if isinstance(expect, list) else expect["instants"])]

    end = expected[-1] + MICROSECOND
    assert list(islice(schedule.between(start + MICROSECOND, end), count)) == expected
    assert stepped_forward(schedule, start + MICROSECOND, end) == expected
    assert stepped_back(schedule, start + MICROSECOND, end) == expected


def test_vectors_of_events_are_all_there() -> None:
    """A vector that is lost would be missed."""
    assert {row["id"] for row in ROWS} >= {"oc-lastday", "oc-weekdays", "oc-repeat-bug"}


def test_event_counted_from_the_end_of_the_month_takes_the_same_bounds_in_a_list() -> None:
    """Here systemd 252 refuses the 28th: it lowers the bound by three with each member."""
    expected = ["2026-02-01T00:00Z", "2026-02-28T00:00Z"]

    assert times(OnCalendar("2026-02~1,28"), "2026-01-01T00:00Z", "2027-01-01T00:00Z") == expected


def test_event_with_a_day_of_only_some_months_fires_in_those() -> None:
    """A day that some month lacks is left out there, not moved."""
    assert times(OnCalendar("*-01..04-30"), "2026-01-01T00:00Z", "2027-01-01T00:00Z") == [
        "2026-01-30T00:00Z", "2026-03-30T00:00Z", "2026-04-30T00:00Z",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "start", "end", "expected"),
    [
        ("Mon *-05~07/1", "2026-01-01T00:00Z", "2028-01-01T00:00Z",
         ["2026-05-25T00:00Z", "2027-05-31T00:00Z"]),
        ("*-02~01", "2023-01-01T00:00Z", "2025-01-01T00:00Z",
         ["2023-02-28T00:00Z", "2024-02-29T00:00Z"]),
        ("*-02~28", "2023-01-01T00:00Z", "2025-01-01T00:00Z",
         ["2023-02-01T00:00Z", "2024-02-02T00:00Z"]),
        ("2026-02~07/2", "2026-01-01T00:00Z", "2027-01-01T00:00Z",
         ["2026-02-22T00:00Z", "2026-02-24T00:00Z", "2026-02-26T00:00Z", "2026-02-28T00:00Z"]),
        ("2026-05~03..07/3", "2026-01-01T00:00Z", "2027-01-01T00:00Z",
         ["2026-05-26T00:00Z", "2026-05-29T00:00Z"]),
        ("Fri *-*-13", "2026-01-01T00:00Z", "2027-01-01T00:00Z",
         ["2026-02-13T00:00Z", "2026-03-13T00:00Z", "2026-11-13T00:00Z"]),
        ("Mon..Fri *-*-1..2 09:00", "2026-05-01T00:00Z", "2026-07-01T00:00Z",
         ["2026-05-01T09:00Z", "2026-06-01T09:00Z", "2026-06-02T09:00Z"]),
        ("99..01-1-1", "1990-01-01T00:00Z", "2010-01-01T00:00Z",
         ["1999-01-01T00:00Z", "2000-01-01T00:00Z", "2001-01-01T00:00Z"]),
        ("2024/3-1-1", "2020-01-01T00:00Z", "2032-01-01T00:00Z",
         ["2024-01-01T00:00Z", "2027-01-01T00:00Z", "2030-01-01T00:00Z"]),
    ],
)  # fmt: skip
def test_event_names_the_days_that_all_its_parts_match(
    text: str, start: str, end: str, expected: list[str]
) -> None:
    """A weekday and a date must both match, and `~` counts from the last day."""
    assert times(OnCalendar(text), start, end) == expected


def test_event_with_fractions_of_a_second_names_them_to_the_microsecond() -> None:
    """A repetition of a fraction counts from its start, in each minute anew."""
    schedule = OnCalendar("9:00:03.33/10.05")
    start = utc("2026-01-01T09:00Z")

    found = list(schedule.between(start, start + timedelta(minutes=1)))

    seconds = [(at - start) / timedelta(seconds=1) for at in found]
    assert seconds == [3.33, 13.38, 23.43, 33.48, 43.53, 53.58]
    assert OnCalendar("9:00:00.000001").next(start) == start + MICROSECOND


def test_event_of_each_second_has_them_all() -> None:
    """The finest event that is allowed names 86,400 times a day."""
    day = utc("2026-01-01T00:00Z")
    found = list(OnCalendar("*:*:*").between(day, day + timedelta(days=1)))

    assert len(found) == 86_400
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(seconds=1)}


# Fields that both evaluators read alike. The other one takes 5..5/2 for 5/2, and counts the
# repetition of a range before the end of the month from its far end, systemd from its near end.
def fields(low: int, high: int, *, from_end: bool = False) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    ends = st.lists(value, min_size=2, max_size=2, unique=True).map(sorted)
    span = ends.map(lambda pair: f"{pair[0]}..{pair[1]}")
    endless = st.tuples(
        st.integers(low + 1, high) if from_end else st.integers(low, high - 1), st.integers(1, 30)
    ).map(lambda pair: f"{pair[0]}/{min(pair[1], pair[0] - low if from_end else high - pair[0])}")
    stepped = st.tuples(span, st.integers(1, 9)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    term = value.map(str) | span | endless | (st.nothing() if from_end else stepped)
    return st.just("*") | st.lists(term, min_size=1, max_size=3).map(",".join)


names = st.sampled_from(["Mon", "tue", "Wednesday", "THU", "Fri", "saturday", "Sun"])
weekdays = st.just("") | st.lists(names, min_size=1, max_size=4).map(
    lambda days: ",".join(days) + " "
)
years = st.just("*") | fields(2000, 2080)
dates = st.tuples(years, fields(1, 12), fields(1, 31)).map("-".join) | st.tuples(
    st.tuples(years, fields(1, 12)).map("-".join), fields(1, 28, from_end=True)
).map("~".join)
# Every field may be dense, but not all of them at once, which only takes time.
clocks = st.tuples(fields(0, 23), fields(0, 59)).map(":".join) | st.tuples(
    fields(0, 23), st.integers(0, 59).map(str), fields(0, 59)
).map(":".join)
events = st.tuples(weekdays, dates, clocks).map(lambda parts: f"{parts[0]}{parts[1]} {parts[2]}")
instants = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))
zone_names = st.sampled_from(sorted(zones.names()))
policies = st.fixed_dictionaries(
    {"gap": st.sampled_from(["skip", "next", "shift"])}
    | {"fold": st.sampled_from(["first", "last", "both"])}
)


def never_fires(text: str) -> bool:
    """Whether the text is refused for naming no date, and for nothing else."""
    with pytest.raises(ScheduleInvalid) as caught:
        parse(text)
    return "never fires" in caught.value.message


def made(text: str, zone: str = "UTC", **policy: Any) -> OnCalendar:
    """The schedule, unless it never fires, which the caller's test is not about."""
    try:
        return OnCalendar(text, zone, **policy)
    except ScheduleInvalid as error:
        assume("never fires" not in error.message)
        raise


@given(events | st.tuples(weekdays, clocks).map("".join), instants)
@example("Mon *-5~7/1 0:0:0", utc("2026-01-01T00:00Z"))
@example("*-2-29 *:*:*", utc("2096-02-29T23:59:58Z"))
@example("*-*-* *:0/7:0", utc("2025-12-30T23:50Z"))
@example("2000/7-*~1..3 0:0:0", utc("1999-12-31T00:00Z"))
def test_event_in_utc_agrees_with_another_evaluator(text: str, after: datetime) -> None:
    """Without switches, every event names the times that the package oncalendar names."""
    naive = after.replace(tzinfo=None, microsecond=0)
    schedule = made(text)
    expected = [at.replace(tzinfo=UTC) for at in islice(BaseIterator(text, naive), 5)]

    start = naive.replace(tzinfo=UTC) + MICROSECOND
    assert list(islice(schedule.between(start, utc("2200-01-01T00:00Z")), 5)) == expected


@given(st.tuples(weekdays, dates).map("".join))
@example("Mon 2026-05-31")
@example("2001..2003-2-29")
def test_event_that_never_fires_has_no_time_in_another_evaluator(text: str) -> None:
    """A text is refused for never firing exactly where the package oncalendar finds nothing."""
    found = next(BaseIterator(text, datetime(1969, 12, 31)), None)
    try:
        OnCalendar(text)
    except ScheduleInvalid:
        assert never_fires(text)
        assert found is None
    else:
        assert found is not None


@given(events, zone_names, policies, instants)
def test_event_in_any_zone_is_one_set_however_it_is_asked(
    text: str, zone: str, policy: dict[str, Any], around: datetime
) -> None:
    """Enumerating, stepping forward and stepping back agree, and always move on."""
    schedule = made(text, zone, **policy)
    found = list(islice(schedule.between(around, utc("2300-01-01T00:00Z")), 6))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert all(instant.tzinfo is UTC for instant in found)
    for earlier, later in pairwise(found):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
        assert schedule.previous(later) == later
    if found:
        assert schedule.next(around - MICROSECOND) == found[0]


@given(events, zone_names, policies)
def test_event_survives_its_text_and_pickling(text: str, zone: str, policy: dict[str, Any]) -> None:
    """What is stored or sent to a worker is the same schedule again; its text stays as it is."""
    schedule = made(text, zone, **policy)

    again = from_text(schedule.text)
    assert again == schedule
    assert again.text == schedule.text
    assert pickle.loads(pickle.dumps(schedule)) == schedule  # noqa: S301 - our own bytes
    assert eval(repr(schedule), {"OnCalendar": OnCalendar}) == schedule  # noqa: S307 - our own


def test_event_is_a_schedule_with_its_zone_and_policies_in_its_text() -> None:
    """The canonical text holds the normal form, the zone and both policies."""
    schedule = OnCalendar("mon..fri 9:00 Europe/Berlin", fold="last")

    assert isinstance(schedule, Schedule)
    assert schedule.text == (
        "oncalendar Mon..Fri *-*-* 09:00:00; zone=Europe/Berlin; gap=next; fold=last"
    )


@pytest.mark.parametrize(
    ("zone", "around"),
    [
        ("Europe/Berlin", "2026-03-29T00:00Z"),
        ("Europe/Berlin", "2026-10-25T00:00Z"),
        ("America/St_Johns", "2007-11-04T03:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00Z"),
        ("Asia/Almaty", "2024-02-29T18:00Z"),
        ("Africa/Cairo", "2026-04-23T22:00Z"),
    ],
)
@pytest.mark.parametrize("gap", ["skip", "next", "shift"])
@pytest.mark.parametrize("fold", ["first", "last", "both"])
def test_event_around_a_switch_is_one_set_however_it_is_asked(
    zone: str, around: str, gap: Any, fold: Any
) -> None:
    """At a switch nothing is lost, doubled or out of order, in either direction."""
    schedule = OnCalendar("*:7,37:0.5", zone, gap=gap, fold=fold)
    start, end = utc(around) - timedelta(days=4), utc(around) + timedelta(days=4)
    found = list(schedule.between(start, end))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert stepped_forward(schedule, start, end) == found
    assert stepped_back(schedule, start, end) == found


@pytest.mark.parametrize(
    ("text", "cron"),
    [
        ("*-*-* 02:30", "30 2 * * *"),
        ("Mon..Fri 02:30", "30 2 * * 1-5"),
        ("*-*-01 02:15,45", "15,45 2 1 * *"),
        ("minutely", "* * * * *"),
        ("hourly", "@hourly"),
        ("daily", "@daily"),
        ("*:00/15", "*/15 * * * *"),
        ("00/2:00", "0 */2 * * *"),
        ("01/2:00", "0 1-23/2 * * *"),
        ("00/2,05:30", "30 */2,5 * * *"),
        ("02:*", "* 2 * * *"),
        ("01..03:30", "30 1-3 * * *"),
    ],
)
@pytest.mark.parametrize("month", [(2026, 3), (2026, 10)], ids=["gap", "fold"])
def test_event_and_cron_expression_of_one_meaning_name_the_same_instants(
    text: str, cron: str, month: tuple[int, int]
) -> None:
    """A job means the same in either text, at a switch as well."""
    start = datetime(*month, 1, tzinfo=UTC)
    end = start + timedelta(days=31)
    event, same = OnCalendar(text, "Europe/Berlin"), Cron(cron, "Europe/Berlin")

    assert (event.gap, event.fold) == (same.gap, same.fold)
    assert list(event.between(start, end)) == list(same.between(start, end))


@pytest.mark.parametrize(
    ("text", "gap", "fold"),
    [
        ("02:30", "next", "first"),
        ("00..23:00..59", "next", "first"),
        ("*:30", "skip", "both"),
        ("02:*", "skip", "both"),
        ("02:30:*", "skip", "both"),
        ("02:30:00/10", "skip", "both"),
        ("02:30:01/10", "next", "first"),
        ("00/4:30", "skip", "both"),
        ("05,00/4:30", "skip", "both"),
        ("*-*-01 02:30", "next", "first"),
    ],
)
def test_event_without_policies_follows_the_rule_of_cron(text: str, gap: str, fold: str) -> None:
    """A star in the time, or a repetition that stands for one, counts elapsed time."""
    schedule = OnCalendar(text)

    assert (schedule.gap, schedule.fold) == (gap, fold)


def test_event_with_one_policy_takes_the_other_from_the_rule() -> None:
    """What is not said follows the default rule."""
    assert OnCalendar("02:30", gap="skip").fold == "first"
    assert OnCalendar("*:30", fold="last").gap == "skip"


def test_event_in_a_gap_is_not_lost_with_its_day() -> None:
    """Case S11, systemd/systemd#5595: the job of 02:00 runs at the first instant after the gap."""
    schedule = OnCalendar("*-*-* 02:00:00", "America/New_York")

    assert times(schedule, "2017-03-12T05:00Z", "2017-03-13T04:00Z") == ["2017-03-12T07:00Z"]


def test_event_of_each_minute_does_not_rest_in_the_repeated_hour() -> None:
    """Case S12, systemd/systemd#8647: both hours have their sixty minutes."""
    schedule = OnCalendar("minutely Europe/Berlin")

    assert len(times(schedule, "2023-10-29T00:00Z", "2023-10-29T02:00Z")) == 120


@pytest.mark.parametrize(
    ("text", "timezone", "zone"),
    [
        ("daily", None, "UTC"),
        ("daily", "Europe/Berlin", "Europe/Berlin"),
        ("daily Europe/Berlin", None, "Europe/Berlin"),
        ("daily Europe/Berlin", "Europe/Berlin", "Europe/Berlin"),
        ("Mon utc", None, "UTC"),
        ("9:00 UTC", "UTC", "UTC"),
        ("*-*-01 America/Argentina/Buenos_Aires", None, "America/Argentina/Buenos_Aires"),
        ("@17", None, "UTC"),
        ("@17", "UTC", "UTC"),
    ],
)
def test_event_is_in_the_zone_that_is_named_once_or_in_utc(
    text: str, timezone: str | None, zone: str
) -> None:
    """The text or the argument names the zone; the host's own is never asked."""
    assert OnCalendar(text, timezone).zone.key == zone


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("9:00 Europe/Berlin", {"timezone": "UTC"}, r"is in zone Europe/Berlin, .* says UTC"),
        ("9:00 UTC", {"timezone": "Europe/Berlin"}, r"is in zone UTC, .* leave one out"),
        ("@17", {"timezone": "Europe/Berlin"}, r"is in zone UTC"),
        ("9:00 europe/berlin", {}, r"in another case; write Europe/Berlin"),
        ("9:00 Europe/Berlinn", {}, r"did you mean Europe/Berlin"),
        ("9:00", {"timezone": "EST"}, r"abbreviation"),
        ("9:00", {"timezone": 5}, r"is a name"),
        ("9:00 UTC", {"timezone": 5}, r"is a name"),
        ("9:00", {"gap": "jump"}, r"gap 'jump' is not allowed"),
        ("9:00", {"fold": "twice"}, r"fold 'twice' is not allowed"),
    ],
)
def test_event_with_a_zone_or_rule_in_doubt_is_refused(
    text: str, arguments: dict[str, Any], message: str
) -> None:
    """Two zones, an unknown one or an unknown policy is never guessed."""
    with pytest.raises(ScheduleInvalid, match=message):
        OnCalendar(text, **arguments)


def test_event_whose_only_time_is_skipped_is_refused() -> None:
    """One time in a gap fires under `next`, and would never under `skip`."""
    text = "2026-03-29 02:30"

    assert OnCalendar(text, "Europe/Berlin").next(utc("2026-01-01T00:00Z")) == utc(
        "2026-03-29T01:00Z"
    )
    with pytest.raises(ScheduleInvalid, match=r"never fires: each time .* gap of Europe/Berlin"):
        OnCalendar(text, "Europe/Berlin", gap="skip")


def test_event_with_a_year_ends_after_it_and_begins_with_it() -> None:
    """Past the last year and before the first there is nothing, in any zone."""
    for zone in ("UTC", "Pacific/Kiritimati", "America/Adak"):
        schedule = OnCalendar("2026..2027-*-* 12:00", zone)
        found = list(schedule.between(utc("1900-01-01T00:00Z"), utc("2300-01-01T00:00Z")))

        assert len(found) == 730
        assert schedule.next(utc("1900-01-01T00:00Z")) == found[0]
        assert schedule.previous(found[0] - MICROSECOND) is None
        assert schedule.previous(utc("1900-01-01T00:00Z")) is None
        assert schedule.next(found[-1]) is None
        assert schedule.next(utc("2300-01-01T00:00Z")) is None
        assert schedule.previous(utc("9999-12-31T23:59Z")) == found[-1]


def test_event_without_an_end_goes_on_to_the_end_of_the_calendar() -> None:
    """Neither a star nor a repetition of years stops where systemd's own calendar does."""
    last = utc("9999-12-31T23:59:59.999999Z")

    assert OnCalendar("yearly").next(utc("2199-06-01T00:00Z")) == utc("2200-01-01T00:00Z")
    assert OnCalendar("2024/2-1-1").next(utc("2199-06-01T00:00Z")) == utc("2200-01-01T00:00Z")
    assert OnCalendar("daily").next(last) is None
    assert OnCalendar("2024/2-1-1").next(last) is None
    assert OnCalendar("daily").previous(utc("0001-01-01T00:00Z")) == utc("0001-01-01T00:00Z")
    assert OnCalendar("1:00").previous(utc("0001-01-01T00:00Z")) is None


def test_event_on_a_rare_day_is_found_decades_away() -> None:
    """A leap day of one weekday is found in both directions."""
    schedule = OnCalendar("Sun *-02-29")

    assert schedule.next(utc("2032-03-01T00:00Z")) == utc("2060-02-29T00:00Z")
    assert schedule.previous(utc("2060-02-28T00:00Z")) == utc("2032-02-29T00:00Z")


def test_event_between_is_lazy_and_half_open() -> None:
    """The start belongs to the window, the end does not, and nothing is made before it is asked."""
    schedule = OnCalendar("daily")
    start, end = utc("2026-01-01T00:00Z"), utc("9999-01-01T00:00Z")

    assert next(schedule.between(start, end)) == start
    assert list(schedule.between(start, start + timedelta(days=1))) == [start]
    with pytest.raises(NominalTimeInvalid, match="start 9999-01-01T00:00:00Z is after end 2026"):
        schedule.between(end, start)


@pytest.mark.parametrize("ask", ["start", "end", "after", "at"])
def test_event_asked_with_a_naive_time_refuses_at_once(ask: str) -> None:
    """A naive time is refused by its name, before anything is enumerated."""
    schedule, aware = OnCalendar("daily"), utc("2026-01-01T00:00Z")
    naive = aware.replace(tzinfo=None)

    calls: dict[str, Callable[[], object]] = {
        "start": lambda: schedule.between(naive, aware),
        "end": lambda: schedule.between(aware, naive),
        "after": lambda: schedule.next(naive),
        "at": lambda: schedule.previous(naive),
    }

    with pytest.raises(NominalTimeInvalid, match=f"^{ask} .* naive"):
        calls[ask]()
