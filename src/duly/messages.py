"""Reads a received message's identity off its headers, in the form that its sender writes.

Pure functions: from headers (and body) to a source, an id and, where the sender says so, the
message's own time; what they give is what `duly.receive` takes. They never touch a database,
and never read a clock but the one that is given, or this host's, for a webhook's tolerance.

    found = duly.messages.cloud_event(request.headers, request.body)
    app.receive("billing", payload=body, **found.identity)
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from duly._core.instants import parse_instant
from duly._core.message import MESSAGE_ID_MAX, SOURCE_MAX, check_part
from duly._core.wording import shown
from duly.errors import IncomingInvalid, NominalTimeInvalid, SignatureInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Identified", "amqp", "cloud_event", "mail", "nats", "standard_webhook"]

Headers = Mapping[Any, Any] | Iterable[tuple[Any, Any]]

TOLERANCE = timedelta(minutes=5)
SECRET_BYTES_MIN = 16


@dataclass(frozen=True, slots=True)
class Identified:
    """Which message it is.

    Attributes:
        source: Who made the id.
        message_id: The same in every delivery.
        sent_at: The message's own time, where it is the same in every delivery; else None.
    """

    source: str
    message_id: str
    sent_at: datetime | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """As the arguments of `duly.receive` and `App.receive`."""
        return {"source": self.source, "message_id": self.message_id, "sent_at": self.sent_at}


def cloud_event(headers: Headers, body: bytes | str = b"") -> Identified:
    """The event of a CloudEvents message (1.0), binary or structured, by its content type.

    Its identity is `source` and `id` together; `time`, where it has one, is the event's own.

    Args:
        headers: Of the HTTP request; for Kafka or AMQP with `ce_` or `cloudEvents:` before the
            names in place of `ce-`.
        body: Looked at in structured mode only.

    Raises:
        IncomingInvalid: It is no CloudEvent, a batch of them, or lacks `id` or `source`.
    """
    named = _folded(headers)
    media = named.get("content-type", "").partition(";")[0].strip().lower()
    if media.startswith("application/cloudevents-batch"):
        raise IncomingInvalid(
            "a batch of CloudEvents is several messages: split it, and receive each by itself"
        )
    if media.startswith("application/cloudevents"):
        event = _structured(media, body)
    else:
        prefixes = ("ce-", "ce_", "cloudevents:", "cloudevents_")
        event = {
            name.removeprefix(prefix): value
            for name, value in named.items()
            for prefix in prefixes
            if name.startswith(prefix)
        }
    if event.get("specversion") != "1.0":
        raise IncomingInvalid(
            f"this is no CloudEvent of version 1.0 (specversion is"
            f" {shown(event.get('specversion'))}): expected the header ce-specversion: 1.0, or a"
            " body of application/cloudevents+json"
        )
    return _identified(event.get("source"), event.get("id"), _time(event.get("time")))


def standard_webhook(
    headers: Headers,
    body: bytes | str,
    *,
    secret: str | bytes | Sequence[str | bytes],
    source: str,
    tolerance: timedelta = TOLERANCE,
    now: datetime | None = None,
) -> Identified:
    """The message of a webhook signed by the Standard Webhooks scheme, once it is verified.

    `webhook-timestamp` belongs to the attempt, not to the message, so it is no `sent_at`. Verify
    outside the transaction: this touches no database.

    Args:
        headers: Of the HTTP request.
        body: As it came, before any parsing.
        secret: `whsec_…`, or its bytes; several while it is being changed.
        source: What you call the sender: its ids are unique only beside it.
        tolerance: How far the timestamp may be from *now*.
        now: Aware; None for this host's clock.

    Raises:
        SignatureInvalid: No secret signed it, or it is too old or too new: answer 401.
        IncomingInvalid: A header is missing or malformed.
        UsageError: A secret cannot be one.
    """
    named = _folded(headers)
    raw = body.encode() if isinstance(body, str) else bytes(body)
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not named.get(name):
            raise IncomingInvalid(f"the header {name} is missing: this is no Standard Webhook")
    stamp = named["webhook-timestamp"]
    if not re.fullmatch(r"[0-9]{1,11}", stamp):
        raise IncomingInvalid(f"webhook-timestamp {shown(stamp)} is no number of seconds")
    found = _identified(source, named["webhook-id"], None)
    signed = f"{named['webhook-id']}.{stamp}.".encode() + raw
    if not _is_signed(signed, named["webhook-signature"], _secrets(secret)):
        raise SignatureInvalid(
            f"no secret signed the webhook {shown(found.message_id)}: check the secret, and that"
            " the body is verified as it came"
        )
    clock = datetime.now(UTC) if now is None else now
    late = clock - datetime.fromtimestamp(int(stamp), UTC)
    if abs(late) > tolerance:
        side = "ago" if late > timedelta(0) else "ahead of this clock"
        raise SignatureInvalid(
            f"the webhook {shown(found.message_id)} was signed {abs(late)} {side}, and at most"
            f" {tolerance} is tolerated: it may be replayed, or a clock is wrong"
        )
    return found


def amqp(properties: Any, *, source: str | None = None) -> Identified:
    """The message of AMQP properties: `message_id`, and `timestamp` where there is one.

    Args:
        properties: Of pika, aio-pika or kombu, or a mapping with the same names.
        source: Who made the id; by default the property `app_id`.

    Raises:
        IncomingInvalid: It has no `message_id`, or no source is known.
    """
    named = properties if isinstance(properties, Mapping) else None

    def read(name: str) -> Any:
        return named.get(name) if named is not None else getattr(properties, name, None)

    message_id = read("message_id")
    if not message_id:
        raise IncomingInvalid(
            "the AMQP message has no message-id: let its sender set the property message_id, and"
            " keep it when it publishes again"
        )
    origin = source or read("app_id")
    if not origin:
        raise IncomingInvalid(
            "who made the AMQP message's id is not known: give source=, or let its sender set"
            " app_id"
        )
    stamp = read("timestamp")
    if isinstance(stamp, int | float) and not isinstance(stamp, bool):
        stamp = datetime.fromtimestamp(stamp, UTC)
    sent_at = stamp if isinstance(stamp, datetime) else None
    if sent_at is not None and sent_at.tzinfo is None:
        sent_at = sent_at.replace(tzinfo=UTC)  # AMQP's timestamp is POSIX time
    return _identified(str(origin), str(message_id), sent_at)


def nats(headers: Headers | None, *, source: str) -> Identified:
    """The message of NATS headers: `Nats-Msg-Id`.

    The server forgets ids after its window (two minutes by default); the inbox does not.

    Args:
        headers: Of the message; None where it has none.
        source: What you call the stream: ids are unique only beside it.

    Raises:
        IncomingInvalid: It has no `Nats-Msg-Id`.
    """
    found = _folded(headers or {}).get("nats-msg-id")
    if not found:
        raise IncomingInvalid(
            "the NATS message has no header Nats-Msg-Id: let its publisher set one, and keep it"
            " when it publishes again"
        )
    return _identified(source, found, None)


def mail(headers: Headers, *, source: str = "mail") -> Identified:
    """The message of a mail's headers (RFC 5322): `Message-ID`.

    The id is unique in the world, so one source stands for all mail.

    Args:
        headers: Of the mail: `email.message.Message.items()`, or a mapping.
        source: Another name for it.

    Raises:
        IncomingInvalid: It has no `Message-ID`, or more than one.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = [str(value) for name, value in pairs if _text(name).lower() == "message-id"]
    if len(found) != 1:
        raise IncomingInvalid(
            f"the mail has {len(found)} headers Message-ID: one is needed to tell its copies"
        )
    # Unfolded, and without comments of white space around it.
    inner = "".join(found[0].split())
    match = re.fullmatch(r"<([^<>\s]{3,})>", inner)
    if match is None or "@" not in match[1]:
        raise IncomingInvalid(f"Message-ID {shown(found[0])} is not of the form <left@right>")
    return _identified(source, match[1], None)


