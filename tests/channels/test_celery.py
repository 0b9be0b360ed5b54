"""The Celery channel, against real brokers and a real worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import celery
import pytest

from duly import DestinationInvalid
from duly.channels import CeleryTask, Verdict
from tests.channels.messages import KEY, a_message, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.rabbitmq import RabbitMQServer
    from tests.servers.redis import RedisServer

WORKER = """
import celery, json, sys
app = celery.Celery(broker={url!r})
app.conf.task_default_queue = {queue!r}

@app.task(name="billing.pay", bind=True, acks_late=True)
def pay(self, *args, **named):
    with open({file!r}, "a") as out:
        print(json.dumps([self.request.id, args, named]), file=out)
"""


@pytest.fixture(params=["rabbitmq", "redis"])
def app(request: pytest.FixtureRequest) -> celery.Celery:
    broker = request.getfixturevalue(request.param)
    return _app(broker.url)


def _app(url: str) -> celery.Celery:
    app = celery.Celery(broker=url, set_as_current=False)
    app.conf.task_default_queue = f"queue-{uuid.uuid4()}"
    return app


def _queued(app: celery.Celery) -> list[Any]:
    """The tasks in the app's queue, taken out of it."""
    with app.connection_for_read() as connection:
        found = []
        queue = connection.SimpleQueue(app.conf.task_default_queue)
        try:
            while True:
                message = queue.get(block=False)
                message.ack()
                found.append(message)
        except queue.Empty:
            queue.close()
            return found


def test_task_is_queued_under_the_messages_id(app: celery.Celery) -> None:
    """What the task needs to work once is its own id; an object names its arguments."""
    named, listed = a_message({"units": 10}, headers={"x-tenant": "blue"}), a_message([1, "two"])
    channel = CeleryTask(app, "billing.pay")

    answers = [channel.send(named), channel.send(listed)]

    channel.close()
    first, second = _queued(app)
    assert [(each.verdict, each.kind) for each in answers] == [(Verdict.SENT, "queued")] * 2
    assert first.headers["id"] == named.id
    assert first.headers["task"] == "billing.pay"
    assert first.headers["duly-occurrence"] == KEY
    assert first.headers["x-tenant"] == "blue"
    assert first.payload[:2] == [[], {"units": 10}]
    assert (second.headers["id"], second.payload[:2]) == (listed.id, [[1, "two"], {}])


def test_body_that_is_no_arguments_is_refused_for_good(app: celery.Celery) -> None:
    """It is found before the broker hears of it."""
    channel = CeleryTask(app, "billing.pay")

    answer = channel.send(a_message("ten"))

    assert (answer.verdict, answer.kind, answer.final) == (
        Verdict.REFUSED,
        "arguments_invalid",
        True,
    )


def test_worker_runs_the_task_with_its_id(rabbitmq: RabbitMQServer, tmp_path: Path) -> None:
    """`self.request.id` in the task is the message's id, for each send of it."""
    app = _app(rabbitmq.url)
    ran = tmp_path / "ran"
    message = a_message({"units": 10})
    channel = CeleryTask(app, "billing.pay")

    with _worker(app, tmp_path, ran):
        channel.send(message)
        channel.send(message)
        deadline = time.monotonic() + 60
        while len(_lines(ran)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)

    channel.close()
    assert _lines(ran) == [f'["{message.id}", [], {{"units": 10}}]'] * 2


@contextmanager
def _worker(app: celery.Celery, folder: Path, ran: Path) -> Iterator[None]:
    source = WORKER.format(
        url=app.conf.broker_url, queue=app.conf.task_default_queue, file=str(ran)
    )
    (folder / "worker_of_test.py").write_text(source)
    command = [sys.executable, "-m", "celery", "-A", "worker_of_test", "worker", "--pool", "solo"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--without-mingle", "--without-gossip"],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
        )
    try:
        yield
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_queue_that_a_route_names_and_nobody_made_is_made(rabbitmq: RabbitMQServer) -> None:
    """Celery declares the queue that it sends to, so a task is never unroutable by itself."""
    app = _app(rabbitmq.url)
    other = f"queue-{uuid.uuid4()}"
    channel = CeleryTask(app, "billing.pay", queue=other)

    answer = channel.send(a_message())

    channel.close()
    app.conf.task_default_queue = other
    assert answer.verdict is Verdict.SENT
    assert len(_queued(app)) == 1


def test_broker_that_stands_still_or_dies(redis_private: RedisServer) -> None:
    """A connection that cannot be had sends nothing; the channel finds the broker again."""
    channel = CeleryTask(_app(redis_private.url), "billing.pay")
    assert channel.send(a_message()).verdict is Verdict.SENT

    with stopped(redis_private):
        silent = channel.send(a_message(seconds=0.5))
    redis_private.kill()
    dead = channel.send(a_message())
    redis_private.start()
    again = channel.send(a_message())

    channel.close()
    assert silent.verdict in {Verdict.NOT_SENT, Verdict.AMBIGUOUS}
    assert (dead.verdict, dead.kind) == (Verdict.NOT_SENT, "connect_failed")
    assert again.verdict is Verdict.SENT


def test_task_without_a_name_is_refused() -> None:
    """It fails when it is written down, not at night."""
    with pytest.raises(DestinationInvalid, match="task is empty"):
        CeleryTask(celery.Celery(), "")
