"""A Celery task: called by name, with the message's id as the task's id.

Decides what the broker's word means for a task. Celery keeps no ids and delivers again what a
worker did not acknowledge, so the task runs at least once under one id, and `duly.receive` in it,
by `self.request.id`, makes one effect of it. That the task was queued is all that is known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._core.channel import Answer
from duly.channels.base import Unsent, ends_s, left_s, told, told_in
from duly.channels.resting import Resting
from duly.errors import DestinationInvalid, MissingExtra

try:
    from kombu.exceptions import EncodeError, KombuError
except ImportError as error:  # pragma: no cover - the tests have every extra
    raise MissingExtra("channels.CeleryTask needs celery: pip install 'duly[celery]'") from error

if TYPE_CHECKING:
    from duly._core.channel import Message


# How the transports of RabbitMQ and Redis call what bounds their waits, and ignore each other's.
BOUNDS = ("read_timeout", "write_timeout", "socket_timeout", "socket_connect_timeout")


class CeleryTask:
    """A task of a Celery app.

    A body that is a JSON object gives the task's named arguments, a JSON list the others.

    Args:
        app: The Celery app, for its broker, its routes and its serializer.
        task: The task's name; it need not be known here.
        queue: Where to, instead of where the app's routes say.

    Raises:
        DestinationInvalid: No task is named.
        MissingExtra: The library `celery` is not installed.
    """

    def __init__(self, app: Any, task: str, *, queue: str | None = None) -> None:
        if not task:
            raise DestinationInvalid("task is empty: give the task's name, such as 'billing.pay'")
        self._app = app
        self._task = task
        self._options = {} if queue is None else {"queue": queue}
        self._resting: Resting[Any] = Resting(lambda connection: connection.release())

    def send(self, message: Message) -> Answer:
        """Queue the task once; on RabbitMQ with its confirm, on Redis with its reply."""
        ends = ends_s(message)
        try:
            arguments = _arguments(message)
        except ValueError as error:
            return Answer.refused("arguments_invalid", str(error), final=True)
        try:
            connection, channel = self._rested() or self._connected(ends)
        except Unsent as unsent:
            return unsent.answer
        except Exception as error:
            return Answer.not_sent("connect_failed", f"{type(error).__name__}: {error}")
        answer, is_usable = self._publish(message, arguments, channel, ends)
        if is_usable:
            channel.close()
            self._resting.give(connection)
        else:
            self._resting.end(connection)
        return answer

    def close(self) -> None:
        """Close every connection that rests."""
        self._resting.close()

    def _rested(self) -> tuple[Any, Any] | None:
        """A connection that rested, and a new channel on it: the broker answers it."""
        while (connection := self._resting.take()) is not None:
            try:
                return connection, connection.channel()
            except Exception:
                self._resting.end(connection)
        return None

    def _connected(self, ends: float) -> tuple[Any, Any]:
        left = left_s(ends)
        bounds = dict.fromkeys(BOUNDS, left)
        connection = self._app.connection_for_write(
            connect_timeout=left, transport_options={"confirm_publish": True, **bounds}
        )
        told(connection.password or "")
        for each in connection.alt:  # where to if this broker does not answer
            told_in(each)
        try:
            connection.connect()
            return connection, connection.channel()
        except BaseException:
            self._resting.end(connection)
            raise

    def _publish(
        self, message: Message, arguments: dict[str, Any], channel: Any, ends: float
    ) -> tuple[Answer, bool]:
        returned: list[BaseException] = []
        producer = self._app.amqp.Producer(channel)
        publish = producer.publish

        def in_time(*args: Any, **given: Any) -> Any:
            left_s(ends)  # routes and signals of the app have had their say, and their time
            return publish(*args, **given)

        producer.publish = in_time
        if hasattr(channel, "events"):  # RabbitMQ's alone says when no queue takes a task
            channel.events["basic_return"].add(lambda error, *_: returned.append(error))
        try:
            left = left_s(ends)
            self._app.send_task(
                self._task,
                **arguments,
                **self._options,
                task_id=message.id,
                headers={**message.headers, "duly-occurrence": message.occurrence_key},
                producer=producer,
                add_to_parent=False,
                # The library's own retries are off: who sends again is the relay, by its rules.
                retry=False,
                mandatory=True,
                timeout=left,
                confirm_timeout=left,
            )
        except Unsent as unsent:
            return unsent.answer, True
        except EncodeError as error:
            return Answer.refused("arguments_invalid", str(error), final=True), False
        except (OSError, KombuError, *channel.connection.client.recoverable_errors) as error:
            return Answer.ambiguous("no_confirm", f"{type(error).__name__}: {error}"), False
        if returned:
            return Answer.not_sent("unroutable", f"{returned[0]}: no queue takes it"), True
        return Answer.sent("queued"), True


def _arguments(message: Message) -> dict[str, Any]:
    body = message.json
    if isinstance(body, dict):
        return {"kwargs": body}
    if isinstance(body, list):
        return {"args": body}
    raise ValueError("the body is neither a JSON object nor a JSON list of the task's arguments")
