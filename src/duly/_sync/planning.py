"""What is missing of a job, and what becomes of it: the reads behind a plan.

Decides nothing (`_core/holes.py` and `_core/catch_up.py` do). It reads sets: what is expected
from the revisions, what is settled from the occurrences; never the newest of them alone.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import TYPE_CHECKING

from duly._core import catch_up
from duly._core.catch_up import Failures, Plan
from duly._core.holes import holes, usual_step
from duly._core.instants import from_us
from duly._core.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly._core.expected import Expected
    from duly._core.schedules.period import Period
    from duly._db.sessions.base import Session
    from duly._sync.registry import Known

MICROSECOND = timedelta(microseconds=1)
CALENDAR_START = datetime.min.replace(tzinfo=UTC)
PAGE = 20_000
"""Runs that are read at once."""
LOOKED_AT = 100
"""Expected times by which the usual step is found, and whether there are many."""
BACK = tuple(timedelta(hours=hours) for hours in (1, 24, 24 * 40, 24 * 800))
"""How far back the newest one is looked for, step by step."""
FAILURES_MAX = 10_000
"""Failed occurrences that are looked at in one plan."""

# How long a period is at most: a due time is at most one more than the offset away from it.
_LONGEST: dict[Period, timedelta] = {
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(days=7),
    "month": timedelta(days=31),
    "quarter": timedelta(days=92),
    "year": timedelta(days=366),
}


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing occurrences of one job and partition.

    Attributes:
        nominal_us: Strictly increasing, eight bytes each: a backlog of a million must fit.
        expected: How many were expected in the span that was looked at; at most `LOOKED_AT` are
            counted.
        newest_due_us: The newest that is due, settled or not; None if none is.
        left_from_us: What is due after it was not looked at; None if all was.
    """

    nominal_us: array[int]
    expected: int
    newest_due_us: int | None
    left_from_us: int | None = None

    @property
    def looked_at_us(self) -> int | None:
        """The newest that was looked at."""
        return self.newest_due_us if self.left_from_us is None else self.left_from_us


def missing(
    session: Session,
    known: Known,
    *,
    now: datetime,
    since: datetime | None = None,
    partition: str = "",
) -> Missing:
    """What is expected, due at *now* and not settled, since a due time or since ever.

    Args:
        since: A due time; None for the last one up to which all was found settled.
    """
    start = start_of(known) if since is None else max(since, floor_of(known))
    until = now + MICROSECOND
    expected = known.expected
    newest = None if start > now else _newest(expected, start, until)
    some = list(islice(chain.from_iterable(expected.stretches(start, until)), LOOKED_AT))
    if newest is None or not some:
        return Missing(array("q"), 0, None)
    series = {"job": known.job, "partition_key": partition}
    settled = settled_runs(session, series, since_us=some[0], step_us=usual_step(some))
    found = array("q")
    for piece in holes(expected.stretches(start, until), settled):
        found.extend(piece)
    return Missing(found, len(some), newest)


def plans(
    session: Session, known: Known, found: Mapping[str, Missing], *, now: datetime
) -> dict[str, Plan]:
    """What happens to what is missing of each partition, by the policies in force."""
    made = {
        partition: plan(session, known, part, now=now, partition=partition)
        for partition, part in found.items()
    }
    if known.latest.policies.in_order:
        catch_up.in_step(made.values())
    return made


def plan(
    session: Session,
    known: Known,
    found: Missing,
    *,
    now: datetime,
    limit: int | None = None,
    partition: str = "",
) -> Plan:
    """What happens to each missing occurrence, by the policies in force."""
    failed: dict[int, Failures] = {}
    if found.nominal_us:
        bounds = {"since_us": found.nominal_us[0], "until_us": found.nominal_us[-1]}
        failed = failures(session, known.job, partition, **bounds)
    expected = known.expected
    return catch_up.plan(
        found.nominal_us,
        policies=known.latest.policies,
        now=now,
        due=lambda us: expected.due_time(from_us(us)) or from_us(us),
        failures=failed,
        key=lambda us: Occurrence.from_us(known.job, us, partition).key,
        newest_due_us=found.newest_due_us,
        limit=limit,
    )


def failures(
    session: Session, job: str, partition: str, *, since_us: int, until_us: int
) -> dict[int, Failures]:
    """The failed attempts at occurrences that are not settled, by nominal time."""
    params = {
        "job": job,
        "partition_key": partition,
        "since_us": since_us,
        "until_us": until_us,
        "limit": FAILURES_MAX,
    }
    return {
        int(us): Failures(int(count), from_us(int(last)), final is not None and final == last)
        for us, count, last, final in session.run("failures", params)
    }


def settled_runs(
    session: Session, series: dict[str, str], *, since_us: int, step_us: int
) -> Iterator[range]:
    """What is settled from a nominal time on, as runs of one step; in bounded memory.

    Args:
        series: The job and the partition.
    """
    oldest = session.run("oldest_settled", {**series, "since_us": since_us})[0][0]
    run_start = None if oldest is None else int(oldest)
    while run_start is not None:
        page = {"since_us": run_start, "step_us": step_us, "limit": PAGE}
        for end, following in session.run("settled_runs", {**series, **page}):
            if run_start is not None:
                yield range(run_start, int(end) + 1, step_us)
            run_start = None if following is None else int(following)


def start_of(known: Known) -> datetime:
    """The first due time that may be missing."""
    floor = floor_of(known)
    if known.complete_us is None:
        return floor
    return max(floor, from_us(known.complete_us) + MICROSECOND)


def floor_of(known: Known) -> datetime:
    """A due time before that of everything above the horizon: what is below is not expected."""
    if known.horizon_us is None:
        return CALENDAR_START
    return earliest_due(known, from_us(known.horizon_us))


def earliest_due(known: Known, nominal_time: datetime) -> datetime:
    """A due time before that of every nominal time from *nominal_time* on."""
    margin = timedelta(0)
    for revision in known.revisions:
        if revision.period is not None:
            period, _, offset = revision.period.partition(" ")
            length = next(each for name, each in _LONGEST.items() if name == period)
            margin = max(margin, length * (abs(int(offset or 0)) + 2))
    start = CALENDAR_START
    return start if nominal_time - start < margin else nominal_time - margin


def _newest(expected: Expected, start: datetime, until: datetime) -> int | None:
    """The last expected time of a span of due times, looked for from its end."""
    for back in (*BACK, until - start):
        since = max(start, until - back)
        found = max((each[-1] for each in expected.stretches(since, until)), default=None)
        if found is not None or since == start:
            return found
    return None
