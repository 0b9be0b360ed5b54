"""The words for how attempts, occurrences and messages end, and which ending may follow which.

Literal data: the docs' diagrams are made from it. It must never grow behaviour.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = [
    "DISPOSITION_TRANSITIONS",
    "MESSAGE_TRANSITIONS",
    "RECORDED_OUTCOMES",
    "Disposition",
    "ErrorOrigin",
    "MessageState",
    "Outcome",
    "Verdict",
]


class Outcome(StrEnum):
    """How one attempt ended.

    Attributes:
        APPLIED: The effect and its completion were committed by this attempt.
        DUPLICATE: Already applied with the same payload; nothing was done.
        FAILED: The handler or the database failed; rolled back, the key stays free.
        CONFLICT: Already settled with another payload; refused.
        BUSY: Another transaction held the key for all of `wait`.
        EXPIRED: At or below the job's horizon; refused.
        FENCED: The attempt lost its lease to another.
        ABANDONED: The process died; written by whoever found it.
        TORN: The handler ended the transaction itself; only a person settles it.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    FAILED = "failed"
    CONFLICT = "conflict"
    BUSY = "busy"
    EXPIRED = "expired"
    FENCED = "fenced"
    ABANDONED = "abandoned"
    TORN = "torn"


class Disposition(StrEnum):
    """How a settled occurrence ended."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    SUPERSEDED = "superseded"
    WAIVED = "waived"
    TORN = "torn"


IN_PARTS: Final = "its partitions are run instead"
"""The reason with which the whole of an occurrence that was fanned out is superseded."""


def is_in_parts(disposition: Disposition, reason: str | None) -> bool:
    """Whether a row says that an occurrence's partitions are run instead of it."""
    return disposition is Disposition.SUPERSEDED and reason == IN_PARTS


class ErrorOrigin(StrEnum):
    """Whose error ended an attempt: it tells a failing handler from a failing database."""

    HANDLER = "handler"
    DATABASE = "database"
    SIGNAL = "signal"


# A duplicate is counted in duly_duplicate; each of these has an immutable row in duly_attempt.
RECORDED_OUTCOMES = frozenset(Outcome) - {Outcome.DUPLICATE}

# From -> to. A settled row is never changed, but a torn one, and that only by a person; while a
# held command's own attempt lives, that attempt may still complete or free its row (commands.py).
DISPOSITION_TRANSITIONS: dict[Disposition | None, frozenset[Disposition]] = {
    None: frozenset(Disposition),
    Disposition.APPLIED: frozenset(),
    Disposition.SKIPPED: frozenset(),
    Disposition.SUPERSEDED: frozenset(),
    Disposition.WAIVED: frozenset(),
    Disposition.TORN: frozenset({Disposition.WAIVED}),
}


class MessageState(StrEnum):
    """Where a message of the outbox stands.

    Attributes:
        PENDING: To be sent; nothing of it is under way.
        SENDING: A relay has written down that it starts a send, and not yet how it ended.
        SENT: The receiver has it, as the receiver, a lookup or a person said.
        UNCERTAIN: It may have been sent; only a lookup or a person says which.
        DEAD: It will not be sent any more, unless a person says otherwise.
        CANCELLED: A person took it back before any send was started.
    """

    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    UNCERTAIN = "uncertain"
    DEAD = "dead"
    CANCELLED = "cancelled"


class Verdict(StrEnum):
    """What a channel says of one send.

    Attributes:
        SENT: The receiver said that it has it.
        NOT_SENT: Surely nothing arrived; it may be sent again whatever the contract.
        REFUSED: The receiver answered, and surely did nothing.
        AMBIGUOUS: It may have arrived; the contract decides what follows.
    """

    SENT = "sent"
    NOT_SENT = "not_sent"
    REFUSED = "refused"
    AMBIGUOUS = "ambiguous"


# From -> to; every change is a compare-and-set. What leaves `uncertain`, `dead` or `sent` does so
# by a lookup's or a person's word alone, or by the late word of the very send that was in doubt.
MESSAGE_TRANSITIONS: dict[MessageState | None, frozenset[MessageState]] = {
    None: frozenset({MessageState.PENDING}),
    MessageState.PENDING: frozenset(
        {MessageState.SENDING, MessageState.UNCERTAIN, MessageState.DEAD, MessageState.CANCELLED}
    ),
    MessageState.SENDING: frozenset(
        {
            MessageState.SENDING,
            MessageState.SENT,
            MessageState.PENDING,
            MessageState.UNCERTAIN,
            MessageState.DEAD,
        }
    ),
    MessageState.SENT: frozenset(),
    MessageState.UNCERTAIN: frozenset({MessageState.SENT, MessageState.PENDING, MessageState.DEAD}),
    MessageState.DEAD: frozenset({MessageState.PENDING, MessageState.SENT}),
    MessageState.CANCELLED: frozenset(),
}
