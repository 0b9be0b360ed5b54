"""Forms of a message over HTTP: Standard Webhooks' signature, and CloudEvents.

Decides nothing that changes between two sends of one message but the signature's timestamp.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from duly.channels.base import SecretMissing
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.channel import Message

__all__ = ["CloudEvents", "signature"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudEvents:
    """Messages as CloudEvents 1.0: `source` and the message's id are the receiver's key.

    Attributes:
        source: A URI reference that names the sender.
        type: Of the event, such as `com.example.invoice.sent`.
        mode: `binary` puts the attributes into headers, `structured` into the body.
    """

    source: str
    type: str
    mode: Literal["binary", "structured"] = "binary"

    def __post_init__(self) -> None:
        if not self.source or not self.type:
            raise DestinationInvalid("CloudEvents need source= and type=: give both")
        if self.mode not in {"binary", "structured"}:
            raise DestinationInvalid(f"mode={self.mode!r} is none: use 'binary' or 'structured'")

    def formed(self, message: Message) -> tuple[dict[str, str], bytes]:
        """The headers and the body of *message*."""
        attributes = {
            "specversion": "1.0",
            "id": message.id,
            "source": self.source,
            "type": self.type,
            # Of the event, not of the send: the same on every retry.
            "time": message.created_at.isoformat().replace("+00:00", "Z"),
        }
        if self.mode == "binary":
            # All but printable ASCII, and of that blank, quote and percent (HTTP binding 3.1.3.2).
            safe = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"
            headers = {f"ce-{name}": quote(value, safe=safe) for name, value in attributes.items()}
            return {"Content-Type": message.content_type, **headers}, message.body
        event: dict[str, object] = {**attributes, "datacontenttype": message.content_type}
        if message.content_type.partition(";")[0].strip().endswith("json"):
            event["data"] = message.json
        else:
            event["data_base64"] = base64.b64encode(message.body).decode()
        body = json.dumps(event, sort_keys=True, separators=(",", ":")).encode()
        return {"Content-Type": "application/cloudevents+json"}, body


def signature(message: Message, body: bytes, keys: Sequence[str]) -> dict[str, str]:
    """The headers of a request that is signed as Standard Webhooks say.

    Args:
        body: As it is sent.
        keys: The secrets, base64 after `whsec_`; one signature of each.

    Raises:
        SecretMissing: One of them is not base64.
    """
    at = str(int(message.started_at.timestamp()))
    signed = f"{message.id}.{at}.".encode() + body
    made = []
    for key in keys:
        try:
            secret = base64.b64decode(key.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            raise SecretMissing(
                "a signing secret is not base64 after 'whsec_': give it as Standard Webhooks say"
            ) from None
        digest = hmac.new(secret, signed, hashlib.sha256).digest()
        made.append("v1," + base64.b64encode(digest).decode())
    return {"webhook-id": message.id, "webhook-timestamp": at, "webhook-signature": " ".join(made)}
