"""duly: `run.send` in the handler of an occurrence, and a relay."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import text

import duly
from duly.channels import Http

if TYPE_CHECKING:
    from place import Place

UPDATE = text("UPDATE account SET units = units + 10 WHERE id = :id")


class Carrier:
    """One App; each batch is an occurrence."""

    def __init__(self, place: Place, url: str, senders: int) -> None:
        self.app = duly.App(place.url, started_by="bench")
        contract = duly.Contract.inbox()
        self.app.destination("hook", Http(url), contract=contract, concurrency=senders)
        self.app.job("credit")(self.credit)
        self.at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    def credit(self, run: duly.Run) -> None:
        rows = [{"id": number % 1000} for number in range(run.payload)]
        run.connection.execute(UPDATE, rows)
        for number, row in enumerate(rows):
            run.send("hook", {"account": row["id"], "units": 10}, key=str(number))

    def enqueue(self, messages: int) -> None:
        self.at -= timedelta(minutes=1)
        self.app.run("credit", at=self.at, payload=messages)

    def deliver(self, messages: int) -> None:
        delivered = self.app.deliver(once=True)
        assert delivered.sent == messages, delivered

    def close(self) -> None:
        self.app.close()


def prepare(place: Place) -> None:
    with_tables = duly.App(place.url)
    with_tables.init()
    with_tables.close()
