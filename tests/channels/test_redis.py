"""The Redis channel, against a real Redis that is stopped, killed and full."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
import redis as library

from duly import DestinationInvalid
from duly.channels import RedisStream, Secret, Verdict
from tests.channels.messages import KEY, a_message, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.redis import RedisServer


@pytest.fixture
def client(redis: RedisServer) -> Iterator[library.Redis]:
    with library.Redis.from_url(redis.url) as client:
        yield client


def _entries(client: library.Redis, stream: str) -> Any:
    return client.xrange(stream)


@pytest.fixture
def stream() -> str:
    return f"stream-{uuid.uuid4()}"


def test_entry_holds_the_message_and_its_id(
    redis: RedisServer, client: library.Redis, stream: str
) -> None:
    """What the reader needs to apply it once is in the entry."""
    message = a_message(headers={"x-tenant": "Ä", "id": "not this one"})
    channel = RedisStream(redis.url, stream)

    answer = channel.send(message)

    channel.close()
    ((entry, fields),) = _entries(client, stream)
    assert answer.verdict is Verdict.SENT
    assert answer.remote_id == entry.decode()
    assert fields == {
        b"id": message.id.encode(),
        b"body": message.body,
        b"content-type": b"application/json",
        b"occurrence": KEY.encode(),
        b"x-tenant": "Ä".encode(),
    }


def test_second_send_is_a_second_entry_under_one_id(
    redis: RedisServer, client: library.Redis, stream: str
) -> None:
    """Redis keeps no ids: the docs say so, and the reader's inbox makes one of the two."""
    message = a_message()
    channel = RedisStream(redis.url, stream)

    channel.send(message)
    channel.send(message)

    channel.close()
    ids = [fields[b"id"].decode() for _, fields in _entries(client, stream)]
    assert ids == [message.id, message.id]


def test_key_of_another_type_refuses(
    redis: RedisServer, client: library.Redis, stream: str
) -> None:
    """Redis's own word for it is the answer's class, and another send may do better."""
    client.set(stream, "a string")
    channel = RedisStream(redis.url, stream)

    answer = channel.send(a_message())

    channel.close()
    assert (answer.verdict, answer.kind, answer.final) == (
        Verdict.REFUSED,
        "redis_wrongtype",
        False,
    )


def test_password_is_read_for_each_connection(redis: RedisServer, stream: str) -> None:
    """A wrong or missing secret sends nothing; once it is right, the same channel sends."""
    here = redis.address
    secrets = ["", "wrong", here.password]
    secret = Secret.call("vault", lambda: secrets.pop(0))
    channel = RedisStream(f"redis://{here.host}:{here.port}/0", stream, password=secret)

    kinds = [(each.verdict, each.kind) for each in (channel.send(a_message()) for _ in range(3))]

    channel.close()
    assert kinds == [
        (Verdict.NOT_SENT, "secret_missing"),
        (Verdict.NOT_SENT, "auth_failed"),
        (Verdict.SENT, "added"),
    ]


def test_server_that_stands_still_leaves_it_open_and_a_dead_one_does_not(
    redis_private: RedisServer, stream: str
) -> None:
    """A reply that does not come is ambiguous, a connection that cannot be made is not."""
    channel = RedisStream(redis_private.url, stream)
    assert channel.send(a_message()).verdict is Verdict.SENT

    with stopped(redis_private):
        silent = channel.send(a_message(seconds=0.5))
    redis_private.kill()
    dead = channel.send(a_message())
    redis_private.start()
    again = channel.send(a_message())

    channel.close()
    assert (silent.verdict, silent.kind) == (Verdict.AMBIGUOUS, "no_reply")
    assert (dead.verdict, dead.kind) == (Verdict.NOT_SENT, "connect_failed")
    assert again.verdict is Verdict.SENT


def test_connection_that_died_at_rest_is_no_doubt(redis_private: RedisServer, stream: str) -> None:
    """A restart between two sends is found before a word of the second is said."""
    channel = RedisStream(redis_private.url, stream)
    assert channel.send(a_message()).verdict is Verdict.SENT

    redis_private.restart()
    answer = channel.send(a_message())

    channel.close()
    assert answer.verdict is Verdict.SENT


@pytest.mark.parametrize(
    ("url", "stream", "options", "said"),
    [
        ("http://secret@here", "s", {}, "not redis://"),
        ("redis://localhost", "", {}, "stream is empty"),
        ("redis://localhost", "s", {"length_max": 0}, "keeps nothing"),
    ],
)
def test_bad_configuration_is_refused_without_a_secret_in_it(
    url: str, stream: str, options: dict[str, Any], said: str
) -> None:
    """It fails when it is written down, not at night."""
    with pytest.raises(DestinationInvalid, match=said) as caught:
        RedisStream(url, stream, **options)
    assert "secret" not in str(caught.value)
