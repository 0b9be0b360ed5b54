"""HTTP: one POST for each send, under the message's own id.

Decides what each ending of a request means: nothing left this host, the receiver answered, or
nobody knows. It follows no redirect, keeps no cookie, and retries nothing.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from duly._core.channel import Answer
from duly._core.redact import redact
from duly.channels.base import Secret, SecretInvalid, Unsent, ends_s, left_s
from duly.channels.http_forms import CloudEvents, signature
from duly.channels.http_request import checked_headers, is_sendable, merged, unfit
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from duly._core.channel import Message
    from duly._core.contract import Contract
    from duly.channels.wire import Wire

__all__ = ["CloudEvents", "Http"]

BODY_READ_MAX: Final = 65_536
SHOWN_MAX: Final = 300
IDLE_S: Final = 2.0
"""How long a connection is kept for the next request: a receiver that closes it just then would
leave a request in doubt."""
CONNECT_S: Final = 10.0
REST_S: Final = 2.0
"""How long the rest of a response is waited for: its status has decided already."""


class Http:
    """Posts each message to a URL.

    Args:
        url: Where to, or a function that says it of a message.
        method: `POST`, `PUT` or `PATCH`.
        headers: For every request; a value may be a `Secret`.
        signing: The secrets by which requests are signed as Standard Webhooks say, the newest
            first; each as they give it (`whsec_…`).
        cloudevents: Send each message as a CloudEvent.
        allow_private: Whether a receiver may be inside this network. By default it may where the
            URL is written in the code, and not where a function says it.
        verify: An `ssl.SSLContext`, in place of the usual trust.

    Raises:
        DestinationInvalid: The URL or the method is none.
    """

    def __init__(
        self,
        url: str | Callable[[Message], str],
        *,
        method: str = "POST",
        headers: Mapping[str, str | Secret] | None = None,
        signing: Secret | Sequence[Secret] = (),
        cloudevents: CloudEvents | None = None,
        allow_private: bool | None = None,
        verify: Any = None,
    ) -> None:
        if not callable(url) and (reason := unfit(url)) is not None:
            raise DestinationInvalid(reason)
        if method not in {"POST", "PUT", "PATCH"}:
            raise DestinationInvalid(f"method={method!r} is not sent: use POST, PUT or PATCH")
        self._url, self._method = url, method
        self._headers = checked_headers({} if headers is None else headers)
        self._signing = (signing,) if isinstance(signing, Secret) else tuple(signing)
        if not all(isinstance(each, Secret) for each in self._signing):
            raise DestinationInvalid(
                "signing= is not of Secrets: give Secret.env('NAME'), or several of them"
            )
        self._cloudevents = cloudevents
        if cloudevents is not None and cloudevents.mode == "structured" and self._types_content():
            raise DestinationInvalid(
                "a structured CloudEvent says its own Content-Type: leave that header out, or use"
                " mode='binary'"
            )
        self._allow_private = isinstance(url, str) if allow_private is None else allow_private
        self._verify = verify
        self._idle: list[tuple[Wire, Any]] = []

    def send(self, message: Message) -> Answer:
        """Post it once."""
        import httpx

        ends = ends_s(message)
        try:
            request = self._request(message)
            left_s(ends)
        except Unsent as unsent:
            return unsent.answer
        except (httpx.InvalidURL, ValueError, TypeError) as error:
            return Answer.refused("request_invalid", redact(_line(error)), final=True)
        except Exception as error:  # of the function that says the URL: nothing has left
            said = redact(f"{type(error).__name__}: {_line(error)}")
            return Answer.not_sent("request_failed", said)
        connection = self._idle.pop() if self._idle else self._connected()
        try:
            return self._sent(message, request, ends, *connection)
        finally:
            self._idle.append(connection)

    def _sent(
        self,
        message: Message,
        request: Any,
        ends: float,
        wire: Wire,
        pool: Any,
    ) -> Answer:
        import httpcore

        from duly.channels.wire import AddressForbidden

        wire.begin(ends)
        try:
            response = pool.handle_request(request)
        except AddressForbidden as forbidden:
            return Answer.refused("address_forbidden", str(forbidden), final=True)
        except (httpcore.UnsupportedProtocol, httpcore.LocalProtocolError) as error:
            return Answer.refused("request_invalid", redact(_line(error)), final=True)
        except Exception as error:
            said = redact(f"{type(error).__name__}: {_line(error)}")
            if not wire.wrote:
                return Answer.not_sent(_unsent(error), said)
            return Answer.ambiguous(_kind(error), said)
        wire.hurry(REST_S)
        return _answer(message.contract, response)

    def close(self) -> None:
        """Close every connection."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[1].close()

    def _connected(self) -> tuple[Wire, Any]:
        """A connection of one sender's own: no request waits for another's."""
        import ssl

        import httpcore

        from duly.channels.wire import Wire

        if self._verify is None:
            self._verify = ssl.create_default_context()
        wire = Wire(allow_private=self._allow_private)
        return wire, httpcore.ConnectionPool(
            ssl_context=self._verify,
            max_connections=1,
            keepalive_expiry=IDLE_S,
            retries=0,
            network_backend=wire,
        )

    def _request(self, message: Message) -> Any:
        """The request, as httpx encodes it."""
        import httpcore
        import httpx

        for name, value in message.headers.items():
            if not is_sendable(value):
                raise ValueError(
                    f"the header {name} is {value[:60]!r}, and HTTP carries ASCII without blanks"
                    " around it: encode it, or put it into the body"
                )
        formed, body = {"Content-Type": message.content_type}, message.body
        if self._cloudevents is not None:
            formed, body = self._cloudevents.formed(message)
        own = self._own(message, body)
        url = self._url if isinstance(self._url, str) else self._url(message)
        if (reason := unfit(url)) is not None:
            raise ValueError(reason)
        headers = merged(formed.items(), message.headers.items(), *own)
        made = httpx.Request(self._method, url, headers=headers, content=body)
        target = made.url
        return httpcore.Request(
            made.method.encode(),
            httpcore.URL(
                scheme=target.raw_scheme,
                host=target.raw_host,
                port=target.port,
                target=target.raw_path,
            ),
            headers=made.headers.raw,
            content=body,
            extensions={"timeout": {"connect": CONNECT_S}},
        )

    def _own(self, message: Message, body: bytes) -> Iterator[Iterable[tuple[str, str]]]:
        """The destination's headers, which replace a message's; and the id, which replaces all."""
        for name, given in self._headers.items():
            value = given.value() if isinstance(given, Secret) else given
            if isinstance(given, Secret) and not is_sendable(value):
                raise SecretInvalid(
                    f"the secret {given.name} has a line break, a blank at an end, or what is not"
                    " ASCII, which no header may have: mend it where the relay runs"
                )
            yield [(name, value)]
        contract = message.contract
        if contract.key_header is not None:
            quoted = contract.key_form == "quoted"
            yield [(contract.key_header, f'"{message.id}"' if quoted else message.id)]
        if self._signing:
            keys = [each.value() for each in self._signing]
            yield signature(message, body, keys).items()

    def _types_content(self) -> bool:
        return any(name.lower() == "content-type" for name in self._headers)


