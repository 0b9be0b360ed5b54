"""The SMTP channel, against a real mail server and against one that breaks off at each step."""

from __future__ import annotations

import email
import email.policy
import ssl
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from duly import DestinationInvalid
from duly.channels import Secret, Smtp, Verdict
from tests.channels.messages import a_message
from tests.channels.smtp_peers import Mailbox, Script, password_is, serve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiosmtpd.controller import Controller

SENDER = "Billing <billing@bank.example>"
BODY = {"to": "Ada <ada@example.com>", "subject": "Invoice", "text": "Ten units.\n.\nThanks"}
HELLO = ("220 here", "250 here")


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def server(mailbox: Mailbox) -> Iterator[Controller]:
    with _serving(mailbox) as controller:
        yield controller


@pytest.fixture
def channel(server: Controller) -> Iterator[Smtp]:
    channel = _channel(server.port)
    yield channel
    channel.close()


@contextmanager
def _serving(mailbox: Mailbox, **options: Any) -> Iterator[Controller]:
    controller = serve(mailbox, **options)
    yield controller
    controller.stop()


def _channel(port: int, **options: Any) -> Smtp:
    options = {"security": "none", "local_hostname": "here"} | options
    return Smtp("127.0.0.1", port=port, sender=SENDER, **options)


def _read(data: bytes) -> Any:
    return email.message_from_bytes(data, policy=email.policy.default)


# ----------------------------------------------------------------------------------- what is sent


def test_mail_is_the_bodys_with_dulys_id_and_date(channel: Smtp, mailbox: Mailbox) -> None:
    """The id of the message makes the Message-ID, the time of its enqueuing the date."""
    message = a_message(BODY, headers={"X-Tenant": "blue"})

    answer = channel.send(message)

    ((recipients, data),) = mailbox.mails
    mail = _read(data)
    assert (answer.verdict, answer.kind) == (Verdict.SENT, "smtp_250")
    assert "queued as 42" in answer.evidence
    assert recipients == ["ada@example.com"]
    assert mail["Message-ID"] == f"<{message.id}@bank.example>"
    assert mail["From"] == SENDER
    assert mail["To"] == BODY["to"]
    assert mail["Subject"] == "Invoice"
    assert mail["Date"].datetime == message.created_at
    assert mail["X-Tenant"] == "blue"
    assert mail.get_content().splitlines() == ["Ten units.", ".", "Thanks"]


def test_every_send_of_one_message_is_the_same_mail(channel: Smtp, mailbox: Mailbox) -> None:
    """Also with parts, whose boundary would else be drawn by lot."""
    body = BODY | {
        "html": "<p>Ten</p>",
        "attachments": [{"filename": "ü.pdf", "content_type": "application/pdf", "base64": "JVBE"}],
    }
    message = a_message(body)

    channel.send(message)
    channel.send(message)

    assert mailbox.mails[0] == mailbox.mails[1]
    mail = _read(mailbox.mails[0][1])
    (attachment,) = mail.iter_attachments()
    assert (attachment.get_filename(), attachment.get_content()) == ("ü.pdf", b"%PD")
    assert mail.get_body(("html",)).get_content().splitlines() == ["<p>Ten</p>"]


