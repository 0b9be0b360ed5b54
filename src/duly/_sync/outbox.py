"""`App.outbox`: what persons see of messages, and what they decide about them.

Decides nothing about a state (`_core/redress.py` does). Each decision is one transaction with its
audit, for each message a compare-and-set: what a relay has under way is not touched.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID, uuid4

from duly._core import delivery, ops
from duly._core.instants import from_us
from duly._core.redress import DeliveryView, MessageView, Summary
from duly._core.states import MessageState
from duly._core.wording import shown
from duly._db.messages import stored
from duly._db.waiting import aside
from duly._sync import redressing
from duly._sync.deciding import decided, order
from duly._sync.relay_shell import RelayShell
from duly._sync.telling import looked_up
from duly.errors import (
    DestinationInvalid,
    LookupFailed,
    MessageSettled,
    UnknownMessage,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly._core.destination import Destination
    from duly._db.connect import Database
    from duly._db.messages import Stored
    from duly._db.sessions.base import Session
    from duly._sync.readiness import Readiness
    from duly.errors import DulyError

LIMIT: Final = 1000
LIMIT_MAX: Final = 100_000
BATCH: Final = 200


class Outbox:
    """The outbox of an App's database."""

    def __init__(
        self, database: Database, destinations: Mapping[str, Destination], readiness: Readiness
    ) -> None:
        self._database, self._destinations = database, destinations
        self._readiness = readiness

    # Reading

    def messages(
        self,
        *,
        destination: str = "",
        state: str = "",
        answer: str = "",
        job: str = "",
        older_than: timedelta | None = None,
        closed: bool = False,
        limit: int = LIMIT,
    ) -> list[MessageView]:
        """Messages, oldest first; with *closed* all of them, newest first.

        Args:
            destination, state, answer, job: Only those that have it.
            older_than: Only those that were enqueued so long ago.
            closed: Also what nothing more happens to.
            limit: The most to return, up to 100,000.
        """
        return self.page(
            destination=destination,
            state=state,
            answer=answer,
            job=job,
            older_than=older_than,
            closed=closed,
            limit=limit,
        )[0]

    def page(
        self,
        *,
        destination: str,
        state: str,
        answer: str,
        job: str,
        older_than: timedelta | None,
        closed: bool,
        limit: int,
    ) -> tuple[list[MessageView], bool]:
        """As `messages`, and whether there are more than *limit*."""
        self._readiness.ensure()
        if not 1 <= limit <= LIMIT_MAX:
            raise UsageError(f"limit={limit!r} is not allowed: give 1 to {LIMIT_MAX}")
        if state and state not in {each.value for each in MessageState}:
            allowed = ", ".join(each.value for each in MessageState)
            raise UsageError(f"state={shown(state)} is none: use one of {allowed}")
        with self._database.session() as session:
            until_us = session.clock_us()
            if older_than is not None:
                until_us -= older_than // timedelta(microseconds=1)
            params = {
                "destination": destination,
                "state": state,
                "answer": answer,
                "job": job,
                "until_us": until_us,
                "limit": limit + 1,
            }
            # Those that are closed lie outside the index of the open ones.
            rows = session.run(
                "all_messages" if closed or state in _CLOSED else "open_messages", params
            )
            return [_view(session, row) for row in rows[:limit]], len(rows) > limit

    def show(self, message: str) -> MessageView:
        """One message, with its sends and what was decided about it.

        Raises:
            UnknownMessage: No message has that id.
        """
        self._readiness.ensure()
        with self._database.session() as session:
            row = redressing.read(session, redressing.parsed_id(message))
            params = {"id": row[0]}
            sends = session.run("list_deliveries", params)
            view = _view(session, row)
            key = dict(
                zip(("job", "nominal_us", "partition_key", "correction"), row[9:13], strict=True)
            )
            audit = session.run("list_message_audit", {**key, **params})
        return replace(
            view,
            deliveries=tuple(_delivery(each) for each in sends),
            decisions=tuple(
                {
                    "at": from_us(int(at_us)).isoformat(),
                    "actor": actor,
                    "action": action,
                    "reason": reason,
                }
                for at_us, actor, action, reason in audit
            ),
        )

    def summary(self) -> list[Summary]:
        """How each destination's outbox is; of those that are registered or have open messages."""
        self._readiness.ensure()
        with self._database.session() as session:
            counts = session.run("outbox_counts", {})
            blocked = {name: int(count) for name, count in session.run("blocked_counts", {})}
            clock_us = session.clock_us()
        names = sorted({row[0] for row in counts} | set(self._destinations))
        return [
            _summary(
                name,
                [row for row in counts if row[0] == name],
                self._destinations.get(name),
                blocked.get(name, 0),
                clock_us,
            )
            for name in names
        ]

    # Deciding

    def rehearse(self, action: str, *messages: str) -> dict[str, DulyError | None]:
        """Why a decision would be refused, for each message; None where it would be made.

        It is made for each and rolled back, so what it says is what the decision would meet. One
        refusal is one of all that are decided about in one call; up to `BATCH` they are.
        """
        self._readiness.ensure()
        ids = [redressing.parsed_id(each) for each in dict.fromkeys(messages)]

        def work(session: Session, _left: float) -> dict[str, DulyError | None]:
            clock_us = session.clock_us()
            return {str(each): self._refusal(session, action, each, clock_us) for each in ids}

        return decided(self._database, work, about=f"outbox {action}", is_kept=False)

    def redrive(self, *messages: str, reason: str, actor: str) -> list[str]:
        """Send dead or uncertain messages again, under their ids; returns those of which it was.

        Raises:
            UnknownMessage, MessageSettled: For one that cannot be; nothing was done to any of its
                batch.
        """
        return self._each("redrive", messages, reason, actor)

    def resend(self, *messages: str, reason: str, actor: str) -> list[str]:
        """Send what messages said once more, each as a new message; returns the new ids.

        The receiver sees another id: what it has already done, it does again.

        Raises:
            UnknownMessage, MessageSettled: As `redrive`.
        """
        return self._each("resend", messages, reason, actor)

    def confirm(self, *messages: str, reason: str, actor: str) -> list[str]:
        """Settle uncertain or dead messages as sent: somebody looked at the receiver.

        Raises:
            UnknownMessage, MessageSettled: As `redrive`.
        """
        return self._each("confirm", messages, reason, actor)

    def abandon(self, *messages: str, reason: str, actor: str) -> list[str]:
        """Give messages up; one that was never started is cancelled.

        Raises:
            UnknownMessage, MessageSettled: As `redrive`.
        """
        return self._each("abandon", messages, reason, actor)

    def lookup(self, *messages: str) -> dict[str, MessageState]:
        """Ask the receivers for uncertain messages; returns where each stands then.

        Raises:
            UnknownMessage, MessageSettled: As `redrive`.
            DestinationInvalid: Its destination is not registered here with a lookup.
            LookupFailed: The lookup raised; the messages before were asked for.
        """
        return {message: self._look(redressing.parsed_id(message)) for message in messages}

    def _each(self, action: str, messages: Sequence[str], reason: str, actor: str) -> list[str]:
        self._readiness.ensure()
        said = order(reason, actor)
        ids = [redressing.parsed_id(each) for each in dict.fromkeys(messages)]
        done: list[str] = []
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]

            def work(session: Session, _left: float, batch: list[UUID] = batch) -> list[str]:
                clock_us = session.clock_us()
                found = []
                for each in batch:
                    row = redressing.read(session, session.encode_id(each))
                    made = redressing.acted(action, session, row, clock_us)
                    redressing.audit(session, row, f"outbox {action}", said)
                    found.append(str(made))
                return found

            done += decided(self._database, work, about=f"outbox {action}")
        self._database.ring()
        return done

    def _refusal(
        self, session: Session, action: str, message: UUID, clock_us: int
    ) -> DulyError | None:
        try:
            row = redressing.read(session, session.encode_id(message))
            if action == "lookup":
                self._lookup_begun(session, row, uuid4(), clock_us)
            else:
                redressing.acted(action, session, row, clock_us)
        except (UnknownMessage, MessageSettled, DestinationInvalid) as refusal:
            return refusal
        return None

    def _lookup_begun(self, session: Session, row: Any, token: UUID, clock_us: int) -> Destination:
        """Where to ask for a message, which is claimed for it."""
        to = self._destinations.get(row[20])
        if to is None or to.lookup is None:
            raise DestinationInvalid(
                f"message {session.decode_id(row[0])} is for {row[20]}, which is not registered"
                " here with lookup=: register it so, or look by yourself and confirm or redrive"
            )
        lease_us = clock_us + to.lease_time // timedelta(microseconds=1)
        params = {"id": row[0], "lease_us": lease_us, "token": session.encode_id(token)}
        if not session.change("start_lookup", params):
            raise redressing.settled("lookup", session, row)
        return to

    def _look(self, message_id: UUID) -> MessageState:
        self._readiness.ensure()
        token = uuid4()

        def claim(session: Session, _left: float) -> tuple[Stored, Destination, int]:
            row = redressing.read(session, session.encode_id(message_id))
            clock_us = session.clock_us()
            to = self._lookup_begun(session, row, token, clock_us)
            return stored(session, row[20], row[:20]), to, clock_us

        found, to, clock_us = decided(self._database, claim, about="outbox lookup")
        message = found.message(found.row.started, clock_us, to)
        said, failure = aside(partial(looked_up, to, message))
        under = delivery.Under(to, found.row, token, is_lookup=True, found=said)
        shell = RelayShell(self._database, "lookup", None)
        try:
            shell.drive(delivery.finish([under]))
        except ops.Fault as fault:
            raise fault.cause from fault.cause.__cause__
        finally:
            shell.close()
        if failure is not None:
            raise LookupFailed(
                f"the lookup of {to.name} failed for message {message_id} ({failure}), which stays"
                " uncertain: mend it and ask again, or look by yourself and confirm or redrive"
            )
        return self.show(str(message_id)).state


