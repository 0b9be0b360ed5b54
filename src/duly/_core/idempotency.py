"""HTTP idempotency without HTTP: the key, the request's fingerprint, what of an answer is kept.

Decides which two requests are one (`FINGERPRINT_VERSION`), how a key is spelt, what of an
application is an answer, and which headers a replay leaves out. It never sees a framework, a socket
or a clock.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from duly._core.instants import US_MAX
from duly._core.payload import SURROGATE, from_text
from duly._core.wording import shown
from duly.errors import IncomingInvalid, PayloadInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FINGERPRINT_VERSION: Final = 1
KEY_MAX: Final = 255
SCOPE_MAX: Final = 200

_STATUS: Final = re.compile(r"[2-9][0-9]{2}(?: .*)?")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00\r\n\u0100-\U0010ffff]*")
_BARE: Final = re.compile(r"[\x21-\x7e]+")
_QUOTED: Final = re.compile(r'"((?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_JSON: Final = re.compile(r"(?:application|text)/(?:[\w.!#$&^+-]+\+)?json")
_BOUNDARY: Final = re.compile(r';\s*boundary=(?:"([^"]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)

# Of the answer to one request, and of no other: a replay must not renew a session or claim to be
# of now, and hop-by-hop headers belong to one connection.
NOT_KEPT: Final = frozenset(
    {
        "set-cookie", "date", "age", "server",
        "www-authenticate", "proxy-authenticate", "authentication-info",
        "proxy-authentication-info", "authorization",
        "connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip

Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request under an idempotency key.

    Attributes:
        scope: Whose key it is: tenant or principal.
        key: As the client chose it, unquoted.
        fingerprint: The version's byte, then a SHA-256.
        life_us: How long its answer is replayed, in microseconds.
    """

    scope: str
    key: str
    fingerprint: bytes
    life_us: int

    @property
    def nominal_us(self) -> int:
        """Younger than every horizon: no prune deletes its row."""
        return US_MAX


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application answered."""

    status: int
    headers: Headers
    body: bytes

    @property
    def stored_headers(self) -> Headers:
        """Those that a replay repeats."""
        return [(name, value) for name, value in self.headers if name.lower() not in NOT_KEPT]


def read_key(values: Sequence[str]) -> str | None:
    """The key of the `Idempotency-Key` header's *values*, bare or quoted; None if there is none.

    Raises:
        IncomingInvalid: It is given twice, empty, too long, or of characters that no key has.
    """
    if not values:
        return None
    if len(values) > 1:
        raise IncomingInvalid("the header Idempotency-Key is given more than once: send one")
    text = values[0].strip(" \t")
    if quoted := _QUOTED.fullmatch(text):
        key = re.sub(r'\\(["\\])', r"\1", quoted[1])
    elif _BARE.fullmatch(text) and '"' not in text:
        key = text
    else:
        raise IncomingInvalid(
            f"the header Idempotency-Key is malformed ({shown(text)}): send visible ASCII, bare or"
            ' as a quoted string, such as "8e03978e-40d5-43dd-bc93-6894a57f9324"'
        )
    if not key.strip() or len(key) > KEY_MAX:
        raise IncomingInvalid(
            f"the header Idempotency-Key has {len(key)} characters: send 1 to {KEY_MAX}, such as a"
            " UUID"
        )
    return key


def check_scope(scope: object) -> str:
    """The scope that the application's function found, if it can be one.

    Raises:
        UsageError: It is no text, empty, too long, or what not every database can hold.
    """
    if not isinstance(scope, str) or not 0 < len(scope) <= SCOPE_MAX:
        raise UsageError(
            f"the scope of an idempotency key is text of 1 to {SCOPE_MAX} characters, not"
            f" {shown(scope)}: return the tenant or principal of the request"
        )
    if "\0" in scope or SURROGATE.search(scope):
        raise UsageError(
            f"the scope of an idempotency key {shown(scope)} has a NUL or half of a surrogate pair:"
            " decode the tenant or principal of the request properly"
        )
    return scope


def answer_of(status: object, headers: Iterable[Any], parts: Iterable[Any]) -> Answer:
    """What an application said, if it is an answer that any server can send and send again.

    Args:
        status: A number (ASGI), or a line such as `200 OK` (WSGI).
        headers: Pairs of text or bytes.
        parts: Of the body.

    Raises:
        UsageError: It is none. Stored, it would fail again for each request under its key.
    """
    code = status
    if isinstance(status, str):
        code = int(status[:3]) if _STATUS.fullmatch(status) else None
    if isinstance(code, bool) or not isinstance(code, int) or not 200 <= code <= 999:
        raise _no_answer(f"the status {shown(status)}", 'a final one, such as "200 OK" or 200')
    kept: Headers = []
    for header in headers:
        try:
            name, value = (_text(each) for each in header)
        except (TypeError, ValueError):
            raise _no_answer("a header that is no pair", "a name and a value for each") from None
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _no_answer(
                f"the header {shown(name)}, which HTTP cannot carry",
                "a name of letters, digits and hyphens, and a value of Latin-1 without line breaks",
            )
        kept.append((name, value))
    body = list(parts)
    for part in body:
        if not isinstance(part, bytes | bytearray | memoryview):
            raise _no_answer(f"a body of {shown(part)}", "bytes")
    return Answer(code, kept, b"".join(body))


def _text(given: object) -> str:
    return given.decode("latin-1") if isinstance(given, bytes) else str(given)


def _no_answer(said: str, instead: str) -> UsageError:
    return UsageError(
        f"the application answered with {said}, so its work was rolled back: let it give {instead}"
    )


def fingerprint(method: str, path: str, query: str, content_type: str, body: bytes) -> bytes:
    """What makes two requests the same one, as a version's byte and a SHA-256.

    Method, path, query, media type and body. JSON counts by its values (key order, blanks and
    the spelling of numbers do not), multipart by its parts (the boundary does not).
    """
    media_type = content_type.partition(";")[0].strip().lower()
    parts = (
        method.upper().encode("utf-8", "surrogatepass"),
        path.encode("utf-8", "surrogatepass"),
        query.encode("utf-8", "surrogatepass"),
        media_type.encode("utf-8", "surrogatepass"),
        _said(media_type, content_type, body),
    )
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return bytes([FINGERPRINT_VERSION]) + digest.digest()


def _said(media_type: str, content_type: str, body: bytes) -> bytes:
    """The body in the one form in which two are compared."""
    if _JSON.fullmatch(media_type) and body:
        try:
            return from_text(body).canonical
        except PayloadInvalid:
            return body  # not JSON after all, too large, or of numbers that do not survive
    if media_type.startswith("multipart/") and (found := _BOUNDARY.search(content_type)):
        boundary = (found[1] or found[2]).encode("latin-1", "replace")
        return re.sub(rb"(^|\r\n)--" + re.escape(boundary), rb"\1--", body)
    return body
