"""A message as a relay hands it to a channel, and a broker that stands still."""

from __future__ import annotations

import json
import os
import signal
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from duly.channels import Contract, Message
from tests.servers.processes import descendants_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.program import Program

CREATED = datetime(2026, 9, 13, 1, 15, tzinfo=UTC)
KEY = "daily-credit:2026-09-13T00:00:00Z"


def a_message(body: Any = None, *, seconds: float = 20, **given: Any) -> Message:
    """A first send of a message of its own, whose body is *body* as JSON."""
    values: dict[str, Any] = {
        "id": str(uuid.uuid4()),
        "destination": "peer",
        "body": json.dumps({"units": 10} if body is None else body).encode(),
        "content_type": "application/json",
        "headers": {},
        "occurrence_key": KEY,
        "name": None,
        "key": None,
        "generation": 1,
        "ordering_key": None,
        "created_at": CREATED,
        "number": 1,
        "started_at": CREATED,
        "timeout": timedelta(seconds=seconds),
        "contract": Contract(),
    }
    return Message(**(values | given))


@contextmanager
def stopped(server: Program) -> Iterator[None]:
    """*server* takes connections and bytes, as its kernel does for it, and does nothing."""
    process = server._process
    assert process is not None
    pids = [process.pid, *descendants_of(process.pid)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
