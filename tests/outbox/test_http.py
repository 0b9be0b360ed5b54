"""The HTTP channel against a real receiver: what each ending of a request means."""

from __future__ import annotations

import base64
import hashlib
import hmac
import html
import json
import socket
import ssl
import threading
import time
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from duly._core.destination import Destination
from duly._sync.telling import carried
from duly.channels import Answer, Call, CloudEvents, Contract, Http, Message, Secret, Verdict
from duly.channels.wire import is_public
from duly.errors import DestinationInvalid
from tests.outbox.peer import Does

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.outbox.peer import Peer

ID = "7af7a7c1-10bf-8841-ac07-e614cfd10296"
AT = datetime(2026, 9, 13, 1, 2, 3, tzinfo=UTC)


def message(**changed: Any) -> Message:
    given: dict[str, Any] = {
        "id": ID,
        "destination": "pay",
        "body": b'{"n":1}',
        "content_type": "application/json",
        "headers": {},
        "occurrence_key": "bill:2026-09-13T00:00:00Z",
        "name": None,
        "key": None,
        "generation": 1,
        "ordering_key": None,
        "created_at": AT,
        "number": 1,
        "started_at": AT + timedelta(hours=1),
        "timeout": timedelta(seconds=5),
        "contract": Contract(),
    }
    return Message(**given | changed)


def sent(channel: Http | Call, **changed: Any) -> Answer:
    """As a relay has it."""
    try:
        return carried(Destination(name="pay", channel=channel), message(**changed))
    finally:
        channel.close()


@pytest.mark.parametrize(
    ("status", "verdict", "final"),
    [
        (200, "sent", False),
        (202, "sent", False),
        (204, "sent", False),
        (301, "refused", True),
        (400, "refused", True),
        (401, "refused", True),
        (404, "refused", True),
        (408, "refused", False),
        (409, "refused", True),
        (422, "refused", True),
        (425, "refused", False),
        (429, "refused", False),
        (500, "ambiguous", False),
        (502, "ambiguous", False),
        (503, "refused", False),
        (504, "ambiguous", False),
    ],
)
def test_status_decides(peer: Peer, status: int, verdict: str, final: bool) -> None:
    peer.behaviours.append(Does(status=status, body=b"" if status == 204 else b"why\nnot"))
    answer = sent(Http(peer.url))
    assert (answer.verdict, answer.kind, answer.final) == (verdict, f"http_{status}", final)
    if not 200 <= status < 400:
        assert answer.evidence == f"HTTP {status}: why not"


@pytest.mark.parametrize(
    ("contract", "status", "verdict", "final", "conflict"),
    [
        (Contract.stripe_like(), 500, Verdict.AMBIGUOUS, True, False),
        (Contract.stripe_like(), 409, Verdict.REFUSED, False, False),
        (Contract.idempotency_key(key_life=timedelta(days=1)), 422, Verdict.REFUSED, True, True),
        (Contract(undone=frozenset({500})), 500, Verdict.REFUSED, False, False),
    ],
)
def test_contract_says_what_a_status_means(
    peer: Peer, contract: Contract, status: int, verdict: Verdict, final: bool, conflict: bool
) -> None:
    peer.behaviours.append(Does(status=status))
    answer = sent(Http(peer.url), contract=contract)
    assert (answer.verdict, answer.final, answer.conflict) == (verdict, final, conflict)


@pytest.mark.parametrize(
    ("contract", "value"),
    [
        (Contract(), ID),
        (Contract.idempotency_key(key_life=timedelta(days=1)), f'"{ID}"'),
        (Contract(key_header=None), None),
    ],
)
def test_m12_key_on_the_wire_is_the_messages_own_on_every_send(
    peer: Peer, contract: Contract, value: str | None
) -> None:
    """M12: no client's own retry can replace it, and it is bare or quoted as the receiver wants."""
    peer.behaviours += [Does(status=503), Does(status=None), Does()]
    channel = Http(peer.url)
    for number in (1, 2, 3):
        channel.send(message(number=number, contract=contract))
    channel.close()
    assert [each.headers.get("idempotency-key") for each in peer.seen] == [value] * 3


def test_m12_nothing_is_retried_or_followed(peer: Peer) -> None:
    """M12: one send is one request, whatever comes back."""
    peer.behaviours += [
        Does(status=307, headers={"Location": peer.url}),
        Does(status=None),
        Does(status=503),
    ]
    for _ in range(3):
        sent(Http(peer.url))
    assert len(peer.seen) == 3


