"""What a starter says of a start: the instant it was scheduled for, and where that stands.

Decides nothing; `triggers/` read it, `resolve` maps it onto the job's nominal times.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta  # noqa: TC003 - the types of fields
from typing import Literal

__all__ = ["Start"]


@dataclass(frozen=True, slots=True)
class Start:
    """One starter's word, to be given as `at`.

    It is floored onto the job's nominal times, so a start in the repeated hour or a second late
    still means the occurrence that it was made for.

    Attributes:
        starter: Its name, recorded as the source of the nominal time: `kubernetes`.
        at: The instant it says, aware UTC; None if this starter is at work and says none.
        said: Where it says so and what stands there, for messages:
            `DULY_KUBERNETES_JOB_NAME=backup-29579100`.
        means: Whether the instant is the time of the start (`scheduled`), or the start of the
            interval that ends then (`interval_start`, as Airflow 2's logical date).
        oldest: How long ago such an instant can lie; older ones are refused as no time at
            all. None for no bound.
    """

    starter: str
    at: datetime | None
    said: str
    means: Literal["scheduled", "interval_start"] = "scheduled"
    oldest: timedelta | None = None
