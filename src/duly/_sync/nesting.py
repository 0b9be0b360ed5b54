"""Which SQLite files this thread's, or this task's, handlers are inside of.

SQLite has one writer: a second transaction on the file, begun from inside a handler, could
only wait for itself. It never touches a database.
"""

from __future__ import annotations

from contextvars import ContextVar

from duly.errors import UsageError

# A thread begins with none; a task with those of the task that began it.
_inside: ContextVar[tuple[inside, ...]] = ContextVar("duly_inside", default=())


class inside:  # noqa: N801 - read as what it is used for, `with nesting.inside(path)`
    """While a handler runs on the file at *path*; None for a server."""

    __slots__ = ("path",)

    def __init__(self, path: str | None) -> None:
        self.path = path

    def __enter__(self) -> None:
        if self.path is not None:
            # What is over is left out here, and never reset: a block may end in another context.
            _inside.set((*(each for each in _inside.get() if each.path is not None), self))

    def __exit__(self, *_error: object) -> None:
        self.path = None  # a task that it began may go on, and is inside of nothing now


def refuse(path: str | None) -> None:
    """Refuse a transaction of duly's on a file whose handler this thread is inside of.

    Raises:
        UsageError: At once, instead of after all of `wait`.
    """
    if path is None:
        return
    for handler in _inside.get():
        if handler.path == path:
            raise UsageError(
                f"a transaction on {path} was asked for from inside a handler on the same file, and"
                " SQLite has one writer: do it after the handler returned"
            )
