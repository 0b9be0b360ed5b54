"""Mail servers: a whole one (aiosmtpd), and one that says what a test wrote down."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from aiosmtpd.smtp import SMTP, Envelope, Session


class Mailbox:
    """Takes mails, unless *replies* has another answer for a recipient.

    Attributes:
        mails: What was taken: recipients and the whole mail.
    """

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], bytes]] = []
        self.replies: dict[str, str] = {}
        self.data_reply: str | None = None

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's names
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: Any
    ) -> str:
        if address in self.replies:
            return self.replies[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802
        self, _server: SMTP, _session: Session, envelope: Envelope
    ) -> str:
        if self.data_reply is not None:
            return self.data_reply
        assert envelope.content is not None
        content = envelope.content
        self.mails.append(
            (list(envelope.rcpt_tos), content.encode() if isinstance(content, str) else content)
        )
        return "250 queued as 42"


def serve(mailbox: Mailbox, *, tls: ssl.SSLContext | None = None, **options: Any) -> Controller:
    """A mail server in a thread of its own, on a free port; the caller stops it."""
    port = _free_port()
    controller = Controller(
        mailbox, hostname="127.0.0.1", port=port, ready_timeout=30, ssl_context=tls, **options
    )
    controller.start()
    return controller


def password_is(user: str, password: str) -> Callable[..., AuthResult]:
    """What lets in *user* with *password* alone."""

    def authenticate(
        _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any
    ) -> AuthResult:
        is_right = data.login == user.encode() and data.password == password.encode()
        return AuthResult(success=is_right, handled=False)

    return authenticate


class Script:
    """A server that reads a line and answers the next of *lines*, until it has none.

    What stands for an answer: text that is sent; `HANG_UP`; `SILENCE`, which waits for ever; or
    `DRIP`, which sends a byte every tenth of a second without an end of line.
    The first answer is the greeting; the one after a 354 is what follows the final dot.
    """

    HANG_UP = "HANG UP"
    SILENCE = "SILENCE"
    DRIP = "DRIP"

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard: list[bytes] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as stream:
                self._talk(connection, stream)

    def _talk(self, connection: socket.socket, stream: Any) -> None:
        for line in self._lines:
            if line == self.HANG_UP:
                return
            while line in {self.SILENCE, self.DRIP} and not self._is_over.wait(0.1):
                if line == self.DRIP:
                    connection.sendall(b"2")
            connection.sendall(line.encode() + b"\r\n")
            heard = stream.readline()
            while line.startswith("354") and heard not in {b".\r\n", b""}:
                heard = stream.readline()
            self.heard.append(heard)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
