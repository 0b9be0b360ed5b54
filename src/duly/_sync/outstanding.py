"""What is missing of a job, read without a trace: by partition, with what failed, in a span.

Decides nothing about an occurrence. Unlike a tick it fixes no set of partitions: an occurrence
whose set is not fixed yet is one missing occurrence, or has the partitions that are given.
"""

from __future__ import annotations

from array import array
from heapq import merge
from typing import TYPE_CHECKING

from duly._core import status
from duly._core.catch_up import Failures, Tried
from duly._core.instants import US_MAX, from_us, to_us
from duly._core.occurrence import Occurrence
from duly._core.status import Failing, MissingOccurrence
from duly._sync import partitioning, planning
from duly._sync.planning import MICROSECOND, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from duly._db.sessions.base import Session
    from duly._sync.registry import Known


def missing(
    session: Session,
    known: Known,
    *,
    now: datetime,
    since: datetime | None = None,
    names: Sequence[str] | None = None,
) -> dict[str, Missing]:
    """What is missing of each partition that has anything missing; of "" where there are none.

    Args:
        since: A due time; None for the last one up to which all was found settled.
        names: The partitions of an occurrence whose set is not fixed yet; None for none.
    """
    start = planning.start_of(known) if since is None else max(since, planning.floor_of(known))
    if start > now:
        return {}
    first = next(known.expected.stretches(start, now + MICROSECOND), None)
    if first is None:
        return {}
    bounds = {"job": known.job, "since_us": first[0], "until_us": US_MAX + 1}
    if names is None and not session.run("planned_sets", bounds):
        alone = planning.missing(session, known, now=now, since=since)
        return {"": alone} if alone.nominal_us else {}
    due = partitioning.due_times(known, start, now)
    planned = partitioning.planned_sets(session, known.job, due)
    whole = partitioning.settled_whole(session, known.job, due)
    found, _ = partitioning.missing_parts(session, known.job, due)
    for us in due:
        for name in () if us in planned or us in whole else names or ("",):
            found.setdefault(name, array("q")).append(us)
    return {
        name: Missing(array("q", sorted(times)), len(due), due[-1])
        for name, times in sorted(found.items())
    }


def failures(
    session: Session, known: Known, found: Mapping[str, Missing]
) -> dict[str, dict[int, Failures]]:
    """What failed of it, by partition and nominal time."""
    return {
        name: planning.failures(
            session, known.job, name, since_us=part.nominal_us[0], until_us=part.nominal_us[-1]
        )
        for name, part in found.items()
        if part.nominal_us
    }


def within(
    found: Mapping[str, Missing], since: datetime | None, until: datetime | None
) -> dict[str, Missing]:
    """Of it, what lies in a half-open span of nominal times."""
    first = None if since is None else to_us(since)
    end = None if until is None else to_us(until)
    kept: dict[str, Missing] = {}
    for name, part in found.items():
        times = array(
            "q",
            (
                us
                for us in part.nominal_us
                if (first is None or us >= first) and (end is None or us < end)
            ),
        )
        if times:
            kept[name] = Missing(times, part.expected, part.newest_due_us)
    return kept


def occurrences(
    known: Known,
    found: Mapping[str, Missing],
    failed: Mapping[str, Mapping[int, Failures]],
    now: datetime,
    *,
    failed_only: bool = False,
) -> Iterator[MissingOccurrence]:
    """Each missing occurrence with what is known of it, oldest first; lazy."""
    expected, policies = known.expected, known.latest.policies

    def of_part(name: str, part: Missing) -> Iterator[MissingOccurrence]:
        of_it = failed.get(name, {})
        tried = Tried(policies, now, of_it, lambda us: Occurrence.from_us(known.job, us, name).key)
        for us in part.nominal_us:
            if failed_only and us not in of_it:
                continue
            occurrence = Occurrence.from_us(known.job, us, name)
            due_at = expected.due_time(occurrence.nominal_time) or occurrence.nominal_time
            yield status.looked_at(occurrence, due_at, policies=policies, now=now, tried=tried)

    return merge(
        *(of_part(name, part) for name, part in found.items()),
        key=lambda each: (each.occurrence.nominal_time, each.occurrence.partition),
    )


def failing(session: Session, job: str, since_us: int, until_us: int) -> Failing | None:
    """The failed attempts at what is not settled, of a span of nominal times."""
    bounds = {"job": job, "since_us": since_us, "until_us": until_us}
    first_us, count = session.run("failing", bounds)[0]
    rows = session.run("last_failure", bounds)
    if first_us is None or not rows:
        return None
    *key, outcome, kind, message = rows[0]
    said = f"{kind}: {message}" if kind and message else kind or message
    if said is None and outcome == "abandoned":
        said = "its process died"
    return Failing(from_us(int(first_us)), int(count), Occurrence.from_us(*key).key, said)
