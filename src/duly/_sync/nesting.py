"""Which SQLite files this thread's handlers are inside of.

SQLite has one writer: a second transaction on the file, begun from inside a handler, could
only wait for itself. It never touches a database.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_local = threading.local()


@contextmanager
def inside(path: str | None) -> Iterator[None]:
    """While a handler runs on the file at *path*; None for a server."""
    files = _files()
    files.append(path)
    try:
        yield
    finally:
        files.pop()


def refuse(path: str | None) -> None:
    """Refuse a transaction of duly's on a file whose handler this thread is inside of.

    Raises:
        UsageError: At once, instead of after all of `wait`.
    """
    if path is not None and path in _files():
        raise UsageError(
            f"a transaction on {path} was asked for from inside a handler on the same file, and"
            " SQLite has one writer: do it after the handler returned"
        )


def _files() -> list[str | None]:
    if not hasattr(_local, "files"):
        _local.files = []
    files: list[str | None] = _local.files
    return files