def test_refused_connection_is_surely_not_sent() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
    answer = sent(Http(f"http://127.0.0.1:{port}/"))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "connect_failed")


def test_name_that_cannot_be_resolved_is_surely_not_sent() -> None:
    answer = sent(Http("http://nowhere.invalid/"))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "connect_failed")


def test_tls_that_fails_is_surely_not_sent() -> None:
    """The peer speaks no TLS; no byte of a request left."""

    def greet() -> None:
        caller, _ = server.accept()
        with caller:
            caller.sendall(b"220 this is another protocol\r\n")
            heard.append(caller.recv(65_536))

    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=greet)
        thread.start()
        answer = sent(Http(f"https://127.0.0.1:{server.getsockname()[1]}/"))
        thread.join(20)
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "tls_failed")
    assert b"POST" not in heard[0]


@pytest.mark.parametrize(
    ("does", "kind"),
    [
        (Does(status=None), "protocol_error"),
        (Does(half=True), "protocol_error"),
        (Does(after_s=30), "read_timeout"),
    ],
    ids=["closed", "half", "slow"],
)
def test_ending_after_the_body_left_is_ambiguous(peer: Peer, does: Does, kind: str) -> None:
    peer.behaviours.append(does)
    answer = sent(Http(peer.url), timeout=timedelta(seconds=0.5))
    assert (answer.verdict, answer.kind) == (Verdict.AMBIGUOUS, kind)
    assert len(peer.seen) == 1


def test_endless_body_does_not_change_what_the_status_said(peer: Peer) -> None:
    peer.behaviours.append(Does(drip=True))
    assert sent(Http(peer.url), timeout=timedelta(seconds=0.5)).verdict is Verdict.SENT


def test_response_that_drips_ends_with_the_time_of_the_whole_request() -> None:
    """A byte now and then outwits a timeout of each read; whoever waited on would hear 200."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        over = threading.Event()

        def drip() -> None:
            connection, _ = listener.accept()
            with closing(connection), suppress(OSError):
                connection.recv(65536)
                for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
                    connection.sendall(bytes([byte]))
                    if over.wait(0.2):
                        return

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        context = ssl.create_default_context()  # takes its time, and none of the request's
        answer = sent(Http(url, verify=context), timeout=timedelta(seconds=2))
        over.set()
        thread.join()
    assert (answer.verdict, answer.kind) == (Verdict.AMBIGUOUS, "read_timeout")


DATE = format_datetime(AT, usegmt=True)
LATER = format_datetime(AT + timedelta(hours=1), usegmt=True)
EARLIER = format_datetime(AT - timedelta(hours=1), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": "0"}, 0),
        (
            {"Date": DATE, "Retry-After": format_datetime(AT + timedelta(hours=1), usegmt=True)},
            3600,
        ),
        ({"Date": DATE, "Retry-After": EARLIER}, 0),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 400}, 10**9),
        ({"Retry-After": "Fri, 99 Foo 99999 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_both_forms(
    peer: Peer, headers: dict[str, str], seconds: int | None
) -> None:
    peer.behaviours.append(Does(status=429, headers=headers))
    found = sent(Http(peer.url)).retry_after
    assert found == (None if seconds is None else timedelta(seconds=seconds))


def test_secret_is_read_for_each_send_and_missing_it_sends_nothing(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the request, and nowhere else; a receiver that shows it is not quoted."""
    channel = Http(peer.url, headers={"Authorization": Secret.env("DULY_TEST_TOKEN")})
    missing = sent(channel)
    assert (missing.verdict, missing.kind) == (Verdict.NOT_SENT, "secret_missing")
    assert "DULY_TEST_TOKEN" in missing.evidence
    assert peer.seen == []
    monkeypatch.setenv("DULY_TEST_TOKEN", "tok-12345")
    peer.behaviours.append(Does(status=400, body=b"bad tok-12345"))
    answer = sent(channel)
    assert peer.seen[0].headers["authorization"] == "tok-12345"
    assert answer.evidence == "(not kept: it quotes a secret)"


TOKEN = 's3cr3t/TOK"EN+val=ue&xyz'


