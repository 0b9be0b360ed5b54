"""Amazon EventBridge Scheduler: what it put in place of `<aws.scheduler.scheduled-time>`.

Decides whether the placeholder was replaced. Must never take the time of delivery for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duly._core.start import Start
from duly._core.wording import shown
from duly.triggers.reading import given, instant_of, refused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["SCHEDULED_TIME", "read", "read_environment"]

# For a target without an event, such as an ECS task with an environment override.
SCHEDULED_TIME: Final = "DULY_EVENTBRIDGE_SCHEDULED_TIME"


def read(event: Mapping[str, Any], key: str = "scheduled_time") -> Start | None:
    """The start that an event tells of.

    Args:
        event: The JSON object that is the schedule's input.
        key: The field that holds `"<aws.scheduler.scheduled-time>"` in the schedule's input.

    Returns:
        None if the event has no such field.

    Raises:
        StartInvalid: The placeholder was not replaced, or the value is no instant.
    """
    if key not in event:
        return None
    name = f"event[{shown(key)}]"
    return Start("eventbridge", _instant(event[key], name), given(name, event[key]))


def read_environment(environ: Mapping[str, str]) -> Start | None:
    """The start that `DULY_EVENTBRIDGE_SCHEDULED_TIME` says; None if it is not set.

    Raises:
        StartInvalid: The placeholder was not replaced, or the value is no instant.
    """
    value = environ.get(SCHEDULED_TIME)
    if value is None:
        return None
    return Start("eventbridge", _instant(value, SCHEDULED_TIME), given(SCHEDULED_TIME, value))


def _instant(value: object, name: str) -> datetime:
    if isinstance(value, str) and value.startswith("<aws."):
        raise refused(
            name,
            value,
            "was not replaced: only EventBridge Scheduler replaces it, in the input of a "
            "schedule; check that spelling and that schedule",
        )
    return instant_of(value, name)
