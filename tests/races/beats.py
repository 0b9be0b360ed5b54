"""A job that beats every minute, for races of ticks; and places where a tick is held.

Its past is missing on purpose, so that there is something to catch up. Every tick is told its
time, so that what is due does not depend on when the test runs.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.races.bank import Bank, credit, recent
from tests.races.steps import BOUND_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BEAT = "beat"
MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Beats:
    """The missing occurrences of the job, oldest first.

    Attributes:
        first: When the oldest is due.
        count: How many there are at `now`.
    """

    first: datetime
    count: int

    @classmethod
    def of(cls, count: int) -> Beats:
        """The last *count* that are due, so that each is younger than any prune reaches."""
        return cls(recent(count + 2), count)

    @classmethod
    def told(cls, text: str) -> Beats:
        """What `tell` told another process."""
        first, count = text.split()
        return cls(datetime.fromisoformat(first), int(count))

    def tell(self) -> str:
        return f"{self.first.isoformat()} {self.count}"

    @staticmethod
    def policies(told: dict[str, Any]) -> dict[str, Any]:
        """The policies among what a process was told."""
        found: dict[str, Any] = {
            name: told[name] for name in ("catch_up", "max_running") if name in told
        }
        if told.get("catch_up") == "skip":
            found["skip_after"] = timedelta(minutes=told["skip_minutes"])
        return found

    @property
    def times(self) -> list[datetime]:
        return [self.first + number * MINUTE for number in range(self.count)]

    @property
    def keys(self) -> list[str]:
        return [duly.Occurrence(BEAT, at).key for at in self.times]

    @property
    def now(self) -> datetime:
        """When the newest of them is due and no other one is."""
        return self.times[-1] + MINUTE / 2

    def app(
        self, bank: Bank, handler: Callable[[duly.Run], Any] = credit, **policies: Any
    ) -> duly.App:
        """An App of its own that defines the job and has told the ledger so."""
        app = bank.app()
        settings: dict[str, Any] = {"schedule": "* * * * *", "starts": self.first, **policies}
        app.job(BEAT, **settings)(handler)
        app.register()
        return app


def timed(run: duly.Run) -> None:
    """An effect that says from when until when it was made; of the whole machine's clock."""
    began = time.monotonic_ns()
    credit(run)
    time.sleep(0.003)  # long enough for another to begin meanwhile, if it were let
    run.execute(
        "INSERT INTO span (began, ended) VALUES (:began, :ended)",
        {"began": began, "ended": time.monotonic_ns()},
    )


def found_spans(bank: Bank) -> None:
    """Make the table of `timed`."""
    bank.change("CREATE TABLE span (began BIGINT NOT NULL, ended BIGINT NOT NULL)")


def most_at_once(bank: Bank) -> int:
    """How many handlers were at work at the same moment, at most."""
    rows = bank.rows("SELECT began, ended FROM span")
    moments = sorted([(int(b), 1) for b, _ in rows] + [(int(e), -1) for _, e in rows])
    return max(accumulate(step for _, step in moments))


def settled(bank: Bank, job: str = BEAT) -> dict[str, str]:
    """How each settled occurrence of a job ended, by key; corrections left out."""
    rows = bank.rows(
        "SELECT nominal_us, disposition FROM duly_occurrence"
        f" WHERE job = '{job}' AND correction = 1"
    )
    return {duly.Occurrence.from_us(job, int(us), "", 1).key: how for us, how in rows}


def outcomes(report: duly.TickReport) -> list[str]:
    """How what a tick started ended."""
    return [str(ran.outcome or "settled") for job in report.jobs for ran in job.ran]


def problems(report: duly.TickReport) -> list[BaseException]:
    """What a tick was told that is no outcome of an occurrence."""
    found: list[BaseException] = [job.refused for job in report.jobs if job.refused]
    errors = (ran.error for job in report.jobs for ran in job.ran)
    return found + [each for each in errors if each is not None]


@dataclass
class Held:
    """A call that is held before it is made, once."""

    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.reached.wait(BOUND_S), "the call was never made"

    def go(self) -> None:
        self.released.set()


@contextmanager
def held(owner: Any, name: str, *, after: bool = False) -> Iterator[Held]:
    """Hold the first call of *owner*'s function *name*, before it or after it was made."""
    hold = Held()
    lock = threading.Lock()
    inner = getattr(owner, name)

    def stop() -> None:
        with lock:
            first = not hold.reached.is_set()
            hold.reached.set()
        if first and not hold.released.wait(BOUND_S):
            raise AssertionError(f"nobody let {name} go")

    def outer(*args: Any, **named: Any) -> Any:
        if not after:
            stop()
        value = inner(*args, **named)
        if after:
            stop()
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, outer)
        try:
            yield hold
        finally:
            hold.go()
