"""A circuit breaker: when a receiver that fails is left alone, and for how long.

Decides from counted answers and a clock that is handed in. It never touches a message: one that
waits for the breaker is not tried, and loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duly._core.states import Verdict

if TYPE_CHECKING:
    from duly._core.channel import Answer
    from duly._core.destination import Destination

__all__ = ["Breaker"]

FIRST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Breaker:
    """What one relay knows of a receiver's health.

    Attributes:
        failures: In a row.
        pauses: In a row.
        until_s: Until when nothing is sent, by a monotonic clock; 0 while all is well.
    """

    failures: int = 0
    pauses: int = 0
    until_s: float = 0.0

    def allows(self, now_s: float, free: int) -> int:
        """How many sends may be started now; after a pause one, to see."""
        if not self.pauses:
            return free
        return 0 if now_s < self.until_s else min(1, free)

    def seen(self, answer: Answer, to: Destination, now_s: float) -> Breaker:
        """After one answer."""
        if answer.verdict is Verdict.SENT or (answer.verdict is Verdict.REFUSED and answer.final):
            return Breaker()  # it answers
        failures = self.failures + 1
        if not to.break_after or failures < to.break_after:
            return Breaker(failures, self.pauses, self.until_s)
        if now_s < self.until_s:
            return Breaker(failures, self.pauses, self.until_s)  # of a send from before the pause
        pause_s = min(to.break_for.total_seconds(), FIRST_S * 2.0 ** min(self.pauses, 30))
        return Breaker(failures, self.pauses + 1, now_s + pause_s)
