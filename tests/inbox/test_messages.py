"""Readers of ids: what each sender writes, and what is no message of its kind."""

from __future__ import annotations

import base64
import email
import hmac
import json
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import messages

if TYPE_CHECKING:
    from collections.abc import Callable

AT = datetime(2026, 9, 13, tzinfo=UTC)
KEY = b"0123456789abcdef01234567"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
EVENT = {"specversion": "1.0", "id": "e-1", "source": "/shop", "type": "x"}
JSON = {"Content-Type": "application/cloudevents+json; charset=utf-8"}


def signed(body: bytes = b"{}", *, at: datetime = AT, key: bytes = KEY, id_: str = "msg_1") -> Any:
    stamp = str(int(at.timestamp()))
    mark = hmac.digest(key, f"{id_}.{stamp}.".encode() + body, "sha256")
    return {
        "webhook-id": id_,
        "webhook-timestamp": stamp,
        "Webhook-Signature": "v1a,xx v1," + base64.b64encode(mark).decode(),
    }


def verified(headers: Any, body: bytes = b"{}", **named: Any) -> messages.Identified:
    given = {"secret": SECRET, "source": "acme", "now": AT, **named}
    return messages.standard_webhook(headers, body, **given)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (
            lambda: messages.cloud_event(
                {"ce-specversion": "1.0", "CE-ID": "e-1", "ce-source": "/shop",
                 "ce-time": "2026-09-13T02:00:00+02:00"}
            ),
            messages.Identified("/shop", "e-1", AT),
        ),
        (
            lambda: messages.cloud_event(
                [(b"ce_specversion", b"1.0"), (b"ce_id", b"e-1"), (b"ce_source", b"/shop")]
            ),
            messages.Identified("/shop", "e-1"),
        ),
        (
            lambda: messages.cloud_event(JSON, json.dumps(EVENT)),
            messages.Identified("/shop", "e-1"),
        ),
        (lambda: verified(signed()), messages.Identified("acme", "msg_1")),
        (
            lambda: messages.amqp(SimpleNamespace(message_id="m", app_id="shop", timestamp=None)),
            messages.Identified("shop", "m"),
        ),
        (
            lambda: messages.amqp(
                {"message_id": "m", "timestamp": int(AT.timestamp())}, source="orders"
            ),
            messages.Identified("orders", "m", AT),
        ),
        (lambda: messages.nats({"Nats-Msg-Id": "n"}, source="S"), messages.Identified("S", "n")),
        (
            lambda: messages.mail(email.message_from_string("Message-ID:\n <a@b>\n\nhi").items()),
            messages.Identified("mail", "a@b"),
        ),
    ],
)  # fmt: skip
def test_id_is_read_as_its_sender_writes_it(
    found: Callable[[], messages.Identified], expected: messages.Identified
) -> None:
    assert found() == expected
    assert set(expected.identity) == {"source", "message_id", "sent_at"}


@pytest.mark.parametrize(
    ("read", "match"),
    [
        (lambda: messages.cloud_event({}), "no CloudEvent"),
        (lambda: messages.cloud_event({"ce-specversion": "0.3"}), "version 1.0"),
        (lambda: messages.cloud_event({"ce-specversion": "1.0", "ce-source": "s"}), "message_id"),
        (lambda: messages.cloud_event({"ce-specversion": "1.0", "ce-id": "s"}), "source"),
        (lambda: messages.cloud_event(JSON, b"{"), "not JSON"),
        (lambda: messages.cloud_event(JSON, b"[]"), "no JSON object"),
        (lambda: messages.cloud_event(JSON, json.dumps({**EVENT, "id": 7})), "must be text"),
        (lambda: messages.cloud_event(JSON, json.dumps({**EVENT, "time": "soon"})), "time"),
        (
            lambda: messages.cloud_event({"content-type": "application/cloudevents+avro"}),
            "as JSON",
        ),
        (
            lambda: messages.cloud_event({"content-type": "application/cloudevents-batch+json"}),
            "split it",
        ),
        (lambda: messages.cloud_event([("ce-id", "a"), ("ce-id", "b")]), "given twice"),
        (lambda: verified({}), "webhook-id is missing"),
        (lambda: verified({**signed(), "webhook-timestamp": "soon"}), "no number"),
        (lambda: messages.amqp({}), "message-id"),
        (lambda: messages.amqp({"message_id": "m"}), "app_id"),
        (lambda: messages.nats(None, source="s"), "Nats-Msg-Id"),
        (lambda: messages.nats({"Nats-Msg-Id": "x" * 301}, source="s"), "longer"),
        (lambda: messages.mail({}), "0 headers"),
        (lambda: messages.mail([("Message-ID", "<a@b>"), ("message-id", "<c@d>")]), "2 headers"),
        (lambda: messages.mail({"Message-ID": "nonsense"}), "left@right"),
    ],
)
def test_message_without_a_usable_id_is_refused_in_one_line(
    read: Callable[[], Any], match: str
) -> None:
    with pytest.raises(duly.IncomingInvalid, match=match) as caught:
        read()
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (signed(), b"{ }"),
        (signed(key=b"x" * 24), b"{}"),
        ({**signed(), "webhook-id": "msg_2"}, b"{}"),
        ({**signed(), "Webhook-Signature": "v1,"}, b"{}"),
        ({**signed(), "Webhook-Signature": "v1,!!! v2,abc"}, b"{}"),
        (signed(at=AT - timedelta(minutes=6)), b"{}"),
        (signed(at=AT + timedelta(minutes=6)), b"{}"),
    ],
)
def test_webhook_that_its_secret_did_not_sign_lately_is_refused(headers: Any, body: bytes) -> None:
    with pytest.raises(duly.SignatureInvalid) as caught:
        verified(headers, body)
    assert "\n" not in caught.value.message
    assert SECRET not in caught.value.message


def test_webhook_is_taken_under_the_old_and_the_new_secret() -> None:
    """While a secret is being changed, both are good."""
    assert verified(signed(), secret=[b"y" * 24, SECRET]).message_id == "msg_1"


@pytest.mark.parametrize("secret", ["whsec_!", "whsec_YQ==", b"short", []])
def test_secret_that_cannot_be_one_is_refused(secret: Any) -> None:
    with pytest.raises(duly.UsageError):
        verified(signed(), secret=secret)


def test_example_of_the_standard_webhooks_specification_is_verified() -> None:
    """Its published key, id, time and signature."""
    found = messages.standard_webhook(
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
        b'{"test": 2432232314}',
        secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        source="example",
        now=datetime.fromtimestamp(1614265330, UTC),
    )
    assert found.message_id == "msg_p5jXN8AQM9LWM0D4loKWxJek"
