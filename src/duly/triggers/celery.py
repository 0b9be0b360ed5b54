"""Celery: the header `duly_nominal_time` of a task's message.

Decides nothing but whether the header is an instant and for this job. Must never import Celery:
beat says only `celery_beat_task`, so the header is there if a Scheduler puts it there
(docs/starters.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duly._core.start import Start
from duly._core.wording import shown
from duly.errors import StartInvalid
from duly.triggers.reading import given, instant_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JOB", "NOMINAL_TIME", "read"]

NOMINAL_TIME: Final = "duly_nominal_time"
JOB: Final = "duly_job"


def read(headers: Mapping[str, Any] | None, *, job: str | None = None) -> Start | None:
    """The start that a task's headers tell of.

    Args:
        headers: `task.request.headers`; None, as Celery has it, for none.
        job: The job that is to be started. A header `duly_job` that names another is refused.

    Returns:
        None without the header.

    Raises:
        StartInvalid: The header is no instant, or is meant for another job.
    """
    if headers is None or headers.get(NOMINAL_TIME) is None:
        return None
    value = headers[NOMINAL_TIME]
    at = instant_of(value, f"header {NOMINAL_TIME}")
    meant = headers.get(JOB)
    if job is not None and meant is not None and meant != job:
        raise StartInvalid(
            f"header {JOB} {shown(meant)} is not the job {shown(job)} that the task starts; "
            "correct the task or the entry of its schedule",
            where=f"header {JOB}",
        )
    return Start("celery", at, given(f"header {NOMINAL_TIME}", value))
