"""A stream of Redis: one entry for each send, with the message's id as a field of it.

Decides what Redis's answers mean. A stream keeps no ids before Redis 8.6 (and then for 100 s), so
what was added twice is there twice, under one `id`; the reader's inbox makes one of it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from duly._core.channel import Answer
from duly.channels.base import Secret, Unsent, ends_s, left_s, told_in
from duly.errors import DestinationInvalid, MissingExtra

try:
    import redis
    from redis.backoff import NoBackoff
    from redis.exceptions import (
        AuthenticationError,
        RedisError,
        ResponseError,
    )
    from redis.retry import Retry
except ImportError as error:  # pragma: no cover - the tests have every extra
    raise MissingExtra("channels.RedisStream needs redis: pip install 'duly[redis]'") from error

if TYPE_CHECKING:
    from duly._core.channel import Message

FIELDS = ("id", "body", "content-type", "occurrence")


class RedisStream:
    """A stream of a Redis server, written by XADD.

    Each entry has the fields `id`, `body`, `content-type` and `occurrence`, and one for each
    header.

    Args:
        url: `redis://host:6379/0`, or `rediss://…`; a password in it is used as it is.
        stream: The stream's key.
        length_max: About how many entries Redis keeps (`MAXLEN ~`); None for all. What was
            trimmed before it was read is lost, and nobody says so.
        password: A `Secret`, read anew for each connection, instead of one in the URL.

    Raises:
        DestinationInvalid: The URL is none.
        MissingExtra: The library `redis` is not installed.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        *,
        length_max: int | None = None,
        password: Secret | None = None,
    ) -> None:
        if not stream:
            raise DestinationInvalid("stream is empty: give the stream's key")
        if length_max is not None and length_max < 1:
            raise DestinationInvalid(f"length_max={length_max} keeps nothing: give 1 or more")
        given: dict[str, Any] = {}
        if password is not None:
            given["credential_provider"] = _Credentials(password)
        try:
            self._pool = redis.ConnectionPool.from_url(
                url,
                protocol=2,
                # The library's own retries are off: who sends again is the relay, by its rules.
                retry=Retry(NoBackoff(), 0),
                **given,
            )
        except ValueError:
            # Without the library's text, which may show the password.
            raise DestinationInvalid(
                "the URL of Redis is not redis://host:6379/0, rediss://… or unix://…"
            ) from None
        self._url = url
        self._stream = stream
        self._length = () if length_max is None else ("MAXLEN", "~", length_max)

    def send(self, message: Message) -> Answer:
        """Add *message* to the stream once and wait for the entry's id."""
        ends = ends_s(message)
        told_in(self._url)
        try:
            connection = self._connected(ends)
        except Unsent as unsent:
            return unsent.answer
        except _NoSecret as no:
            return no.unsent.answer
        except AuthenticationError as error:
            return Answer.not_sent("auth_failed", str(error))
        except (OSError, RedisError) as error:
            return Answer.not_sent("connect_failed", f"{type(error).__name__}: {error}")
        try:
            left_s(ends)
            connection.send_command("XADD", self._stream, *self._length, "*", *_fields(message))
            entry = connection.read_response(timeout=max(0.001, ends - time.monotonic()))
        except Unsent as unsent:
            return unsent.answer
        except ResponseError as error:
            return Answer.refused(f"redis_{_code(error)}", str(error), final=False)
        except (OSError, RedisError) as error:
            connection.disconnect()
            return Answer.ambiguous("no_reply", f"{type(error).__name__}: {error}")
        except BaseException:
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)
        return Answer.sent("added", remote_id=entry.decode("ascii", "replace"))

    def close(self) -> None:
        """Close every connection that no send uses."""
        self._pool.disconnect(inuse_connections=False)

    def _connected(self, ends: float) -> Any:
        left = left_s(ends)
        # Of each connection that it makes from now on; one that rested is asked for bytes first.
        self._pool.connection_kwargs.update(socket_connect_timeout=left, socket_timeout=left)
        return self._pool.get_connection()


class _NoSecret(AuthenticationError):
    """`Unsent` as one of the library's own errors, upon which it hangs up."""

    def __init__(self, unsent: Unsent) -> None:
        super().__init__(str(unsent))
        self.unsent = unsent


class _Credentials(redis.CredentialProvider):
    """A secret as the library asks for it, at each connection."""

    def __init__(self, password: Secret) -> None:
        self._password = password

    def get_credentials(self) -> tuple[str]:
        try:
            return (self._password.value(),)
        except Unsent as unsent:
            raise _NoSecret(unsent) from unsent


def _fields(message: Message) -> list[str | bytes]:
    fields: list[str | bytes] = ["id", message.id, "body", message.body]
    fields += ["content-type", message.content_type, "occurrence", message.occurrence_key]
    for name, value in message.headers.items():
        if name.lower() not in FIELDS:
            fields += [name, value]
    return fields


def _code(error: ResponseError) -> str:
    """The first word of Redis's answer: WRONGTYPE, OOM, READONLY, NOPERM."""
    code = getattr(error, "code", None) or type(error).__name__.removesuffix("Error")
    first = str(error).partition(" ")[0]
    return (first if first.isupper() else str(code)).lower()
