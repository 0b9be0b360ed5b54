"""Delivering messages: what a relay takes, writes down, and finishes; one transaction each.

`take` and `finish` are generators of ops, as an attempt is. Between the two no transaction is
open, and a message is on its way. A claim and its write-ahead are one commit: a relay that dies
before it has surely sent nothing, and one that dies after it leaves a doubt that is written down.
They never read a clock or do I/O, and never yield in `finally` (PROTOCOL 7).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from duly._core.ops import (
    Backoff,
    Begin,
    Commit,
    Contention,
    Fault,
    Lost,
    Op,
    Reconnect,
    Rollback,
    Unknown,
)
from duly._core.sending import Look, Move, Start, after_lookup, after_send, step

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly._core.channel import Answer
    from duly._core.destination import Destination
    from duly._core.sending import Row, Step
    from duly._core.states import MessageState

__all__ = [
    "AreMine",
    "DeliveryOp",
    "Finish",
    "ReadClock",
    "TakeDue",
    "Taken",
    "Under",
    "WriteAhead",
    "finish",
    "take",
]

_US: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ReadClock:
    """Read the database's clock. Reply: int microseconds."""


@dataclass(frozen=True, slots=True)
class TakeDue:
    """Read messages that are due, passing by what another relay holds. Reply: list of `Row`."""

    to: Destination
    clock_us: int
    limit: int


@dataclass(frozen=True, slots=True)
class WriteAhead:
    """Write down each step before it is taken. Reply: None."""

    steps: Sequence[tuple[Row, Step]]
    clock_us: int
    lease_us: int


@dataclass(frozen=True, slots=True)
class AreMine:
    """Ask which messages this claim holds; waits for a commit in flight. Reply: list of ids."""

    ids: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class Finish:
    """Write down how sends ended, each where its token still has the say. Reply: list of bool."""

    ended: Sequence[tuple[Under, Move]]
    clock_us: int


DeliveryOp: TypeAlias = Op | ReadClock | TakeDue | WriteAhead | AreMine | Finish
Ops: TypeAlias = Generator[DeliveryOp, Any, Any]


@dataclass(frozen=True, slots=True)
class Under:
    """A send, or a lookup, that is under way or has ended.

    Attributes:
        row: The message as it was when that was started.
        token: Of the claim, as the shell gave it.
        is_lookup: The receiver was asked, nothing was sent.
        answer: Of the send, once it has ended.
        found: Of the lookup.
        spread: From 0 up to 1, by chance.
    """

    to: Destination
    row: Row
    token: UUID
    is_lookup: bool = False
    answer: Answer | None = None
    found: bool | None = None
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What one claim took.

    Attributes:
        clock_us: The database's.
        under: What is to be sent or looked up, at once.
        seen: How many messages were due; some were only moved.
    """

    clock_us: int
    under: tuple[Under, ...]
    seen: int


def take(to: Destination, limit: int, token: UUID) -> Generator[DeliveryOp, Any, Taken]:
    """Claim at most *limit* messages that are due, and write down that their sends start.

    Raises:
        Contention, Lost, Refused: Nothing was claimed.
    """
    tries = 0
    while True:
        try:
            return (yield from _take_once(to, limit, token))
        except Contention:
            yield Rollback()
            if not (yield Backoff(tries)):
                raise
            tries += 1
        except Fault:
            yield Rollback()
            raise


def _take_once(to: Destination, limit: int, token: UUID) -> Generator[DeliveryOp, Any, Taken]:
    yield Begin()
    clock_us: int = yield ReadClock()
    rows: list[Row] = yield TakeDue(to, clock_us, limit)
    if not rows:
        yield Rollback()
        return Taken(clock_us, (), 0)
    steps = [(row, step(row, to, clock_us)) for row in rows]
    yield WriteAhead(steps, clock_us, clock_us + to.lease_time // _US)
    under = [found for row, what in steps if (found := _under(to, row, what, clock_us, token))]
    try:
        if not (yield Commit()):
            return Taken(clock_us, (), 0)
    except Unknown:
        # Sent without its write-ahead, a message could be sent by another relay too; held
        # without being sent, it would be in doubt for nothing. So the rows are asked.
        yield Rollback()
        yield Reconnect()
        yield Begin()
        mine = set((yield AreMine([each.row.id for each in under])))
        yield Rollback()
        under = [each for each in under if each.row.id in mine]
    return Taken(clock_us, tuple(under), len(rows))


def finish(ended: Sequence[Under]) -> Generator[DeliveryOp, Any, list[MessageState | None]]:
    """Write down how sends and lookups ended.

    Said again after an unknown commit it changes nothing: a token has its say once.

    Returns:
        The state that each has put its message into; None if it came too late, and is kept as
        evidence.

    Raises:
        Contention, Lost, Refused: Nothing was written down; say it again later.
    """
    tries = 0
    while True:
        try:
            yield Begin()
            clock_us: int = yield ReadClock()
            moves = [(each, _move(each, clock_us)) for each in ended]
            had_say: list[bool] = yield Finish(moves, clock_us)
            if (yield Commit()):
                return [
                    move.state if said else None
                    for (_, move), said in zip(moves, had_say, strict=True)
                ]
            fault: Fault = Contention(RuntimeError("the transaction was rolled back"))
        except (Contention, Lost, Unknown) as found:
            fault = found
        yield Rollback()
        if not isinstance(fault, Contention):
            yield Reconnect()
        if not (yield Backoff(tries)):
            raise fault
        tries += 1


def _under(to: Destination, row: Row, what: Step, clock_us: int, token: UUID) -> Under | None:
    match what:
        case Start():
            started = replace(row, started=what.number, tried_us=clock_us, doubt_us=what.doubt_us)
            return Under(to, started, token)
        case Look():
            return Under(to, row, token, is_lookup=True)
        case Move():
            return None


def _move(ended: Under, clock_us: int) -> Move:
    if ended.is_lookup:
        return after_lookup(ended.row, ended.found, ended.to, clock_us, ended.spread)
    assert ended.answer is not None
    return after_send(ended.row, ended.answer, ended.to, clock_us, ended.spread)
