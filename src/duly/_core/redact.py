"""Takes secrets out of text that a person or a table will see.

Decides what looks like a secret in a database URL or a connection string. It must never
be the reason why an error is hidden: it only replaces.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# To the last @ of the word: a password may hold any other mark unescaped.
_URL = re.compile(r"(?<![\w+.-])([a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s:/@]*):[^\s\"'<>]*@")
_PAIR = re.compile(
    r"(?i)\b(\w{0,30}(?:password|passwd|pwd|secret|token)[\"']?)(\s*[=:]\s*)(?!(?:YES|NO)\))"
    r"('[^']*'|\"[^\"]*\"|[^\s,;&)}]+)"
)


def is_secret(name: str) -> bool:
    """Whether an option of that name holds a secret."""
    return _PAIR.fullmatch(f"{name}=x") is not None


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """*text* without passwords: those in URLs, after `password=`, and the *secrets* given."""
    for secret in secrets:
        if len(secret) >= 3:
            text = text.replace(secret, "***")
    return _PAIR.sub(r"\1\2***", _URL.sub(r"\1:***@", text))
