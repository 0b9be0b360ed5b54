"""The receiver's side of an App: consumers, deliveries, and what a person does to the inbox.

It wires; decisions about a delivery are in `_core/inbox.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from duly._core import retention
from duly._core.inbox import ParkedState
from duly._core.instants import as_utc, to_us
from duly._core.message import Message
from duly._core.states import Outcome
from duly._sync import deciding, inbox, prune, receiving
from duly._sync.base import AppBase
from duly._sync.claim import seconds
from duly.errors import DuplicateJob, HandlerInvalid, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.idempotency import Answer, Asked
    from duly._core.inbox_view import InboxEntry, InboxMessage, InboxSummary, ParkedMessage
    from duly._sync.answering import Answered
    from duly._sync.receiving import Receipt

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Consuming(AppBase):
    """Consumers of messages that others send."""

    def consumer(self, name: str) -> Callable[[Handler], Handler]:
        """Define who takes messages; the decorated function stays a plain function.

        It gets a `duly.Incoming`, in a transaction of duly's own, and what it returns is stored
        for duplicates. It may be called again after contention, as any handler.

        Args:
            name: `[a-z0-9][a-z0-9._-]{0,99}`; each consumer takes a message once.

        Raises:
            IncomingInvalid, HandlerInvalid, DuplicateJob
        """
        Message(name, "-", "-")  # checks the name

        def decorate(handler: Handler) -> Handler:
            if inspect.iscoroutinefunction(handler) or not callable(handler):
                raise HandlerInvalid(
                    f"the handler of the consumer {name!r} must be a plain function that takes the"
                    " message: use `def`, or duly.aio.App for `async def`"
                )
            if name in self.consumers:
                raise DuplicateJob(
                    f"the consumer {name!r} is defined twice in this process: give one another name"
                )
            self.consumers[name] = handler
            return handler

        return decorate

    def receive(
        self,
        consumer: str,
        *,
        source: str,
        message_id: str,
        payload: Any = None,
        sent_at: datetime | None = None,
        wait: timedelta | float = 10.0,
    ) -> Receipt:
        """Handle one delivery of a message, unless it was handled before.

        Returning means committed: acknowledge the message then, and only then.

        Args:
            consumer: The name of a defined consumer.
            source: Who made the id.
            message_id: The same in every delivery.
            payload: The body: bytes, or JSON-ready; another body under the same id is parked.
            sent_at: The message's own time, the same in every delivery. Without one its key is
                never pruned.
            wait: How long to wait for a rival delivery or a contended database.

        Raises:
            MessageParked: It is held for a person, on record.
            Busy, ConnectionLost: Nothing is known to be committed; let it be delivered again.
            Exception: The handler's own, unchanged; nothing was kept.
        """
        if consumer not in self.consumers:
            near = get_close_matches(str(consumer), self.consumers, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "define it with @app.consumer(…)"
            raise UsageError(f"no consumer is called {str(consumer)[:100]!r}: {hint}")
        wait_s = seconds(wait)
        self._readiness.ensure()
        receipt = receiving.received(
            self._attempts,
            consumer,
            self.consumers[consumer],
            self._manner.incoming,
            source=source,
            message_id=message_id,
            payload=payload,
            sent_at=sent_at,
            wait_s=wait_s,
        )
        self.database.attempt_ended(applied=receipt.is_new)
        return receipt

    def _answer_once(
        self, asked: Asked, work: Callable[[Any], Answer], handle: type[Any], wait_s: float
    ) -> Answered:
        """Answer a request under an idempotency key, once; for `duly.contrib.http`.

        Raises:
            StoreUnavailable: The key could not be looked at; nothing was done.
            BaseException: A signal or a cancellation.
        """
        from duly._sync.answering import answered, available

        with available():
            self._readiness.ensure()
        done = answered(self._attempts, asked, work, handle, wait_s)
        self.database.attempt_ended(applied=done.report.outcome is Outcome.APPLIED)
        return done

    # For a person

    def inbox_summary(self) -> list[InboxSummary]:
        """Each consumer that has taken messages: how many, how many duplicates, what is held."""
        self._readiness.ensure(only_read=True)
        return inbox.summary(self.database)

    def inbox_messages(self, consumer: str, *, limit: int = 50) -> list[InboxMessage]:
        """The messages that a consumer has taken, newest first; it needs no definition here."""
        self._readiness.ensure(only_read=True)
        return inbox.messages(self.database, consumer, limit)

    def inbox_message(self, consumer: str, source: str, message_id: str) -> InboxEntry:
        """All that is known of one message, with what is parked under its id."""
        message = Message(consumer, source, message_id)
        self._readiness.ensure(only_read=True)
        return inbox.entry(self.database, message)

    def parked(
        self, consumer: str | None = None, *, held_only: bool = True, limit: int = 50
    ) -> list[ParkedMessage]:
        """What is parked, newest first.

        Args:
            held_only: Leave out what a person has released or discarded.
        """
        self._readiness.ensure(only_read=True)
        return inbox.parked(self.database, consumer, held_only=held_only, limit=limit)

    def release_parked(
        self,
        consumer: str,
        source: str,
        message_id: str,
        *,
        reason: str,
        actor: str,
        fingerprint: str | None = None,
    ) -> ParkedMessage:
        """Let the next delivery of a parked message, with that body, be handled as new, once.

        Args:
            fingerprint: The beginning of its body's, where several bodies are parked.

        Raises:
            UsageError, OperatorError: Nothing, or more than one, is meant; or it was taken.
        """
        return self._settle(
            consumer, source, message_id, ParkedState.RELEASED, fingerprint, reason, actor
        )

    def discard_parked(
        self,
        consumer: str,
        source: str,
        message_id: str,
        *,
        reason: str,
        actor: str,
        fingerprint: str | None = None,
    ) -> ParkedMessage:
        """Let every further delivery of a parked message be acknowledged without being handled.

        Args:
            fingerprint: As `release_parked`.

        Raises:
            UsageError, OperatorError: As `release_parked`.
        """
        return self._settle(
            consumer, source, message_id, ParkedState.DISCARDED, fingerprint, reason, actor
        )

    def prune_inbox(
        self, *, older_than: timedelta | datetime, clock_is_right: bool = False
    ) -> list[retention.PrunedJob]:
        """Delete messages whose own time is at or below a bound; later deliveries are parked.

        A message without a time of its own is kept. HTTP answers that have expired are deleted
        too, and their keys stay refused.

        Args:
            older_than: An age by the database's clock, or an aware instant.
            clock_is_right: Nothing was received for a day, and that is as it should be.

        Returns:
            One entry for each consumer, named as its `job`.

        Raises:
            PruneRefused: It would pass the floor, or the clock is in doubt.
        """
        self._readiness.ensure(only_read=True)
        if isinstance(older_than, timedelta):
            if older_than <= timedelta(0):
                raise UsageError(f"older_than={older_than} is not an age: give more than zero")
            age = older_than // timedelta(microseconds=1)
            protocol = retention.prune(None, age_us=age, clock_is_right=clock_is_right)
        else:
            bound = to_us(as_utc(older_than, name="older_than"))
            protocol = retention.prune(bound, clock_is_right=clock_is_right)
        done = prune.driven(self.database, protocol, inbox.perform_prune, self._probe)
        inbox.forget_answers(self.database)
        return done

    def _settle(
        self,
        consumer: str,
        source: str,
        message_id: str,
        state: ParkedState,
        fingerprint: str | None,
        reason: str,
        actor: str,
    ) -> ParkedMessage:
        order = deciding.order(reason, actor)
        message = Message(consumer, source, message_id)
        self._readiness.ensure(only_read=True)
        return inbox.settle(self.database, message, fingerprint, state, order)
