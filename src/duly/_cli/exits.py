"""From an exception to one line and one exit code.

Decides the exit code by who must act, never by a message's text. It must never show a
secret, a second line, or a traceback that nobody asked for; and never raise.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from duly._core.redact import redact
from duly._core.wording import said
from duly.errors import (
    CommandFailed,
    DulyError,
    InvariantBroken,
    OperatorError,
    StatementFailed,
    TransientError,
    UsageError,
)

if TYPE_CHECKING:
    from duly._cli.settings import Settings

OK = 0
HANDLER_FAILED = 1
USAGE = 2
OPERATOR = 3
NOT_COMPLETED = 4
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
TRY_AGAIN = 75  # EX_TEMPFAIL of sysexits.h

MESSAGE_MAX = 2_000

_FAMILIES: tuple[tuple[type[DulyError], int], ...] = (
    (CommandFailed, HANDLER_FAILED),
    (StatementFailed, HANDLER_FAILED),  # of a dry run, which is no attempt of a handler's
    (UsageError, USAGE),
    (OperatorError, OPERATOR),
    (TransientError, TRY_AGAIN),
    (InvariantBroken, INTERNAL),
)


class AppInvalid(UsageError):
    """The App that --app names cannot be had."""

    code: ClassVar[str] = "app_invalid"


class HandlerFailed(Exception):
    """The handler's own exception, whatever its class; the attempt was rolled back.

    Attributes:
        key: What was being done.
        attempt_id: The attempt that is recorded as failed.
    """

    def __init__(self, cause: BaseException, *, key: str, attempt_id: str) -> None:
        name = type(cause).__name__
        words = f"{name}: {said(cause)}" if said(cause) else name
        super().__init__(
            f"the handler failed, and its work was rolled back: {words[:1_500]}"
            f" (duly explain '{key}')"
        )
        self.__cause__ = cause
        self.details = {
            "key": key,
            "attempt_id": attempt_id,
            "type": name,
            "code": getattr(cause, "code", None) if isinstance(cause, DulyError) else None,
        }


@dataclass
class Ending:
    """How a command that did not succeed is reported."""

    exit_code: int
    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    kind: str = "error"


def report(error: BaseException, settings: Settings) -> int:
    """Print *error* to stderr, as one line or one JSON object, and return the exit code."""
    code = _quiet_code(error)
    if code is not None:
        return code
    ending = ending_of(error)
    message = one_line(redact(ending.message, settings.secrets))
    trace = _trace(error, settings) if settings.debug else None
    if settings.json:
        from json import dumps

        shown = {"error": ending.code, "message": message, **ending.details}
        if trace is not None:
            shown["traceback"] = trace
        text = redact(dumps(shown, default=str), settings.secrets)
    else:
        prefix = "duly: error: " if ending.kind == "error" else "duly: "
        text = (trace or "") + prefix + message
    if sys.stderr is not None:  # closed by the shell; print would take stdout instead
        with suppress(OSError):  # when nobody reads it, the code still says how it ended
            print(text, file=sys.stderr, flush=True)
    return ending.exit_code


def one_line(text: str) -> str:
    """*text* folded into one bounded line without control characters."""
    folded = " ".join(text.split())
    plain = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in folded)
    return plain if len(plain) <= MESSAGE_MAX else plain[: MESSAGE_MAX - 1] + "…"


def ending_of(error: BaseException) -> Ending:
    """What an exception means to whoever started the command."""
    from duly._cli import stopping

    number = stopping.signal_of(error)
    if number is not None:
        return _stopped(error, number)
    if isinstance(error, HandlerFailed):
        return Ending(HANDLER_FAILED, "handler_failed", str(error), error.details)
    if isinstance(error, DulyError):
        codes = [code for family, code in _FAMILIES if isinstance(error, family)]
        return Ending(codes[0] if codes else INTERNAL, error.code, error.message, error.details)
    return _click_ending(error) or Ending(
        INTERNAL,
        "internal",
        f"internal: {type(error).__name__}: {said(error)} (use --debug to see where)",
        {"type": type(error).__name__},
    )


def _stopped(error: BaseException, number: int) -> Ending:
    from duly._cli import stopping

    name = stopping.name_of(number)
    details: dict[str, Any] = {"signal": number}
    words = f"stopped by {name}"
    if isinstance(error, stopping.AttemptStopped):
        words += f": {error}"
        details |= {"fate": error.fate, "key": error.key}
    return Ending(128 + number, "stopped", words, details, kind="stop")


def _click_ending(error: BaseException) -> Ending | None:
    import click

    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "duly"
        message = error.format_message().rstrip(".")
        return Ending(USAGE, "usage", f"{message[:1].lower()}{message[1:]} (see {path} --help)")
    if isinstance(error, click.ClickException):
        return Ending(USAGE, "usage", error.format_message())
    return None


def _quiet_code(error: BaseException) -> int | None:
    """The code of what is no error: a prompt that was left."""
    import click

    if isinstance(error, click.exceptions.Abort):
        return 130
    return None


def _trace(error: BaseException, settings: Settings) -> str:
    from traceback import format_exception

    return redact("".join(format_exception(error)), settings.secrets)
