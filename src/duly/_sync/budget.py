"""How long one attempt may still wait, and for what.

Decides nothing about an occurrence; it counts seconds. Must never let a wait go on without
bound, and never count the handler's own time against it.
"""

from __future__ import annotations

import random

from duly._core import ops
from duly._db.waiting import pause

SETTLE_S = 10.0
"""How long the fate of an unknown commit, or a torn row, is sought."""
GRACE_S = 3.0
"""How much later than its own bound a statement's answer is given up."""
ANSWER_S = SETTLE_S + GRACE_S
"""When the answer to a statement that waits for nobody is given up."""

BACKOFF_S = 0.01
BACKOFF_MAX_S = 0.5

WAITING = {ops.Begin, ops.LockGuard, ops.Claim, ops.Backoff}
SPENDING = {*WAITING, ops.TakeTurn, ops.CallHandler, ops.HoldTorn}
"""What takes time that is counted."""


class Budget:
    """The seconds left of one attempt's waits.

    Attributes:
        wait_s: What is left for rivals and contention; zero or less is none.
        settling: The fate of a commit is being sought, on a budget of its own.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self.settling = False
        self._settle_s = SETTLE_S
        self._handler_s = 0.0

    @property
    def bound_s(self) -> float:
        """When the answer to one of `WAITING` is given up; it has a bound of its own."""
        return max(self.wait_s, 1.0) + GRACE_S

    def spend(self, op: ops.Op, seconds: float) -> None:
        """Count what one of those that are `SPENDING` took."""
        match op:
            case ops.CallHandler():
                self._handler_s += seconds
            case ops.HoldTorn() | ops.Backoff(settling=True):
                self._settle_s -= seconds
            case _ if self.settling:
                self._settle_s -= seconds
            case _:
                self.wait_s -= seconds

    def pause(self, op: ops.Backoff) -> bool:
        """Wait before another try; False at once if nothing is left."""
        if not op.settling:
            self.settling = False
            # What a handler did in vain was waiting too: a retry must not go on for ever.
            self.wait_s, self._handler_s = self.wait_s - self._handler_s, 0.0
        left = self._settle_s if op.settling else self.wait_s
        if left <= 0:
            return False
        delay = min(BACKOFF_S * 2 ** min(op.tries, 10), BACKOFF_MAX_S)
        pause(min(delay * random.uniform(0.5, 1.0), left))
        return True
