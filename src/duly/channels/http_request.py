"""What a request's URL and its headers may be, and which of two headers of one name goes out.

Decides it for what the code says when a destination is registered, and by the same words for a URL
that a function says of a message. It never shows what stands before an @, which may be a password.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from duly._core.outbox import HEADER_NAME, OF_THE_CHANNEL
from duly._core.wording import shown
from duly.channels.base import Secret
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from collections.abc import Iterable
    from urllib.parse import SplitResult

__all__ = ["checked_headers", "is_sendable", "merged", "unfit"]

_HOST: Final = re.compile(r"(?:[A-Za-z0-9_-]{1,63}\.)*[A-Za-z0-9_-]{1,63}\.?")
HOST_MAX: Final = 253


def unfit(url: object) -> str | None:
    """Why no request can go to *url*, and the next step; None if one can."""
    if not isinstance(url, str):
        return f"the URL is {type(url).__name__}: give text, such as https://example.com/hook"
    told = f"the URL {shown(url if '@' not in url else '…@' + url.rpartition('@')[2])}"
    if any(each.isspace() or not each.isprintable() for each in url) or "\\" in url:
        return (
            f"{told} has a blank, a line break, a backslash or a control character: escape it"
            " (a blank is %20), or leave it out"
        )
    try:
        parts = urlsplit(url)
    except ValueError:  # without its text, which may quote a password
        return f"{told} cannot be read: give one such as https://example.com/hook"
    if parts.scheme not in {"http", "https"}:
        return f"{told} is none of http:// or https://: give one"
    if "@" in parts.netloc:
        return (
            f"{told} names a user or a password, which no request would carry: leave it out, and"
            " give headers={'Authorization': Secret.env('NAME')}"
        )
    host = parts.hostname or ""
    is_name = "[" in parts.netloc or not host.isascii() or _HOST.fullmatch(host) is not None
    if not host or not is_name or len(host) > HOST_MAX:
        return f"{told} names no host: give one, such as https://example.com/hook"
    return None if _has_port(parts) else f"{told} has no port that there is: give 1 to 65535"


def checked_headers(given: Any) -> dict[str, str | Secret]:
    """The headers that every request of a destination has.

    Raises:
        DestinationInvalid: One cannot be sent, is there twice, or is the channel's to set.
    """
    if not isinstance(given, Mapping):
        raise DestinationInvalid(
            f"headers= is {type(given).__name__}: give a mapping of names to values"
        )
    names: set[str] = set()
    for name, value in given.items():
        if not isinstance(name, str) or HEADER_NAME.fullmatch(name) is None:
            raise DestinationInvalid(
                f"a header is called {shown(name)}: use letters, digits and '-'"
            )
        if name.lower() in OF_THE_CHANNEL:
            raise DestinationInvalid(
                f"the header {name} is the channel's to set, for each request its own: leave it out"
            )
        if name.lower() in names:
            raise DestinationInvalid(f"the header {name} is given twice: give it once")
        names.add(name.lower())
        if isinstance(value, Secret):
            continue
        if not isinstance(value, str) or not is_sendable(value):
            raise DestinationInvalid(
                f"the header {name} has a value that is not shown, as it may be secret, and that"
                " cannot be sent: give printable ASCII without line breaks and without blanks"
                " around it, or a Secret"
            )
    return dict(given)


def merged(*rising: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """One header of each name, whatever its case: what comes later replaces what came before."""
    found: dict[str, tuple[str, str]] = {}
    for each in rising:
        for name, value in each:
            found[name.lower()] = (name, value)
    return list(found.values())


def is_sendable(value: str) -> bool:
    """Whether a header may have that value."""
    return (
        value.isascii() and value.replace("\t", " ").isprintable() and value == value.strip(" \t")
    )


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False
