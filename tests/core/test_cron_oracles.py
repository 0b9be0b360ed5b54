"""Cron beside other people's evaluators: where they agree, and each place where they do not.

Without a switch of a zone all must name the same times. Every form in which another library
answers otherwise stands in `DISAGREEMENTS` with both answers, and is left out of what is made
up; a new version that changes its mind fails here.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from oncalendar import BaseIterator

from duly import zones
from duly._core.schedules.cron_days import CronDays
from duly._core.schedules.cron_fields import parse
from duly._core.schedules.wall import WallSchedule
from duly.errors import ScheduleInvalid
from duly.schedules import Cron

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
FAR = datetime(2300, 1, 1, tzinfo=UTC)

MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]

# Other evaluators take as long as they like, and nothing here is timed.
unhurried = settings(deadline=None)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


# ------------------------------------------------------------------------------- other answers


def of_cronsim(expression: str, after: datetime) -> Iterator[datetime]:
    """Up to 50 years on, where it gives up."""
    found: Iterator[datetime] = CronSim(expression, after)
    return found


def of_croniter(expression: str, after: datetime) -> Iterator[datetime]:
    """With the two switches that make it read what duly reads."""
    reader = croniter(
        expression, after, ret_type=datetime, implement_cron_bug=True, second_at_beginning=True
    )
    found: Iterator[datetime] = reader.all_next()
    return found


def of_croniter_as_it_comes(expression: str, after: datetime) -> Iterator[datetime]:
    found: Iterator[datetime] = croniter(expression, after, ret_type=datetime).all_next()
    return found


def of_duly(expression: str, after: datetime) -> Iterator[datetime]:
    """Naive in, naive out, as the others do; aware in its zone likewise."""
    zone = after.tzinfo
    key = str(zone) if zone else "UTC"
    start = (after.astimezone(UTC) if zone else after.replace(tzinfo=UTC)) + MICROSECOND
    for found in Cron(expression, key).between(start, FAR):
        yield found.astimezone(zone) if zone else found.replace(tzinfo=None)


# ---------------------------------------------------------------------------------- made up text


class Dialect(NamedTuple):
    """What another library reads as duly does."""

    late_star: bool = True  # a star that does not start its field, as in 5,*
    last_weekday: bool = True  # 5L
    mixed_ordinals: bool = True  # MON#2 beside other weekdays, or beside a day of the month


def terms(low: int, high: int, names: Sequence[str] = ()) -> st.SearchStrategy[str]:
    value = st.integers(low, high)
    # Both libraries read 5-5 with or without a step as something else, so no two ends are equal.
    ends = st.lists(value, min_size=2, max_size=2, unique=True).map(sorted)
    span = ends.map(lambda pair: f"{pair[0]}-{pair[1]}")
    step = st.integers(1, high - low + 1).map(lambda size: f"*/{size}")
    stepped = st.tuples(ends, st.integers(1, 60)).map(_stepped)
    forms = [value.map(str), span, step, stepped, st.just("*")]
    if names:
        named = st.sampled_from(names)
        forms += [named, ends.map(lambda pair: "-".join(names[n - low] for n in pair))]
    return st.one_of(forms)


def _stepped(parts: tuple[list[int], int]) -> str:
    (low, high), step = parts
    return f"{low}-{high}/{min(step, high - low + 1)}"


def lists(term: st.SearchStrategy[str], dialect: Dialect) -> st.SearchStrategy[str]:
    found = st.lists(term, min_size=1, max_size=3)
    if not dialect.late_star:
        found = found.filter(lambda words: not any(word.startswith("*") for word in words[1:]))
    return found.map(",".join)


OURS = Dialect()
CRONITER = Dialect(late_star=False, last_weekday=False, mixed_ordinals=False)


@st.composite
def expressions(draw: st.DrawFn, dialect: Dialect = OURS) -> str:
    """Five or six fields."""
    parts = [draw(lists(terms(0, 59), dialect)), draw(lists(terms(0, 23), dialect))]
    if draw(st.booleans()):
        parts.insert(0, draw(lists(terms(0, 59), dialect)))
    weekday = terms(0, 6, WEEKDAYS)
    number = st.integers(0, 7).map(str) | st.sampled_from(WEEKDAYS)
    ordinal = st.tuples(number, st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}")
    if dialect.last_weekday:
        ordinal |= st.integers(0, 7).map(lambda n: f"{n}L")
    day = lists(terms(1, 31) | st.just("L"), dialect)
    days = (day, lists(weekday | ordinal, dialect))
    if not dialect.mixed_ordinals:
        days = draw(
            st.sampled_from(
                [(day, lists(weekday, dialect)), (st.just("*"), lists(ordinal, dialect))]
            )
        )
    parts += [draw(days[0]), draw(lists(terms(1, 12, MONTHS), dialect)), draw(days[1])]
    return " ".join(parts)


times = st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(
    lambda time: time.replace(microsecond=0)
)
zone_names = st.sampled_from(sorted(zones.names()))
policies = st.fixed_dictionaries(
    {
        "gap": st.sampled_from(["skip", "next", "shift"]),
        "fold": st.sampled_from(["first", "last", "both"]),
    }
)


# ------------------------------------------------------------------------------------ agreement


@unhurried
@given(expressions(), times)
@example("0 0 */2 * 5", datetime(2026, 2, 1))
@example("0 0 13 * 5", datetime(2026, 2, 1))
@example("0 0 L 2 MON#2", datetime(2026, 2, 1))
@example("0 0 * * 0L,5,1#5", datetime(2026, 2, 1))
def test_cron_agrees_with_cronsim(expression: str, after: datetime) -> None:
    """Every expression of five or six fields names the times that cronsim names."""
    try:
        expected = list(islice(of_cronsim(expression, after), 5))
    except CronSimError as error:
        assert str(error) == "Bad day-of-month"  # noqa: PT017 - its word for: never
        expected = []
    if never_fires(expression):
        assert expected == []
        return

    found = list(islice(of_duly(expression, after), 5))

    assert found[: len(expected)] == expected
    # The rarest day of all comes within the 50 years, so that something is always compared.
    assert expected


@unhurried
@given(expressions(CRONITER), times)
@example("0 0 */2 * 5", datetime(2026, 2, 1))
@example("0 0 * * MON#2,FRI#5", datetime(2026, 2, 1))
@example("*/20 59 1 L * *", datetime(2026, 2, 1))
def test_cron_agrees_with_croniter(expression: str, after: datetime) -> None:
    """Every expression that croniter reads in the same way names the times that it names."""
    assume(not never_fires(expression))
    try:
        expected = list(islice(of_croniter(expression, after), 4))
    except CroniterBadDateError:  # not within the 50 years that it looks at
        assume(False)
        raise

    assert list(islice(of_duly(expression, after), 4)) == expected


@unhurried
@given(st.integers(1, 27), st.integers(1, 12), times)
def test_cron_before_the_last_day_agrees_with_oncalendar(
    before: int, month: int, after: datetime
) -> None:
    """`L-3` is the fourth day from the end, which neither cron library can say."""
    expected = BaseIterator(f"*-{month}~{before + 1} 02:30:00", after)

    found = of_duly(f"30 2 L-{before} {month} *", after)

    assert list(islice(found, 3)) == list(islice(expected, 3))


@unhurried
@given(expressions(), zone_names, policies, times.map(lambda time: time.replace(tzinfo=UTC)))
def test_cron_in_a_zone_without_a_switch_agrees_with_cronsim(
    expression: str, zone: str, policy: dict[str, Any], after: datetime
) -> None:
    """On days that no switch touches a zone only moves the clock, under every policy."""
    assume(not never_fires(expression))
    offset = only_offset(zones.load(zone), after)
    assume(offset is not None)
    assert offset is not None
    wall = (after + offset).replace(tzinfo=None)
    expected = []
    for found in islice(of_cronsim(expression, wall), 50):
        if found > wall + 3 * DAY:
            break
        expected.append(found.replace(tzinfo=UTC) - offset)

    schedule = Cron(expression, zone, **policy)

    found_in = schedule.between(after + MICROSECOND, after + 3 * DAY + MICROSECOND)
    assert list(islice(found_in, 50)) == expected


@unhurried
@given(expressions(CRONITER), zone_names, times.map(lambda time: time.replace(tzinfo=UTC)))
def test_cron_in_a_zone_without_a_switch_agrees_with_croniter(
    expression: str, zone: str, after: datetime
) -> None:
    """As above, by the zone arithmetic of another library too."""
    assume(not never_fires(expression))
    assume(only_offset(zones.load(zone), after) is not None)
    local = after.astimezone(zones.load(zone))
    try:
        expected = [t for t in islice(of_croniter(expression, local), 3) if t <= local + 3 * DAY]
    except CroniterBadDateError:
        assume(False)
        raise

    found = list(islice(of_duly(expression, local), 3))[: len(expected)]

    assert [t.astimezone(UTC) for t in found] == [t.astimezone(UTC) for t in expected]


def never_fires(expression: str) -> bool:
    """Whether the expression is refused for naming no day, and for nothing else."""
    try:
        Cron(expression)
    except ScheduleInvalid as error:
        if "never fires" not in error.message:
            raise
        return True
    return False


def only_offset(zone: tzinfo, after: datetime) -> timedelta | None:
    """The offset of the zone from a day before to five days after, if it has just one."""
    hours = [after + timedelta(hours=n) for n in range(-24, 5 * 24)]
    offsets = {at.astimezone(zone).utcoffset() for at in hours}
    return offsets.pop() if len(offsets) == 1 else None


# --------------------------------------------------------------------------------- disagreement


class Disagreement(NamedTuple):
    """One form, what another library makes of it, and what duly makes of it."""

    id: str
    library: Any
    expression: str
    after: str
    theirs: list[str] | str  # the first answers, or words of the refusal
    ours: list[str] | str


BERLIN = zones.load("Europe/Berlin")
GAP_DAY, FOLD_DAY = "2026-03-29", "2026-10-25"

DISAGREEMENTS = [
    # croniter as it comes, without the two switches given above
    Disagreement(
        "croniter: a star with a step is a restriction, so the day fields mean either",
        of_croniter_as_it_comes, "0 0 */2 * 5", "2026-02-01",
        ["2026-02-03 00:00", "2026-02-05 00:00", "2026-02-06 00:00"],
        ["2026-02-13 00:00", "2026-02-27 00:00", "2026-03-13 00:00"],
    ),
    Disagreement(
        "croniter: seconds are last",
        of_croniter_as_it_comes, "10 20 3 * * 4", "2026-02-01",
        ["2026-02-03 20:10:04", "2026-03-03 20:10:04"],
        ["2026-02-05 03:20:10", "2026-02-12 03:20:10"],
    ),
    # croniter with them
    Disagreement(
        "croniter: a range of equal ends is the whole field",
        of_croniter, "0 0 5-5 * *", "2026-02-01",
        ["2026-02-02 00:00", "2026-02-03 00:00"], ["2026-02-05 00:00", "2026-03-05 00:00"],
    ),
    Disagreement(
        "croniter: a star anywhere in a day field makes it both",
        of_croniter, "0 0 10,* * 5", "2026-02-01",
        ["2026-02-06 00:00", "2026-02-13 00:00"], ["2026-02-02 00:00", "2026-02-03 00:00"],
    ),
    Disagreement(
        "croniter: # with a day of the month means both",
        of_croniter, "0 0 13 * FRI#1", "2026-01-01",
        "failed to find next date", ["2026-01-02 00:00", "2026-01-13 00:00"],
    ),
    Disagreement(
        "croniter: # does not mix with other weekdays",
        of_croniter, "0 0 * * 1#2,5", "2026-02-01",
        "does not support mixing", ["2026-02-06 00:00", "2026-02-09 00:00"],
    ),
    Disagreement(
        "croniter: the last Friday is L5",
        of_croniter, "0 0 * * L5", "2026-02-01", ["2026-02-27 00:00"], "cannot be read",
    ),
    Disagreement(
        "croniter: and not 5L",
        of_croniter, "0 0 * * 5L", "2026-02-01", "not acceptable", ["2026-02-27 00:00"],
    ),
    Disagreement(
        "croniter: no day before the last",
        of_croniter, "0 0 L-3 * *", "2026-02-01", "not acceptable", ["2026-02-25 00:00"],
    ),
    Disagreement(
        "croniter: ranges wrap round",
        of_croniter, "0 22-1 * * *", "2026-02-01",
        ["2026-02-01 01:00", "2026-02-01 22:00"], "runs backwards",
    ),
    Disagreement(
        "croniter: a value with a step goes on to the end of its field",
        of_croniter, "5/20 * * * *", "2026-02-01",
        ["2026-02-01 00:05", "2026-02-01 00:25", "2026-02-01 00:45"], "steps from a single value",
    ),
    Disagreement(
        "croniter: a step past its range is taken",
        of_croniter, "*/90 * * * *", "2026-02-01", ["2026-02-01 01:00"], "step 90 does not fit",
    ),
    Disagreement(
        "croniter: 30 February is found out when it is asked for",
        of_croniter, "0 0 30 2 *", "2026-02-01", "failed to find next date", "never fires",
    ),
    Disagreement(
        "croniter: a fixed time runs twice in a repeated hour",
        of_croniter, "30 2 * * *", f"{FOLD_DAY}T00:00+02:00",
        [f"{FOLD_DAY}T02:30+02:00", f"{FOLD_DAY}T02:30+01:00"],
        [f"{FOLD_DAY}T02:30+02:00", "2026-10-26T02:30+01:00"],
    ),
    Disagreement(
        "croniter: elapsed minutes of a gap run at its end",
        of_croniter, "*/15 2 * * *", f"{GAP_DAY}T00:00+01:00",
        [f"{GAP_DAY}T03:00+02:00", "2026-03-30T02:00+02:00"], ["2026-03-30T02:00+02:00"],
    ),
    # cronsim
    Disagreement(
        "cronsim: a step on a range of equal ends goes on to the end of the field",
        of_cronsim, "0 0 30-30/1 1 *", "2026-01-01",
        ["2026-01-30 00:00", "2026-01-31 00:00"], ["2026-01-30 00:00", "2027-01-30 00:00"],
    ),
    Disagreement(
        "cronsim: no range ends on Sunday by its name",
        of_cronsim, "0 0 * * FRI-SUN", "2026-02-01", "Bad day-of-week", ["2026-02-06 00:00"],
    ),
    Disagreement(
        "cronsim: the last Friday by its number only",
        of_cronsim, "0 0 * * FRIL", "2026-02-01", "Bad day-of-week", ["2026-02-27 00:00"],
    ),
    Disagreement(
        "cronsim: no day before the last",
        of_cronsim, "0 0 L-3 * *", "2026-02-01", "Bad day-of-month", ["2026-02-25 00:00"],
    ),
    Disagreement(
        "cronsim: LW is the last working day, without holidays",
        of_cronsim, "0 0 LW * *", "2026-02-01", ["2026-02-27 00:00"], "write L in BusinessDays",
    ),
    Disagreement(
        "cronsim: a value with a step goes on to the end of its field",
        of_cronsim, "5/20 * * * *", "2026-02-01",
        ["2026-02-01 00:05", "2026-02-01 00:25", "2026-02-01 00:45"], "steps from a single value",
    ),
    Disagreement(
        "cronsim: a step past its range is taken",
        of_cronsim, "*/90 * * * *", "2026-02-01", ["2026-02-01 01:00"], "step 90 does not fit",
    ),
    Disagreement(
        "cronsim: asked inside a repeated hour, the next lies in the past",
        of_cronsim, "45 2 * * *", f"{FOLD_DAY}T02:40+01:00",
        [f"{FOLD_DAY}T02:45+02:00"], ["2026-10-26T02:45+01:00"],
    ),
    Disagreement(
        "cronsim: six fields never run at the end of a gap",
        of_cronsim, "15 30 2 * * *", f"{GAP_DAY}T00:00+01:00",
        ["2026-03-30T02:30:15+02:00"], [f"{GAP_DAY}T03:00+02:00", "2026-03-30T02:30:15+02:00"],
    ),
    Disagreement(
        "cronsim: six fields run twice in a repeated hour",
        of_cronsim, "15 30 2 * * *", f"{FOLD_DAY}T00:00+02:00",
        [f"{FOLD_DAY}T02:30:15+02:00", f"{FOLD_DAY}T02:30:15+01:00"],
        [f"{FOLD_DAY}T02:30:15+02:00", "2026-10-26T02:30:15+01:00"],
    ),
]  # fmt: skip


@pytest.mark.parametrize("row", DISAGREEMENTS, ids=lambda row: row.id)
def test_cron_where_others_answer_otherwise_has_its_own_answer(row: Disagreement) -> None:
    """Each difference is known by an example; none is left to be found by a user."""
    after = datetime.fromisoformat(row.after)
    if after.tzinfo:
        after = after.astimezone(BERLIN)

    assert answers(row.library, row.expression, after, row.theirs) == row.theirs
    assert answers(of_duly, row.expression, after, row.ours) == row.ours
    assert row.theirs != row.ours


def answers(
    library: Any, expression: str, after: datetime, expected: list[str] | str
) -> list[str] | str:
    """The first answers in the form of those expected; the words of a refusal if it holds them."""
    try:
        count = len(expected) if isinstance(expected, list) else 1
        found = list(islice(library(expression, after), count))
    except Exception as error:
        words = str(error)
        return expected if isinstance(expected, str) and expected in words else words
    texts = expected if isinstance(expected, list) else ["2026-01-01 00:00"]
    return [shape(t, text) for t, text in zip(found, texts, strict=False)]


def shape(time: datetime, like: str) -> str:
    """Seconds only where the expected text has them."""
    seconds = like.count(":") - ("+" in like) > 1
    return time.isoformat(" " if " " in like else "T", "seconds" if seconds else "minutes")


# ------------------------------------------------------------------------------- one set of times


class CountedDays(CronDays):
    """Counts the months that a search looks into."""

    months = 0

    def _of_month(self, year: int, month: int) -> list[int]:
        self.months += 1
        return super()._of_month(year, month)


# The rarest day there is, 29 February on one weekday, comes at most 40 years after the last.
MONTHS_MAX = 12 * 41


@unhurried
@given(
    expressions(),
    zone_names,
    policies,
    st.datetimes(datetime(1800, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
)
def test_cron_in_any_zone_is_one_set_however_it_is_asked(
    expression: str, zone: str, policy: dict[str, Any], around: datetime
) -> None:
    """Enumerating, stepping forward and stepping back agree, move on, and end soon."""
    assume(not never_fires(expression))
    days = CountedDays(parse(expression))
    schedule = WallSchedule(days, zones.load(zone), **policy)
    found = list(islice(schedule.between(around, datetime(2600, 1, 1, tzinfo=UTC)), 5))

    assert all(earlier < later for earlier, later in pairwise(found))
    assert all(instant.tzinfo is UTC for instant in found)
    for earlier, later in pairwise(found):
        days.months = 0
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
        assert schedule.previous(later) == later
        assert days.months <= 3 * MONTHS_MAX
    for instant in found:
        assert schedule.wall_times(instant)
        before = schedule.previous(instant - MICROSECOND)
        assert before is None or schedule.next(before) == instant


switch_times = st.sampled_from(
    [
        ("Europe/Berlin", "2026-03-29T01:00Z"),
        ("Europe/Berlin", "2026-10-25T01:00Z"),
        ("America/St_Johns", "2007-11-04T02:31Z"),
        ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
        ("Africa/Cairo", "2026-04-23T22:00Z"),
        ("America/Havana", "2025-03-09T05:00Z"),
        ("Pacific/Apia", "2011-12-30T10:00Z"),
        ("America/Juneau", "1867-10-18T12:00Z"),
        ("Africa/Monrovia", "1972-01-07T00:44:30Z"),
    ]
)
hours = st.lists(st.integers(0, 23), min_size=1, max_size=3).map(lambda n: ",".join(map(str, n)))
daily = st.builds(
    "{} {} {} * * *".format,
    st.sampled_from(["0", "*/20", "7,59"]),
    lists(terms(0, 59), OURS),
    hours | st.just("*"),
)


@unhurried
@given(daily, switch_times, policies, st.integers(-200_000, 200_000))
def test_cron_near_a_switch_is_the_set_that_its_wall_times_name(
    expression: str, switch: tuple[str, str], policy: dict[str, Any], seconds: int
) -> None:
    """Whatever is held back and merged at a switch, nothing is lost, doubled or out of order."""
    schedule = Cron(expression, switch[0], **policy)
    around = utc(switch[1]) + timedelta(seconds=seconds)
    start, end = around - timedelta(hours=2), around + timedelta(hours=2)
    midnight = around.replace(tzinfo=None, hour=0, minute=0, second=0)
    walls = schedule.walls(midnight - 3 * DAY, midnight + 4 * DAY)
    expected = sorted({t for wall in walls for t in plainly(wall, schedule) if start <= t < end})

    assert list(schedule.between(start, end)) == expected
    assert schedule.next(start - MICROSECOND) == min(
        expected, default=schedule.next(end - MICROSECOND)
    )
    if expected:
        assert schedule.previous(end - MICROSECOND) == expected[-1]


def plainly(wall: datetime, schedule: Cron) -> list[datetime]:
    """The instants of a wall time, by asking the zone what each candidate shows."""
    first, last = (
        (wall.replace(tzinfo=schedule.zone, fold=fold)).astimezone(UTC) for fold in (0, 1)
    )
    shown = [t for t in (first, last) if t.astimezone(schedule.zone).replace(tzinfo=None) == wall]
    if shown:
        both = sorted(set(shown))
        return {"first": both[:1], "last": both[-1:], "both": both}[schedule.fold]
    if schedule.gap == "skip":
        return []
    if schedule.gap == "shift":
        return [first]
    # In a gap the second reading lies before it and the first after it.
    low, high = last, first
    before = low.astimezone(schedule.zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // 2
        if middle.astimezone(schedule.zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return [high.replace(microsecond=0)]


@pytest.mark.parametrize(
    ("zone", "year"),
    [
        ("Europe/Berlin", 2026),
        ("America/St_Johns", 2007),
        ("America/Sao_Paulo", 2018),
        ("Africa/Casablanca", 2026),
        ("Asia/Gaza", 2026),
        ("Pacific/Apia", 2011),
        ("Europe/Berlin", 2060),
    ],
)
@pytest.mark.parametrize("expression", ["30 0,2 * * *", "0 0 1-31/4 * *", "45 23 * * 5,0"])
def test_cron_over_years_has_the_instants_of_each_of_its_wall_times(
    expression: str, zone: str, year: int
) -> None:
    """Days with one offset are taken together, and no switch after them is passed over."""
    schedule = Cron(expression, zone, gap="next", fold="both")
    start, end = datetime(year, 1, 3, tzinfo=UTC), datetime(year + 2, 1, 3, tzinfo=UTC)
    walls = schedule.walls(datetime(year - 1, 12, 25), datetime(year + 2, 1, 10))
    expected = sorted({t for wall in walls for t in plainly(wall, schedule) if start <= t < end})

    assert list(schedule.between(start, end)) == expected
    for earlier, later in pairwise(expected):
        assert schedule.next(earlier) == later
        assert schedule.previous(later - MICROSECOND) == earlier
