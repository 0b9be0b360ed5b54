"""What a look at a job means for a worker, and what it needs to stand on.

Decides nothing about an occurrence; it reads what a tick found.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from duly._core.catch_up import Decision
from duly._core.expected import CALENDAR_END, CALENDAR_START, Expected, Span
from duly._core.states import Outcome
from duly._core.wakeup import Look
from duly.errors import DulyError, HandlerTimeout, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duly._core.job import Job
    from duly._sync.base import AppBase
    from duly._sync.ticking import JobTick

HARD_END_S: Final = 30
"""After how long an interrupted worker ends whatever hangs."""


@dataclass(frozen=True, slots=True)
class Worked:
    """What was done for one job."""

    job: Job
    at: datetime
    done: JobTick | None
    error: BaseException | None = None


def look_of(found: Worked, next_due: datetime | None, stuck: int) -> Look:
    """What a tick of one job says about when to look again."""
    done = found.done
    if done is None:
        return Look(found.at, next_due, stuck=stuck + 1)
    hopeless = any(ran.outcome is not Outcome.APPLIED and _is_ours(ran.error) for ran in done.ran)
    applied = sum(ran.outcome in {Outcome.APPLIED, Outcome.DUPLICATE} for ran in done.ran)
    if done.full or done.refused or hopeless:
        return Look(found.at, next_due, stuck=1 if applied else stuck + 1)
    plans = done.parts.values()
    waiting = [w.until for p in plans for w in p.waiting if w.decision is Decision.RETRY_LATER]
    retry_at = min((at for at in waiting if at is not None), default=None)
    # A failure's retry has a time only once it is planned, and what was covered or skipped
    # is looked at once more: somebody may have been faster.
    more = applied < sum(p.missing - p.held - p.left - len(p.waiting) for p in plans)
    return Look(found.at, next_due, retry_at, more=more)


def _is_ours(error: BaseException | None) -> bool:
    """Whether an error is duly's own, so that trying at once changes nothing."""
    return isinstance(error, DulyError) and not isinstance(error, HandlerTimeout)


def next_due(job: Job, after: datetime) -> datetime | None:
    """The first due time later than *after*, by this process's definition."""
    policies = job.policies
    start, end = policies.starts or CALENDAR_START, policies.ends or CALENDAR_END
    return Expected([Span(job.schedule, start, end, 1)]).next_due(after)


def require_connections(app: AppBase, threads: int) -> None:
    """Each attempt holds one, and a look another."""
    pool: Any = app.database.engine.pool
    size, more = getattr(pool, "size", None), getattr(pool, "_max_overflow", None)
    if size is None or more is None or more < 0 or size() == 0:
        return
    if threads + 2 > size() + more:
        raise UsageError(
            f"threads={threads} needs {threads + 2} connections, and the Engine's pool has"
            f" {size() + more}: give fewer threads, or an Engine with a larger pool_size="
        )


@contextmanager
def hard_end(number: int | None) -> Iterator[None]:
    """Whatever hangs inside, a driver or a lock, does not keep a process that must stop."""
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(HARD_END_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
