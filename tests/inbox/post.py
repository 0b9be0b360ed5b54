"""A consumer of one test's own, whose effect is a credit to an account of the test's own."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tests.contract.bank import UNITS, Bank, execute

if TYPE_CHECKING:
    from collections.abc import Callable

    import duly

SOURCE = "https://shop.example/orders"
OLD = datetime(2024, 2, 29, tzinfo=UTC)


class Post(Bank):
    """A bank whose effects come by mail.

    Attributes:
        doing: What the handler does after its effect, if anything.
        calls: How often it was called.
    """

    doing: Callable[[Any], Any] | None = None
    calls = 0

    @property
    def consumer(self) -> str:
        return self.job

    @cached_property
    def office(self) -> duly.App:
        app = self.app()
        self.consumer_on(app)
        return app

    def consumer_on(self, app: Any, name: str | None = None) -> Any:
        app.consumer(name or self.consumer)(self._handle)
        return app

    def _handle(self, message: Any) -> Any:
        self.calls += 1
        message.execute(self.credit())
        return {"said": message.payload} if self.doing is None else self.doing(message)

    def deliver(self, message_id: str = "m-1", payload: Any = 1, **named: Any) -> duly.Receipt:
        """One delivery, in duly's transaction."""
        named = {"source": SOURCE, **named}
        return self.office.receive(self.consumer, message_id=message_id, payload=payload, **named)

    @property
    def effects(self) -> int:
        """How many effects there are."""
        units = self.units
        assert units % UNITS == 0
        return units // UNITS

    def row(self, message_id: str = "m-1") -> dict[str, Any] | None:
        """The message's row in the inbox."""
        names = ("fingerprint", "sent_us", "received_us", "handled_us", "result", "duplicates")
        rows = self.run(
            f"SELECT {', '.join(names)} FROM duly_inbox"
            f" WHERE consumer = '{self.consumer}' AND message_id = '{message_id}'"
        )
        return dict(zip(names, rows[0], strict=True)) if rows else None

    @property
    def parked(self) -> list[tuple[Any, ...]]:
        """What is parked: message id, why, state, deliveries."""
        return self.run(
            "SELECT message_id, why, state, deliveries FROM duly_parked"
            f" WHERE consumer = '{self.consumer}' ORDER BY message_id, parked_us"
        )

    def change(self, connection: Any) -> None:
        """The effect, on a caller's connection of a driver."""
        execute(connection, self.credit())
