"""What a person sees of an inbox: messages, what is parked, and a summary.

Values only; it decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from duly._core.inbox import Parked, ParkedState


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """One message that a consumer has taken.

    Attributes:
        handled_at: None where its handler ended duly's transaction: it is parked too.
        duplicates: How many further deliveries with the same body came.
    """

    consumer: str
    source: str
    message_id: str
    fingerprint: str
    receipt_id: UUID | None
    sent_at: datetime | None
    received_at: datetime
    handled_at: datetime | None
    value: Any
    duplicates: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class ParkedMessage:
    """One message and body that was refused, and is held for a person.

    Attributes:
        why: `conflict`, `expired` or `torn`.
        state: `held`, `released`, `taken` or `discarded`.
        fingerprint: Of the body that was refused, in hexadecimal.
        stored_fingerprint: Of the body that was handled before, where there is one.
        deliveries: How often it came.
        actor: Who released or discarded it.
        reason: Why.
    """

    consumer: str
    source: str
    message_id: str
    fingerprint: str
    why: Parked
    state: ParkedState
    stored_fingerprint: str | None
    sent_at: datetime | None
    parked_at: datetime
    deliveries: int
    last_at: datetime
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class InboxEntry:
    """All that is known of one message: its row, and what is parked under its id."""

    message: InboxMessage | None
    parked: Sequence[ParkedMessage]


@dataclass(frozen=True, slots=True)
class InboxSummary:
    """One consumer's inbox.

    Attributes:
        horizon: Messages at or below it are parked, never taken as new; None if none was pruned.
    """

    consumer: str
    messages: int
    duplicates: int
    held: int
    newest_at: datetime | None
    horizon: datetime | None
