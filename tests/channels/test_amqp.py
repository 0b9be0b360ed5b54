"""The AMQP channel, against a real RabbitMQ that is stopped and killed."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

import amqp as library
import pytest

from duly import DestinationInvalid
from duly.channels import Amqp, Secret, Verdict
from duly.channels.amqp import framed
from tests.channels.messages import CREATED, KEY, a_message, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.rabbitmq import RabbitMQServer


class Queue:
    """A durable queue of one test's own."""

    def __init__(self, server: RabbitMQServer, arguments: dict[str, Any] | None = None) -> None:
        self.server = server
        self.name = f"queue-{uuid.uuid4()}"
        self._arguments = arguments

    def make(self) -> None:
        with self._connection() as connection:
            connection.channel().queue_declare(
                self.name, durable=True, auto_delete=False, arguments=self._arguments
            )

    def messages(self) -> list[Any]:
        """All that it holds, taken out of it."""
        with self._connection() as connection:
            channel = connection.channel()
            found = []
            while (message := channel.basic_get(self.name, no_ack=True)) is not None:
                found.append(message)
            return found

    def _connection(self) -> Any:
        here = self.server.address
        return library.Connection(f"{here.host}:{here.port}", here.user, here.password)


@pytest.fixture
def queue(rabbitmq: RabbitMQServer) -> Queue:
    made = Queue(rabbitmq)
    made.make()
    return made


@pytest.fixture
def channel(rabbitmq: RabbitMQServer, queue: Queue) -> Iterator[Amqp]:
    channel = Amqp(rabbitmq.url, routing_key=queue.name)
    yield channel
    channel.close()


def test_message_is_kept_with_its_id(channel: Amqp, queue: Queue) -> None:
    """What the consumer needs to apply it once is in its properties; it survives a restart."""
    message = a_message(headers={"x-tenant": "Ä"})

    answer = channel.send(message)

    (kept,) = queue.messages()
    assert (answer.verdict, answer.kind) == (Verdict.SENT, "confirmed")
    assert kept.body == message.body
    assert kept.properties["message_id"] == message.id
    assert kept.properties["delivery_mode"] == 2
    assert kept.properties["content_type"] == "application/json"
    assert kept.properties["timestamp"] == int(CREATED.timestamp())
    assert kept.headers == {"x-tenant": "Ä", "duly-occurrence": KEY}


def test_second_send_is_a_second_message_under_one_id(channel: Amqp, queue: Queue) -> None:
    """RabbitMQ keeps no ids: the docs say so, and the consumer's inbox makes one of the two."""
    message = a_message()

    channel.send(message)
    channel.send(message)

    assert [each.properties["message_id"] for each in queue.messages()] == [message.id] * 2


def test_message_that_no_queue_takes_was_not_sent(rabbitmq: RabbitMQServer) -> None:
    """A confirm alone does not say that it was routed; once there is a queue, it is sent."""
    queue = Queue(rabbitmq)
    channel = Amqp(rabbitmq.url, routing_key=queue.name)

    before = channel.send(a_message())
    queue.make()
    after = channel.send(a_message())

    channel.close()
    assert (before.verdict, before.kind) == (Verdict.NOT_SENT, "unroutable")
    assert after.verdict is Verdict.SENT
    assert len(queue.messages()) == 1


def test_exchange_that_is_not_there_refuses_for_now(rabbitmq: RabbitMQServer) -> None:
    """The broker closes the channel over it; the next send opens another."""
    channel = Amqp(rabbitmq.url, exchange="nowhere")

    answers = [channel.send(a_message()), channel.send(a_message())]

    channel.close()
    assert {(each.verdict, each.kind, each.final) for each in answers} == {
        (Verdict.REFUSED, "amqp_404", False)
    }


def test_full_queue_leaves_it_open(rabbitmq: RabbitMQServer) -> None:
    """A nack says that not every queue took it, so perhaps one did."""
    queue = Queue(rabbitmq, {"x-max-length": 1, "x-overflow": "reject-publish"})
    queue.make()
    channel = Amqp(rabbitmq.url, routing_key=queue.name)

    answers = [channel.send(a_message()) for _ in range(3)]

    channel.close()
    assert answers[0].verdict is Verdict.SENT
    assert (answers[-1].verdict, answers[-1].kind) == (Verdict.AMBIGUOUS, "nacked")


def test_password_is_read_for_each_connection(rabbitmq: RabbitMQServer, queue: Queue) -> None:
    """A wrong or missing secret sends nothing; once it is right, the same channel sends."""
    here = rabbitmq.address
    secrets = ["", "wrong", here.password]
    channel = Amqp(
        f"amqp://{here.user}@{here.host}:{here.port}",
        routing_key=queue.name,
        password=Secret.call("vault", lambda: secrets.pop(0)),
    )

    answers = [channel.send(a_message()) for _ in range(3)]

    channel.close()
    assert [each.verdict for each in answers] == [Verdict.NOT_SENT, Verdict.NOT_SENT, Verdict.SENT]
    assert answers[0].kind == "secret_missing"


def test_broker_that_stands_still_or_dies(rabbitmq_private: RabbitMQServer) -> None:
    """A confirm that does not come is ambiguous; a connection that fails, or died at rest, not."""
    queue = Queue(rabbitmq_private)
    queue.make()
    channel = Amqp(rabbitmq_private.url, routing_key=queue.name)
    assert channel.send(a_message()).verdict is Verdict.SENT
    line = channel._rested()
    assert line is not None  # looked at, as before a send; then the broker stands still

    with stopped(rabbitmq_private):
        silent, _ = line.publish(
            framed(a_message()), exchange="", routing_key=queue.name, ends=time.monotonic() + 0.5
        )
    line.close()
    rabbitmq_private.kill()
    dead = channel.send(a_message())
    rabbitmq_private.start()
    again = channel.send(a_message())
    rabbitmq_private.restart()
    at_rest = channel.send(a_message())

    channel.close()
    assert (silent.verdict, silent.kind) == (Verdict.AMBIGUOUS, "no_confirm")
    assert (dead.verdict, dead.kind) == (Verdict.NOT_SENT, "connect_failed")
    assert again.verdict is Verdict.SENT
    assert at_rest.verdict is Verdict.SENT


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("http://user:secret@here", {"routing_key": "q"}, "is not amqp://"),
        ("amqp://user:secret@here:port", {"routing_key": "q"}, "cannot be read"),
        ("amqp://user:secret@here", {}, "give routing_key="),
    ],
)
def test_bad_configuration_is_refused_without_a_secret_in_it(
    url: str, options: dict[str, Any], said: str
) -> None:
    """It fails when it is written down, not at night."""
    with pytest.raises(DestinationInvalid, match=said) as caught:
        Amqp(url, **options)
    assert "secret" not in str(caught.value)
