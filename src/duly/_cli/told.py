"""How one occurrence that a tick or a worker started is told: one line, or one JSON object.

Decides the words. It must never decide how the command ends.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.exits import one_line
from duly._core.wording import said
from duly.errors import DulyError

if TYPE_CHECKING:
    from duly._cli.settings import Settings
    from duly._sync.ticking import Ran

_STYLES = {"applied": "green", "duplicate": "yellow"}


def say_ran(settings: Settings, ran: Ran) -> None:
    """Print how one occurrence ended."""
    if settings.json:
        output.say_json(ran_json(ran))
        return
    from duly._cli.starter import lateness

    word = "not begun" if ran.outcome is None else ran.outcome.value
    line = f"{output.styled(word, _STYLES.get(word, 'red'))} {ran.key}"
    if ran.result is not None:
        late = lateness(ran.result.late, ran.result.source)
        line += f"  attempt {ran.result.attempt_id} in {output.took(ran.took)}{late}"
    elif ran.error is not None:
        line += f"  {one_line(_words(ran.error))}"
    output.say(line)


def ran_json(ran: Ran) -> dict[str, Any]:
    """The same for a machine."""
    found: dict[str, Any] = {
        "key": ran.key,
        "outcome": None if ran.outcome is None else ran.outcome.value,
        "duration_s": round(ran.took / timedelta(seconds=1), 6),
    }
    if ran.result is not None:
        found["attempt_id"] = str(ran.result.attempt_id)
        found["value"] = ran.result.value
        found["late_s"] = round(ran.result.late / timedelta(seconds=1), 6)
    if ran.error is not None:
        code = ran.error.code if isinstance(ran.error, DulyError) else None
        found["error"] = {
            "type": type(ran.error).__name__,
            "code": code,
            "message": one_line(said(ran.error)),
        }
    return found


def _words(error: Exception) -> str:
    name = type(error).__name__
    if isinstance(error, DulyError):
        return said(error)
    return f"{name}: {said(error)}" if said(error) else name
