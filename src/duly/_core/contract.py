"""Contracts: what a receiver promises about being sent the same message twice, as data.

Decides which promises make sense. It never asks a receiver; what was not promised is not
assumed (the facts are those of each provider's documentation).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from duly.errors import DestinationInvalid

__all__ = ["Ambiguous", "Contract"]

Ambiguous = Literal["hold", "retry"]

ANSWERED_NO: Final = frozenset({408, 425, 429, 503})
"""HTTP statuses that say "not now": nothing was done (RFC 9110, 6585, 8470)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What one receiver promises.

    Attributes:
        ambiguous: What follows a send that may have arrived where the receiver knows no key (or
            has forgotten it): `hold` lets a lookup or a person decide; `retry` sends it again
            under the same id: at least once, and the receiver must expect it.
        key_life: How long the receiver knows the id of what it was sent, counted from the first
            send in doubt; None if it does not, or nobody says.
        margin: How long before the end of that life no send is started any more.
        key_header: The HTTP header that carries the id, for whoever looks; None to send none.
        key_form: `bare`, or `quoted` as in the IETF's draft.
        key_max: The most characters of a key that the receiver takes.
        compares: It compares what comes under a key it knows, and refuses another content.
        mismatch: The HTTP statuses by which it does.
        in_progress: Those that say the first request of that key is still at work.
        stores: Statuses that it keeps for a key and answers again: sending again is in vain.
        refusals: Statuses that say "not now", by which nothing was done.
        undone: Other statuses by which, as this receiver promises, nothing was done.
        lookup_after: How long after a send a lookup is believed when it finds nothing.

    Raises:
        DestinationInvalid: Two of these contradict each other.
    """

    ambiguous: Ambiguous = "hold"
    key_life: timedelta | None = None
    margin: timedelta = timedelta(minutes=1)
    key_header: str | None = "Idempotency-Key"
    key_form: Literal["bare", "quoted"] = "bare"
    key_max: int | None = None
    compares: bool = False
    mismatch: frozenset[int] = frozenset()
    in_progress: frozenset[int] = frozenset()
    stores: frozenset[int] = frozenset()
    refusals: frozenset[int] = ANSWERED_NO
    undone: frozenset[int] = frozenset()
    lookup_after: timedelta = field(default=timedelta(minutes=1))

    def __post_init__(self) -> None:
        if self.ambiguous not in {"hold", "retry"}:
            raise DestinationInvalid(
                f"ambiguous={self.ambiguous!r} is not a choice: 'hold' lets a person decide what"
                " may have been sent, 'retry' sends it again"
            )
        if self.key_form not in {"bare", "quoted"}:
            raise DestinationInvalid(
                f"key_form={self.key_form!r} is not a form: 'bare', or 'quoted' as in the IETF's"
                " draft"
            )
        if self.key_life is not None and not timedelta(0) <= self.margin < self.key_life:
            raise DestinationInvalid(
                f"margin={self.margin} leaves nothing of key_life={self.key_life}: give a shorter"
                " one"
            )
        if self.key_max is not None and self.key_max < 36:
            raise DestinationInvalid(
                f"key_max={self.key_max} is less than the 36 characters of a message's id: the"
                " receiver's key cannot carry it, so leave key_header out and choose ambiguous="
            )

    # Profiles: what kinds of receivers promise, by their documentation.

    @classmethod
    def stripe_like(cls, *, key_life: timedelta = timedelta(hours=24)) -> Contract:
        """A payment provider with idempotency keys of a day, which stores answers of 500 too."""
        return cls(
            key_life=key_life,
            margin=timedelta(minutes=30),
            key_max=255,
            compares=True,
            mismatch=frozenset({422}),
            in_progress=frozenset({409}),
            stores=frozenset({500}),
        )

    @classmethod
    def idempotency_key(cls, *, key_life: timedelta) -> Contract:
        """A receiver that follows the IETF's draft: 409 in progress, 422 for another content."""
        return cls(
            key_life=key_life,
            margin=min(timedelta(minutes=1), key_life / 10),
            key_form="quoted",
            compares=True,
            mismatch=frozenset({422}),
            in_progress=frozenset({409}),
        )

    @classmethod
    def http(cls, *, ambiguous: Ambiguous = "hold") -> Contract:
        """A plain HTTP receiver, which promises nothing."""
        return cls(ambiguous=ambiguous)

    @classmethod
    def smtp(cls, *, ambiguous: Ambiguous = "hold") -> Contract:
        """Mail: after the final dot a server may have it, and none looks at Message-ID."""
        return cls(ambiguous=ambiguous)

    @classmethod
    def nats(cls, *, window: timedelta = timedelta(minutes=2)) -> Contract:
        """JetStream: `Nats-Msg-Id` is known for the stream's duplicate window."""
        return cls(key_life=window, margin=window / 10)

    @classmethod
    def rabbitmq(cls, *, ambiguous: Ambiguous = "retry") -> Contract:
        """RabbitMQ keeps no ids; its consumers, with an inbox, do."""
        return cls(ambiguous=ambiguous)

    @classmethod
    def inbox(cls) -> Contract:
        """A receiver that applies each id once for as long as it lives (`duly.receive`)."""
        return cls(ambiguous="retry")
