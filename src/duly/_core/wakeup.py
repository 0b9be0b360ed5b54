"""When a worker looks at a job again, and whether its clocks can be trusted until then.

Decides times, from what a look found and from clocks that are handed in. Must never decide what
is run: the plan does, from the ledger; a look too many finds nothing, and one too late is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["DatabaseClock", "Look", "Steps", "look_again", "sleep_s"]

SLACK: Final = timedelta(milliseconds=20)
"""How much after a due time the look comes: one that comes too soon finds nothing."""
STEP_S: Final = 0.5
"""How far wall clock and monotonic clock may drift apart in one second; more is a step."""
TICK_S: Final = 1.0
"""How often clocks are compared."""
FIRST: Final = timedelta(seconds=1)
"""How long a worker leaves a job alone that it could not bring on, the first time."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a job found and did.

    Attributes:
        at: The database's clock when it was planned.
        next_due: The first due time later than *at*; None if there is none.
        retry_at: When the first of what failed before is tried again; None if nothing is.
        more: There is more to be run now, or to be planned anew.
        stuck: How many looks in a row have ended with something that could not be brought on:
            all slots are taken, or the database is away.
    """

    at: datetime
    next_due: datetime | None
    retry_at: datetime | None = None
    more: bool = False
    stuck: int = 0


def look_again(look: Look, poll: timedelta) -> datetime | None:
    """When to look at the job again; None to leave that to the poll.

    Args:
        poll: How often the worker looks at everything; the longest that a job is left alone.
    """
    times = [look.next_due, look.retry_at]
    if look.stuck:
        times.append(look.at + min(FIRST * 2.0 ** min(look.stuck - 1, 20), max(FIRST, poll)))
    elif look.more:
        return look.at
    found = min((at for at in times if at is not None), default=None)
    return None if found is None else found + SLACK


def sleep_s(now: datetime, wake_ups: Iterable[datetime | None]) -> float:
    """How long a worker may sleep, at most the second after which clocks are compared."""
    first = min((at for at in wake_ups if at is not None), default=None)
    if first is None:
        return TICK_S
    return min(TICK_S, max(0.0, (first - now).total_seconds()))


class DatabaseClock:
    """The database's clock, carried on by the monotonic one from where it was last read."""

    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None

    def learn(self, at: datetime, monotonic_s: float) -> None:
        """Take the database's clock, read when the monotonic one showed *monotonic_s*."""
        self._read = (at, monotonic_s)

    def now(self, monotonic_s: float) -> datetime | None:
        """The database's clock, as far as it is known; None before it was read."""
        if self._read is None:
            return None
        at, then_s = self._read
        return at + timedelta(seconds=monotonic_s - then_s)


class Steps:
    """Tells a clock that was set, and a machine that was asleep, from time that passes."""

    def __init__(self) -> None:
        self._ahead_s: float | None = None

    def stepped(self, wall_s: float, monotonic_s: float) -> bool:
        """Whether wall clock and monotonic clock went apart since the last question."""
        ahead_s, before_s = wall_s - monotonic_s, self._ahead_s
        self._ahead_s = ahead_s
        return before_s is not None and abs(ahead_s - before_s) > STEP_S
