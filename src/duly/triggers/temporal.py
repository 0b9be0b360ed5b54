"""Temporal: the search attribute `TemporalScheduledStartTime`, and the id of the workflow.

Decides which of the two speaks. Must never take an id that merely ends in a date for one that a
schedule made: a schedule appends an instant in UTC, to the second.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from duly._core.start import Start
from duly.errors import StartInvalid
from duly.triggers.reading import NEXT_STEP, given, instant_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SCHEDULED_START_TIME", "read"]

SCHEDULED_START_TIME: Final = "TemporalScheduledStartTime"

# GenerateWorkflowID in temporal's chasm/lib/scheduler: the id, a hyphen, and the nominal time in
# UTC, cut to the second. It stands before jitter moves the start.
OF_A_SCHEDULE: Final = re.compile(
    r".*-([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)", re.DOTALL
)


def read(
    search_attributes: Mapping[str, Any] | None = None, *, workflow_id: str | None = None
) -> Start | None:
    """The start that a workflow's search attributes and id tell of.

    Args:
        search_attributes: Name -> value, or a sequence of one value as older SDKs have it.
        workflow_id: The id; it counts if it ends in the time that a schedule appends.

    Returns:
        By the attribute if it is there, else by the id; None if neither says anything.

    Raises:
        StartInvalid: One of them is no instant, or they differ by a second or more.
    """
    by_id = _by_id(workflow_id)
    value = _only((search_attributes or {}).get(SCHEDULED_START_TIME))
    if value is None:
        return by_id
    at = instant_of(value, SCHEDULED_START_TIME, nanoseconds=True)
    said = given(SCHEDULED_START_TIME, value)
    if by_id is not None and by_id.at != at.replace(microsecond=0):
        raise StartInvalid(
            f"{by_id.said} and {said} mean different times; "
            f"pass those of one workflow, or {NEXT_STEP}",
            where=SCHEDULED_START_TIME,
        )
    return Start("temporal", at, said)


def _by_id(workflow_id: str | None) -> Start | None:
    scheduled = OF_A_SCHEDULE.fullmatch(workflow_id) if workflow_id is not None else None
    if scheduled is None:
        return None
    at = instant_of(scheduled[1], "the end of the workflow id")
    return Start("temporal", at, given("workflow id", workflow_id))


def _only(value: Any) -> Any:
    """The one element of a sequence; an empty one is how an SDK says that nothing is set."""
    if isinstance(value, list | tuple) and len(value) < 2:
        return value[0] if value else None
    return value
