"""Missing occurrences: expected, and not settled.

Decides set difference, exactly, from a compressed form of what is settled: runs of equal steps.
Must never use the newest record to decide what lies before it (invariant 4).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["SettledRun", "holes", "usual_step"]

LOOKED_AT: Final = 100
FALLBACK: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class SettledRun:
    """Settled nominal times that follow each other by one step: first, first + step, …, last."""

    first: datetime
    last: datetime


def usual_step(expected: Iterable[datetime]) -> timedelta:
    """The most common distance of two expected times: it makes the longest runs."""
    steps = Counter(later - one for one, later in pairwise(islice(expected, LOOKED_AT)))
    return steps.most_common(1)[0][0] if steps else FALLBACK


def holes(
    expected: Iterable[datetime], settled: Iterable[SettledRun], step: timedelta
) -> Iterator[datetime]:
    """The expected times that are in no run; lazy, in order.

    Args:
        expected: Strictly increasing.
        settled: Runs in order, not overlapping. What lies in a run but is not expected does no
            harm.
        step: Of the runs, longer than 0.
    """
    runs = iter(settled)
    run = next(runs, None)
    if run is None:
        yield from expected
        return
    want, last = run.first, run.last
    for at in expected:
        if at == want and at < last:
            want = at + step
            continue
        while run is not None and at > last:
            run = next(runs, None)
            if run is not None:
                want, last = run.first, run.last
        if run is None or at < run.first or (at - run.first) % step:
            yield at
        elif at < last:  # past the last one, the calendar may end
            want = at + step
