"""A job and a destination of one test's own, in a database that many tests share."""

from __future__ import annotations

import itertools
import os
import threading
import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duly
from duly.channels import Call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.database import Database

_numbers = itertools.count(1)
LONG = 20.0
QUICK = (timedelta(milliseconds=1), timedelta(milliseconds=2))
_TIMES = ("due_us", "created_us", "since_us", "expires_us", "tried_us", "doubt_us", "settled_us")


class Desk:
    """One App, one job, one destination; closes what it opened."""

    def __init__(self, database: Database, **options: Any) -> None:
        self.database = database
        self.kind = database.name
        self.number = next(_numbers)
        mark = f"{os.getpid()}-{self.number}"
        self.job, self.to = f"bill-{mark}", f"pay-{mark}"
        self.app = duly.App(database.url, started_by="tests", evidence_after=60, **options)
        self.app.init()
        self.sends: Callable[[duly.Run], Any] = lambda run: run.send(self.to, {"n": 1})
        self.app.job(self.job)(self._handle)
        self._starts = itertools.count()
        self._apps = [self.app]

    def close(self) -> None:
        for each in self._apps:
            each.close()

    def _handle(self, run: duly.Run) -> Any:
        return self.sends(run)

    def receive(self, channel: Any, **settings: Any) -> None:
        """Register the destination; a function becomes a channel."""
        made = channel if hasattr(channel, "send") else Call(channel)
        self.app.destination(self.to, made, **settings)

    def other(self, channel: Any, **settings: Any) -> duly.App:
        """Another process's App, as far as this one can be one."""
        app = duly.App(self.database.url, started_by="tests", evidence_after=60)
        app.destination(self.to, channel if hasattr(channel, "send") else Call(channel), **settings)
        self._apps.append(app)
        return app

    @property
    def at(self) -> datetime:
        """A nominal time that no other start of this test has."""
        hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
        return hour - timedelta(hours=1, minutes=next(self._starts))

    def start(self, at: datetime | None = None) -> duly.Result:
        """Apply one occurrence."""
        return self.app.run(self.job, at=at or self.at, wait=LONG)

    def deliver(self) -> Any:
        """One relay, until nothing is due."""
        return self.app.deliver(once=True)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute *sql* by itself and return its rows."""
        connection = self.database.connect()
        with closing(connection):
            cursor = connection.cursor()
            cursor.execute(sql)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        return rows

    def rows(self, columns: str = "state") -> list[Any]:
        """These columns of this destination's messages, as they were enqueued."""
        found = self.run(
            f"SELECT {columns} FROM duly_outbox WHERE destination = '{self.to}'"
            " ORDER BY created_us, id"
        )
        return [row[0] if len(row) == 1 else tuple(row) for row in found]

    def one(self, columns: str) -> Any:
        """These columns of the one message that there is."""
        (row,) = self.rows(columns)
        return row

    @property
    def ids(self) -> list[str]:
        """Of this destination's messages."""
        return [each.id for each in self.app.outbox.messages(destination=self.to, closed=True)]

    def sends_of(self, message: str) -> list[Any]:
        """The sends of one message."""
        return list(self.app.outbox.show(message).deliveries)

    def pass_time(self, time: timedelta) -> None:
        """Let the messages be that much older, and what they wait for that much nearer."""
        us = time // timedelta(microseconds=1)
        moved = ", ".join(f"{name} = {name} - {us}" for name in _TIMES)
        self.run(f"UPDATE duly_outbox SET {moved} WHERE destination = '{self.to}'")

    def due_now(self) -> None:
        """What is due later is due now."""
        self.run(
            f"UPDATE duly_outbox SET due_us = 1 WHERE destination = '{self.to}'"
            " AND due_us IS NOT NULL"
        )

    @contextmanager
    def relay(self, app: duly.App | None = None) -> Iterator[list[Any]]:
        """A relay at work beside the test; what it did is in the list when it has ended."""
        stop, done = threading.Event(), []
        thread = threading.Thread(
            target=lambda: done.append((app or self.app).deliver(stop=stop, poll=0.05))
        )
        thread.start()
        try:
            yield done
        finally:
            stop.set()
            thread.join(LONG)
            assert not thread.is_alive()


def until(true: Callable[[], Any], what: str, *, seconds: float = LONG) -> None:
    """Wait until it is true; an error says what never was."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"never {what}"
        time.sleep(0.005)


def hexed(value: Any) -> str:
    """An id as any driver returns it, as text."""
    return str(value if isinstance(value, UUID) else UUID(bytes=bytes(value)))
