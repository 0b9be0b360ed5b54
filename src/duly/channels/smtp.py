"""Mail by SMTP: one message, one recipient, one Message-ID for all its sends.

Decides what each step of the talk means. Before the final dot nothing was accepted; from the
dot to its reply the server may have taken the mail and, by RFC 5321 §6.1, the sender may not
know; a reply says. A 4yz is "not now", a 5yz is for good.
"""

from __future__ import annotations

import re
import smtplib
import socket
import ssl
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from duly._core.channel import Answer
from duly.channels.base import Secret, Unsent, ends_s, left_s
from duly.channels.mail import Mail, MailInvalid, address, mail_of
from duly.channels.resting import Resting
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.channel import Message

PORTS = {"none": 25, "starttls": 587, "tls": 465}
LONE = re.compile(rb"(?m)^\.")


class Smtp:
    """A mail server.

    Args:
        host: Its name.
        sender: Who writes, `Name <address>`; its domain ends each Message-ID.
        port: 25, 587 or 465 by *security*, if not given.
        security: `starttls`, which is demanded and never skipped; `tls` from the first byte;
            or `none`, for a server on the same host or a trusted network.
        username: For AUTH; None for none.
        password: A `Secret`, read anew for each connection.
        local_hostname: What EHLO says; the host's own name if not given.
        context: How certificates are checked; the system's authorities if not given.

    Raises:
        DestinationInvalid: *sender* is no address, or a password would travel in the clear.
    """

    def __init__(
        self,
        host: str,
        *,
        sender: str,
        port: int | None = None,
        security: Literal["starttls", "tls", "none"] = "starttls",
        username: str | None = None,
        password: Secret | None = None,
        local_hostname: str | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        if security not in PORTS:
            raise DestinationInvalid(f"security={security!r} is not a choice: {', '.join(PORTS)}")
        if (username is None) != (password is None):
            raise DestinationInvalid("username= and password= go together: give both or neither")
        if password is not None and not isinstance(password, Secret):
            raise DestinationInvalid("password= is not a Secret: give Secret.env('SMTP_PASSWORD')")
        if password is not None and security == "none" and not _is_here(host):
            raise DestinationInvalid(
                f"the password for {host} would travel in the clear: use security='starttls' or"
                " 'tls'"
            )
        try:
            self._sender = address(sender, "sender")
        except MailInvalid as error:
            raise DestinationInvalid(str(error)) from None
        self._host = host
        self._port = PORTS[security] if port is None else port
        self._security = security
        self._username = username
        self._password = password
        self._local_hostname = local_hostname
        self._context = context
        self._resting: Resting[smtplib.SMTP] = Resting(_leave)

    def send(self, message: Message) -> Answer:
        """Send *message* as one mail; see `mail_of` for its body."""
        ends = ends_s(message)
        try:
            mail = mail_of(message, sender=self._sender)
        except MailInvalid as error:
            return Answer.refused("mail_invalid", str(error), final=True)
        try:
            server = self._rested(ends) or self._connected(ends)
        except Unsent as unsent:
            return unsent.answer
        except smtplib.SMTPAuthenticationError as error:
            # The account's fault and not the mail's: it is sent when the password is mended.
            return Answer.not_sent("auth_failed", _said(error.smtp_code, error.smtp_error))
        except (ssl.SSLError, smtplib.SMTPNotSupportedError) as error:
            return Answer.not_sent("tls_failed", str(error))
        except (OSError, smtplib.SMTPException) as error:
            return Answer.not_sent("connect_failed", f"{type(error).__name__}: {error}")
        return self._told(server, mail, ends)

    def close(self) -> None:
        """Say goodbye on every connection that rests."""
        self._resting.close()

    # ----------------------------------------------------------------------------- a connection

    def _rested(self, ends: float) -> smtplib.SMTP | None:
        """A connection that rested and still answers."""
        while (server := self._resting.take()) is not None:
            try:
                _within(server, ends)
                if server.rset()[0] == 250:
                    return server
            except (OSError, smtplib.SMTPException, Unsent):
                pass
            self._resting.end(server)
        return None

    def _connected(self, ends: float) -> smtplib.SMTP:
        password = None if self._password is None else self._password.value()
        left = left_s(ends)
        context = self._context or ssl.create_default_context()
        server: smtplib.SMTP
        if self._security == "tls":
            server = smtplib.SMTP_SSL(
                timeout=left, local_hostname=self._local_hostname, context=context
            )
        else:
            server = smtplib.SMTP(timeout=left, local_hostname=self._local_hostname)
        self._local_hostname = server.local_hostname  # which may have taken a look-up
        try:
            # The name is what STARTTLS checks the certificate against; connect() leaves it out.
            server._host = self._host  # type: ignore[attr-defined]  # noqa: SLF001
            with _Cut(server, ends):
                code, said = server.connect(self._host, self._port)
                if code != 220:
                    raise smtplib.SMTPConnectError(code, said)
                server.ehlo_or_helo_if_needed()
                if self._security == "starttls":
                    server.starttls(context=context)
                    server.ehlo()
                if self._username is not None and password is not None:
                    server.login(self._username, password)
        except BaseException:
            self._resting.end(server)
            raise
        return server

    # ----------------------------------------------------------------------------- one mail

    def _told(self, server: smtplib.SMTP, mail: Mail, ends: float) -> Answer:
        with _Cut(server, ends):
            answer, is_usable = _tell(server, mail, sender=self._sender.addr_spec, ends=ends)
        if is_usable:
            self._resting.give(server)
        else:
            self._resting.end(server)
        return answer


def _tell(server: smtplib.SMTP, mail: Mail, *, sender: str, ends: float) -> tuple[Answer, bool]:
    """Say one mail; returns what came of it and whether the connection is good for another."""
    options = []
    if mail.needs_utf8:
        if not server.has_extn("smtputf8"):
            missing = f"{mail.recipient} needs SMTPUTF8, which the server does not offer"
            return Answer.refused("smtputf8_missing", missing, final=True), True
        options.append("SMTPUTF8")
    steps: tuple[tuple[Callable[[], tuple[int, bytes]], set[int]], ...] = (
        (lambda: server.mail(sender, options), {250}),
        (lambda: server.rcpt(mail.recipient), {250, 251}),
        (lambda: server.docmd("data"), {354}),
    )
    try:
        for step, well in steps:
            _within(server, ends)
            code, said = step()
            if code not in well:
                return _refusal(code, said), code >= 400 and code != 421
        _within(server, ends)
        server.send(LONE.sub(b"..", mail.data))
        _within(server, ends)
    except Unsent as unsent:
        return unsent.answer, False
    except (OSError, smtplib.SMTPException) as error:
        # The final dot has not left: the server must not act on what it has (RFC 5321 §4.1.1.4).
        return Answer.not_sent("before_the_dot", f"{type(error).__name__}: {error}"), False
    try:
        server.send(b".\r\n" if mail.data.endswith(b"\r\n") else b"\r\n.\r\n")
        code, said = server.getreply()
    except (OSError, smtplib.SMTPException) as error:
        return Answer.ambiguous("after_the_dot", f"{type(error).__name__}: {error}"), False
    if code == 250:
        return Answer.sent("smtp_250", _said(code, said)), True
    if code < 400:
        return Answer.ambiguous(f"smtp_{code}", _said(code, said)), False
    return _refusal(code, said), code != 421


def _refusal(code: int, said: bytes) -> Answer:
    if code == -1:  # smtplib's word for a line that is no reply
        return Answer.not_sent("no_reply", _said(code, said))
    return Answer.refused(f"smtp_{code}", _said(code, said), final=code >= 500)


def _said(code: int, said: bytes | str) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return f"{code} {' '.join(text.split())}"


class _Cut:
    """Shuts a connection at its end of time, also under a server that drips single bytes."""

    def __init__(self, server: smtplib.SMTP, ends: float) -> None:
        self._server = server
        self._timer = threading.Timer(max(0.0, ends - time.monotonic()), self._shut)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _shut(self) -> None:
        if self._server.sock is not None:
            with suppress(OSError):
                # An SSLSocket's own would take the encryption from under a thread that reads.
                socket.socket.shutdown(self._server.sock, socket.SHUT_RDWR)


def _within(server: smtplib.SMTP, ends: float) -> None:
    if server.sock is None:
        raise smtplib.SMTPServerDisconnected("the server has hung up")
    server.sock.settimeout(left_s(ends))


def _leave(server: smtplib.SMTP) -> None:
    """Say goodbye if it is quick, and close."""
    try:
        if server.sock is not None:
            server.sock.settimeout(1)
            server.quit()
    finally:
        server.close()


def _is_here(host: str) -> bool:
    return host in {"localhost", "127.0.0.1", "::1"}