# Parts


def _folded(headers: Headers) -> dict[str, str]:
    """Headers by their names in lower case.

    Raises:
        IncomingInvalid: One is given twice with two values.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    named: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name, value = _text(raw_name).lower(), _text(raw_value).strip()
        if name in named and named[name] != value and _is_read(name):
            raise IncomingInvalid(f"the header {name} is given twice, with two values")
        named[name] = value
    return named


def _is_read(name: str) -> bool:
    return name.startswith(("ce-", "ce_", "cloudevents", "webhook-", "nats-msg-id"))


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, list | tuple) and len(value) == 1:
        return _text(value[0])
    return str(value)


def _structured(media: str, body: bytes | str) -> Mapping[str, Any]:
    if media != "application/cloudevents+json":
        raise IncomingInvalid(f"CloudEvents of {shown(media)} are not read: send them as JSON")
    try:
        event = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise IncomingInvalid("the body of the CloudEvent is not JSON") from error
    if not isinstance(event, dict):
        raise IncomingInvalid("the body of the CloudEvent is no JSON object")
    return event


def _time(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_instant(str(text), name="the event's time")
    except NominalTimeInvalid as error:
        raise IncomingInvalid(f"the CloudEvent's time cannot be read: {error.message}") from error


def _identified(source: Any, message_id: Any, sent_at: datetime | None) -> Identified:
    check_part("source", source, SOURCE_MAX)
    check_part("message_id", message_id, MESSAGE_ID_MAX)
    return Identified(source, message_id, sent_at)


def _secrets(secret: str | bytes | Sequence[str | bytes]) -> list[bytes]:
    given = [secret] if isinstance(secret, str | bytes) else list(secret)
    keys = []
    for each in given:
        if isinstance(each, bytes):
            key = each
        else:
            try:
                key = base64.b64decode(each.removeprefix("whsec_"), validate=True)
            except binascii.Error as error:
                raise UsageError("a secret of Standard Webhooks is whsec_ and base64") from error
        if len(key) < SECRET_BYTES_MIN:
            raise UsageError(f"a webhook's secret has {len(key)} bytes: it needs 24 to 64")
        keys.append(key)
    if not keys:
        raise UsageError("no secret was given, so nothing could be verified")
    return keys


def _is_signed(signed: bytes, signatures: str, keys: list[bytes]) -> bool:
    expected = [hmac.digest(key, signed, "sha256") for key in keys]
    for signature in signatures.split():
        version, comma, text = signature.partition(",")
        if version != "v1" or not comma:
            continue
        try:
            given = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
        if any(hmac.compare_digest(given, each) for each in expected):
            return True
    return False
