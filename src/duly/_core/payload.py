"""Payloads and results: canonical JSON (RFC 8785) and the SHA-256 that two attempts compare.

Decides which values are JSON, which two values are one payload, and what a refusal says.
Must never change a value to make it fit: no Unicode normalisation, no rounding, no text in
place of a number. What would not come back as it went in is refused (PROTOCOL 29).
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import rfc8785

from duly._core.wording import shown
from duly.errors import MessageInvalid, PayloadInvalid, ResultInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DEPTH_MAX",
    "INTEGER_MAX",
    "PAYLOAD_BYTES_MAX",
    "Payload",
    "body_json",
    "canonical",
    "from_text",
    "result_json",
]

# Bytes of UTF-8, of the canonical text; the same bound holds for a payload and for a result.
PAYLOAD_BYTES_MAX: Final = 65_536

# Lists and objects inside each other; a value nested deeper is a bug far more often than data.
DEPTH_MAX: Final = 100

# The last integer whose double has no neighbour that rounds to it (RFC 8785, appendix D).
INTEGER_MAX: Final = 2**53 - 1

PLAIN_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SURROGATE: Final = re.compile("[\ud800-\udfff]")

# Canonical text is read as it stands: it has no white space, and no encoding to be guessed.
_PARSER: Final = json.JSONDecoder()

# A JSON value as Python has it: None, bool, int, float, str, list or dict, inside each other.
# Not spelled out as a union, which would make every use of a payload narrow it first.
Json: TypeAlias = Any

Refusal: TypeAlias = "PayloadInvalid | ResultInvalid | MessageInvalid"

# The next step for types that people do pass, by name, so that nothing is imported for a hint.
REMEDIES: Final = {
    "Decimal": "give it as a string",
    "UUID": "give it as a string",
    "Fraction": "give it as a string",
    "datetime": "give it as a string, such as .isoformat()",
    "date": "give it as a string, such as .isoformat()",
    "time": "give it as a string, such as .isoformat()",
    "timedelta": "give it as a number of seconds",
    "bytes": "give it as a string, such as its base64",
    "bytearray": "give it as a string, such as its base64",
    "memoryview": "give it as a string, such as its base64",
    "set": "give it as a sorted list",
    "frozenset": "give it as a sorted list",
    "complex": "give it as a list of two numbers",
}


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload in its one canonical form.

    Attributes:
        canonical: The canonical JSON text (RFC 8785), as UTF-8 bytes.
        fingerprint: The SHA-256 of *canonical*, 32 bytes; equal means the same payload.
    """

    canonical: bytes
    fingerprint: bytes

    @property
    def text(self) -> str:
        """The canonical JSON text."""
        return self.canonical.decode()

    @property
    def value(self) -> Json:
        """What a handler receives: parsed from the canonical bytes, a fresh value each time.

        So `10.0` arrives as `10` and a tuple as a list, in the first attempt as in a retry.
        """
        value, _end = _PARSER.raw_decode(self.text)
        return value


def canonical(value: object) -> Payload:
    """The payload of a Python value; `None` is JSON null.

    Args:
        value: A dict with text keys, a list, a tuple, text, an int, a float, a bool or None,
            inside each other at most 100 deep and 65,536 bytes in canonical UTF-8.

    Raises:
        PayloadInvalid: Anything else, an integer beyond 2^53 - 1, NaN, an infinity, half a
            surrogate pair or a cycle; the message names the place and the next step.
    """
    if value is None:
        return _NULL
    return _payload(_Reader("payload", PayloadInvalid).canonical(value))


def from_text(text: str | bytes) -> Payload:
    """The payload of JSON text (RFC 8259), as given on a command line or in a file.

    Args:
        text: JSON as text or as UTF-8 bytes, without a byte order mark.

    Raises:
        PayloadInvalid: The text is not JSON, repeats a name within an object, has a number
            that a double cannot carry exactly or an integer beyond 2^53 - 1 in any spelling,
            or breaks a bound of `canonical`.
    """
    return _payload(_Reader("payload", PayloadInvalid).canonical(_parsed(text)))


