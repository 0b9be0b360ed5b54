"""Destinations: how one receiver is reached, what it promises, and how long is tried.

Decides which settings fit together. It must never let a retry outlive the receiver's memory of a
message unless a person said so in the code.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from duly._core.channel import Channel
from duly._core.contract import Contract
from duly._core.outbox import DESTINATION_NAME
from duly._core.wording import shown
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from duly._core.channel import Lookup

__all__ = ["Destination"]

SECOND: Final = timedelta(seconds=1)
DAY: Final = timedelta(days=1)
LEASE_MARGIN: Final = timedelta(seconds=30)
CONCURRENCY_MAX: Final = 256
PLAIN: Final = Contract()
TOLD_MAX: Final = 16
"""More than a channel has, and those of earlier days with them."""


def _remembered() -> deque[str]:
    return deque(maxlen=TOLD_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One receiver.

    Attributes:
        name: `[a-z0-9][a-z0-9._-]{0,99}`.
        channel: What carries messages to it.
        contract: What it promises.
        retry_for: How long after it was enqueued (or may be sent) a message is tried.
        outlives_key: `retry_for` may be longer than the receiver knows an id: a message in doubt
            is then held at the end of that life.
        lookup: Asks the receiver whether it has a message that is in doubt.
        concurrency: How many sends one relay has under way at once.
        timeout: How long one send may take.
        lease: How long a send belongs to its relay; then another may take the message over.
        backoff_min, backoff_max: The first and the longest pause between two sends.
        break_after: After so many failures in a row the receiver is left alone; 0 for never.
        break_for: The longest such pause; it begins with a second.
        skip_blocked: A message with an ordering key does not wait for an earlier one of the key
            that is uncertain or dead.
        told: The last secrets that its channel told, so that nothing that quotes one is kept.

    Raises:
        DestinationInvalid: Two of these contradict each other.
    """

    name: str
    channel: Channel
    contract: Contract = PLAIN
    retry_for: timedelta | None = None
    outlives_key: bool = False
    lookup: Lookup | None = None
    concurrency: int = 8
    timeout: timedelta = 30 * SECOND
    lease: timedelta | None = None
    backoff_min: timedelta = SECOND
    backoff_max: timedelta = timedelta(minutes=30)
    break_after: int = 5
    break_for: timedelta = timedelta(minutes=1)
    skip_blocked: bool = False
    told: deque[str] = field(default_factory=_remembered, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        if not timedelta(0) < self.timeout <= timedelta(hours=1):
            raise self._refused("timeout", self.timeout, "more than nothing, and an hour at most")
        if self.lease is None:
            object.__setattr__(self, "lease", 2 * self.timeout + LEASE_MARGIN)
        if self.lease_time <= self.timeout:
            raise self._refused(
                "lease",
                self.lease,
                f"longer than timeout={self.timeout}, or another relay takes over what is still"
                " being sent",
            )
        if not 1 <= self.concurrency <= CONCURRENCY_MAX:
            raise self._refused("concurrency", self.concurrency, f"1 to {CONCURRENCY_MAX}")
        if not timedelta(0) < self.backoff_min <= self.backoff_max <= DAY:
            raise self._refused(
                "backoff_min",
                self.backoff_min,
                "above 0, at most backoff_max=, which is a day at most",
            )
        if self.break_after < 0 or not timedelta(0) < self.break_for <= DAY:
            raise self._refused(
                "break_after", self.break_after, "0 or more, break_for= up to a day"
            )
        self._check_life()

    @property
    def lease_time(self) -> timedelta:
        """How long a send belongs to its relay."""
        assert self.lease is not None
        return self.lease

    @property
    def tried_for(self) -> timedelta:
        """How long a message is tried."""
        assert self.retry_for is not None
        return self.retry_for

    @property
    def safe_for(self) -> timedelta | None:
        """How long after the first doubtful send another may be started; None: no id is known.

        The send itself takes time too: it must have ended before the receiver forgets.
        """
        life = self.contract.key_life
        return None if life is None else life - max(self.contract.margin, self.timeout)

    def _check_kinds(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or DESTINATION_NAME.fullmatch(name) is None:
            raise DestinationInvalid(
                f"{shown(self.name)} cannot name a destination: use 1 to 100 of a-z, 0-9, '.', '_'"
                " and '-', the first a letter or digit"
            )
        if not isinstance(self.channel, Channel):
            raise DestinationInvalid(
                f"destination {self.name}: {shown(self.channel)} is no channel: give one of"
                " duly.channels, such as Http(url), or an object with send() and close()"
            )
        if not isinstance(self.contract, Contract):
            raise DestinationInvalid(
                f"destination {self.name}: contract={shown(self.contract)} is none: give a"
                " duly.Contract, such as Contract.stripe_like()"
            )

    def _check_life(self) -> None:
        """A retry after the receiver forgot the id is a second effect."""
        safe_for = self.safe_for
        if safe_for is not None and safe_for <= timedelta(0):
            raise self._refused(
                "timeout",
                self.timeout,
                f"less than the {self.contract.key_life} for which the receiver knows a message",
            )
        if self.retry_for is None:
            bounded = safe_for is not None and not self.outlives_key
            most = safe_for if bounded and safe_for is not None else 3 * DAY
            object.__setattr__(self, "retry_for", min(3 * DAY, most))
        if self.tried_for <= timedelta(0):
            raise self._refused("retry_for", self.retry_for, "more than nothing")
        if safe_for is not None and self.tried_for > safe_for and not self.outlives_key:
            raise DestinationInvalid(
                f"destination {self.name} is retried for {self.tried_for}, but its receiver knows"
                f" a message for {self.contract.key_life} only, so the last sends could be second"
                f" effects: set retry_for= to {safe_for} or less, or outlives_key=True to hold"
                " what is in doubt by then"
            )

    def _refused(self, what: str, value: object, allowed: str) -> DestinationInvalid:
        said = str(value) if isinstance(value, timedelta) else shown(value)
        return DestinationInvalid(
            f"destination {self.name}: {what}={said}, but it must be {allowed}"
        )
