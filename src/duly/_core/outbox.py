"""Messages, before they are sent: their ids, their frozen requests, and what may be one.

Decides which message is which, so that no retry, restore or prune changes an id, and what may go
into one. Must never let an order of calls, a clock or chance into an id (PROTOCOL 23).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from duly._core.instants import as_utc, to_us
from duly._core.payload import SURROGATE, body_json
from duly._core.wording import shown
from duly.errors import MessageInvalid, NominalTimeInvalid, PayloadConflict

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.occurrence import Occurrence

__all__ = [
    "BODY_MAX",
    "DESTINATION_NAME",
    "HEADER_NAME",
    "OF_THE_CHANNEL",
    "Draft",
    "Staged",
    "conflict",
    "freeze",
    "message_id",
]

BODY_MAX: Final = 262_144
"""Bytes of a body: 256 KiB. What is larger is stored elsewhere, and its address is sent."""

HEADERS_MAX: Final = 16_384
NAME_MAX: Final = 200
DESTINATION_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
JSON_TYPE: Final = "application/json"
BYTES_TYPE: Final = "application/octet-stream"

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_SAVEPOINT: Final = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*"
    r"(?:(?P<sets>SAVEPOINT)|(?P<releases>RELEASE(?:\s+SAVEPOINT)?)"
    r"|ROLLBACK(?:\s+(?:WORK|TRANSACTION))?\s+TO(?:\s+SAVEPOINT)?)"
    r"\s+(?P<name>[^\s;]+)",
    re.IGNORECASE | re.DOTALL,
)
_CONTROL: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
OF_THE_CHANNEL: Final = frozenset(
    {
        # Of one connection, or of how a body is written on it: no message has a say in them.
        *("connection", "expect", "keep-alive", "proxy-connection", "te", "trailer", "upgrade"),
        # The attributes by which a receiver of CloudEvents knows an event again, and their like.
        *(f"ce-{name}" for name in ("id", "source", "specversion", "time", "type")),
        "content-length",
        "host",
        "idempotency-key",
        "message-id",
        "nats-msg-id",
        "transfer-encoding",
        "webhook-id",
        "webhook-signature",
        "webhook-timestamp",
    }
)
"""What a channel says by itself: the message's id above all, which no sender may replace."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One message as it was asked for: frozen, hashed, and not yet stored.

    Attributes:
        fingerprint: SHA-256 of what goes to the receiver; equal means the same message.
        not_before_us: When it may be sent at the earliest; None for at once.
        expires_us: When it is not sent any more; None for never.
    """

    id: UUID
    occurrence: Occurrence
    destination: str
    name: str | None
    key: str | None
    generation: int
    content_type: str
    headers: str
    body: bytes
    fingerprint: bytes
    ordering_key: str | None
    not_before_us: int | None
    expires_us: int | None

    @property
    def label(self) -> str:
        """How a message about it names it."""
        what = self.name if self.key is None else self.key
        return f"{self.destination}" + (f" {shown(what)}" if what is not None else "")


class Staged:
    """The messages of one run, in memory until its work is done.

    What a handler takes back to a savepoint takes its messages with it: they are of the work.
    """

    def __init__(self) -> None:
        self._drafts: dict[UUID, Draft] = {}
        self._savepoints: list[tuple[str, int]] = []  # and how many messages were staged before

    def __len__(self) -> int:
        return len(self._drafts)

    def add(self, draft: Draft) -> None:
        """Stage one.

        Raises:
            MessageInvalid: The destination has an unnamed one already.
            PayloadConflict: Another one of that id, and another content, is staged.
        """
        before = self._drafts.get(draft.id)
        if before is not None and draft.name is None and draft.key is None:
            # The order of two calls may differ the next time, so it tells nothing.
            raise MessageInvalid(
                f"{draft.occurrence.key} sends two messages to {draft.destination} without a name:"
                " give each but one name=, or key= with what it is about",
                key=draft.occurrence.key,
            )
        if before is not None and before.fingerprint != draft.fingerprint:
            raise conflict(draft, before.fingerprint)
        self._drafts[draft.id] = draft

    def follow(self, statement: str) -> None:
        """Let a statement that was executed set, release or return to a savepoint.

        One that is not known was set before the first message.
        """
        if (found := _SAVEPOINT.match(statement)) is None:
            return
        name = found["name"].strip('"`').lower()
        if found["sets"]:
            self._savepoints.append((name, len(self._drafts)))
            return
        place = next(
            (n for n in reversed(range(len(self._savepoints))) if self._savepoints[n][0] == name),
            None,
        )
        if found["releases"]:
            del self._savepoints[place if place is not None else 0 :]
            return
        kept = 0 if place is None else self._savepoints[place][1]
        del self._savepoints[0 if place is None else place + 1 :]
        for each in list(self._drafts)[kept:]:
            del self._drafts[each]

    def in_order(self) -> list[Draft]:
        """All of them, in the one order in which every transaction inserts (PROTOCOL 23).

        Only the rows of `duly_outbox_order` are waited for, so the messages of one ordering key
        keep the order of their calls.
        """
        return sorted(
            self._drafts.values(), key=lambda draft: (draft.destination, draft.ordering_key or "")
        )


def message_id(
    occurrence: Occurrence, destination: str, name: str | None, key: str | None, generation: int
) -> UUID:
    """The id of a message: a UUIDv8 (RFC 9562) over SHA-256 of what it is, and of nothing else."""
    kind, value = ("key", key) if key is not None else ("name", name or "")
    digest = sha256()
    for part in ("duly message 1", occurrence.key, destination, kind, value, str(generation)):
        data = part.encode()
        digest.update(len(data).to_bytes(4, "big") + data)
    raw = bytearray(digest.digest()[:16])
    raw[6] = raw[6] & 0x0F | 0x80
    raw[8] = raw[8] & 0x3F | 0x80
    return UUID(bytes=bytes(raw))


def freeze(
    occurrence: Occurrence,
    destination: str,
    body: Any,
    *,
    name: str | None = None,
    key: str | None = None,
    headers: Mapping[str, str] | None = None,
    not_before: datetime | None = None,
    expires_at: datetime | None = None,
    ordering_key: str | None = None,
) -> Draft:
    """The message that is asked for, checked and hashed.

    Raises:
        MessageInvalid: It cannot be sent as it is; the message names what, and the next step.
    """
    _named(destination)
    if name is not None and key is not None:
        raise MessageInvalid(
            f"a message to {destination} has name= and key=: give the one that tells it from the"
            " occurrence's other messages"
        )
    _text(name, "name", destination)
    _text(key, "key", destination)
    _text(ordering_key, "ordering_key", destination)
    content, content_type = _frozen(body, destination)
    given = _headers(headers, destination)
    for each in [each for each in given if each.lower() == "content-type"]:
        content_type = given.pop(each)
        if not 1 <= len(content_type) <= NAME_MAX:
            raise MessageInvalid(
                f"the Content-Type of a message to {destination} has {len(content_type)}"
                f" characters: give 1 to {NAME_MAX}"
            )
    not_before_us = _instant(not_before, "not_before", destination)
    expires_us = _instant(expires_at, "expires_at", destination)
    if not_before_us is not None and expires_us is not None and expires_us <= not_before_us:
        raise MessageInvalid(
            f"a message to {destination} expires before it may be sent: give expires_at= after"
            " not_before="
        )
    from rfc8785 import dumps

    text = dumps(given).decode()
    draft = Draft(
        message_id(occurrence, destination, name, key, 1),
        occurrence,
        destination,
        name,
        key,
        1,
        content_type,
        text,
        content,
        b"",
        ordering_key,
        not_before_us,
        expires_us,
    )
    return replace(draft, fingerprint=_fingerprint(draft))


def conflict(draft: Draft, before: bytes) -> PayloadConflict:
    """The same message was asked for with another content."""
    return PayloadConflict(
        f"{draft.occurrence.key} has sent another message as {draft.label}"
        f" ({before.hex()[:12]}… there, {draft.fingerprint.hex()[:12]}… here): a body must follow"
        " from the occurrence, its payload and its data, and a now() or a random number in it is"
        " the usual cause; two messages to one destination need two names (name=, or key=)",
        key=draft.occurrence.key,
        message_id=str(draft.id),
        recorded=before.hex(),
        given=draft.fingerprint.hex(),
    )


def _fingerprint(draft: Draft) -> bytes:
    digest = sha256()
    order = (draft.ordering_key or "").encode()
    for data in (draft.content_type.encode(), draft.headers.encode(), draft.body, order):
        digest.update(len(data).to_bytes(4, "big") + data)
    return digest.digest()


def _frozen(body: Any, destination: str) -> tuple[bytes, str]:
    if isinstance(body, bytes | bytearray | memoryview):
        content, kind = bytes(body), BYTES_TYPE
    else:
        content, kind = body_json(body, most=BODY_MAX), JSON_TYPE
    if len(content) > BODY_MAX:
        raise MessageInvalid(
            f"the body of a message to {destination} has {len(content)} bytes, and at most"
            f" {BODY_MAX} (256 KiB) are sent: store it elsewhere, and send where it is"
        )
    return content, kind


def _headers(headers: Mapping[str, str] | None, destination: str) -> dict[str, str]:
    found: dict[str, str] = {}
    given: Any = {} if headers is None else headers
    if not isinstance(given, Mapping):
        raise MessageInvalid(
            f"the headers of a message to {destination} are {type(given).__name__}: give a mapping"
            " of names to values"
        )
    for name, value in given.items():
        if not isinstance(name, str) or HEADER_NAME.fullmatch(name) is None:
            raise MessageInvalid(
                f"a header of a message to {destination} is called {shown(name)}: use letters,"
                " digits and '-'"
            )
        if not isinstance(value, str) or _CONTROL.search(value) or SURROGATE.search(value):
            raise MessageInvalid(
                f"the header {name} of a message to {destination} is {shown(value)}: give text"
                " without NUL, line breaks and other control characters"
            )
        if name.lower() in OF_THE_CHANNEL:
            raise MessageInvalid(
                f"the header {name} of a message to {destination} is the channel's to set, for"
                " each send by itself: leave it out"
            )
        if name.lower() in {each.lower() for each in found}:
            raise MessageInvalid(
                f"a message to {destination} has the header {name} twice: give it once"
            )
        found[name] = value
    if sum(len(name) + len(value) for name, value in found.items()) > HEADERS_MAX:
        raise MessageInvalid(
            f"the headers of a message to {destination} have more than {HEADERS_MAX} characters:"
            " put it into the body"
        )
    return found


def _named(destination: object) -> None:
    if not isinstance(destination, str) or DESTINATION_NAME.fullmatch(destination) is None:
        raise MessageInvalid(
            f"{shown(destination)} cannot name a destination: use 1 to 100 of a-z, 0-9, '.', '_'"
            " and '-', the first a letter or digit"
        )


def _text(value: object, what: str, destination: str) -> None:
    if value is None:
        return
    if (
        not isinstance(value, str)
        or not 1 <= len(value) <= NAME_MAX
        or "\0" in value
        or SURROGATE.search(value)
    ):
        raise MessageInvalid(
            f"{what}={shown(value)} of a message to {destination} is not allowed: give 1 to"
            f" {NAME_MAX} characters of text, without NUL"
        )


def _instant(value: datetime | None, what: str, destination: str) -> int | None:
    if value is None:
        return None
    try:
        return to_us(as_utc(value, name=what))
    except NominalTimeInvalid as error:
        raise MessageInvalid(f"a message to {destination}: {error}") from None
