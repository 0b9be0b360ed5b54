"""Pruning that never frees a key: how far a prune may go, and the order of its statements.

Decides the horizon of each job. It never passes a running attempt, a torn or a missing
occurrence, or an undelivered message, and no flag lets it pass the floor (PROTOCOL 14 to 18). It
never reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from duly._core.instants import format_instant, from_us
from duly._core.ops import FLOOR_US, Begin, Commit, Contention, Op, Rollback
from duly.errors import Busy, PruneRefused

if TYPE_CHECKING:
    from collections.abc import Generator

BATCH_ROWS = 500
"""Rows of one table deleted in one transaction: an attempt at an old period waits for it."""
TRIES = 20


@dataclass(frozen=True, slots=True)
class ReadFacts:
    """Read the database's clock and the newest record. Reply: `Facts`."""


@dataclass(frozen=True, slots=True)
class ListJobs:
    """Jobs with rows at or below the bound. Reply: list of (job, horizon_us or None)."""

    bound_us: int


@dataclass(frozen=True, slots=True)
class OldestHeld:
    """The oldest occurrence at or below the bound that no prune passes. Reply: Held or None."""

    job: str
    bound_us: int


@dataclass(frozen=True, slots=True)
class Held:
    """An occurrence that no prune passes.

    Attributes:
        key: Its logical key.
        why: `torn`, `running`, `missing`, `not due yet` or `undelivered`.
    """

    nominal_us: int
    key: str
    why: str


@dataclass(frozen=True, slots=True)
class TouchGuard:
    """Update the guard row, which waits for every attempt that looked at it. Reply: None."""


@dataclass(frozen=True, slots=True)
class RaiseHorizon:
    """Raise the job's horizon; it is never lowered. Reply: None."""

    job: str
    horizon_us: int


@dataclass(frozen=True, slots=True)
class DeleteBatch:
    """Delete what is settled, then what tells of it. Reply: `Deleted`."""

    job: str
    horizon_us: int
    rows: int


PruneOp: TypeAlias = (
    Op | ReadFacts | ListJobs | OldestHeld | TouchGuard | RaiseHorizon | DeleteBatch
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What bounds a prune.

    Attributes:
        clock_us: The database's clock.
        newest_us: When the newest occurrence was recorded; None in an empty ledger.
    """

    clock_us: int
    newest_us: int | None


@dataclass(frozen=True, slots=True)
class Deleted:
    """Rows deleted by one batch, per table."""

    occurrences: int
    attempts: int
    duplicates: int
    messages: int = 0

    @property
    def most(self) -> int:
        """The largest of them."""
        return max(self.occurrences, self.attempts, self.duplicates, self.messages)


@dataclass(frozen=True, slots=True)
class PrunedJob:
    """What a prune did to one job.

    Attributes:
        horizon_us: Its horizon now; None if it has none.
        held: The occurrence that stopped the prune short, if any.
    """

    job: str
    horizon_us: int | None
    occurrences: int
    attempts: int
    held: Held | None = None

    @property
    def held_us(self) -> int | None:
        """The nominal time of what held it."""
        return None if self.held is None else self.held.nominal_us


def prune(
    older_than_us: int | None, *, age_us: int | None = None, clock_is_right: bool = False
) -> Generator[PruneOp, Any, list[PrunedJob]]:
    """Prune every job to a bound on its nominal times.

    Args:
        older_than_us: The bound as an instant; or else
        age_us: the bound as an age by the database's clock.
        clock_is_right: A person says so, although nothing was recorded for a day.

    Raises:
        PruneRefused: The bound passes the floor, or the clock is not to be trusted.
        Busy: The guard stayed locked.
    """
    facts: Facts = yield ReadFacts()
    yield Rollback()
    bound_us = older_than_us if older_than_us is not None else facts.clock_us - (age_us or 0)
    if facts.newest_us is None:
        return []
    _refuse_unsafe(bound_us, facts, clock_is_right)
    jobs: list[tuple[str, int | None]] = yield ListJobs(bound_us)
    yield Rollback()
    done = []
    for job, before_us in jobs:
        held: Held | None = yield OldestHeld(job, bound_us)
        yield Rollback()
        horizon_us = bound_us if held is None else held.nominal_us - 1
        if before_us is not None and before_us > horizon_us:
            horizon_us = before_us
        done.append((yield from _prune_job(job, horizon_us, held)))
    return done


def _prune_job(job: str, horizon_us: int, held: Held | None) -> Generator[PruneOp, Any, PrunedJob]:
    occurrences = attempts = tries = 0
    while True:
        try:
            yield Begin()
            # The guard first: an attempt that needs the horizon locks the guard before it
            # reads, so it sees either no deletion or this horizon
            # (tests/races/test_prune_against_attempt.py).
            yield TouchGuard()
            yield RaiseHorizon(job, horizon_us)
            deleted: Deleted = yield DeleteBatch(job, horizon_us, BATCH_ROWS)
            yield Commit()
        except Contention as fault:
            yield Rollback()
            tries += 1
            if tries == TRIES:
                raise Busy(
                    f"the prune of {job} stayed blocked by attempts at old periods: nothing of this"
                    " batch was done, try again"
                ) from fault.cause
            continue
        tries = 0
        occurrences += deleted.occurrences
        attempts += deleted.attempts
        if deleted.most < BATCH_ROWS:
            return PrunedJob(job, horizon_us, occurrences, attempts, held)


def _refuse_unsafe(bound_us: int, facts: Facts, clock_is_right: bool) -> None:
    assert facts.newest_us is not None
    if facts.clock_us - facts.newest_us > FLOOR_US and not clock_is_right:
        raise PruneRefused(
            f"the database's clock says {format_instant(from_us(facts.clock_us))}, but nothing was"
            f" recorded after {format_instant(from_us(facts.newest_us))}: if the clock is right,"
            " say so (clock_is_right=True, --clock-is-right); a clock ahead would free recent keys"
        )
    limit_us = min(facts.clock_us, facts.newest_us) - 2 * FLOOR_US
    if bound_us > limit_us:
        raise PruneRefused(
            f"a prune to {format_instant(from_us(bound_us))} would pass the floor"
            f" {format_instant(from_us(limit_us))} (two days before the newest record): keys that"
            " recent may still be retried; choose an older bound"
        )
