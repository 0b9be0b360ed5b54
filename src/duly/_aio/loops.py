"""The event loop that an asynchronous App, or place, is at work in.

Decides that its connections are used in the loop that made them. It never waits for anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from duly.errors import UsageError

if TYPE_CHECKING:
    from duly._db.connect import Database


class OneLoop:
    """The loop that the connections of a database belong to.

    Args:
        owner: Who has them, for people.
    """

    def __init__(self, database: Database, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._loop: asyncio.AbstractEventLoop | None = None

    def require(self) -> None:
        """Refuse to work in another loop; one that is closed leaves its connections behind.

        Raises:
            UsageError: It is at work in another loop.
        """
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise UsageError(
                f"this {self._owner} is at work in another event loop, which its connections belong"
                " to: make one for each loop, or close it there first"
            )
        if self._loop is not None:
            # Its connections ended with it.
            self._database.engine.dispose(close=False)
        self._loop = loop
