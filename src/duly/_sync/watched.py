"""A handler that remembers what left it, and which of that ends one attempt alone.

Decides that what came out of a handler is the handler's, whatever its class, by the identity of
the exception object. It never hides anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._sync.signals import came_by_signal

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._sync.run import Run


class Watched:
    """A handler, once or often called.

    Attributes:
        raised: What left it the last time; None if it returned.
    """

    def __init__(self, handler: Callable[[Run], Any]) -> None:
        self._handler = handler
        self.raised: BaseException | None = None

    def __call__(self, run: Run) -> Any:
        self.raised = None
        try:
            return self._handler(run)
        except BaseException as error:
            self.raised = error
            raise


def is_of_one_attempt(error: BaseException) -> bool:
    """Whether what an attempt raised leaves whoever makes several to go on.

    A `sys.exit()` of the handler's own does. One by which a program answers a signal, a Ctrl-C and
    a cancellation end the whole.
    """
    return isinstance(error, Exception) or (type(error) is SystemExit and not came_by_signal(error))
