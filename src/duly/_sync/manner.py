"""How the attempts of an App are made: by threads, or by the tasks of an event loop.

It names what differs between the two, and decides nothing.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from duly._sync.incoming import Incoming
from duly._sync.run import Run
from duly._sync.signals import HeldSignals

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._db.connect import Database
    from duly._db.sessions.base import Session


class Held(AbstractContextManager[Any], Protocol):
    """What keeps interruptions away from the ops that must not be interrupted."""

    def open(self) -> None:
        """From now until `close` an interruption is raised at once; one that was held, here."""

    def close(self) -> None:
        """From now on interruptions are held."""

    def stopper(
        self, session: Session, database: Database, is_over: Callable[[], bool]
    ) -> Callable[[], None]:
        """What ends, from another thread, the handler's work, unless *is_over*."""


@dataclass(frozen=True, slots=True)
class Manner:
    """One of the two.

    Attributes:
        held: Made for each attempt.
        run: The class of the handle that a handler gets.
        incoming: The class of the handle that a consumer's handler gets.
        is_async: The database's driver is one of an event loop's.
    """

    held: Callable[[], Held]
    run: type[Any]
    incoming: type[Any]
    is_async: bool


SYNCHRONOUS: Final = Manner(HeldSignals, Run, Incoming, is_async=False)
