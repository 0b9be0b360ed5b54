"""Kubernetes: the name of the CronJob's Job, and its annotation where somebody copies it.

Decides which Jobs a CronJob made. Must never take a Job that a person made (`kubectl create
job --from=cronjob/…`) for a scheduled one: such a Job says no nominal time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly._core.start import Start
from duly._core.wording import shown
from duly.errors import StartInvalid
from duly.triggers.reading import NEXT_STEP, given, instant_of, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JOB_NAME", "TIMESTAMP", "read_environment"]

# The Pod's label batch.kubernetes.io/job-name (1.27 or newer), by the downward API.
JOB_NAME: Final = "DULY_KUBERNETES_JOB_NAME"
# The annotation batch.kubernetes.io/cronjob-scheduled-timestamp. It stands on the Job, which the
# downward API does not see.
TIMESTAMP: Final = "DULY_KUBERNETES_TIMESTAMP"

# getJobName in Kubernetes' pkg/controller/cronjob/utils.go: the CronJob's name, a hyphen, and
# minutes since 1970, which have eight digits from 1989 to 2160. Seconds (before 1.21) have ten.
OF_A_CRONJOB: Final = re.compile(r"[a-z0-9][-.a-z0-9]*-([1-9][0-9]{7})")
# A suffix such as 20260913 is a date that a person wrote; read as minutes it lies in 2008.
OLDEST: Final = timedelta(days=366)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE: Final = timedelta(minutes=1)


def read_environment(environ: Mapping[str, str]) -> Start | None:
    """The start that a Pod's environment tells of.

    Returns:
        By the annotation if it is there, since a CronJob `@every 90s` has seconds and the name
        has not; by the name otherwise; None if neither variable is set.

    Raises:
        StartInvalid: The name is no CronJob's, the annotation does not parse, or they differ by
            a minute or more.
    """
    by_name = _by_name(environ)
    annotated = environ.get(TIMESTAMP)
    if annotated is None:
        return by_name
    if not annotated:
        raise refused(
            TIMESTAMP,
            annotated,
            "is empty: the annotation stands on the Job, not on its Pod; "
            f"set {JOB_NAME} in its place",
        )
    at = instant_of(annotated, TIMESTAMP)
    if by_name is not None and by_name.at != at - (at - EPOCH) % MINUTE:
        raise StartInvalid(
            f"{by_name.said} and {given(TIMESTAMP, annotated)} mean different minutes; "
            f"remove the wrong one, or {NEXT_STEP}",
            where=TIMESTAMP,
        )
    return Start("kubernetes", at, given(TIMESTAMP, annotated))


def _by_name(environ: Mapping[str, str]) -> Start | None:
    name = environ.get(JOB_NAME)
    if name is None:
        return None
    if not name:
        raise refused(
            JOB_NAME,
            name,
            f"is empty: the Pod has no label {shown('batch.kubernetes.io/job-name')}, so no Job "
            "of Kubernetes 1.27 or newer started it",
        )
    scheduled = OF_A_CRONJOB.fullmatch(name)
    if scheduled is None:
        raise refused(
            JOB_NAME,
            name,
            "does not end in the minutes since 1970 that a CronJob appends, so the Job was made "
            "by hand",
        )
    at = EPOCH + int(scheduled[1]) * MINUTE
    return Start("kubernetes", at, given(JOB_NAME, name), oldest=OLDEST)
