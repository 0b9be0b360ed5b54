"""A message's body as a mail: the same bytes for each send of it, whatever sends it.

Decides what a body may hold and which headers are duly's. RFC 5322 wants one Message-ID for one
mail, so it is made of the message's id, and the date is that of the enqueuing.
"""

from __future__ import annotations

import base64
import binascii
import email
import email.policy
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from email.headerregistry import Address

    from duly._core.channel import Message

KNOWN = frozenset({"attachments", "html", "reply_to", "subject", "text", "to"})
# What a mail has once and duly, or the body, says.
OURS = frozenset({"bcc", "cc", "content-transfer-encoding", "content-type", "date", "from"}) | {
    *("message-id", "mime-version", "reply-to", "return-path", "sender", "subject", "to")
}
RAW = "message/rfc822"


class MailInvalid(Exception):
    """The body is not a mail that can ever be sent; the text says what to mend."""


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail for one recipient.

    Attributes:
        recipient: The address alone.
        data: The whole mail, lines ended by CR LF.
        needs_utf8: The address has characters that only SMTPUTF8 carries (RFC 6531).
    """

    recipient: str
    data: bytes
    needs_utf8: bool


def mail_of(message: Message, *, sender: Address) -> Mail:
    """The mail that *message* says.

    Its body is a JSON object with `to` (one address, or `Name <address>`), `subject`, `text`
    or `html` or both, and perhaps `reply_to` and `attachments` (each with `filename`,
    `content_type` and `base64`); or, with the content type `message/rfc822`, a whole mail, whose
    From, Date and Message-ID are duly's all the same.

    Raises:
        MailInvalid: It is not such a body, or an address is none.
    """
    try:
        mail, recipient = _raw(message) if message.content_type == RAW else _composed(message)
        _put(mail, "From", str(sender))
        _put(mail, "Date", format_datetime(message.created_at))
        _put(mail, "Message-ID", f"<{message.id}@{sender.domain}>")
        for name, value in message.headers.items():
            if name.lower() in OURS:
                raise MailInvalid(f"the header {name} is not for headers=: the body says it")
            mail[name] = value
        policy = email.policy.SMTPUTF8 if not recipient.addr_spec.isascii() else email.policy.SMTP
        return Mail(recipient.addr_spec, mail.as_bytes(policy=policy), policy.utf8)
    except (ValueError, TypeError, LookupError, UnicodeError) as error:
        raise MailInvalid(" ".join(str(error).split()) or type(error).__name__) from error


def address(text: Any, what: str) -> Address:
    """*text* as one address.

    Raises:
        MailInvalid: It is none, or several.
    """
    if not isinstance(text, str) or not text.strip():
        raise MailInvalid(f"{what} is not text: give one address, such as 'Ada <ada@example.com>'")
    if any(ord(each) < 32 or ord(each) == 127 for each in text):
        raise MailInvalid(f"{what} holds a control character: give one address on one line")
    probe = EmailMessage()
    probe["To"] = text
    found = probe["To"]
    addresses = found.addresses
    if len(addresses) > 1:
        raise MailInvalid(f"{what} names {len(addresses)} addresses: send one message to each")
    if found.defects or not addresses or not addresses[0].username or not addresses[0].domain:
        raise MailInvalid(f"{what} is not an address: {text!r}")
    one: Address = addresses[0]
    return one


def _raw(message: Message) -> tuple[EmailMessage, Address]:
    mail = email.message_from_bytes(message.body, policy=email.policy.SMTP)
    assert isinstance(mail, EmailMessage)
    for name in ("Cc", "Bcc"):
        if mail[name] is not None:
            raise MailInvalid(f"the mail has a {name}: send one message to each recipient")
    return mail, address(mail["To"] and str(mail["To"]), "To")


def _composed(message: Message) -> tuple[EmailMessage, Address]:
    body = message.json
    if not isinstance(body, dict):
        raise MailInvalid("the body is not a JSON object with to, subject and text")
    if unknown := sorted(body.keys() - KNOWN):
        raise MailInvalid(
            f"the body has {', '.join(unknown)}: a mail has {', '.join(sorted(KNOWN))}"
        )
    recipient = address(body.get("to"), "to")
    mail = EmailMessage(policy=email.policy.SMTP)
    mail["To"] = str(recipient)
    mail["Subject"] = _line(body.get("subject"), "subject")
    if "reply_to" in body:
        mail["Reply-To"] = str(address(body["reply_to"], "reply_to"))
    text, html = body.get("text"), body.get("html")
    if text is None and html is None:
        raise MailInvalid("the body has neither text nor html: give one of them")
    if text is not None:
        mail.set_content(_text(text, "text"))
    if html is not None and text is None:
        mail.set_content(_text(html, "html"), subtype="html")
    elif html is not None:
        mail.add_alternative(_text(html, "html"), subtype="html")
    for each in body.get("attachments", ()):
        _attach(mail, each)
    for number, part in enumerate(each for each in mail.walk() if each.is_multipart()):
        part.set_boundary(f"=_{message.id}_{number}")  # else it is random, each time another
    return mail, recipient


def _attach(mail: EmailMessage, attachment: Any) -> None:
    try:
        name = _line(attachment["filename"], "filename")
        main, _, sub = _line(attachment["content_type"], "content_type").partition("/")
        content = base64.b64decode(attachment["base64"], validate=True)
    except (KeyError, TypeError, binascii.Error) as error:
        raise MailInvalid(
            "an attachment is not an object with filename, content_type and base64"
        ) from error
    mail.add_attachment(content, maintype=main, subtype=sub, filename=name)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise MailInvalid(f"{what} is not text")
    return value


def _line(value: Any, what: str) -> str:
    text = _text(value, what)
    if any(ord(each) < 32 or ord(each) == 127 for each in text):
        raise MailInvalid(f"{what} holds a control character: give it as one line")
    return text


def _put(mail: EmailMessage, name: str, value: str) -> None:
    del mail[name]
    mail[name] = value