def result_json(value: object) -> str | None:
    """The canonical JSON text of a handler's result, at most 65,536 bytes; None for None.

    Raises:
        ResultInvalid: The value breaks a rule or bound of `canonical`.
    """
    if value is None:
        return None
    return _Reader("result", ResultInvalid).canonical(value).decode()


def body_json(value: object, *, most: int) -> bytes:
    """The canonical JSON of a message's body, at most *most* bytes.

    Raises:
        MessageInvalid: The value breaks a rule or bound of `canonical`.
    """
    return _Reader("body", MessageInvalid, most).canonical(value)


def stored(fingerprint: bytes) -> bytes:
    """A fingerprint as its row holds it: empty for JSON null, which most jobs' payload is."""
    return b"" if fingerprint == _NULL.fingerprint else fingerprint


def of_stored(found: bytes | bytearray | memoryview | None) -> bytes | None:
    """The fingerprint that a row holds; MariaDB fills up an empty one with zeros."""
    if found is None:
        return None
    return bytes(found) if any(found) else _NULL.fingerprint


def _payload(text: bytes) -> Payload:
    return Payload(text, hashlib.sha256(text).digest())


_NULL: Final = _payload(b"null")


class _Pairs(list[tuple[str, object]]):
    """The members of a JSON object as they stand in the text, before names are compared."""


class _Number(str):
    """The text of a JSON number, kept until it is known to survive as a double."""

    __slots__ = ()


class _Constant(str):
    """`NaN`, `Infinity` or `-Infinity`, which Python's reader takes and JSON does not have."""

    __slots__ = ()


