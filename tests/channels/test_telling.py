"""A receiver that quotes a secret back: nothing of it is kept, whatever the channel."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
from contextlib import closing, suppress
from datetime import timedelta
from struct import pack
from typing import TYPE_CHECKING, Any

import celery
import pytest

import duly
from duly.channels import Amqp, Answer, Call, CeleryTask, Http, Nats, RedisStream, Secret, Smtp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PASSWORD = "Hunter2Hunter3Hunter4"
SECRET = Secret.call("vault", lambda: PASSWORD)
BASE64 = base64.b64encode(f"\0duly\0{PASSWORD}".encode()).decode()
FORMS = (PASSWORD, PASSWORD.upper(), BASE64, PASSWORD.encode().hex(), PASSWORD[4:16])


class Canned:
    """Says the next of *replies* whenever somebody has said something; then it hangs up."""

    def __init__(self, *replies: bytes, speaks_first: bool = False) -> None:
        self._replies, self._speaks_first = replies, speaks_first
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.settimeout(10)
                with connection:
                    for number, reply in enumerate(self._replies):
                        if number or not self._speaks_first:
                            connection.recv(65536)
                        connection.sendall(reply)
                    connection.recv(65536)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(20)


def _frame(*, method: tuple[int, int], arguments: bytes) -> bytes:
    """A method of AMQP 0-9-1 on channel 0."""
    payload = pack(">HH", *method) + arguments
    return pack(">BHI", 1, 0, len(payload)) + payload + b"\xce"


def _smtp(said: str) -> Canned:
    auth = f"535 5.7.8 {said}\r\n".encode()
    return Canned(b"220 here\r\n", b"250-here\r\n250 AUTH PLAIN\r\n", auth, speaks_first=True)


def _redis(said: str) -> Canned:
    return Canned(f"-ERR unknown command `AUTH`, with args `{said}`\r\n".encode())


def _nats(said: str) -> Canned:
    told = json.dumps({"server_id": "x", "version": "2.10.0", "max_payload": 1000})
    return Canned(
        f"INFO {told}\r\n".encode(), f"-ERR 'Refused {said}'\r\n".encode(), speaks_first=True
    )


def _amqp(said: str) -> Canned:
    start = b"\0\x09" + pack(">I", 0) + pack(">I", 5) + b"PLAIN" + pack(">I", 5) + b"en_US"
    text = f"ACCESS_REFUSED {said}".encode()
    close = pack(">HB", 403, len(text)) + text + pack(">HH", 0, 0)
    return Canned(
        _frame(method=(10, 10), arguments=start), _frame(method=(10, 50), arguments=close)
    )


def _http(said: str) -> Canned:
    body = said.encode()
    return Canned(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def _mail(port: int) -> Smtp:
    given: dict[str, Any] = {"security": "none", "local_hostname": "here", "username": "duly"}
    return Smtp("127.0.0.1", port=port, sender="a@bank.example", password=SECRET, **given)


KINDS: dict[str, tuple[Callable[[str], Canned], Callable[[int], Any]]] = {
    "smtp": (_smtp, _mail),
    "redis": (
        _redis,
        lambda port: RedisStream(f"redis://127.0.0.1:{port}/0", "s", password=SECRET),
    ),
    "redis-url": (_redis, lambda port: RedisStream(f"redis://:{PASSWORD}@127.0.0.1:{port}/0", "s")),
    "nats": (
        _nats,
        lambda port: Nats(f"nats://127.0.0.1:{port}", "s.new", user="duly", password=SECRET),
    ),
    "nats-url": (_nats, lambda port: Nats(f"nats://duly:{PASSWORD}@127.0.0.1:{port}", "s.new")),
    "nats-token": (_nats, lambda port: Nats(f"nats://{PASSWORD}@127.0.0.1:{port}", "s.new")),
    "amqp": (
        _amqp,
        lambda port: Amqp(f"amqp://duly@127.0.0.1:{port}", routing_key="q", password=SECRET),
    ),
    "amqp-url": (
        _amqp,
        lambda port: Amqp(f"amqp://duly:{PASSWORD}@127.0.0.1:{port}", routing_key="q"),
    ),
    "celery": (
        _amqp,
        lambda port: CeleryTask(
            celery.Celery(broker=f"amqp://duly:{PASSWORD}@127.0.0.1:{port}//"), "pay"
        ),
    ),
    "http": (
        _http,
        lambda port: Http(f"http://127.0.0.1:{port}/", headers={"Authorization": SECRET}),
    ),
}


@pytest.fixture
def app(tmp_path: Path) -> Iterator[duly.App]:
    with closing(duly.App(f"sqlite:///{tmp_path / 'bank.db'}")) as made:
        made.init()
        yield made


def _send(app: duly.App, channel: Any, **given: Any) -> str:
    """One message to *channel*, delivered by a relay; its id."""
    app.destination("peer", channel, **given)
    body = {"to": "ada@example.com", "subject": "s", "text": "t"}
    app.job("bill")(lambda run: run.send("peer", body))
    app.run("bill", at="2026-09-13T00:00:00Z")
    app.deliver(once=True)
    channel.close()
    (found,) = app.outbox.messages()
    return found.id


def _holds(folder: Path) -> bool:
    """Whether any file of the database has a part of the password in it."""
    held = b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file()).lower()
    parts = [form[at : at + 8].lower().encode() for form in FORMS for at in range(len(form) - 7)]
    return any(part in held for part in parts)


@pytest.mark.parametrize("form", range(len(FORMS)))
@pytest.mark.parametrize("kind", KINDS)
def test_password_that_a_server_quotes_is_kept_nowhere(
    app: duly.App, tmp_path: Path, kind: str, form: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither in what is known of the message, nor of its send, nor in a log."""
    serve, channel = KINDS[kind]
    with caplog.at_level(logging.INFO), closing(serve(FORMS[form])) as server:
        found = app.outbox.show(_send(app, channel(server.port)))
    assert found.evidence == "(not kept: it quotes a secret)"
    assert [each.evidence for each in found.deliveries] == [found.evidence]
    assert PASSWORD[4:12] not in caplog.text
    assert not _holds(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_server_says_is_kept_where_it_quotes_nothing(app: duly.App, kind: str) -> None:
    """Whoever mends it has to read it."""
    serve, channel = KINDS[kind]
    with closing(serve("hunting season is over")) as server:
        found = app.outbox.show(_send(app, channel(server.port)))
    assert found.evidence is not None
    assert "hunting season is over" in found.evidence.lower()


def test_class_of_an_answer_and_a_receivers_own_id_quote_no_secret_either(
    app: duly.App, tmp_path: Path
) -> None:
    """Redis's errors begin with a word of the server's choice."""
    server = Canned(b"+OK\r\n", b"+OK\r\n", b"+OK\r\n", f"-{PASSWORD.upper()} no\r\n".encode())
    with closing(server):
        url = f"redis://:{PASSWORD}@127.0.0.1:{server.port}/0"
        found = app.outbox.show(_send(app, RedisStream(url, "s")))
    assert found.answer == "not_kept"
    assert not _holds(tmp_path)


def test_own_channel_that_fails_with_a_secret_in_its_error_is_not_quoted(
    app: duly.App, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also on a later send, which did not read it, and in a lookup's error."""
    read: list[str] = []

    class Own:
        def send(self, _message: Any) -> Answer:
            if not read:
                read.append(SECRET.value())
                return Answer.not_sent("later", "password=abc")
            raise RuntimeError(f"the server said {read[0]}")

        def close(self) -> None:
            """Nothing is held."""

    def lookup(_message: Any) -> bool:
        raise RuntimeError(f"bad login {SECRET.value()}")

    with caplog.at_level(logging.INFO):
        quick = (timedelta(milliseconds=1), timedelta(milliseconds=2))
        message = _send(app, Own(), lookup=lookup, backoff=quick)
        while app.outbox.show(message).started < 2:
            app.deliver(once=True)
        assert app.outbox.show(message).evidence == "(not kept: it quotes a secret)"
        assert [each.evidence for each in app.outbox.show(message).deliveries] == [
            "password=***",
            "(not kept: it quotes a secret)",
        ]
    assert not _holds(tmp_path)
    assert PASSWORD not in caplog.text


def test_secret_that_one_destination_knows_hides_nothing_of_another(app: duly.App) -> None:
    """A short password may be any word."""
    word = Secret.call("vault", lambda: "closed")

    def knows(_message: Any) -> Answer:
        return Answer.not_sent("later", f"it is {word.value()}")

    message = _send(app, Call(knows))
    assert app.outbox.show(message).evidence == "(not kept: it quotes a secret)"
    app.destination("other", Call(lambda _: Answer.not_sent("later", "it is closed")))
    app.job("more")(lambda run: run.send("other", 1))
    app.run("more", at="2026-09-13T00:00:00Z")
    app.deliver(once=True)
    (other,) = app.outbox.messages(destination="other")
    assert other.evidence == "it is closed"
