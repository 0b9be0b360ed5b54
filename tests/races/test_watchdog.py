"""The watchdog looks through its bounds while statements begin and end."""

from __future__ import annotations

import threading

from duly._db.watchdog import Watchdog


class _EndsAnother(float):
    """The time of a bound; while it is looked at, another statement gets its answer."""

    dog: Watchdog
    other: int

    def __le__(self, now: float) -> bool:
        self.dog.stop(self.other)
        return float(self) <= now


def test_watchdog_outlives_a_statement_that_ends_while_it_looks() -> None:
    """Its one thread goes on, and cuts what has waited too long."""
    dog, cut = Watchdog(), threading.Event()
    looked_at = dog.start(600, lambda: None)
    at = _EndsAnother(dog._bounds[looked_at][0])
    at.dog, at.other = dog, dog.start(600, lambda: None)
    dog._bounds[looked_at] = (at, lambda: None)
    dog.start(0, cut.set)

    assert cut.wait(30)
    assert at.other not in dog._bounds
