"""What a relay's claim costs, by how many messages were sent before it.

It claims as `_core/delivery.py` does, and rolls back: a commit costs what the disk costs, and the
next claim is to find what this one found.
"""

from __future__ import annotations

import re
import statistics
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import duly
from duly._core.sending import step
from duly._db import messages
from duly.channels import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

    from duly._db.sessions.base import Session

LIMIT, OPEN = 16, 100
LEASE_US = 60_000_000
FILL_OUTBOX = (
    "INSERT INTO duly_outbox (id, job, nominal_us, partition_key, correction, destination,"
    " generation, content_type, headers, body, fingerprint, state, created_us, since_us, started,"
    " finished, settled_us, closed_us) SELECT gen_random_uuid(), 'bill', n, '', 1, 'hook', 1,"
    " 'application/json', '{{}}', decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'),"
    " 'sent', n, n, 1, 1, n, n FROM generate_series(1, {sent}) AS s (n)"
)
FILL_DELIVERY = (
    "INSERT INTO duly_delivery (message_id, number, token, relay, started_us, lease_us,"
    " finished_us, verdict) SELECT id, 1, id, 'bench', 1, 1, 1, 'sent' FROM duly_outbox"
    " WHERE state = 'sent'"
)
# Each with the parameters of one row; the plan of a statement that changes rows changes none.
PLANNED = ("due_messages", "next_due", "start_send_all", "finish_send_all", "finish_delivery_all")


class Claims(NamedTuple):
    """How long claims took beside so many messages that were sent.

    Attributes:
        indexes: By which the relay's statements read the outbox and the deliveries.
        scans: The statements that read a whole table.
    """

    sent: int
    median_ms: float
    p90_ms: float
    indexes: list[str]
    scans: list[str]


def measured(places: Sequence[Place], sent: Sequence[int], times: int) -> list[Claims]:
    """Claims on each place, by turns."""
    took: list[list[float]] = [[] for _ in places]
    found = []
    with ExitStack() as stack:
        apps = []
        for place, number in zip(places, sent, strict=True):
            apps.append(stack.enter_context(closing(filled(place, number))))
        for number in range(times + times // 10):
            for app, its in zip(apps, took, strict=True):
                began = time.perf_counter()
                claim(app)
                if number >= times // 10:
                    its.append((time.perf_counter() - began) * 1e3)
        for app, number, its in zip(apps, sent, took, strict=True):
            with app.database.session() as session:
                plans = {name: plan(session, name) for name in PLANNED}
            indexes = sorted({each for text in plans.values() for each in _indexes(text)})
            scans = [name for name, text in plans.items() if "Seq Scan on duly_" in text]
            p90_ms = statistics.quantiles(its, n=10)[-1]
            found.append(Claims(number, statistics.median(its), p90_ms, indexes, scans))
    return found


def filled(place: Place, sent: int) -> duly.App:
    """An App whose outbox has so many sent messages, and some that are open."""
    app = duly.App(place.url)
    app.init()
    place.change(FILL_OUTBOX.format(sent=sent), FILL_DELIVERY)
    app.destination("hook", Call(print))
    app.job("bill")(lambda run: [run.send("hook", {"n": n}, key=str(n)) for n in range(OPEN)] and 0)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    app.run("bill", at=hour - timedelta(hours=1))
    place.change("VACUUM (ANALYZE) duly_outbox", "VACUUM (ANALYZE) duly_delivery", "CHECKPOINT")
    return app


def claim(app: duly.App) -> None:
    """Take what is due, write down that its sends start, and roll back."""
    to = app.destinations["hook"]
    lease = app.database.connect()
    with lease as session:
        session.begin_prune(10.0)
        clock_us = session.clock_us()
        rows = [each.row for each in messages.due(session, to, clock_us, LIMIT)]
        assert len(rows) == LIMIT
        steps = [(row, step(row, to, clock_us)) for row in rows]
        messages.write_ahead(
            session, steps, clock_us=clock_us, lease_us=clock_us + LEASE_US, token=uuid4(),
            relay="bench",
        )  # fmt: skip


def plan(session: Session, name: str) -> str:
    """How PostgreSQL would execute a named query."""
    text = session.queries[name]
    names = set(re.findall(r"%\((\w+)\)s", text))
    params: dict[str, Any] = {each: [_VALUES.get(each)] for each in names}
    if not name.endswith("_all"):
        params = {each: _VALUES.get(each) for each in names}
    with closing(session.raw.cursor()) as cursor:
        cursor.execute(f"EXPLAIN (COSTS OFF) {text}", params)
        return "\n".join(str(line) for (line,) in cursor.fetchall())


_VALUES: dict[str, Any] = {
    "destination": "hook", "clock_us": 2**62, "limit": LIMIT, "skip": 0, "id": UUID(int=1),
    "token": UUID(int=1), "number": 1, "state": "sent", "closes": 1, "late": False,
}  # fmt: skip


def _indexes(text: str) -> list[str]:
    return re.findall(r"Index (?:Only )?Scan using (\w+) on duly_", text) + re.findall(
        r"Bitmap Index Scan on (\w+)", text
    )