def test_whole_mail_is_sent_with_dulys_id(channel: Smtp, mailbox: Mailbox) -> None:
    """Its own From, Date and Message-ID give way; its parts keep their boundary."""
    raw = (
        b"To: ada@example.com\r\nFrom: x@y.example\r\nMessage-ID: <old@y>\r\nSubject: S\r\n"
        b'Content-Type: multipart/mixed; boundary="mine"\r\n\r\n--mine\r\n\r\nhello\r\n--mine--\r\n'
    )
    message = replace(a_message(content_type="message/rfc822"), body=raw)

    answer = channel.send(message)

    ((recipients, data),) = mailbox.mails
    mail = _read(data)
    assert answer.verdict is Verdict.SENT
    assert recipients == ["ada@example.com"]
    assert mail.get_all("Message-ID") == [f"<{message.id}@bank.example>"]
    assert mail.get_all("From") == [SENDER]
    assert mail.get_boundary() == "mine"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ([], "not a JSON object"),
        ({"subject": "s", "text": "t"}, "to is not text"),
        (BODY | {"to": "no address"}, "not an address"),
        (BODY | {"to": "@example.com"}, "not an address"),
        (BODY | {"to": "a@x.example, b@x.example"}, "send one message to each"),
        (BODY | {"to": "a@x.example\r\nBcc: b@x.example"}, "control character"),
        (BODY | {"subject": "s\r\nBcc: b@x.example"}, "control character"),
        (BODY | {"subject": "s\0"}, "control character"),
        (BODY | {"subject": None}, "subject is not text"),
        ({"to": "a@x.example", "subject": "s"}, "neither text nor html"),
        (BODY | {"bcc": "b@x.example"}, "the body has bcc"),
        (BODY | {"attachments": [{"filename": "f"}]}, "an attachment is not"),
        (BODY | {"reply_to": 7}, "reply_to is not text"),
    ],
)
def test_body_that_is_no_mail_is_refused_for_good(
    channel: Smtp, mailbox: Mailbox, body: Any, said: str
) -> None:
    """Nothing is sent, the answer says what to mend, and no header can be slipped in."""
    answer = channel.send(a_message(body))

    assert (answer.verdict, answer.kind, answer.final) == (Verdict.REFUSED, "mail_invalid", True)
    assert said in answer.evidence
    assert mailbox.mails == []


@pytest.mark.parametrize("name", ["Bcc", "message-id", "Subject"])
def test_header_that_is_the_bodys_is_refused(channel: Smtp, mailbox: Mailbox, name: str) -> None:
    """A second recipient cannot come in by a header."""
    answer = channel.send(a_message(BODY, headers={name: "eve@example.com"}))

    assert (answer.kind, answer.final) == ("mail_invalid", True)
    assert mailbox.mails == []


# ------------------------------------------------------------------------------ what is answered


@pytest.mark.parametrize(
    ("reply", "final"), [("450 busy", False), ("550 no such user", True), ("421 going", False)]
)
def test_servers_no_to_a_recipient_is_for_now_or_for_good(
    channel: Smtp, mailbox: Mailbox, reply: str, final: bool
) -> None:
    """4yz is asked again, 5yz is not; the next mail goes through either way."""
    mailbox.replies["ada@example.com"] = reply

    answer = channel.send(a_message(BODY))
    mailbox.replies.clear()
    after = channel.send(a_message(BODY))

    assert (answer.verdict, answer.kind) == (Verdict.REFUSED, f"smtp_{reply[:3]}")
    assert answer.final is final
    assert after.verdict is Verdict.SENT


@pytest.mark.parametrize(("reply", "final"), [("451 later", False), ("554 spam", True)])
def test_servers_no_after_the_dot_is_a_no(
    channel: Smtp, mailbox: Mailbox, reply: str, final: bool
) -> None:
    """A reply ends all doubt."""
    mailbox.data_reply = reply

    answer = channel.send(a_message(BODY))

    assert (answer.verdict, answer.kind, answer.final) == (
        Verdict.REFUSED,
        f"smtp_{reply[:3]}",
        final,
    )


BEFORE = [
    (Script.HANG_UP,),
    ("554 no service",),
    ("nonsense",),
    (Script.SILENCE,),
    (Script.DRIP,),
    (*HELLO, Script.HANG_UP),
    (*HELLO, "250 sender", Script.HANG_UP),
    (*HELLO, "250 sender", "250 recipient", Script.HANG_UP),
    (*HELLO, "250 sender", "250 recipient", Script.SILENCE),
    (*HELLO, "250 sender", "250 recipient", Script.DRIP),
]
AFTER = [
    (*HELLO, "250 sender", "250 recipient", "354 go", Script.HANG_UP),
    (*HELLO, "250 sender", "250 recipient", "354 go", Script.SILENCE),
    (*HELLO, "250 sender", "250 recipient", "354 go", Script.DRIP),
    (*HELLO, "250 sender", "250 recipient", "354 go", "nonsense"),
]


