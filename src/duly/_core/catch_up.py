"""What becomes of each missing occurrence: run, skip, supersede, wait, or leave to a person.

Decides by the job's policies and its failures, and says why. It never reads a clock or the
database, and never puts an occurrence into two lists.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from duly._core.instants import to_us
from duly.errors import NominalTimeInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from duly._core.policies import Policies

__all__ = ["Decision", "Failures", "Plan", "Tried", "Waiting", "in_step", "plan"]

COVERED_MAX: Final = 100_000
"""How many occurrences one reconciling run covers at most: they are rows of one transaction."""
SKIPPED_MAX: Final = 10_000
"""How many occurrences one tick settles as skipped at most."""


class Decision(StrEnum):
    """What happens to one missing occurrence now."""

    RUN = "run"
    SKIP = "skip"
    SUPERSEDE = "supersede"
    RETRY_LATER = "retry later"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Failures:
    """What is known of the failed attempts at one occurrence.

    Attributes:
        count: How many there were.
        last_at: When the last one ended, by the database's clock.
        final: The last error is not worth a retry, by the job's `retry=`.
    """

    count: int
    last_at: datetime
    final: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """An occurrence that is not run now.

    Attributes:
        nominal_us: Which.
        decision: `retry later` or `given up`.
        until: When it is tried again; None if only a person can go on.
    """

    nominal_us: int
    decision: Decision
    until: datetime | None


@dataclass(slots=True)
class Plan:
    """What happens to the missing occurrences of one job, each in exactly one place.

    Attributes:
        run: To be run now, in this order.
        skip: To be settled as skipped.
        cover: To be superseded by the one run, newest first; with `reconcile` alone.
        waiting: Failed before, and not tried now.
        over_limit: How many more stay missing because one tick runs, skips or covers no more.
        held: How many wait for another: an earlier one, by `in_order`, or the one that covers them.
        left: How many stay missing because the policy leaves them to a person.
        missing: How many there are in all.
        oldest_us: The oldest missing one; None if nothing is missing.
    """

    run: list[int] = field(default_factory=list)
    skip: Sequence[int] = ()
    cover: Sequence[int] = ()
    waiting: list[Waiting] = field(default_factory=list)
    over_limit: int = 0
    held: int = 0
    left: int = 0
    missing: int = 0
    oldest_us: int | None = None

    @property
    def next_at(self) -> datetime | None:
        """When the first of the waiting is tried again; None if none is."""
        return min((w.until for w in self.waiting if w.until is not None), default=None)


def plan(
    missing: Sequence[int],
    *,
    policies: Policies,
    now: datetime,
    due: Callable[[int], datetime],
    failures: Mapping[int, Failures],
    key: Callable[[int], str],
    newest_due_us: int | None = None,
    limit: int | None = None,
) -> Plan:
    """Decide what happens to each missing occurrence.

    Args:
        missing: Nominal times in microseconds, due and not settled, strictly increasing.
        policies: Of the revision in force.
        now: The database's clock.
        due: The due time of a nominal time.
        failures: Of those that failed before.
        key: The logical key of a nominal time, which spreads retries.
        newest_due_us: The newest due occurrence, settled or not; by default the newest missing.
        limit: The most that may run now; by default the policies'.

    Returns:
        A plan in which every element of *missing* stands exactly once.

    Raises:
        NominalTimeInvalid: *missing* is not strictly increasing; a bug in the caller.
    """
    if any(later <= one for one, later in pairwise(missing)):
        raise NominalTimeInvalid(
            "missing occurrences must be strictly increasing; sort them, each once"
        )
    found = Plan(missing=len(missing), oldest_us=missing[0] if missing else None)
    if not missing:
        return found
    tried = Tried(policies, now, failures, key)
    most = policies.max_per_tick if limit is None else limit
    match policies.catch_up:
        case "each":
            _each(found, missing, tried, most)
        case "skip":
            assert policies.skip_after is not None
            oldest = to_us(now - policies.skip_after)
            first = _first(missing, lambda us: to_us(due(us)) >= oldest)
            found.skip = missing[: min(first, SKIPPED_MAX)]
            _each(found, missing[first:], tried, most)
            found.over_limit += first - len(found.skip)
        case "reconcile":
            _newest(found, missing, tried, most)
            older = len(missing) - 1
            if found.run:
                found.cover = missing[max(0, older - COVERED_MAX) : older][::-1]
                found.over_limit = older - len(found.cover)
            else:
                found.held = older
        case "none":
            found.left = len(missing)
            if newest_due_us is None or missing[-1] == newest_due_us:
                _newest(found, missing, tried, most)
                found.left -= 1
    return found


def in_step(plans: Iterable[Plan]) -> None:
    """With `in_order`: what waits of one partition holds up what is later of the others, too."""
    of_parts = list(plans)
    first = min((each.nominal_us for plan in of_parts for each in plan.waiting), default=None)
    if first is None:
        return
    for plan in of_parts:
        kept = [us for us in plan.run if us <= first]
        plan.held += len(plan.run) - len(kept)
        plan.run = kept


def _each(found: Plan, missing: Sequence[int], tried: Tried, most: int) -> None:
    """Oldest first, up to *most*; with `in_order`, up to the first that cannot run."""
    for index, us in enumerate(missing):
        if len(found.run) >= most:
            found.over_limit = len(missing) - index
            return
        waiting = tried.waiting(us)
        if waiting is None:
            found.run.append(us)
            continue
        found.waiting.append(waiting)
        if tried.policies.in_order:
            found.held = len(missing) - index - 1
            return


def _newest(found: Plan, missing: Sequence[int], tried: Tried, most: int) -> None:
    waiting = tried.waiting(missing[-1])
    if waiting is not None:
        found.waiting.append(waiting)
    elif most > 0:
        found.run.append(missing[-1])
    else:
        found.over_limit = 1


@dataclass(frozen=True, slots=True)
class Tried:
    """Whether what failed before is tried again now."""

    policies: Policies
    now: datetime
    failures: Mapping[int, Failures]
    key: Callable[[int], str]

    def waiting(self, us: int) -> Waiting | None:
        """Why an occurrence is not run now; None if it is."""
        failed = self.failures.get(us)
        if failed is None:
            return None
        retry = self.policies.retry
        if failed.final or (retry.attempts is not None and failed.count >= retry.attempts):
            return Waiting(us, Decision.GIVEN_UP, None)
        until = failed.last_at + retry.delay(failed.count, self.key(us))
        return Waiting(us, Decision.RETRY_LATER, until) if until > self.now else None


def _first(missing: Sequence[int], wanted: Callable[[int], bool]) -> int:
    """The index of the first wanted one: all before it are unwanted, all after it wanted."""
    low, high = 0, len(missing)
    while low < high:
        middle = (low + high) // 2
        if wanted(missing[middle]):
            high = middle
        else:
            low = middle + 1
    return low
