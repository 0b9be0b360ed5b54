"""A subject of NATS JetStream: the message's id as `Nats-Msg-Id`, and the stream's PubAck.

Decides what JetStream's word means. The stream drops an id that it has seen within its duplicate
window (2 minutes unless it says otherwise), without a look at the body; after it, the same id is
stored again (`Contract.nats`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from duly._core.channel import Answer
from duly.channels.base import Secret, Unsent, ends_s, left_s, told_in
from duly.errors import DestinationInvalid, MissingExtra

try:
    from nats.aio.client import Client
    from nats.errors import BadHeaderError, MaxPayloadError
    from nats.errors import Error as NatsError
    from nats.js.errors import APIError, NoStreamResponseError
except ImportError as error:  # pragma: no cover - the tests have every extra
    raise MissingExtra("channels.Nats needs nats-py: pip install 'duly[nats]'") from error

if TYPE_CHECKING:
    import ssl
    from collections.abc import Coroutine, Sequence

    from duly._core.channel import Message

OCCURRENCE = "Duly-Occurrence"


class Nats:
    """A subject that a JetStream stream listens to.

    Args:
        servers: `nats://user@host:4222`, or several; a password in it is used as it is.
        subject: Of each message; no wildcard.
        stream: The stream's name: a message that another stream would take is refused.
        user: For a *password*.
        password: A `Secret`, read anew for each connection.
        token: A `Secret` for servers that know people by a token.
        context: With `tls://`, how certificates are checked.

    Raises:
        DestinationInvalid: The subject is none.
        MissingExtra: The library `nats-py` is not installed.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        subject: str,
        *,
        stream: str | None = None,
        user: str | None = None,
        password: Secret | None = None,
        token: Secret | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        if not subject or any(each in subject for each in " *>\t\r\n"):
            raise DestinationInvalid(
                f"subject={subject!r} is not a subject to send to: no wildcard, no blank"
            )
        self._servers = [servers] if isinstance(servers, str) else list(servers)
        self._subject = subject
        self._stream = stream
        self._user = user
        self._password = password
        self._token = token
        self._context = context
        self._lock = threading.Lock()
        self._loop: _Loop | None = None

    def send(self, message: Message) -> Answer:
        """Publish *message* once and wait for the stream's acknowledgement."""
        ends, loop = ends_s(message), self._here()
        for each in self._servers:
            told_in(each, is_token=self._password is None)
        try:
            # Here and not in the loop, where a slow vault would hold up what others have said.
            secrets = None if loop.is_connected else self._secrets()
            return loop.run(self._send(message, loop, ends, secrets))
        except Unsent as unsent:
            return unsent.answer

    def close(self) -> None:
        """Close the connection and end its thread."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()

    def _here(self) -> _Loop:
        with self._lock:
            if self._loop is None or self._loop.pid != os.getpid():
                self._loop = _Loop()
            return self._loop

    async def _send(
        self, message: Message, loop: _Loop, ends: float, secrets: dict[str, Any] | None
    ) -> Answer:
        try:
            async with asyncio.timeout(left_s(ends)):
                client = await loop.client(partial(self._connect, secrets))
        except (OSError, NatsError) as error:  # a timeout is an OSError
            return Answer.not_sent("connect_failed", f"{type(error).__name__}: {error}")
        headers = {**message.headers, "Nats-Msg-Id": message.id}
        headers |= {"Content-Type": message.content_type, OCCURRENCE: message.occurrence_key}
        left = left_s(ends)
        try:
            acknowledged = await client.jetstream().publish(
                self._subject, message.body, timeout=left, stream=self._stream, headers=headers
            )
        except NoStreamResponseError:
            said = f"no stream listens to {self._subject!r}: make one, or mend the subject"
            return Answer.not_sent("no_responders", said)
        except (MaxPayloadError, BadHeaderError) as error:  # found before a byte of it left
            return Answer.refused(type(error).__name__, str(error), final=True)
        except APIError as error:
            return Answer.refused(f"nats_{error.err_code}", str(error), final=False)
        except (OSError, NatsError) as error:
            loop.leave(
                client
            )  # perhaps it is dead and does not know: the next send finds a new one
            return Answer.ambiguous("no_ack", f"{type(error).__name__}: {error}")
        place = f"{acknowledged.stream}:{acknowledged.seq}"
        kind = "duplicate" if acknowledged.duplicate else "acknowledged"
        return Answer.sent(kind, remote_id=place)

    def _secrets(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self._password is not None:
            given |= {"user": self._user, "password": self._password.value()}
        if self._token is not None:
            given["token"] = self._token.value()
        return given

    async def _connect(self, secrets: dict[str, Any] | None) -> Any:
        if secrets is None:
            raise ConnectionResetError("the connection was lost just now: it is made anew")
        given = dict(secrets)
        if self._context is not None:
            given["tls"] = self._context
        # Without the library's reconnecting, which keeps messages and sends them later: what has
        # not been sent by the end of `send` must never be sent behind the relay's back.
        client = Client()
        try:
            await client.connect(
                self._servers, allow_reconnect=False, error_cb=_quiet, pending_size=0, **given
            )
        except BaseException:
            await _closed(client)
            raise
        return client


async def _quiet(_: Exception) -> None:
    """Each send hears of its own fault; the library would log it besides."""


class _Loop:
    """An event loop in a thread, with the one connection that all sends share."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._leaving: set[asyncio.Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="duly-nats", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def is_connected(self) -> bool:
        """Whether a send needs no new connection, as far as is known."""
        client = self._client
        return client is not None and bool(client.is_connected)

    async def client(self, connect: Any) -> Any:
        async with self._connecting:
            if self._client is None or not self._client.is_connected:
                await _closed(self._client)
                self._client = await connect()
            return self._client

    def leave(self, client: Any) -> None:
        """Let the next send connect anew, if *client* is still the one in use."""
        if self._client is client:
            self._client = None
            self._leaving.add(asyncio.ensure_future(_closed(client)))

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._leave(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _leave(self) -> None:
        client, self._client = self._client, None
        await asyncio.gather(_closed(client), *self._leaving)


async def _closed(client: Any) -> None:
    if client is not None:
        with suppress(Exception):
            await asyncio.wait_for(client.close(), 5)
