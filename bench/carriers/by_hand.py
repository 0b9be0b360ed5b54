"""By hand: rows in a table, and a loop that holds its transaction open while it sends.

No write-ahead, no lease, no record of a send: what a kill leaves is sent again.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import local
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx

if TYPE_CHECKING:
    from place import Place

UPDATE = "UPDATE account SET units = units + 10 WHERE id = %s"
TAKE = "SELECT id, body FROM message WHERE NOT sent ORDER BY at LIMIT %s FOR UPDATE SKIP LOCKED"


class Carrier:
    """One connection, and threads that post."""

    def __init__(self, place: Place, url: str, senders: int) -> None:
        self.raw = place.connect()
        self.url, self.senders = url, senders
        self.pool = ThreadPoolExecutor(senders)
        self.mine = local()

    def enqueue(self, messages: int) -> None:
        cursor = self.raw.cursor()
        cursor.executemany(UPDATE, [(number % 1000,) for number in range(messages)])
        bodies = (json.dumps({"account": each % 1000, "units": 10}) for each in range(messages))
        rows = [(uuid4(), body) for body in bodies]
        cursor.executemany("INSERT INTO message (id, body) VALUES (%s, %s)", rows)
        self.raw.commit()

    def deliver(self, messages: int) -> None:
        left = messages
        while left:
            rows = self.raw.execute(TAKE, (4 * self.senders,)).fetchall()
            list(self.pool.map(self.post, rows))
            ids = [each for each, _body in rows]
            self.raw.execute("UPDATE message SET sent = TRUE WHERE id = ANY(%s)", (ids,))
            self.raw.commit()
            left -= len(rows)

    def post(self, row: Any) -> None:
        if not hasattr(self.mine, "client"):
            self.mine.client = httpx.Client()
        headers = {"Idempotency-Key": str(row[0]), "Content-Type": "application/json"}
        self.mine.client.post(self.url, content=row[1], headers=headers).raise_for_status()

    def close(self) -> None:
        self.pool.shutdown()
        self.raw.close()


def prepare(place: Place) -> None:
    with closing(place.connect()) as raw:
        raw.execute(
            "CREATE TABLE message (id UUID PRIMARY KEY, at TIMESTAMPTZ NOT NULL DEFAULT now(),"
            " body TEXT NOT NULL, sent BOOLEAN NOT NULL DEFAULT FALSE)"
        )
        raw.execute("CREATE INDEX message_open ON message (at) WHERE NOT sent")
        raw.commit()
