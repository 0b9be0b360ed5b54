"""What a person decides, as one transaction: done whole, or not at all, within a bounded wait.

Decides only that contention is tried again until the wait is over. It never looks at what is
decided.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from duly._core import ops
from duly._core.wording import shown, unsayable
from duly._db.dialects import ErrorKind
from duly._db.translate import first_line
from duly._db.waiting import pause
from duly._sync import nesting
from duly.errors import Busy, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._db.connect import Database
    from duly._db.sessions.base import Session

WAIT_S = 10.0
PAUSE_S = 0.02
REASON_MAX, ACTOR_MAX = 2000, 200

Value = TypeVar("Value")


def order(reason: object, actor: object) -> ops.Order:
    """Who decides, and why.

    Raises:
        UsageError: One of them is no line for the record.
    """
    return ops.Order(said_of("actor", actor, ACTOR_MAX), said_of("reason", reason, REASON_MAX))


def decided(
    database: Database,
    work: Callable[[Session, float], Value],
    *,
    about: str,
    wait_s: float = WAIT_S,
    is_kept: bool = True,
) -> Value:
    """Do *work* in one transaction and commit it.

    Args:
        work: Gets the session and how long its statements may wait, in seconds. What it
            raises of duly's own rolls everything back and goes out.
        about: What `busy` is about: a key or a job.
        is_kept: Else it is rolled back: for what is only rehearsed.

    Raises:
        UsageError: On SQLite, from inside a handler on the same file.
        Busy: The database was contended for all of *wait_s*; nothing was done.
        ConnectionLost, AccessDenied, …: The database's refusals, translated.
    """
    nesting.refuse(database.path)
    deadline = time.monotonic() + wait_s
    while True:
        left = max(deadline - time.monotonic(), PAUSE_S)
        with database.session() as session:
            try:
                session.begin(left)
                found = work(session, left)
                if is_kept:
                    session.commit(WAIT_S)
                else:
                    session.rollback()
                return found
            except Exception as error:
                # A row that somebody else wrote first is looked at again, too.
                if session.classify(error) not in {ErrorKind.CONTENTION, ErrorKind.DUPLICATE_KEY}:
                    raise
                session.rollback()
                if time.monotonic() >= deadline:
                    raise Busy(
                        f"{about} stayed busy for all of the wait ({first_line(error)}): somebody"
                        " else works on it, and nothing was decided; try again",
                        key=about,
                    ) from error
        pause(PAUSE_S)


def said_of(name: str, text: object, most: int) -> str:
    """A line for the record, without blanks around it; the command line's options have the same.

    Raises:
        UsageError: It is no text, empty, too long, or what not every database and log can hold.
    """
    if not isinstance(text, str):
        raise UsageError(f"the {name} is {shown(text)}: say it in a few words, as text")
    line = text.strip()
    if (why := unsayable(line)) is not None:
        raise UsageError(f"the {name} {shown(line)} {why}" if line else f"the {name} {why}")
    if len(line) > most:
        raise UsageError(
            f"the {name} has {len(line)} characters, and at most {most} fit: say it in fewer"
        )
    return line