def _answer(contract: Contract, response: Any) -> Answer:
    """What a status means; the rest of the response is evidence, and bounded."""
    status = int(response.status)
    headers = {
        name.lower().decode("latin-1"): value.decode("latin-1") for name, value in response.headers
    }
    said = _read(response)
    shown = f"HTTP {status}" + (f": {said}" if said and not 200 <= status < 300 else "")
    evidence, kind = redact(shown), f"http_{status}"
    remote_id = headers.get("request-id") or headers.get("x-request-id")
    retry_after = _retry_after(headers)
    if 200 <= status < 300:
        return Answer.sent(kind, evidence, remote_id=remote_id)
    if status in contract.mismatch:
        return Answer.refused(kind, evidence, final=True, conflict=True)
    if status in contract.in_progress | contract.refusals | contract.undone:
        return Answer.refused(kind, evidence, final=False, retry_after=retry_after)
    if status in contract.stores:
        return Answer.ambiguous(kind, evidence, final=True)
    if 300 <= status < 400:
        where = headers.get("location", "nowhere")[:200]
        return Answer.refused(
            kind, f"HTTP {status}: redirects to {where} are not followed", final=True
        )
    if 400 <= status < 500:
        return Answer.refused(kind, evidence, final=True)
    return Answer.ambiguous(kind, evidence, retry_after=retry_after)


def _read(response: Any) -> str:
    """The beginning of the body. The status has come, so nothing here changes the answer."""
    parts: list[bytes] = []
    size = 0
    with suppress(Exception):
        for part in response.iter_stream():
            parts.append(part)
            size += len(part)
            if size > BODY_READ_MAX:
                break
    with suppress(Exception):
        response.close()
    return " ".join(b"".join(parts)[:SHOWN_MAX].decode("utf-8", "replace").split())


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Both forms of RFC 9110; what is neither is not there."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:12]), 10**9))
    try:
        at = parsedate_to_datetime(text)
        # By the receiver's own clock, where it tells it: the two may differ.
        now = parsedate_to_datetime(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(timedelta(0), _aware(at) - _aware(now))
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _aware(at: datetime) -> datetime:
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def _unsent(error: BaseException) -> str:
    """Why nothing left."""
    import ssl

    # httpcore drops the cause on its way out, and leaves the context.
    if any(isinstance(each, ssl.SSLError) for each in (error.__cause__, error.__context__)):
        return "tls_failed"
    name = type(error).__name__
    if name == "WriteTimeout":  # connected, and then its time was over
        return "too_late"
    return "connect_timeout" if "Timeout" in name else "connect_failed"


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    words = {
        "ReadTimeout": "read_timeout",
        "WriteTimeout": "write_timeout",
        "ReadError": "connection_lost",
        "WriteError": "connection_lost",
        "RemoteProtocolError": "protocol_error",
    }
    return words.get(name, name)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
