"""What is missing of a job, and what becomes of it: the reads behind a plan.

Decides nothing (`_core/holes.py` and `_core/catch_up.py` do). It reads sets: what is expected
from the revisions, what is settled from the occurrences; never the newest of them alone.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import TYPE_CHECKING

from duly._core import catch_up
from duly._core.catch_up import Failures, Plan
from duly._core.holes import SettledRun, holes, usual_step
from duly._core.instants import US_MAX, from_us, to_us
from duly._core.occurrence import Occurrence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._db.sessions.base import Session
    from duly._sync.registry import Known

MICROSECOND = timedelta(microseconds=1)
CALENDAR_START = datetime.min.replace(tzinfo=UTC)
PAGE = 20_000
"""Runs that are read at once."""
FAILURES_MAX = 10_000
"""Failed occurrences that are looked at in one plan."""


@dataclass(frozen=True, slots=True)
class Missing:
    """The missing occurrences of one job and partition.

    Attributes:
        nominal_us: Strictly increasing, eight bytes each: a backlog of a million must fit.
        expected: How many were expected in the span that was looked at.
        newest_due_us: The newest that is due, settled or not; None if none is.
    """

    nominal_us: array[int]
    expected: int
    newest_due_us: int | None


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
    if start > now:
        return Missing(array("q"), 0, None)
    expected = known.expected
    step = usual_step(expected.due_between(start, now + MICROSECOND))
    seen = _Seen(expected.due_between(start, now + MICROSECOND))
    first = next(seen, None)
    if first is None:
        return Missing(array("q"), 0, None)
    settled = settled_runs(session, known.job, partition, since_us=to_us(first), step=step)
    found = array("q", map(to_us, holes(chain([first], seen), settled, step)))
    newest = None if seen.newest is None else to_us(seen.newest)
    return Missing(found, seen.count, newest)


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
    session: Session, job: str, partition: str, *, since_us: int, step: timedelta
) -> Iterator[SettledRun]:
    """What is settled from a nominal time on, as runs of one step; in bounded memory."""
    bounds = {"job": job, "partition_key": partition, "until_us": US_MAX + 1}
    step_us = step // MICROSECOND
    run_start: int | None = None
    while True:
        page = {**bounds, "since_us": since_us, "step_us": step_us, "limit": PAGE}
        rows = session.run("settled_runs", page)
        for start, before in rows:
            if before is not None and run_start is not None:
                yield SettledRun(from_us(run_start), from_us(int(before)))
            run_start = int(start)
        if run_start is None:
            return
        if len(rows) < PAGE:
            newest = session.run("newest_settled", {**bounds, "since_us": run_start})[0][0]
            yield SettledRun(from_us(run_start), from_us(int(newest)))
            return
        since_us = run_start  # the next page starts with this run again


def start_of(known: Known) -> datetime:
    """The first due time that may be missing."""
    floor = floor_of(known)
    if known.complete_us is None:
        return floor
    return max(floor, from_us(known.complete_us) + MICROSECOND)


def floor_of(known: Known) -> datetime:
    """The first due time after the horizon: records before it are gone, and starts refused."""
    if known.horizon_us is None:
        return CALENDAR_START
    horizon_at = from_us(known.horizon_us)
    return (known.expected.due_time(horizon_at) or horizon_at) + MICROSECOND


class _Seen:
    """Passes times on and remembers how many, and the newest."""

    def __init__(self, times: Iterator[datetime]) -> None:
        self._times = times
        self.count = 0
        self.newest: datetime | None = None

    def __iter__(self) -> Iterator[datetime]:
        return self

    def __next__(self) -> datetime:
        self.newest = found = next(self._times)
        self.count += 1
        return found
