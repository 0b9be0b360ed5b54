"""What becomes of one message, before a send and after it: every decision about sending, once.

Decides by the state table, the contract, the deadline and the database's clock. It must never
guess away a doubt: what may have been sent is sent again only where the receiver promised to know
it, or where the code says `retry`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from duly._core.states import MessageState, Verdict

if TYPE_CHECKING:
    from uuid import UUID

    from duly._core.channel import Answer
    from duly._core.destination import Destination

__all__ = ["Look", "Move", "Row", "Start", "Step", "after_lookup", "after_send", "backoff", "step"]

POISON: Final = 3
"""Sends that were started and whose end nobody saw: what kills its relay is not tried again."""

RETRY_AFTER_MAX: Final = timedelta(days=1)
"""A receiver that asks for more is asked again after this."""

_US: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Row:
    """A message as it stands in the outbox; see `duly_outbox` for the columns."""

    id: UUID
    state: MessageState
    started: int
    finished: int
    created_us: int
    since_us: int
    expires_us: int | None
    tried_us: int | None
    doubt_us: int | None


@dataclass(frozen=True, slots=True)
class Start:
    """Send it.

    Attributes:
        number: Which send this is.
        doubt_us: When the first send was started that may have arrived.
    """

    number: int
    doubt_us: int | None


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the receiver whether it has it."""


@dataclass(frozen=True, slots=True)
class Move:
    """Change its state.

    Attributes:
        due_us: When a relay looks at it next; None if none does.
        closes: Nothing more happens to it.
    """

    state: MessageState
    answer: str
    evidence: str
    due_us: int | None
    doubt_us: int | None
    closes: bool = False


Step: TypeAlias = Start | Look | Move


def step(row: Row, to: Destination, clock_us: int) -> Step:
    """What is to be done with a message that is due.

    Args:
        row: In state pending; sending, its lease over; or uncertain, to be looked up.
        clock_us: The database's.
    """
    doubt_us = row.doubt_us
    if row.state is MessageState.UNCERTAIN:
        return Look()
    if row.state is MessageState.SENDING:
        # Its relay wrote down the start and never the end: it may have arrived.
        doubt_us = row.tried_us if doubt_us is None else doubt_us
        if row.started - row.finished >= POISON:
            said = (
                f"{POISON} sends of it were started and none was seen to end; it may have arrived"
            )
            return Move(MessageState.DEAD, "poison", said, None, doubt_us)
    if row.expires_us is not None and clock_us >= row.expires_us:
        return _given_up("lapsed", "its expires_at passed", to, doubt_us, clock_us)
    # What was never tried is not given up: no age removes it.
    if row.started and clock_us >= row.since_us + to.tried_for // _US:
        said = f"it was tried for {to.tried_for}"
        return _given_up("exhausted", said, to, doubt_us, clock_us)
    if doubt_us is not None and not _may_repeat(to, doubt_us, clock_us):
        if row.state is MessageState.SENDING:
            return _unsure(
                "lease_over", "its relay did not say how the send ended", to, doubt_us, clock_us
            )
        return _unsure(
            "key_life_over", "the receiver may have forgotten it", to, doubt_us, clock_us
        )
    return Start(row.started + 1, doubt_us)


def after_send(row: Row, answer: Answer, to: Destination, clock_us: int, spread: float) -> Move:
    """What a send's answer makes of its message.

    Args:
        row: As it was when the send was started, which is `tried_us`.
        clock_us: The database's, now.
        spread: From 0 up to 1, by chance: how much of the pause's half is added to it.
    """
    doubt_us, kind, said = row.doubt_us, answer.kind, answer.evidence
    match answer.verdict:
        case Verdict.SENT:
            return Move(MessageState.SENT, kind, said, None, doubt_us, closes=True)
        case Verdict.REFUSED if answer.conflict:
            return Move(MessageState.DEAD, kind, said, None, doubt_us)
        case Verdict.REFUSED if answer.final:
            return _given_up(kind, said, to, doubt_us, clock_us)
        case Verdict.AMBIGUOUS:
            doubt_us = row.tried_us if doubt_us is None else doubt_us
            assert doubt_us is not None
            if answer.final or not _may_repeat(to, doubt_us, clock_us):
                return _unsure(kind, said, to, doubt_us, clock_us)
        case _:
            pass
    pause_us = backoff(row.started, to, spread) // _US
    if answer.retry_after is not None:
        asked = min(max(answer.retry_after, timedelta(0)), RETRY_AFTER_MAX)
        pause_us = max(pause_us, asked // _US)
    due_us = min(clock_us + pause_us, *_ends(row, to, doubt_us))
    return Move(MessageState.PENDING, kind, said, max(due_us, clock_us), doubt_us)


def after_lookup(
    row: Row, found: bool | None, to: Destination, clock_us: int, spread: float
) -> Move:
    """What the receiver's word makes of a message in doubt."""
    if found:
        said = "a lookup found it at the receiver"
        return Move(MessageState.SENT, "lookup", said, None, row.doubt_us, closes=True)
    if found is not None:
        said = "a lookup did not find it at the receiver"
        return Move(MessageState.PENDING, "lookup", said, clock_us, None)
    doubt_us = row.doubt_us or row.since_us
    asked = max(1, (clock_us - doubt_us) // (60_000_000)).bit_length()
    due_us: int | None = clock_us + backoff(asked + 5, to, spread) // _US
    if clock_us >= doubt_us + to.tried_for // _US:
        due_us = None
    said = "a lookup could not say whether the receiver has it"
    return Move(MessageState.UNCERTAIN, "lookup", said, due_us, row.doubt_us)


def backoff(started: int, to: Destination, spread: float) -> timedelta:
    """The pause after that many sends: twice as long each time, half of it by chance."""
    doubled = 1 << min(max(0, started - 1), 20)
    longest = min(to.backoff_max, to.backoff_min * doubled)
    return longest * (0.5 + spread / 2)


def _may_repeat(to: Destination, doubt_us: int, clock_us: int) -> bool:
    """Whether what may have arrived may be sent again."""
    if to.contract.ambiguous == "retry":
        return True
    return to.safe_for is not None and clock_us < doubt_us + to.safe_for // _US


def _ends(row: Row, to: Destination, doubt_us: int | None) -> list[int]:
    """The instants at which something is decided, however long the pause would be."""
    found = [row.since_us + to.tried_for // _US]
    if row.expires_us is not None:
        found.append(row.expires_us)
    if doubt_us is not None and to.safe_for is not None and to.contract.ambiguous != "retry":
        found.append(doubt_us + to.safe_for // _US)
    return found


def _given_up(kind: str, said: str, to: Destination, doubt_us: int | None, clock_us: int) -> Move:
    """No further send; where an earlier one may have arrived, that is what stays to be said."""
    if doubt_us is None:
        return Move(MessageState.DEAD, kind, said, None, None)
    return _unsure(kind, f"{said}; an earlier send may have arrived", to, doubt_us, clock_us)


def _unsure(kind: str, said: str, to: Destination, doubt_us: int, clock_us: int) -> Move:
    due_us = None
    if to.lookup is not None:
        # A receiver that is still at work on it would not find it yet.
        due_us = max(clock_us, doubt_us) + to.contract.lookup_after // _US
    return Move(MessageState.UNCERTAIN, kind, said, due_us, doubt_us)
