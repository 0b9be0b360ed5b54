"""The rows of keys other than an occurrence's: a message's, a parked message's, a request's.

Each kind says its binds and reads what stands under its key; the statements are in
`sql/inbox.sql`. It decides nothing: what a standing means is the core's.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from duly._core.inbox import PARKED_AS, Parked, ParkedState
from duly._core.ops import Claimed, Standing
from duly._core.states import Disposition, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from duly._core.idempotency import Answer, Asked
    from duly._core.inbox import Delivery
    from duly._db.sessions.base import Session


class KeyRow(ABC):
    """The row of one key, for one delivery or request.

    Attributes:
        names: Its queries, by what they do.
        standing: What was last read there.
    """

    names: ClassVar[Mapping[str, str]]
    columns: dict[str, Any]

    def __init__(self, receipt_id: UUID) -> None:
        self.receipt_id = receipt_id
        self.standing: Standing | None = None

    def binds(self, session: Session) -> dict[str, Any]:
        """The key, and what this delivery would write there."""
        return {**self.columns, "receipt_id": session.encode_id(self.receipt_id)}

    def claim(self, session: Session, wait_s: float) -> Claimed:
        """Insert or take the row, in a transaction of duly's own."""
        return session.claim_row(self.names, {**self.binds(session), "is_handled": False}, wait_s)

    def claim_in_caller(self, session: Session, wait_s: float) -> Claimed:
        """The same in a caller's, which stands for itself: nothing seals it later."""
        binds = {**self.binds(session), "is_handled": True}
        return session.claim_row_in_caller(self.names, binds, wait_s)

    def unclaim(self, session: Session) -> None:
        """Undo the claim."""
        session.change(self.names["unclaim"], self.binds(session))

    def confirm(self, session: Session) -> bool:
        """Whether the claim is in the session's transaction."""
        return bool(session.run(self.names["confirm"], self.binds(session)))

    def read(self, session: Session) -> Standing | None:
        """What stands under the key."""
        rows = session.run(self.names["standing"], self.binds(session))
        self.standing = self._standing(session, rows[0]) if rows else None
        return self.standing

    def seal(self, session: Session, result: str | None) -> bool:
        """Complete the row, if it is still this delivery's."""
        binds = {**self.binds(session), "result": result}
        return session.change(self.names["seal"], binds) == 1

    def store(self, session: Session, result: str | None) -> bool:
        """Store a result under a claim in a caller's transaction."""
        binds = {**self.binds(session), "result": result}
        return session.change(self.names["store"], binds) == 1

    def hold(self, session: Session) -> None:
        """Let a row hold the key whose handler lost the transaction."""
        session.change(self.names["hold"], self.binds(session))

    @abstractmethod
    def _standing(self, session: Session, row: tuple[Any, ...]) -> Standing:
        """What one of its rows means."""


class InboxRow(KeyRow):
    """A message's row in the inbox."""

    names: ClassVar[Mapping[str, str]] = {
        "claim": "inbox_claim",
        "claim_in_caller": "inbox_claim_in_caller",
        "unclaim": "inbox_unclaim",
        "confirm": "inbox_confirm",
        "standing": "inbox_standing",
        "seal": "inbox_seal",
        "store": "inbox_store",
        "hold": "inbox_hold",
    }

    def __init__(self, delivery: Delivery) -> None:
        super().__init__(delivery.attempt_id)
        message = delivery.message
        self.columns = {
            **message.columns,
            "fingerprint": delivery.fingerprint,
            "sent_us": message.sent_us,
        }

    def park(self, session: Session, outcome: Outcome) -> None:
        """Park this message and body, or count one more delivery of what is parked."""
        stored = None if self.standing is None else self.standing.fingerprint
        session.change(
            "parked_park",
            {**self.columns, "why": Parked(outcome.value).value, "stored_fingerprint": stored},
        )

    def _standing(self, session: Session, row: tuple[Any, ...]) -> Standing:
        fingerprint, receipt_id, handled_us, received_us, result, _duplicates = row
        return Standing(
            Disposition.APPLIED,
            bytes(fingerprint),
            session.decode_id(receipt_id),
            handled_us is not None,
            int(received_us),
            result,
        )


class ParkedRow(InboxRow):
    """A parked message's row: of this message with this body."""

    names: ClassVar[Mapping[str, str]] = {
        "claim": "parked_claim",
        "claim_in_caller": "parked_claim_in_caller",
        "unclaim": "parked_unclaim",
        "confirm": "parked_confirm",
        "standing": "parked_standing",
        "seal": "parked_seal",
        "store": "parked_store",
        "hold": "parked_hold",
    }

    def _standing(self, session: Session, row: tuple[Any, ...]) -> Standing:
        state, fingerprint, receipt_id, handled_us, parked_us, result, reason = row
        return Standing(
            PARKED_AS[ParkedState(state)],
            bytes(fingerprint),
            session.decode_id(receipt_id),
            handled_us is not None,
            int(parked_us),
            result,
            reason,
        )


class HttpRow(KeyRow):
    """The row of an idempotency key.

    Attributes:
        answer: Of this request, before it is sealed.
        stored: Of the first request, once it was read.
    """

    names: ClassVar[Mapping[str, str]] = {
        "claim": "http_claim",
        "confirm": "http_confirm",
        "standing": "http_standing",
        "seal": "http_seal",
        "hold": "http_hold",
    }

    def __init__(self, asked: Asked, receipt_id: UUID) -> None:
        super().__init__(receipt_id)
        self.answer: Answer | None = None
        self.stored: Answer | None = None
        self.columns = {
            "scope": asked.scope,
            "http_key": asked.key,
            "fingerprint": asked.fingerprint,
            "life_us": asked.life_us,
        }

    def seal(self, session: Session, result: str | None) -> bool:  # noqa: ARG002 - as above
        """Store the answer, if the row is still this request's."""
        assert self.answer is not None
        binds = {
            **self.binds(session),
            "status": self.answer.status,
            "headers": json.dumps(self.answer.stored_headers),
            "body": self.answer.body,
        }
        return session.change(self.names["seal"], binds) == 1

    def _standing(self, session: Session, row: tuple[Any, ...]) -> Standing:
        from duly._core.idempotency import Answer

        fingerprint, receipt_id, handled_us, received_us, expires_us, status, headers, body = row
        # A stored body that was deleted is an answer that expired, whatever the clock says.
        is_over = handled_us is not None and (body is None or expires_us <= session.clock_us())
        if handled_us is not None and not is_over:
            kept = [(str(name), str(value)) for name, value in json.loads(headers)]
            self.stored = Answer(int(status), kept, bytes(body))
        return Standing(
            Disposition.WAIVED if is_over else Disposition.APPLIED,
            bytes(fingerprint),
            session.decode_id(receipt_id),
            handled_us is not None,
            int(received_us),
        )
