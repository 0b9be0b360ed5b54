"""How one occurrence that a tick or a worker started is told: one line, or one JSON object.

Decides the words. It must never decide how the command ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.exits import one_line
from duly._core.redact import redact
from duly._core.wording import said
from duly.errors import DulyError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly._cli.settings import Settings
    from duly._sync.ticking import Ran

_STYLES = {"applied": "green", "duplicate": "yellow"}


def say_ran(settings: Settings, ran: Ran) -> None:
    """Print how one occurrence ended."""
    if settings.json:
        output.say_json(ran_json(ran, settings.secrets))
        return
    from duly._cli.starter import lateness

    word = "not begun" if ran.outcome is None else ran.outcome.value
    line = f"{output.styled(word, _STYLES.get(word, 'red'))} {ran.key}"
    if ran.result is not None:
        late = lateness(ran.result.late, ran.result.source)
        line += f"  attempt {ran.result.attempt_id} in {output.took(ran.took)}{late}"
    elif ran.error is not None:
        line += f"  {_words(ran.error, settings.secrets)}"
    output.say(line)


def ran_json(ran: Ran, secrets: Iterable[str] = ()) -> dict[str, Any]:
    """The same for a machine."""
    result, error = ran.result, ran.error
    return {
        "key": ran.key,
        "outcome": None if ran.outcome is None else ran.outcome.value,
        "attempt_id": None if result is None else str(result.attempt_id),
        "value": None if result is None else result.value,
        "took_s": round(ran.took.total_seconds(), 6),
        "late_s": None if result is None else round(result.late.total_seconds(), 6),
        "error": None if error is None else _error_json(error, secrets),
    }


def _error_json(error: BaseException, secrets: Iterable[str]) -> dict[str, Any]:
    code = error.code if isinstance(error, DulyError) else None
    return {"type": type(error).__name__, "code": code, "message": _words(error, secrets)}


def _words(error: BaseException, secrets: Iterable[str]) -> str:
    name = type(error).__name__
    text = said(error)
    if not isinstance(error, DulyError):
        text = f"{name}: {text}" if text else name
    return one_line(redact(text, secrets))
