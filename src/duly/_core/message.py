"""The identity of a message that somebody sent here: consumer, source, message id.

Decides which deliveries are one message, and what a payload's fingerprint is. Nothing else is
in the identity: not the time of a delivery, not its body, not the queue it came through.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Self

from duly._core.instants import US_MAX, as_utc, from_us, to_us
from duly._core.occurrence import JOB_NAME
from duly._core.payload import canonical
from duly._core.wording import shown
from duly.errors import IncomingInvalid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly._core.payload import Payload

# Code points. With a fingerprint of 32 bytes the key columns take at most 100 + 4 * 550 + 32
# bytes of UTF-8, below the 3,072 at which MariaDB's index ends.
SOURCE_MAX: Final = 250
MESSAGE_ID_MAX: Final = 300

SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Message:
    """One message to one consumer, however often it is delivered.

    Attributes:
        consumer: Who takes it: `[a-z0-9][a-z0-9._-]{0,99}`. Each consumer takes it once.
        source: Who made the id: a URI of CloudEvents, an exchange, a provider's name.
        message_id: What the source calls it; the same in every delivery.
        sent_us: When it was made, by its source's clock; the same in every delivery. None
            where the source does not say: then no prune ever forgets it.

    Raises:
        IncomingInvalid: A part is empty, too long, or cannot be stored.
    """

    consumer: str
    source: str
    message_id: str
    sent_us: int | None = None

    def __post_init__(self) -> None:
        check_part("consumer", self.consumer, 100)
        if JOB_NAME.fullmatch(self.consumer) is None:
            raise IncomingInvalid(
                f"consumer {shown(self.consumer)} is not allowed; use 1 to 100 of a-z, 0-9, '.',"
                " '_' and '-', the first a letter or digit"
            )
        check_part("source", self.source, SOURCE_MAX)
        check_part("message_id", self.message_id, MESSAGE_ID_MAX)

    @classmethod
    def of(
        cls, consumer: str, source: str, message_id: str, sent_at: datetime | None = None
    ) -> Self:
        """A message whose time is given as an aware datetime.

        Raises:
            IncomingInvalid: A part cannot be one.
            NominalTimeInvalid: *sent_at* is naive.
        """
        if sent_at is None:
            return cls(consumer, source, message_id)
        if not isinstance(sent_at, datetime):
            raise IncomingInvalid(
                f"sent_at is an aware datetime or None, not {shown(sent_at)}: give the time that"
                " the message itself carries"
            )
        return cls(consumer, source, message_id, to_us(as_utc(sent_at, name="sent_at")))

    @property
    def key(self) -> str:
        """The message as one line for people."""
        return f"{self.consumer}: message {shown(self.message_id)} of {shown(self.source)}"

    @property
    def nominal_us(self) -> int:
        """The message's own time, which a prune's horizon is compared with.

        One that has none is younger than every horizon: no prune deletes its row.
        """
        return US_MAX if self.sent_us is None else self.sent_us

    @property
    def sent_at(self) -> datetime | None:
        """The message's own time, aware UTC."""
        return None if self.sent_us is None else from_us(self.sent_us)

    @property
    def untimed(self) -> Self:
        """The same message, to which no horizon applies."""
        return replace(self, sent_us=None)

    @property
    def columns(self) -> Mapping[str, Any]:
        """The columns of the key, as binds."""
        return {
            "consumer": self.consumer,
            "source": self.source,
            "message_id": self.message_id,
        }


@dataclass(frozen=True, slots=True)
class Raw:
    """A payload of bytes, as `Payload` is one of JSON.

    Attributes:
        value: The bytes.
        fingerprint: Their SHA-256.
    """

    value: bytes
    fingerprint: bytes


def body_of(payload: object) -> Payload | Raw:
    """What a message says: bytes as they are, everything else as JSON.

    Raises:
        PayloadInvalid: It is neither bytes nor JSON-ready.
    """
    if isinstance(payload, bytes | bytearray | memoryview):
        raw = bytes(payload)
        return Raw(raw, hashlib.sha256(raw).digest())
    return canonical(payload)


def check_part(name: str, text: object, limit: int) -> None:
    """Refuse what no key column can hold.

    Raises:
        IncomingInvalid: It is empty, too long, or no text.
    """
    if not isinstance(text, str):
        raise IncomingInvalid(f"{name} must be text, not {shown(text)}; give it as a string")
    if not text or text.isspace():
        raise IncomingInvalid(f"{name} is empty; give what the sender calls it")
    if len(text) > limit:
        raise IncomingInvalid(
            f"{name} {shown(text)} is longer than {limit} characters; give a hash of it"
        )
    if "\0" in text or SURROGATE.search(text):
        raise IncomingInvalid(
            f"{name} {shown(text)} contains a NUL or half of a surrogate pair; decode it properly"
        )