@pytest.mark.parametrize(
    "said",
    [
        TOKEN,
        TOKEN.upper(),
        TOKEN[3:18],
        json.dumps({"bad": TOKEN}),
        TOKEN.replace("/", "\\u002f"),
        quote(TOKEN, safe=""),
        quote(quote(TOKEN, safe=""), safe=""),
        html.escape(TOKEN),
        TOKEN[:6] + "\r\n " + TOKEN[6:],
        base64.b64encode(b"Bearer " + TOKEN.encode()).decode(),
        base64.b64encode(b"x:" + TOKEN.encode() + b":y").decode(),
        TOKEN.encode().hex(),
    ],
)
def test_no_form_of_a_secret_that_a_receiver_quotes_is_kept(peer: Peer, said: str) -> None:
    """Neither of what it says nor of what it calls the message."""
    peer.behaviours.append(Does(status=400, body=f"bad: {said}".encode()))
    secret = Secret.call("vault", lambda: f"Bearer {TOKEN}\n")
    channel = Http(peer.url, headers={"Authorization": secret})
    assert sent(channel).evidence == "(not kept: it quotes a secret)"
    peer.behaviours.append(Does(headers={"Request-Id": TOKEN}))
    answer = sent(channel, id=ID[::-1])
    assert (answer.evidence, answer.remote_id) == ("HTTP 200", None)
    assert peer.seen[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_request_whose_time_ended_with_a_slow_secret_or_url_is_not_begun(peer: Peer) -> None:
    """Its lease may be over, and another relay may be sending it."""
    ends = time.monotonic() + 0.2

    def slow(*_: object) -> str:
        while time.monotonic() < ends:
            time.sleep(0.01)
        return peer.url

    secret = Http(peer.url, headers={"Authorization": Secret.call("vault", slow)})
    late = [sent(each, ends_s=ends) for each in (secret, Http(slow))]
    kept = Http(peer.url)
    assert kept.send(message()).verdict is Verdict.SENT
    late.append(sent(kept, ends_s=time.monotonic()))
    assert {(each.verdict, each.kind) for each in late} == {(Verdict.NOT_SENT, "too_late")}
    assert len(peer.seen) == 1


@pytest.mark.parametrize("value", ["tok-1\nInjected: 1", "tok-1\0", "tok-1é", b"tok-1", 17])
def test_secret_that_no_header_may_have_is_not_shown_and_sends_nothing(
    peer: Peer, value: Any
) -> None:
    """It is mended where the relay runs, so the message waits for that."""
    answer = sent(Http(peer.url, headers={"Authorization": Secret.call("vault", lambda: value)}))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "secret_invalid")
    assert "vault" in answer.evidence
    assert "tok-1" not in answer.evidence
    assert peer.seen == []


def test_header_of_a_message_that_http_cannot_carry_is_named(peer: Peer) -> None:
    answer = sent(Http(peer.url), headers={"X-A": "é"})
    assert (answer.kind, answer.final) == ("request_invalid", True)
    assert "the header X-A is 'é'" in answer.evidence
    assert peer.seen == []


