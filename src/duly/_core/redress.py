"""What a person may decide about a message, and what can be seen of one.

Decides from which states each decision is possible. It must never let one pass in silence: each
has a reason, a name, and a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from duly._core.states import MessageState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

__all__ = ["ACTIONS", "DeliveryView", "MessageView", "Summary"]

ACTIONS: Final[dict[str, frozenset[MessageState]]] = {
    "redrive": frozenset({MessageState.DEAD, MessageState.UNCERTAIN}),
    "resend": frozenset({MessageState.DEAD, MessageState.UNCERTAIN, MessageState.SENT}),
    "confirm": frozenset({MessageState.DEAD, MessageState.UNCERTAIN}),
    "abandon": frozenset({MessageState.PENDING, MessageState.DEAD, MessageState.UNCERTAIN}),
    "lookup": frozenset({MessageState.UNCERTAIN}),
}
"""Decision -> the states in which it can be made."""


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One send of a message.

    Attributes:
        number: 1 is the first.
        relay: Which process.
        verdict: `sent`, `not_sent`, `refused` or `ambiguous`; None while its end is not known.
        late: It came when somebody else had decided.
    """

    number: int
    relay: str
    started_at: datetime
    lease_until: datetime
    finished_at: datetime | None
    verdict: str | None
    answer: str | None
    evidence: str | None
    late: bool


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message, as it stands.

    Attributes:
        state: Where it stands.
        answer, evidence: What its last send, a lookup or a person said.
        in_doubt_since: When the first send was started that may have arrived.
        due_at: When a relay looks at it next.
        closed_at: From when on nothing more happens to it.
        deliveries: Its sends; only where one message was asked for.
        decisions: Who decided what about it, and why; as above.
    """

    id: str
    key: str
    destination: str
    name: str | None
    natural_key: str | None
    generation: int
    ordering_key: str | None
    state: MessageState
    answer: str | None
    evidence: str | None
    remote_id: str | None
    started: int
    finished: int
    size: int
    created_at: datetime
    due_at: datetime | None
    expires_at: datetime | None
    tried_at: datetime | None
    in_doubt_since: datetime | None
    closed_at: datetime | None
    deliveries: tuple[DeliveryView, ...] = ()
    decisions: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Summary:
    """How one destination's outbox is.

    Attributes:
        registered: This process knows the destination.
        pending, sending, uncertain: How many are in that state.
        dead: By class of their last answer.
        blocked: How many wait behind one that is uncertain or dead.
        oldest_pending_at: When the oldest that is still to be sent was enqueued.
        key_life_left: How long the receiver surely still knows what is in doubt the longest;
            None if nothing is, or it knows nothing.
    """

    destination: str
    registered: bool
    pending: int
    sending: int
    uncertain: int
    dead: Mapping[str, int]
    blocked: int
    oldest_pending_at: datetime | None
    key_life_left: timedelta | None