@pytest.mark.parametrize("lines", BEFORE, ids=lambda lines: f"{len(lines)}-{lines[-1]}")
def test_end_before_the_final_dot_is_a_sure_no(lines: tuple[str, ...]) -> None:
    """The server must not act on a mail whose end it has not seen; the bound holds meanwhile."""
    script = Script(*lines)
    channel = _channel(script.port)

    answer = channel.send(a_message(BODY, seconds=1))

    channel.close()
    script.close()
    assert answer.verdict in {Verdict.NOT_SENT, Verdict.REFUSED}


@pytest.mark.parametrize("lines", AFTER, ids=lambda lines: lines[-1])
def test_m11_end_after_the_final_dot_leaves_it_open(lines: tuple[str, ...]) -> None:
    """M11: a timeout after acceptance is `may have been sent`, never a plain failure."""
    script = Script(*lines)
    channel = _channel(script.port)

    answer = channel.send(a_message(BODY, seconds=1))

    channel.close()
    script.close()
    assert b".\r\n" in script.heard
    assert answer.verdict is Verdict.AMBIGUOUS


def test_connection_that_died_at_rest_is_no_doubt(mailbox: Mailbox) -> None:
    """A restart between two mails is found before a word of the second is said."""
    with _serving(mailbox) as first:
        port = first.port
        channel = _channel(port)
        assert channel.send(a_message(BODY)).verdict is Verdict.SENT
    dead = channel.send(a_message(BODY))
    assert (dead.verdict, dead.kind) == (Verdict.NOT_SENT, "connect_failed")


# ---------------------------------------------------------------------------- TLS and passwords


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@pytest.fixture
def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


def test_starttls_is_demanded_and_checked(
    mailbox: Mailbox, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    """With a trusted certificate the mail goes; with another, or without TLS, nothing does."""
    with _serving(mailbox, tls_context=server_context) as server:
        trusting = _channel(server.port, security="starttls", context=client_context)
        strict = _channel(server.port, security="starttls")
        answers = [trusting.send(a_message(BODY)), strict.send(a_message(BODY))]
        trusting.close()
    with _serving(mailbox) as server:
        answers.append(_channel(server.port, security="starttls").send(a_message(BODY)))

    assert [(each.verdict, each.kind) for each in answers] == [
        (Verdict.SENT, "smtp_250"),
        (Verdict.NOT_SENT, "tls_failed"),
        (Verdict.NOT_SENT, "tls_failed"),
    ]
    assert len(mailbox.mails) == 1


def test_password_is_read_for_each_connection(
    mailbox: Mailbox, server_context: ssl.SSLContext, client_context: ssl.SSLContext
) -> None:
    """A wrong or missing secret sends nothing; once it is right, the same channel sends."""
    secrets = ["", "wrong", "right"]
    with _serving(
        mailbox,
        tls_context=server_context,
        auth_required=True,
        authenticator=password_is("billing", "right"),
    ) as server:
        channel = _channel(
            server.port,
            security="starttls",
            context=client_context,
            username="billing",
            password=Secret.call("vault", lambda: secrets.pop(0)),
        )
        answers = [channel.send(a_message(BODY)) for _ in range(3)]
        channel.close()

    assert [(each.verdict, each.kind) for each in answers] == [
        (Verdict.NOT_SENT, "secret_missing"),
        (Verdict.NOT_SENT, "auth_failed"),
        (Verdict.SENT, "smtp_250"),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sender": "nobody"}, "not an address"),
        ({"sender": SENDER, "security": "ssl"}, "not a choice"),
        ({"sender": SENDER, "username": "u"}, "go together"),
        ({"sender": SENDER, "username": "u", "password": "plain"}, "not a Secret"),
        (
            {
                "sender": SENDER,
                "security": "none",
                "username": "u",
                "password": Secret.env("P"),
            },
            "in the clear",
        ),
    ],
)
def test_bad_configuration_is_refused(options: dict[str, Any], said: str) -> None:
    """It fails when it is written down, not at night."""
    with pytest.raises(DestinationInvalid, match=said):
        Smtp("mail.example.com", **options)