def test_header_goes_out_once_and_the_destinations_replaces_the_messages() -> None:
    """Whatever the case of its name; and the id replaces them all."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        heard: list[bytes] = []

        def hear() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                heard.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=hear)
        thread.start()
        channel = Http(
            f"http://127.0.0.1:{listener.getsockname()[1]}/",
            headers={"content-TYPE": "application/vnd.api+json", "x-request-id": "mine"},
        )
        answer = sent(
            channel,
            headers={"X-Request-ID": "theirs", "accept": "text/x"},
            contract=Contract(key_header="X-REQUEST-id"),
        )
        thread.join()
    assert answer.verdict is Verdict.SENT
    lines = [line.split(": ") for line in heard[0].decode().split("\r\n\r\n")[0].split("\r\n")[1:]]
    names = [name.lower() for name, _ in lines]
    found = {name.lower(): value for name, value in lines}
    assert len(names) == len(found)
    assert found["content-type"] == "application/vnd.api+json"
    assert (found["accept"], found["x-request-id"]) == ("text/x", ID)


def test_function_that_cannot_say_the_url_has_sent_nothing(peer: Peer) -> None:
    """Nobody has to decide about a doubt that there is not."""

    def lost(found: Message) -> str:
        raise LookupError(found.id)

    answer = sent(Http(lost))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "request_failed")


def test_signature_is_the_one_of_standard_webhooks(peer: Peer, tmp_path: Path) -> None:
    """The id stays, the timestamp is of the send, and the newest secret signs first."""
    keys = [base64.b64encode(b"new" * 8).decode(), base64.b64encode(b"old" * 8).decode()]
    files = []
    for number, key in enumerate(keys):
        (tmp_path / str(number)).write_text(f"whsec_{key}\n")
        files.append(Secret.file(tmp_path / str(number)))
    sent(Http(peer.url, signing=files))
    headers, body = peer.seen[0].headers, peer.seen[0].body
    at = str(int((AT + timedelta(hours=1)).timestamp()))
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (ID, at)
    signed = f"{ID}.{at}.".encode() + body
    expected = [
        "v1," + base64.b64encode(hmac.new(secret, signed, hashlib.sha256).digest()).decode()
        for secret in (b"new" * 8, b"old" * 8)
    ]
    assert headers["webhook-signature"] == " ".join(expected)
    bad = sent(Http(peer.url, signing=Secret.call("vault", lambda: "not base64!")))
    assert bad.kind == "secret_missing"


def test_cloudevents_in_both_modes_have_the_messages_id(peer: Peer) -> None:
    event: dict[str, Any] = {"source": "/billing/é", "type": "com.example.invoice"}
    sent(Http(peer.url, cloudevents=CloudEvents(**event)))
    sent(Http(peer.url, cloudevents=CloudEvents(**event, mode="structured")))
    sent(
        Http(peer.url, cloudevents=CloudEvents(**event, mode="structured")),
        body=b"\x00\x01",
        content_type="application/octet-stream",
    )
    binary, structured, raw = peer.seen
    assert binary.headers["ce-id"] == ID
    assert binary.headers["ce-specversion"] == "1.0"
    assert binary.headers["ce-source"] == "/billing/%C3%A9"
    assert binary.headers["ce-time"] == "2026-09-13T01:02:03Z"
    assert binary.body == b'{"n":1}'
    found = json.loads(structured.body)
    assert structured.headers["content-type"] == "application/cloudevents+json"
    assert (found["id"], found["source"], found["data"]) == (ID, "/billing/é", {"n": 1})
    assert json.loads(raw.body)["data_base64"] == "AAE="


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "169.254.169.254",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fec0::1]",
    ],
)
def test_private_address_is_refused_where_the_url_is_data(peer: Peer, address: str) -> None:
    """A URL that a customer gave must not reach what only this network reaches."""
    channel = Http(lambda found: f"http://{address}:{peer.port}/hook")
    answer = sent(channel)
    assert (answer.verdict, answer.kind, answer.final) == (
        Verdict.REFUSED,
        "address_forbidden",
        True,
    )
    assert peer.seen == []


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("0.1.2.3", False),
        # Of private networks, which no file of the repository names.
        *((str(IPv4Address(at)), False) for at in (0x0A010203, 0xAC1F0001, 0xC0A80001)),
        ("100.100.100.200", False),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("192.0.0.192", False),
        ("192.88.99.1", False),
        ("198.18.0.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("2606:4700::1111", True),
        ("2a00:1450:4001::1%eth0", True),
        ("::", False),
        ("::1", False),
        ("fc00::1", False),
        ("fd12::1", False),
        ("fe80::1%eth0", False),
        ("fec0::1", False),
        ("feff::1", False),
        ("ff02::1", False),
        ("ff0e::1", False),
        ("100::1", False),
        ("2001:db8::1", False),
        ("3fff::1", False),
        ("4000::1", False),
        ("5f00::1", False),
        # An IPv4 address within: mapped, NAT64, translated, compatible, 6to4.
        *((f"{before}{within}", public) for before in ("::ffff:", "64:ff9b::", "::ffff:0:", "::")
          for within, public in (
              ("8.8.8.8", True), ("a00:1", False), ("127.0.0.1", False),
              ("169.254.169.254", False), ("224.0.0.1", False),
          )),
        ("2002:808:808::1", True),
        ("2002:a00:1::808:808", False),
        ("2002:a9fe:a9fe::", False),
        # Where the address within is, only the network itself knows; and Teredo, dead and buried.
        ("64:ff9b:1::808:808", False),
        ("64:ff9b:1:a9fe:a9:fe00::", False),
        ("2001:0:808:808::f7f7:f7f7", False),
        ("2001:0:808:808::f5ff:fffe", False),
    ],
)  # fmt: skip
def test_address_is_public_by_what_a_packet_to_it_reaches(address: str, public: bool) -> None:
    """By the same table on every Python, whatever its `ipaddress` has learned since."""
    assert is_public(address) is public


def test_private_address_is_allowed_by_opting_out(peer: Peer) -> None:
    assert sent(Http(lambda found: peer.url, allow_private=True)).verdict is Verdict.SENT
    assert sent(Http(peer.url, allow_private=False)).kind == "address_forbidden"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Http("http://example.org/", method="GET"),
        lambda: CloudEvents(source="", type="x"),
        lambda: Call(_awaited),
        lambda: Http("http://example.org/", signing="whsec_s3cret"),  # type: ignore[arg-type]
        lambda: Http(
            "http://example.org/",
            headers={"content-type": "text/x"},
            cloudevents=CloudEvents(source="/x", type="x", mode="structured"),
        ),
    ],
)
def test_channel_that_makes_no_sense_is_refused_when_it_is_made(wrong: Callable[[], Any]) -> None:
    with pytest.raises(DestinationInvalid) as refused:
        wrong()
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "s3cret\r\nInjected: 1"},
        {"X-A": "é"},
        {"X-A": " s3cret"},
        {"X-A": "s3cret\t"},
        {"X-A": 7},
        {"X-A": b"s3cret"},
        {"X-A": "1", "x-a": "2"},
        {"": "x"},
        {"X A": "x"},
        {"X-A:": "x"},
        {"X-A\n": "x"},
        {7: "x"},
        ["X-A"],
        *({name: "1"} for name in ("Content-Length", "host", "Transfer-encoding", "CONNECTION")),
        *({name: "1"} for name in ("Keep-Alive", "te", "Trailer", "Upgrade", "Expect")),
        *({name: "1"} for name in ("Idempotency-Key", "webhook-id", "CE-id")),
        {"Host": Secret.call("vault", lambda: "x")},
    ],
)
def test_header_that_no_request_can_have_is_refused_when_it_is_made(headers: Any) -> None:
    """One line, which does not show a value that may be a secret."""
    with pytest.raises(DestinationInvalid) as refused:
        Http("http://example.org/", headers=headers)
    assert "s3cret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "example.org",
        "",
        7,
        None,
        "http://",
        "http:///hook",
        "http://:80/",
        "http://?x",
        "http://example.org/a b",
        "http://example.org/a\r\nInjected: 1",
        "http://example.org/\x7f",
        "http://example.org/\u2028x",
        " http://example.org/",
        "http://example.org/\n",
        "http://example.org\\hook",
        "http://exam ple.org/",
        "http://exa%20mple.org/",
        "http://example..org/",
        f"http://{'a' * 64}.org/",
        "http://example.org:x/",
        "http://example.org:0/",
        "http://example.org:65536/",
        "http://example.org:-1/",
        "http://[::1/",
        "http://ann:s3cret@example.org/",
        "http://s3cret@example.org/",
        "http://ann:s3cret@",
        "http://ann:s3cret/x@example.org:99999/",
        "postgresql://ann:s3cret@example.org/",
        "ann:s3cret@example.org",
    ],
)
def test_url_that_no_request_can_go_to_is_refused_when_it_is_made(url: Any) -> None:
    """In one line, without what may be a password; and for good where a function says it."""
    with pytest.raises(DestinationInvalid) as refused:
        Http(url)
    told = str(refused.value)
    assert "s3cret" not in told
    assert "\n" not in told
    assert ": " in told
    answer = sent(Http(lambda found: url, allow_private=True))
    assert (answer.kind, answer.final, answer.evidence) == ("request_invalid", True, told)


@pytest.mark.parametrize(
    "url",
    [
        "HTTP://example.org",
        "https://example.org:8443/a@b?c=d@e#f",
        "http://[::1]:80/",
        "http://127.0.0.1:/",
        "https://bücher.example/süß",
        "http://my_host-1.",
        "http://example.org/%20?q=%0A",
    ],
)
def test_url_that_a_request_can_go_to_is_taken(url: str) -> None:
    Http(url).close()


async def _awaited(message: Message) -> None:
    raise AssertionError("nobody awaits it")


def test_coroutine_that_nobody_awaits_was_surely_not_sent() -> None:
    """A plain function around a coroutine is seen when it is called; nothing of it ran."""

    def forgets(message: Message) -> Any:
        return _awaited(message)

    answer = sent(Call(forgets))
    assert (answer.verdict, answer.kind) == (Verdict.NOT_SENT, "not_awaited")


def test_connection_is_used_again_by_one_sender_at_a_time(peer: Peer) -> None:
    channel = Http(peer.url, verify=ssl.create_default_context())
    assert [channel.send(message()).verdict for _ in range(3)] == [Verdict.SENT] * 3
    channel.close()
    assert channel.send(message()).verdict is Verdict.SENT
    channel.close()
