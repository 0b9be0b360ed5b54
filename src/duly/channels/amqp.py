"""RabbitMQ by AMQP 0-9-1, with publisher confirms and mandatory routing.

Decides what the broker's word means: a confirm says that the broker has the message, and only
together with no return that a queue has it. RabbitMQ keeps no ids, so what was published twice is
there twice, under one message id; the consumer's inbox makes one of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from duly._core.channel import Answer
from duly.channels.base import Secret, Unsent, ends_s, left_s, told_in
from duly.channels.resting import Resting
from duly.errors import DestinationInvalid, MissingExtra

try:
    import amqp
    from amqp.exceptions import AMQPError, ChannelError, MessageNacked
except ImportError as error:  # pragma: no cover - the tests have every extra
    raise MissingExtra("channels.Amqp needs the library amqp: pip install 'duly[amqp]'") from error

if TYPE_CHECKING:
    import ssl

    from duly._core.channel import Message

PERSISTENT = 2


class Amqp:
    """An exchange of a RabbitMQ broker.

    Args:
        url: `amqp://user@host:5672/vhost`, or `amqps://…`; a password in it is used as it is.
        exchange: Its name; "" for the default one, which routes to the queue of the key's name.
        routing_key: For each message.
        password: A `Secret`, read anew for each connection, instead of one in the URL.
        context: With `amqps`, how certificates are checked; the system's authorities if not given.

    Raises:
        DestinationInvalid: The URL is none.
        MissingExtra: The library `amqp` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        routing_key: str = "",
        password: Secret | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self._url = url
        self._broker = _broker(url)
        if not exchange and not routing_key:
            raise DestinationInvalid("give routing_key= (a queue's name), or exchange=")
        self._exchange = exchange
        self._routing_key = routing_key
        self._password = password
        self._context = context
        self._resting: Resting[_Line] = Resting(_Line.close)

    def send(self, message: Message) -> Answer:
        """Publish *message* once and wait for the broker's confirm."""
        ends = ends_s(message)
        told_in(self._url)
        try:
            line = self._rested() or self._connected(ends)
        except Unsent as unsent:
            return unsent.answer
        except (OSError, AMQPError) as error:
            return Answer.not_sent("connect_failed", f"{type(error).__name__}: {error}")
        answer, is_usable = line.publish(
            framed(message), exchange=self._exchange, routing_key=self._routing_key, ends=ends
        )
        if is_usable:
            self._resting.give(line)
        else:
            self._resting.end(line)
        return answer

    def close(self) -> None:
        """Close every connection that rests."""
        self._resting.close()

    def _rested(self) -> _Line | None:
        while (line := self._resting.take()) is not None:
            if line.answers():
                return line
            self._resting.end(line)
        return None

    def _connected(self, ends: float) -> _Line:
        broker = self._broker
        password = broker.password if self._password is None else self._password.value()
        left = left_s(ends)
        security: Any = False
        if broker.scheme == "amqps":
            security = (
                {"context": self._context} if self._context else {"server_hostname": broker.host}
            )
        connection = amqp.Connection(
            host=f"{broker.host}:{broker.port}",
            userid=broker.user,
            password=password,
            virtual_host=broker.virtual_host,
            ssl=security,
            connect_timeout=left,
            read_timeout=left,
            write_timeout=left,
        )
        try:
            connection.connect()
            return _Line(connection)
        except BaseException:
            connection.collect()
            raise


class _Line:
    """One connection with one channel, in confirm mode."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._channel = connection.channel()
        self._returned: list[BaseException] = []
        self._channel.events["basic_return"].add(self._on_return)
        self._channel.confirm_select()

    def _on_return(self, error: BaseException, *_: object) -> None:
        self._returned.append(error)

    def answers(self) -> bool:
        """Whether the broker still answers on it; nothing of a message is said."""
        try:
            if self._channel.is_open and self._connection.connected:
                self._channel.confirm_select()
                return True
        except (OSError, AMQPError):
            pass
        return False

    def publish(
        self, framed: Any, *, exchange: str, routing_key: str, ends: float
    ) -> tuple[Answer, bool]:
        """Publish once; returns what came of it and whether the line is good for another."""
        self._returned.clear()
        try:
            left = left_s(ends)
            self._channel.basic_publish_confirm(
                framed, exchange, routing_key, mandatory=True, timeout=left, confirm_timeout=left
            )
        except Unsent as unsent:
            return unsent.answer, True
        except MessageNacked:
            # An internal fault of the broker, or a full queue among several: others may have it.
            return Answer.ambiguous("nacked", "the broker did not take it into every queue"), True
        except ChannelError as error:
            # The broker closed the channel over this message, the only one in flight on it.
            return Answer.refused(f"amqp_{error.reply_code}", str(error), final=False), False
        except (OSError, AMQPError) as error:
            return Answer.ambiguous("no_confirm", f"{type(error).__name__}: {error}"), False
        if self._returned:
            said = f"{self._returned[0]}: no queue is bound for {exchange!r} / {routing_key!r}"
            return Answer.not_sent("unroutable", said), True
        return Answer.sent("confirmed"), True

    def close(self) -> None:
        """End the connection at once: nothing is owed to the broker."""
        self._connection.collect()


def framed(message: Message) -> Any:
    """*message* as AMQP has it: persistent, with its id."""
    return amqp.Message(
        message.body,
        content_type=message.content_type,
        delivery_mode=PERSISTENT,
        message_id=message.id,
        timestamp=int(message.created_at.timestamp()),
        application_headers={**message.headers, "duly-occurrence": message.occurrence_key},
    )


@dataclass(frozen=True, slots=True)
class _Broker:
    scheme: Literal["amqp", "amqps"]
    host: str
    port: int
    user: str
    password: str
    virtual_host: str


def _broker(url: str) -> _Broker:
    # A fault never shows the URL, which may hold a password.
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DestinationInvalid("the broker's URL cannot be read") from None
    if parts.scheme not in {"amqp", "amqps"} or not parts.hostname:
        raise DestinationInvalid(
            "the broker's URL is not amqp://user:password@host:5672/vhost, nor amqps://…"
        )
    return _Broker(
        scheme="amqps" if parts.scheme == "amqps" else "amqp",
        host=parts.hostname,
        port=port or (5671 if parts.scheme == "amqps" else 5672),
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        virtual_host=unquote(parts.path[1:]) or "/",
    )
