"""What a receiver quotes of a secret, in whatever form: it is not kept.

Decides whether a text holds a part of a secret. It replaces the whole text, and never tries to cut
the secret out of it: what is left could be the rest of it.
"""

from __future__ import annotations

import base64
import html
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["kept", "quotes"]

RUN: Final = 8
"""Letters and digits of a secret, one after the other, that are a quote of it."""

NOT_KEPT: Final = "(not kept: it quotes a secret)"
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2}))")


def kept(text: str, secrets: Iterable[str]) -> str:
    """*text*, if it quotes none of *secrets*."""
    return NOT_KEPT if quotes(text, secrets) else text


def quotes(text: str, secrets: Iterable[str]) -> bool:
    """Whether *text* holds a run of one of *secrets*: plain, escaped, in base64 or in hex."""
    forms = {_folded(form) for form in _read(text)}
    found: dict[int, set[str]] = {}
    for secret in secrets:
        for size, runs in _runs_of(secret).items():
            if size not in found:
                found[size] = {run for form in forms for run in _runs(form, size)}
            if not runs.isdisjoint(found[size]):
                return True
    return False


@lru_cache(maxsize=256)  # each send asks for the same ones
def _runs_of(secret: str) -> dict[int, frozenset[str]]:
    """What is a quote of *secret*, by its length."""
    found: dict[int, frozenset[str]] = {}
    parts = [part for part in secret.split() if len(part) >= RUN]
    for written in {w for part in (secret, *parts) for w in _written(part)}:
        size = min(RUN, len(written))
        if size >= 3:
            found[size] = found.get(size, frozenset()) | set(_runs(written, size))
    return found


def _runs(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(len(text) - size + 1))


def _read(text: str) -> list[str]:
    """*text* as it stands, and without each layer of escapes."""
    found = [text]
    for _ in range(3):
        text = html.unescape(unquote(_ESCAPE.sub(_character, text)))
        if text == found[-1]:
            break
        found.append(text)
    return found


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1] or escape[2], 16))


def _written(secret: str) -> set[str]:
    """How *secret* may be written, folded; base64 at each of the three places in a group."""
    raw = secret.encode("utf-8", "replace")
    found = {_folded(secret)}
    if len(raw) >= RUN:
        found.add(raw.hex())
        for before in range(3):
            # Without the characters that hold bits of what stands before it or after it.
            inner = base64.b64encode(b"\0" * before + raw)[4 if before else 0 :].rstrip(b"=")[:-1]
            found.add(_folded(inner.decode()))
    return found


def _folded(text: str) -> str:
    """Letters and digits alone: no case, blank, line break or escape hides a secret."""
    return "".join(each for each in text.casefold() if each.isalnum())
