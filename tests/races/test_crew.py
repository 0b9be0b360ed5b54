"""Threads that work for one who is told of each end, and a signal at any moment of the telling."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from duly._db.waiting import Queue
from duly._sync import crew


@pytest.mark.timeout(30)
def test_signal_just_as_an_end_arrives_loses_none_and_waits_for_nobody_who_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A signal that another thread received is raised when the wait for an end is over."""
    main, signals, told = threading.current_thread(), [KeyboardInterrupt()], []

    class Interrupted(Queue[Any]):
        def get(self, timeout: float | None = None) -> Any:
            item = super().get(timeout)
            if threading.current_thread() is main and signals:
                raise signals.pop()
            return item

    def keep(end: int) -> bool:
        told.append(end)
        return True

    monkeypatch.setattr(crew, "Queue", Interrupted)

    with pytest.raises(KeyboardInterrupt):
        crew.in_threads(range(1, 4), lambda number: 10 * number, workers=2, keep=keep)

    assert sorted(told) == [10, 20]