_CLOSED: Final = frozenset({MessageState.SENT.value, MessageState.CANCELLED.value})


def _view(session: Session, row: Any) -> MessageView:
    found = stored(session, row[20], row[:20])
    return MessageView(
        str(found.row.id),
        found.occurrence.key,
        found.destination,
        found.name,
        found.key,
        found.generation,
        found.ordering_key,
        found.row.state,
        row[22],
        row[23],
        row[24],
        found.row.started,
        found.row.finished,
        len(found.body),
        from_us(found.row.created_us),
        _at(row[21]),
        _at(found.row.expires_us),
        _at(found.row.tried_us),
        _at(found.row.doubt_us),
        _at(row[26]),
    )


def _delivery(row: Any) -> DeliveryView:
    number, relay, started_us, lease_us, finished_us, verdict, answer, evidence, late = row
    return DeliveryView(
        int(number),
        relay,
        from_us(int(started_us)),
        from_us(int(lease_us)),
        _at(finished_us),
        verdict,
        answer,
        evidence,
        bool(late),
    )


def _summary(
    name: str, rows: Sequence[Any], to: Destination | None, blocked: int, clock_us: int
) -> Summary:
    counts = dict.fromkeys(("pending", "sending", "uncertain"), 0)
    dead: dict[str, int] = {}
    for _, state, answer, count, _, _ in rows:
        if state == "dead":
            dead[answer or ""] = dead.get(answer or "", 0) + int(count)
        else:
            counts[state] += int(count)
    waiting = [int(row[4]) for row in rows if row[1] in {"pending", "sending"}]
    doubts = [int(row[5]) for row in rows if row[5] is not None]
    left = None
    if to is not None and to.safe_for is not None and doubts:
        left = max(timedelta(0), from_us(min(doubts)) + to.safe_for - from_us(clock_us))
    return Summary(
        name,
        to is not None,
        **counts,
        dead=dead,
        blocked=blocked,
        oldest_pending_at=from_us(min(waiting)) if waiting else None,
        key_life_left=left,
    )


def _at(us: Any) -> datetime | None:
    return None if us is None else from_us(int(us))
