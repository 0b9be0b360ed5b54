"""A send whose time is over before its first word says none: another may be sending it."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import celery
import pytest
from redis import Redis

from duly.channels import Amqp, CeleryTask, Nats, RedisStream, Secret, Smtp, Verdict
from tests.channels.messages import a_message
from tests.channels.test_amqp import queue as queue  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    from tests.channels.test_amqp import Queue
    from tests.servers.nats import NatsServer
    from tests.servers.rabbitmq import RabbitMQServer
    from tests.servers.redis import RedisServer


def _slow(value: str, ends: float) -> Secret:
    """A vault that answers once the send's time is over."""

    def read() -> str:
        while time.monotonic() < ends:
            time.sleep(0.01)
        return value

    return Secret.call("vault", read)


def _is_late(channel: Any, ends: float) -> None:
    message = a_message(ends_s=ends)
    answer = channel.send(message)
    channel.close()
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "too_late")


def test_amqp_says_nothing_after_a_slow_secret_nor_on_a_line_that_rested(
    rabbitmq: RabbitMQServer, queue: Queue
) -> None:
    here, ends = rabbitmq.address, time.monotonic() + 0.2
    url = f"amqp://{here.user}@{here.host}:{here.port}"
    _is_late(Amqp(url, routing_key=queue.name, password=_slow(here.password, ends)), ends)
    rested = Amqp(rabbitmq.url, routing_key=queue.name)
    assert rested.send(a_message()).verdict is Verdict.SENT
    _is_late(rested, time.monotonic())
    assert len(queue.messages()) == 1


def test_redis_says_nothing_after_a_slow_secret_nor_on_a_line_that_rested(
    redis: RedisServer,
) -> None:
    here, ends = redis.address, time.monotonic() + 0.2
    url, stream = f"redis://{here.host}:{here.port}/0", f"late-{time.monotonic_ns()}"
    _is_late(RedisStream(url, stream, password=_slow(here.password, ends)), ends)
    rested = RedisStream(redis.url, stream)
    assert rested.send(a_message()).verdict is Verdict.SENT
    _is_late(rested, time.monotonic())
    with Redis.from_url(redis.url) as client:
        assert client.xlen(stream) == 1


def test_nats_says_nothing_after_a_slow_secret_and_holds_up_nobody(nats: NatsServer) -> None:
    here, ends = nats.address, time.monotonic() + 0.2
    secret = _slow(here.password, ends)
    url = f"nats://{here.host}:{here.port}"
    _is_late(Nats(url, "late.subject", user=here.user, password=secret), ends)


@pytest.mark.parametrize("broker", ["rabbitmq", "redis"])
def test_celery_says_nothing_after_a_slow_signal_of_the_app(
    request: pytest.FixtureRequest, broker: str
) -> None:
    """An app's own code runs between the connection and the task."""
    app = celery.Celery(broker=request.getfixturevalue(broker).url, set_as_current=False)
    app.conf.task_default_queue = f"late-{time.monotonic_ns()}"
    ends = time.monotonic() + 3
    slow = _slow("default", ends)

    def route(*_: Any, **__: Any) -> dict[str, str]:
        slow.value()
        return {}

    app.conf.task_routes = (route,)
    _is_late(CeleryTask(app, "billing.pay"), ends)


def test_smtp_does_not_connect_after_a_slow_secret() -> None:
    ends = time.monotonic() + 0.2
    channel = Smtp(
        "localhost",
        port=1,  # to connect would be refused
        sender="Billing <billing@example.com>",
        security="none",
        username="billing",
        password=_slow("right", ends),
    )
    body = {"to": "ann@example.com", "subject": "Invoice", "text": "12 EUR"}
    answer = channel.send(a_message(body, ends_s=ends, timeout=timedelta(seconds=20)))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "too_late")
