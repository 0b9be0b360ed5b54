"""Google Cloud Scheduler: the header `X-CloudScheduler-ScheduleTime` of its HTTP request.

Decides nothing but whether the header is an instant. Must never trust it to say who sent the
request; that is for the service's own authentication.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duly._core.start import Start
from duly.triggers.reading import given, instant_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JOB_NAME", "SCHEDULE_TIME", "read"]

SCHEDULE_TIME: Final = "X-CloudScheduler-ScheduleTime"
JOB_NAME: Final = "X-CloudScheduler-JobName"


def read(headers: Mapping[str, Any]) -> Start | None:
    """The start that a request's headers tell of.

    A run that a person forces (`gcloud scheduler jobs run`) carries the time of that moment.

    Args:
        headers: Any mapping; the names are compared without regard to case.

    Returns:
        None without the header.

    Raises:
        StartInvalid: The header is no RFC 3339 text (up to nine digits of fraction).
    """
    lower = {name.lower(): value for name, value in headers.items()}
    value = lower.get(SCHEDULE_TIME.lower())
    if value is None:
        return None
    at = instant_of(value, SCHEDULE_TIME, nanoseconds=True)
    said = given(SCHEDULE_TIME, value)
    job = lower.get(JOB_NAME.lower())
    if job is not None:
        said += f" ({given(JOB_NAME, job)})"
    return Start("google_cloud_scheduler", at, said)
