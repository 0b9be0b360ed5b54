"""Tells of a handler that keeps its event loop.

Decides after how long one step of a handler, from one await to the next, is told of. It never
ends the handler: only its own thread could, and that is the loop's.
"""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from duly._db.watchdog import watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

log = logging.getLogger("duly.attempt")

BLOCKED_S: Final = 1.0
"""How long a step may take; it is looked at each second."""


class Watched:
    """A handler's coroutine, whose steps are watched; await it in place of the coroutine."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], key: str) -> None:
        self._coroutine = coroutine
        self._key = key

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = partial(self._coroutine.send, None)
        while True:
            bound = watchdog.after(BLOCKED_S, self._tell)
            try:
                waited_for = step()
            except StopIteration as done:
                return done.value
            finally:
                watchdog.stop(bound)
            try:
                answer = yield waited_for
            except BaseException as error:
                step = partial(self._coroutine.throw, error)
            else:
                step = partial(self._coroutine.send, answer)

    def _tell(self) -> None:
        """In the thread of the watchdog, while the handler is at it."""
        place, frame = "", getattr(self._coroutine, "cr_frame", None)
        if frame is not None:
            place = f" ({os.path.basename(frame.f_code.co_filename)}, line {frame.f_lineno})"
        log.warning(
            "loop_blocked",
            extra={
                "key": self._key,
                "error": f"the handler of {self._key}{place} has kept the event loop for over"
                f" {BLOCKED_S:g} s: nothing else in it goes on meanwhile, and neither timeout= nor"
                " a cancellation reaches it; await there, or give that work to"
                " asyncio.to_thread()",
            },
        )
