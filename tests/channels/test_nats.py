"""The NATS channel, against a real JetStream that is stopped and killed."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import nats as library
import pytest

from duly import DestinationInvalid
from duly.channels import Nats, Secret, Verdict
from tests.channels.messages import KEY, a_message, stopped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.nats import NatsServer


class Stream:
    """A stream of one test's own, with one subject."""

    def __init__(self, server: NatsServer, *, window_s: float = 120) -> None:
        self.server = server
        self.name = f"S{uuid.uuid4().hex}"
        self.subject = f"{self.name}.orders"
        self._window_s = window_s

    def make(self) -> None:
        asyncio.run(self._make())

    async def _make(self) -> None:
        client = await library.connect(self.server.url)
        await client.jetstream().add_stream(
            name=self.name, subjects=[f"{self.name}.*"], duplicate_window=self._window_s
        )
        await client.close()

    def messages(self) -> list[Any]:
        """All that it holds, oldest first."""
        return asyncio.run(self._messages())

    async def _messages(self) -> list[Any]:
        client = await library.connect(self.server.url)
        jetstream = client.jetstream()
        state = (await jetstream.stream_info(self.name)).state
        found = [
            await jetstream.get_msg(self.name, number)
            for number in range(state.first_seq, state.last_seq + 1)
            if state.messages
        ]
        await client.close()
        return found


@pytest.fixture
def stream(nats: NatsServer) -> Stream:
    made = Stream(nats)
    made.make()
    return made


@pytest.fixture
def channel(nats: NatsServer, stream: Stream) -> Iterator[Nats]:
    channel = Nats(nats.url, stream.subject, stream=stream.name)
    yield channel
    channel.close()


def test_message_is_kept_with_its_id(channel: Nats, stream: Stream) -> None:
    """What the reader needs to apply it once is in its headers."""
    message = a_message(headers={"X-Tenant": "blue"})

    answer = channel.send(message)

    (kept,) = stream.messages()
    assert (answer.verdict, answer.kind) == (Verdict.SENT, "acknowledged")
    assert answer.remote_id == f"{stream.name}:{kept.seq}"
    assert kept.data == message.body
    assert kept.headers["Nats-Msg-Id"] == message.id
    assert kept.headers["Content-Type"] == "application/json"
    assert kept.headers["Duly-Occurrence"] == KEY
    assert kept.headers["X-Tenant"] == "blue"


def test_second_send_within_the_window_is_dropped_by_the_stream(
    channel: Nats, stream: Stream
) -> None:
    """The stream keeps one, and says of the other that it is a duplicate: it has it."""
    message = a_message()

    answers = [channel.send(message), channel.send(message)]

    assert [each.kind for each in answers] == ["acknowledged", "duplicate"]
    assert {each.verdict for each in answers} == {Verdict.SENT}
    assert len(stream.messages()) == 1


def test_equal_bodies_of_two_messages_are_both_kept(channel: Nats, stream: Stream) -> None:
    """The id decides, never the body."""
    channel.send(a_message())
    channel.send(a_message())

    assert len(stream.messages()) == 2


def test_subject_that_no_stream_hears_sends_nothing(nats: NatsServer) -> None:
    """No responders is a sure no: it is sent when the stream is there."""
    stream = Stream(nats)
    channel = Nats(nats.url, stream.subject)

    before = channel.send(a_message())
    stream.make()
    after = channel.send(a_message())

    channel.close()
    assert (before.verdict, before.kind) == (Verdict.NOT_SENT, "no_responders")
    assert after.verdict is Verdict.SENT


def test_another_streams_subject_is_refused(nats: NatsServer, stream: Stream) -> None:
    """A message never lands in a stream that was not meant."""
    channel = Nats(nats.url, stream.subject, stream="OTHER")

    answer = channel.send(a_message())

    channel.close()
    assert (answer.verdict, answer.final) == (Verdict.REFUSED, False)
    assert stream.messages() == []


def test_body_over_the_servers_limit_is_refused_for_good(channel: Nats) -> None:
    """It is found before a byte leaves."""
    answer = channel.send(a_message("x" * 2_000_000))

    assert (answer.verdict, answer.final) == (Verdict.REFUSED, True)


def test_password_is_read_for_each_connection(nats: NatsServer, stream: Stream) -> None:
    """A wrong or missing secret sends nothing; once it is right, the same channel sends."""
    here = nats.address
    secrets = ["", "wrong", here.password]
    secret = Secret.call("vault", lambda: secrets.pop(0))
    channel = Nats(
        f"nats://{here.host}:{here.port}", stream.subject, user=here.user, password=secret
    )

    answers = [channel.send(a_message()) for _ in range(3)]

    channel.close()
    assert [each.verdict for each in answers] == [Verdict.NOT_SENT, Verdict.NOT_SENT, Verdict.SENT]
    assert answers[0].kind == "secret_missing"


def test_server_that_stands_still_leaves_it_open_and_a_dead_one_does_not(
    nats_private: NatsServer,
) -> None:
    """An acknowledgement that does not come is ambiguous, a connection that fails is not.

    And what was not acknowledged is never sent later by the library itself.
    """
    stream = Stream(nats_private)
    stream.make()
    channel = Nats(nats_private.url, stream.subject)
    first = a_message()
    assert channel.send(first).verdict is Verdict.SENT

    with stopped(nats_private):
        silent = channel.send(a_message(seconds=0.5))
    nats_private.kill()
    dead = channel.send(a_message(seconds=1))
    nats_private.start()
    last = a_message()
    again = channel.send(last)

    channel.close()
    assert (silent.verdict, silent.kind) == (Verdict.AMBIGUOUS, "no_ack")
    assert (dead.verdict, dead.kind) == (Verdict.NOT_SENT, "connect_failed")
    assert again.verdict is Verdict.SENT
    kept = [each.headers["Nats-Msg-Id"] for each in stream.messages()]
    assert kept[0] == first.id
    assert kept[-1] == last.id
    assert len(kept) <= 3


@pytest.mark.parametrize("subject", ["", "orders.*", "orders.>", "two words"])
def test_subject_that_cannot_be_sent_to_is_refused(subject: str) -> None:
    """It fails when it is written down, not at night."""
    with pytest.raises(DestinationInvalid, match="not a subject"):
        Nats("nats://localhost", subject)
