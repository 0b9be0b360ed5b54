"""Stops real code between two of its steps, and sees when it waits inside the database.

An attempt and a prune call a probe before and after each of their ops. `Stops` holds the
thread at a chosen one until it is let go, so that an interleaving is forced and not hoped for.
"""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.races.bank import Bank

BOUND_S = 30.0
"""How long anything here is waited for; a test that needs it has failed."""

PRUNE_PLACES = (
    "after ListJobs",
    "after OldestHeld",
    "before TouchGuard",
    "after TouchGuard",
    "after RaiseHorizon",
    "after DeleteBatch",
    "before Commit",
    "after Commit",
)
"""Of a prune of occurrences as of one of messages: both are the same ops."""

Value = TypeVar("Value")


@dataclass
class Stop:
    """One place at which a thread is held, once."""

    when: str
    op: str
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def go(self) -> None:
        """Let the thread go on, now or when it comes."""
        self.released.set()


@dataclass
class Stops:
    """A probe that holds the code at each of its stops and remembers every step."""

    stops: list[Stop] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)

    def at(self, place: str) -> Stop:
        """A stop at, say, `after Claim`."""
        when, op = place.split()
        stop = Stop(when, op)
        self.stops.append(stop)
        return stop

    def __call__(self, when: str, op: Any, _worker: Any) -> None:
        name = type(op).__name__
        self.seen.append((when, name))
        for stop in self.stops:
            if (stop.when, stop.op) == (when, name) and not stop.reached.is_set():
                stop.reached.set()
                if not stop.released.wait(BOUND_S):
                    raise AssertionError(f"nobody let {when} {name} go")

    def did(self, op: str) -> int:
        """How often an op was done."""
        return self.seen.count(("after", op))


def start(call: Callable[..., Value], *args: Any, **named: Any) -> Future[Value]:
    """Run *call* on a thread of its own."""
    future: Future[Value] = Future()

    def work() -> None:
        try:
            future.set_result(call(*args, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Ask until *condition* holds.

    Raises:
        AssertionError: It did not within the bound.
    """
    deadline = time.monotonic() + BOUND_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def wait_until_reached(stop: Stop, future: Future[Any]) -> bool:
    """Wait until the thread is held at *stop*; False if it ended without passing there."""
    wait_for(lambda: stop.reached.is_set() or future.done(), f"{stop.when} {stop.op}")
    return stop.reached.is_set()


class LockWatch:
    """Tells how many transactions of one database wait for a lock of another one."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def waiting(self) -> int:
        """How many wait at this moment; on SQLite nobody can tell."""
        if self._bank.name == "postgresql":
            return int(
                self._bank.value(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
                )
            )
        return self._waiting_on_mariadb()

    def _waiting_on_mariadb(self) -> int:
        # information_schema.innodb_trx is cached for as long as anybody keeps reading it.
        processes = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
        ours = {int(row[0]) for row in self._bank.rows(processes)}
        text = str(self._bank.rows("SHOW ENGINE INNODB STATUS")[0][2])
        found = 0
        for block in text.split("---TRANSACTION ")[1:]:
            thread = re.search(r"thread id (\d+)", block)
            if "LOCK WAIT" in block and thread and int(thread[1]) in ours:
                found += 1
        return found

    def wait_until_waiting(self, count: int, *unless: Future[Any]) -> bool:
        """Wait until *count* transactions wait; False if all of *unless* ended instead."""
        deadline = time.monotonic() + BOUND_S
        while self.waiting() < count:
            if unless and all(future.done() for future in unless):
                return False
            assert time.monotonic() < deadline, f"waited in vain for {count} to wait for a lock"
            time.sleep(0.01)
        return True
