"""Missing occurrences: expected, and not settled.

Decides set difference, exactly, from a compressed form of both: ranges of equal steps.
Must never use the newest record to decide what lies before it (invariant 4).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["holes", "usual_step"]

LOOKED_AT: Final = 100
FALLBACK_US: Final = 86_400_000_000


def usual_step(expected: Iterable[int]) -> int:
    """The most common distance of two expected times: it makes the longest runs."""
    steps = Counter(later - one for one, later in pairwise(islice(expected, LOOKED_AT)))
    return steps.most_common(1)[0][0] if steps else FALLBACK_US


def holes(expected: Iterable[Sequence[int]], settled: Iterable[range]) -> Iterator[Sequence[int]]:
    """The expected times that are in no run; lazy, in order, in pieces that are not empty.

    Args:
        expected: Stretches that are not empty; strictly increasing, one after the other.
        settled: Runs of one step that follow each other and do not overlap. What lies in a run
            but is not expected does no harm.
    """
    runs = iter(settled)
    run = next(runs, None)
    for stretch in expected:
        position = 0
        while position < len(stretch):
            while run is not None and run[-1] < stretch[position]:
                run = next(runs, None)
            if run is None:
                yield stretch[position:]
                break
            first = bisect_left(stretch, run[0], position)
            if first > position:
                yield stretch[position:first]
            position = bisect_right(stretch, run[-1], first)
            within = stretch[first:position]
            if within and not _are_all_in(run, within):
                left = [us for us in within if us not in run]
                if left:
                    yield left


def _are_all_in(run: range, within: Sequence[int]) -> bool:
    """Whether one look tells it: two ranges of one step, in time with each other."""
    return isinstance(within, range) and within.step % run.step == 0 and within[0] in run
