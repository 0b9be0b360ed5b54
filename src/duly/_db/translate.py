"""Turns a driver's error into the public one that says who must act.

Decides by `ErrorKind` only. An error of another kind is not translated: it is the user's
own, and it is raised as it came.
"""

from __future__ import annotations

from duly._core.redact import redact
from duly._core.wording import said
from duly._db.dialects import Dialect, ErrorKind
from duly.errors import (
    AccessDenied,
    Busy,
    ConnectionLost,
    DatabaseNotFound,
    DatabaseReadOnly,
    DulyError,
    SchemaMissing,
    UsageError,
)


def first_line(error: BaseException) -> str:
    """The driver's own words, one line, without secrets."""
    wrapped = getattr(error, "orig", None)
    cause = wrapped if isinstance(wrapped, BaseException) else error
    args = cause.args
    text = str(args[1]) if len(args) > 1 and isinstance(args[0], int) else said(cause)
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return redact(lines[0] if lines else type(cause).__name__)[:300]


def public_error(dialect: Dialect, error: BaseException, where: str) -> DulyError | None:
    """The public error for a driver's *error*; None if it has no better name than its own.

    Args:
        where: The database, named without secrets.
    """
    if isinstance(error, DulyError):
        return None  # it has its words
    if isinstance(error, UnicodeEncodeError):
        cannot = ascii(error.object[error.start : error.start + 1])
        return UsageError(
            f"the encoding of {where} cannot carry the character {cannot}: nothing was done;"
            " connect with UTF-8 (client_encoding=utf8 on PostgreSQL, charset=utf8mb4 on MariaDB)"
        )
    words = first_line(error)
    match dialect.classify(error):
        case ErrorKind.LOST:
            return ConnectionLost(
                f"{where} cannot be reached ({words}): nothing was done; check that it runs and"
                " try again",
                where=where,
            )
        case ErrorKind.DENIED:
            return AccessDenied(
                f"{where} refused ({words}): check the user, the password, the name of the"
                " database and the user's rights",
                where=where,
            )
        case ErrorKind.READ_ONLY:
            return DatabaseReadOnly(
                f"{where} is read-only ({words}): run on the primary, or with a role or file"
                " permission that may write",
                where=where,
            )
        case ErrorKind.NO_DATABASE:
            return DatabaseNotFound(
                f"{where} cannot be opened ({words}): check the name in the URL, and that this"
                " user may read and write it",
                where=where,
            )
        case ErrorKind.NO_TABLE:
            return SchemaMissing(
                f"{where} has no tables of duly's ({words}): run `duly init` (the schema itself"
                " must exist), or give schema=",
                where=where,
            )
        case ErrorKind.CONTENTION:
            return Busy(f"{where} is busy ({words}): try again", where=where)
        case _:
            return None