def _parsed(text: str | bytes) -> object:
    """The value tree of JSON text, its numbers and objects still as written.

    Raises:
        PayloadInvalid: The text is not JSON at all.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise PayloadInvalid(
                f"payload text is not UTF-8 at byte {error.start}; save it as UTF-8"
            ) from None
    elif not _is_text(text):
        raise PayloadInvalid(f"payload text must be text, not {shown(text)}; give JSON text")
    if text.startswith("\ufeff"):
        raise PayloadInvalid(
            "payload text starts with a byte order mark; save it as UTF-8 without one"
        )
    try:
        return json.loads(
            text,
            object_pairs_hook=_Pairs,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Constant,
        )
    except json.JSONDecodeError as error:
        near = shown(text[error.pos : error.pos + 20])
        raise PayloadInvalid(
            f"payload text is not JSON at line {error.lineno}, column {error.colno}, near {near}: "
            f'{error.msg.lower()}; give JSON such as {{"units": 10}}'
        ) from None
    except RecursionError:
        raise PayloadInvalid(
            f"payload text is nested more than {DEPTH_MAX} deep; flatten it"
        ) from None


def _is_text(text: object) -> bool:
    return isinstance(text, str)


class _Reader:
    """Reads one value once, from the root down, and keeps the path for the message."""

    def __init__(self, root: str, error: type[Refusal], most: int = PAYLOAD_BYTES_MAX) -> None:
        self.root = root
        self.error = error
        self.most = most
        self.path: list[str] = []
        self.inside: set[int] = set()
        self.left = most

    def canonical(self, value: object) -> bytes:
        """The canonical bytes of *value*, or the one error that says why there are none."""
        text = rfc8785.dumps(self.read(value))
        if len(text) > self.most:
            raise self.too_large()
        return text

    def read(self, value: object) -> Json:
        """A copy of *value* in plain dicts, lists and scalars, every part checked."""
        # Each value takes a byte at least, so a small graph of shared lists that would unfold
        # to millions of elements ends here and not in memory.
        self.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, _Constant):
            raise self.refusal(f"is {value}, which JSON does not have", "give null or a string")
        if isinstance(value, _Number):
            return self.number_text(value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, float):
            return self.double(value)
        if isinstance(value, (dict, list, tuple)):
            return self.nested(value)
        name = type(value).__name__
        raise self.refusal(
            f"is of type {name}, which JSON does not have",
            REMEDIES.get(name, "give it as a dict, list, string or number"),
        )

    def nested(self, value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> Json:
        if id(value) in self.inside:
            raise self.refusal("contains itself", "break the cycle, or send an id in its place")
        if len(self.inside) >= DEPTH_MAX:
            self.path = [*self.path[:3], "…"]
            raise self.refusal(f"is nested more than {DEPTH_MAX} deep", "flatten it")
        self.inside.add(id(value))
        copy: Json
        if isinstance(value, _Pairs):
            copy = self.members(value)
        elif isinstance(value, dict):
            copy = self.members(value.items())
        else:
            copy = self.items(value)
        self.inside.discard(id(value))
        return copy

    def items(self, value: Iterable[object]) -> list[Json]:
        copy = []
        for index, item in enumerate(value):
            self.path.append(f"[{index}]")
            copy.append(self.read(item))
            self.path.pop()
        return copy

    def members(self, value: Iterable[tuple[object, object]]) -> dict[str, Json]:
        copy: dict[str, Json] = {}
        for name, item in value:
            if not isinstance(name, str):
                raise self.refusal(
                    f"has the key {shown(name)}, which is not text", "give keys as strings"
                )
            self.path.append(_step(name))
            plain = self.text(name)
            if plain in copy:
                raise self.refusal("is given more than once", "keep one of them")
            copy[plain] = self.read(item)
            self.path.pop()
        return copy

    def text(self, value: str) -> str:
        self.spend(len(value))
        if SURROGATE.search(value):
            raise self.refusal(
                f"contains half of a surrogate pair in {shown(value)}",
                "decode the text properly first",
            )
        return str.__str__(value)

    def integer(self, value: int) -> int:
        if abs(value) > INTEGER_MAX:
            raise self.refusal(
                f"is {shown(value)}, beyond 2^53 - 1, where JSON numbers lose digits",
                "give it as a string",
            )
        return int(value)

    def double(self, value: float) -> float:
        if not abs(value) < float("inf"):
            raise self.refusal(
                f"is {shown(value)}, which JSON does not have", "give null or a string"
            )
        # Every double beyond 2^53 - 1 is an integer, so this is the rule for integers again.
        if abs(value) > INTEGER_MAX:
            raise self.refusal(
                f"is {shown(value)}, an integer beyond 2^53 - 1, where JSON numbers lose digits",
                "give it as a string",
            )
        return float(value)

    def number_text(self, value: _Number) -> float:
        """The double of a number's text, if its own text has the same decimal value."""
        nearest = float(value)
        if abs(nearest) > INTEGER_MAX:
            raise self.refusal(
                f"is {shown(str(value))}, beyond 2^53 - 1, where JSON numbers lose digits",
                "give it as a string",
            )
        try:
            survives = Decimal(repr(nearest)) == Decimal(value)
        except InvalidOperation:  # an exponent beyond what even Decimal holds
            survives = False
        if not survives:
            raise self.refusal(
                f"is {shown(str(value))}, which a JSON number does not carry exactly",
                "give it as a string",
            )
        return nearest

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise self.too_large()

    def too_large(self) -> Refusal:
        self.path = []
        return self.refusal(
            f"is larger than {self.most} bytes as canonical JSON",
            "store the data in a table or a file and give its key",
        )

    def refusal(self, problem: str, next_step: str) -> Refusal:
        path = "".join([self.root, *self.path])
        return self.error(f"{path} {problem}; {next_step}", path=path)


def _step(name: str) -> str:
    return f".{name}" if PLAIN_NAME.fullmatch(name) and len(name) <= 60 else f"[{shown(name)}]"
