"""Wakes the relays of this process when messages were committed in it.

It decides nothing, and nothing depends on it: a relay that heard nothing looks by itself.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_waiting: Final[dict[str, list[Callable[[], None]]]] = {}
_lock: Final = threading.Lock()


class Bell:
    """Of one database, whichever App of this process uses it.

    Attributes:
        is_used: Attempts on this database send messages.
    """

    __slots__ = ("_where", "is_used")

    def __init__(self, where: str) -> None:
        self._where = where
        self.is_used = False

    def ring(self) -> None:
        """Call everybody who waits; in vain, now and then, which does no harm."""
        for call in tuple(_waiting.get(self._where, ())):
            call()

    def hear(self, call: Callable[[], None]) -> None:
        """From now on *call* when it rings; in the thread that rings."""
        with _lock:
            _waiting.setdefault(self._where, []).append(call)

    def leave(self, call: Callable[[], None]) -> None:
        """Do not call any more."""
        with _lock:
            _waiting[self._where].remove(call)
