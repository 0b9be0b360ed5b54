"""What a database's error in a caller's own transaction is told as.

Every statement there is duly's, so none of its errors is the caller's own: each becomes one line
that says what to do with the transaction. It decides nothing, and asks the database nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly._core import ops
from duly._db.dialects import DIALECTS, Dialect, ErrorKind, code_text
from duly._db.translate import first_line, public_error
from duly.errors import ConnectionLost, DulyError, NoTransaction, OperatorError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def told_of(about: str) -> Iterator[None]:
    """Errors of any driver, told of as about *about*.

    Raises:
        TransientError, ConnectionLost: The transaction may be damaged, or is gone.
        NoTransaction: It is one that reaches no table of duly's.
        OperatorError: The database refused what duly needs.
    """
    try:
        yield
    except ops.Contention as vanished:
        raise _again(about, vanished.cause) from vanished.cause
    except Exception as error:
        told = _told(about, error)
        if told is None:
            raise
        raise told from error


def _told(about: str, error: Exception) -> DulyError | None:
    for dialect in DIALECTS.values():
        if dialect.classify(error) is not None:
            return _told_by(dialect, about, error)
    where = f"the connection that {about} is claimed on"
    return public_error(next(iter(DIALECTS.values())), error, where)


def _told_by(dialect: Dialect, about: str, error: Exception) -> DulyError:
    words, code = first_line(error), code_text(dialect, error)
    kind = dialect.classify(error)
    if kind is ErrorKind.CONTENTION:
        return _again(about, error)
    if kind is ErrorKind.LOST:
        return ConnectionLost(
            f"{about}: the connection was lost ({words}): nothing was committed; connect and try"
            " the whole again"
        )
    if code in dialect.stopped:
        return TransientError(
            f"{about}: the statement was stopped, by a time limit or a person ({words}), and this"
            " transaction may be damaged: roll back and try the whole again, with a wait= below the"
            " limit if there is one",
            key=about,
        )
    if code in dialect.tables_locked:
        return NoTransaction(
            f"{about}: LOCK TABLES keeps this session from duly's tables ({words}): UNLOCK TABLES,"
            " which commits, begin again, and claim before anything is locked"
        )
    return public_error(dialect, error, f"the {dialect.title} connection") or OperatorError(
        f"{about}: {dialect.title} refused a statement of duly's own ({words}): roll back, mend"
        " what it names, and try the whole again",
        key=about,
    )


def _again(about: str, error: BaseException) -> TransientError:
    return TransientError(
        f"{about}: the database was contended ({first_line(error)}) and this"
        " transaction may be damaged: roll back and try the whole again",
        key=about,
    )
