"""Which SQLite files this thread's, or this task's, handlers are inside of.

SQLite has one writer: a second transaction on the file, begun from inside a handler, could
only wait for itself. It never touches a database.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True, eq=False)
class _Handler:
    path: str | None


# A thread begins with none; a task with those of the task that began it.
_inside: ContextVar[tuple[_Handler, ...]] = ContextVar("duly_inside", default=())


@contextmanager
def inside(path: str | None) -> Iterator[None]:
    """While a handler runs on the file at *path*; None for a server."""
    if path is None:
        yield
        return
    handler = _Handler(path)
    # What is over is left out here, and never reset: a block may end in another context.
    _inside.set((*(each for each in _inside.get() if each.path is not None), handler))
    try:
        yield
    finally:
        handler.path = None  # a task that it began may go on, and is inside of nothing now


def refuse(path: str | None) -> None:
    """Refuse a transaction of duly's on a file whose handler this thread is inside of.

    Raises:
        UsageError: At once, instead of after all of `wait`.
    """
    if path is not None and any(path == handler.path for handler in _inside.get()):
        raise UsageError(
            f"a transaction on {path} was asked for from inside a handler on the same file, and"
            " SQLite has one writer: do it after the handler returned"
        )
