"""The ORM session that a run lends: SQLAlchemy's own, or a class derived from it.

Decides when its work counts: a session whose transaction a handler ended, or whose error it
hid, fails the attempt. It never commits: its end releases a savepoint of duly's transaction.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy.orm import Session

from duly.errors import SwallowedError, UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection


# In a savepoint of its own, an error of a flush leaves duly's transaction usable, and comes out
# as it is; without one, the session would roll back the transaction itself.
OPTIONS: Final[dict[str, Any]] = {
    "join_transaction_mode": "create_savepoint",
    "expire_on_commit": False,
}


class LentSession:
    """One session on the connection of an open transaction.

    Args:
        kind: The class of the session.
        connection: With a transaction begun through SQLAlchemy.
    """

    # What the class of the session is derived from, and an example of one.
    base: ClassVar[tuple[type[Any], str]] = (Session, "sqlmodel.Session")

    def __init__(self, kind: type[Any], connection: Connection) -> None:
        self._kind = self._checked(kind)
        self._face, self._session = self._made(connection)
        self._root = Session.begin(self._session)

    def as_a(self, kind: type[Any]) -> Any:
        """The session, where it is of that class.

        Raises:
            UsageError: It is of another one.
        """
        if not isinstance(self._face, self._checked(kind)):
            made = self._kind
            raise UsageError(
                f"this run's session is a {made.__module__}.{made.__qualname__} already, and two"
                " sessions in one transaction would not see each other's objects: ask for"
                f" run.session_of({kind.__name__}) first, and everywhere"
            )
        return self._face

    def finish(self) -> None:
        """Flush, and release the session's savepoint.

        Raises:
            SwallowedError: An error that was hidden had undone the session's work.
            UsageError: The handler ended the session's transaction.
        """
        if self._session.get_transaction() is not self._root:
            raise UsageError(
                "the handler ended the transaction of run.session, so nothing was kept: leave that"
                " out, duly commits when the handler returns; for a part of the work use"
                " run.session.begin_nested()"
            )
        if not self._root.is_active:
            raise SwallowedError(
                "the handler hid an error of run.session that had undone the session's work, so"
                " nothing was kept: let the error out, or wrap the risky part in"
                " run.session.begin_nested()"
            )
        self._root.commit()

    def _made(self, connection: Connection) -> tuple[Any, Session]:
        """What the handler gets, and the session beneath it."""
        session: Session = refusing(self._kind)(bind=connection, **OPTIONS)
        return session, session

    def _checked(self, kind: Any) -> Any:
        base, example = self.base
        if not (isinstance(kind, type) and issubclass(kind, base)):
            raise UsageError(
                f"{kind!r} is no class derived from SQLAlchemy's {base.__name__}, and"
                f" run.session_of makes a session of no other here: give {example}, or leave it to"
                " run.session"
            )
        return kind


@cache
def refusing(kind: Any) -> Any:
    """A class of sessions whose end is not the handler's to decide."""
    refused = ("commit", "rollback", "close", "reset", "invalidate", "prepare")
    methods = {name: _refuser(name) for name in refused}
    return type(kind)(f"Lent{kind.__name__}", (kind,), {**methods, "begin": _begin})


def _begin(session: Session, *, nested: bool = False) -> Any:
    """`begin_nested()` comes by here too."""
    if not nested:
        _refuser("begin")(session)
    made = Session.begin(session, nested=True)
    # The savepoint is set here, not at the first statement in it: messages sent before that
    # statement are a part of it too.
    session.connection()
    return made


def _refuser(name: str) -> Any:
    def refuse(_session: Session, *_args: Any, **_named: Any) -> None:
        raise UsageError(
            f"run.session refuses {name}(): it is in duly's transaction, which duly commits when"
            " the handler returns and rolls back when it raises; use flush() to send changes"
            " early, and begin_nested() for a part of the work"
        )

    return refuse
