"""One delivery of one message: the same decisions as one attempt, and what is parked.

A message is claimed, handled, sealed and committed as an occurrence is (`protocol.py`), under
its own key. What is refused there for good, an id that comes with another body, one at or below
the horizon, one whose handler ended the transaction, is parked for a person. It never does I/O
and never reads a clock; it never takes a parked message as new unless a person released it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from duly._core.ops import Op, Ops, Record, Report, Request
from duly._core.protocol import attempt, claim, evidence
from duly._core.states import Disposition, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from duly._core.message import Message


@dataclass(frozen=True, slots=True)
class Delivery(Request):
    """One delivery, as the protocol of attempts sees it: the message stands for the occurrence."""

    occurrence: Any

    @property
    def message(self) -> Message:
        """The message."""
        found: Message = self.occurrence
        return found


@dataclass(frozen=True, slots=True)
class UseParked:
    """From now on the key is the parked row of this message and body. Reply: None.

    Its `Claim` succeeds once after a person released it; `Explain` reads `torn` for one that
    is held, `waived` for one that a person discarded, `applied` for one that was taken since.
    """


DeliveryOps: TypeAlias = "Generator[Op | UseParked, Any, Report]"


class Parked(StrEnum):
    """Why a message is parked."""

    CONFLICT = "conflict"
    EXPIRED = "expired"
    TORN = "torn"


class ParkedState(StrEnum):
    """Where a parked message stands."""

    HELD = "held"
    RELEASED = "released"
    TAKEN = "taken"
    DISCARDED = "discarded"


# From -> to. The first two changes of a held one are a person's, the third is a delivery's.
PARKED_TRANSITIONS: dict[ParkedState | None, frozenset[ParkedState]] = {
    None: frozenset({ParkedState.HELD}),
    ParkedState.HELD: frozenset({ParkedState.RELEASED, ParkedState.DISCARDED}),
    ParkedState.RELEASED: frozenset({ParkedState.TAKEN, ParkedState.DISCARDED}),
    ParkedState.TAKEN: frozenset(),
    ParkedState.DISCARDED: frozenset({ParkedState.RELEASED}),
}

PARKED_AS = {
    ParkedState.HELD: Disposition.TORN,
    ParkedState.RELEASED: Disposition.TORN,  # another delivery is taking it now
    ParkedState.TAKEN: Disposition.APPLIED,
    ParkedState.DISCARDED: Disposition.WAIVED,
}
"""What a claim that found the row is told."""


def receive(delivery: Delivery) -> DeliveryOps:
    """Every decision of one delivery in duly's own transaction.

    Returns:
        A report as `attempt`'s. Conflict, expired, and no outcome with a torn standing mean
        parked; no outcome with a waived standing means that a person discarded it.
    """
    return (yield from _received(delivery, attempt))


def receive_in_caller(delivery: Delivery) -> DeliveryOps:
    """The same inside a transaction that a caller owns.

    What is parked is written there too: it is kept if the caller commits, and found again by
    the next delivery if not.
    """
    return (yield from _received(delivery, claim))


def parked_for(report: Report) -> Parked | None:
    """Why the message of a report is parked; None if it is not."""
    if report.outcome is Outcome.CONFLICT:
        return Parked.CONFLICT
    if report.outcome is Outcome.EXPIRED:
        return Parked.EXPIRED
    standing = report.standing
    if report.outcome is None and standing and standing.disposition is Disposition.TORN:
        return Parked.TORN
    return None


def _received(delivery: Delivery, protocol: Callable[[Request], Ops]) -> DeliveryOps:
    report = yield from protocol(delivery)
    why = parked_for(report)
    if why is None:
        return report
    if protocol is claim:
        yield Record(Outcome(why.value))
    elif why is Parked.TORN:  # the others are evidence that an attempt leaves by itself
        yield from evidence(Record(Outcome.TORN))
    yield UseParked()
    again = yield from protocol(
        replace(delivery, occurrence=delivery.message.untimed, looks_old=False)
    )
    return report if parked_for(again) is Parked.TORN else again
