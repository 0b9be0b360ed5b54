"""The watchdog looks through its bounds while statements begin and end."""

from __future__ import annotations

import threading

from duly._db.watchdog import Bound, Watchdog


class _EndsAnother(float):
    """The time of a bound; while it is looked at, another statement gets its answer."""

    dog: Watchdog
    other: Bound

    def __le__(self, now: float) -> bool:
        self.dog.stop(self.other)
        return float(self) <= now


def test_watchdog_outlives_a_statement_that_ends_while_it_looks() -> None:
    """Its one thread goes on, and cuts what has waited too long."""
    dog, cut = Watchdog(), threading.Event()
    looked_at = dog.after(600, lambda: None)
    at = _EndsAnother(looked_at.late_at)
    at.dog, at.other = dog, dog.after(600, lambda: None)
    looked_at.late_at = at
    dog.after(0, cut.set)

    assert cut.wait(30)
    assert at.other not in dog._watched
