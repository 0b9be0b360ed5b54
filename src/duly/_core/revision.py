"""What a job is expected to do, since when: its revisions.

Decides whether a process's definition of a job is the one in force, a new one, or an old one
that must not come back by itself, and whether the process's zone data may speak. Every edit
holds from its effective-from on: it never changes what was expected before (invariant 6).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from duly._core.instants import format_instant
from duly._core.zone_record import ZoneRecord
from duly.errors import DefinitionStale, PeriodChanged, ZoneDataOutdated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.policies import Policies

__all__ = ["Definition", "Revision", "decide"]

MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True)
class Definition:
    """What a process says of a job.

    Attributes:
        job: The name under which the ledger keeps it.
        schedule: The canonical text; None for a job that is only started by name.
        zone: The name of its zone.
        policies: Its policies.
        payload: The canonical text of its payload.
        app: The name of the App that defines it; "" if it has none.
        name: The one that people know it by, if it is another; nothing expects more by it.
    """

    job: str
    schedule: str | None
    zone: str
    policies: Policies
    payload: str
    app: str
    name: str = ""

    @property
    def shown(self) -> str:
        """The name for messages."""
        return self.name or self.job

    @cached_property
    def digest(self) -> str:
        """Equal for definitions that expect the same."""
        parts = [self.schedule, self.zone, self.policies.stored(), self.payload]
        return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Revision:
    """One row of what was, is or will be expected.

    Attributes:
        number: From 1 on; the highest is the latest.
        effective_at: It holds for what falls due from then on, but see `policies.starts`, which
            may be later, and `policies.ends`.
        digest: Of the definition; "" for a retirement.
        schedule: The canonical text; None if nothing is expected.
        zone_version: The release of the zone data that its writer had.
        zone_record: The zone's offsets near its effective-from.
        why: `first`, `edit`, `zone data`, `adopted` or `retired`.
    """

    job: str
    number: int
    effective_at: datetime
    digest: str
    schedule: str | None
    zone: str
    zone_version: str
    zone_record: ZoneRecord
    policies: Policies
    payload: str
    app: str
    why: str

    @property
    def retired(self) -> bool:
        """Whether it says that the job is no more."""
        return self.why == "retired"

    @property
    def period(self) -> str | None:
        """The business period of the schedule, such as `day -1`; None without one."""
        return _period(self.schedule)


def decide(
    definition: Definition,
    revisions: Sequence[Revision],
    *,
    now: datetime,
    zone: Any,
    zone_version: str,
    adopt: bool = False,
) -> Revision | None:
    """What a process's definition means to the ledger.

    Args:
        definition: What the process says.
        revisions: Of that job, by number.
        now: The database's clock.
        zone: The zone as the process has it.
        zone_version: The release of the process's zone data.
        adopt: A person makes an earlier definition the new one.

    Returns:
        The revision to be written, or None if the latest says the same.

    Raises:
        DefinitionStale: It equals an earlier revision, or the job was retired.
        ZoneDataOutdated: The process's zone data is older and disagrees.
        PeriodChanged: Another `period=` on a job with history.
    """
    if not revisions:
        # A start in the future must not hold up an edit that comes before it.
        effective_at = min(definition.policies.starts or now, now)
        return _revision(definition, 1, effective_at, now, zone, zone_version, "first")
    latest = revisions[-1]
    why = _why(definition, revisions, adopt=adopt)
    if why is not None:
        _same_period(definition, revisions)
    news = _zone_news(definition, revisions, zone, zone_version)
    if why is None and not news:
        return None
    effective_at = max(now, latest.effective_at + MICROSECOND)
    number = latest.number + 1
    return _revision(definition, number, effective_at, now, zone, zone_version, why or "zone data")


def retirement(latest: Revision, now: datetime) -> Revision:
    """The revision that expects nothing more of a job."""
    return Revision(
        latest.job,
        latest.number + 1,
        max(now, latest.effective_at + MICROSECOND),
        "",
        None,
        latest.zone,
        latest.zone_version,
        latest.zone_record,
        latest.policies,
        latest.payload,
        latest.app,
        "retired",
    )


def _why(definition: Definition, revisions: Sequence[Revision], *, adopt: bool) -> str | None:
    """Why a definition makes a new revision; None if the latest says the same."""
    latest = revisions[-1]
    if latest.digest == definition.digest:
        return None
    earlier = [r for r in revisions[:-1] if r.digest == definition.digest]
    if not earlier:
        return "edit"
    if adopt:
        return "adopted"
    since = format_instant(latest.effective_at)
    what = "was retired at" if latest.retired else f"is at revision {latest.number} since"
    raise DefinitionStale(
        f"job {definition.shown}: this code has revision {earlier[-1].number}, and the job {what} "
        f"{since}; deploy the newer code here, or make this one the rule again with "
        "`duly init --adopt`",
        job=definition.job,
        revision=earlier[-1].number,
        latest=latest.number,
    )


def _same_period(definition: Definition, revisions: Sequence[Revision]) -> None:
    """Refuse another period than that of the last revision that expected anything."""
    before = next((r for r in reversed(revisions) if r.schedule is not None), None)
    period = _period(definition.schedule)
    if before is None or definition.schedule is None or before.period == period:
        return
    raise PeriodChanged(
        f"job {definition.shown}: its revision {before.number} has {_shown(before.period)}, and "
        f"this code has {_shown(period)}; a period is part of the identity, so give the job a "
        "new name, with starts= where the new one begins",
        job=definition.job,
    )


def _zone_news(
    definition: Definition, revisions: Sequence[Revision], zone: Any, zone_version: str
) -> bool:
    """Whether the process has newer zone data that disagrees with the ledger's.

    Raises:
        ZoneDataOutdated: The process's data is older and disagrees.
    """
    known = next((r for r in reversed(revisions) if r.zone == definition.zone), None)
    if known is None or zone_version == known.zone_version or known.zone_record.agrees(zone):
        return False
    if zone_version > known.zone_version:
        return True
    raise ZoneDataOutdated(
        f"job {definition.shown}: the ledger knows {known.zone} from tzdata {known.zone_version}, "
        f"and this host has {zone_version}, which disagrees; run pip install --upgrade tzdata here",
        job=definition.job,
        zone=known.zone,
        ledger=known.zone_version,
        host=zone_version,
    )


def _revision(
    definition: Definition,
    number: int,
    effective_at: datetime,
    now: datetime,
    zone: Any,
    zone_version: str,
    why: str,
) -> Revision:
    return Revision(
        definition.job,
        number,
        effective_at,
        definition.digest,
        definition.schedule,
        definition.zone,
        zone_version,
        ZoneRecord.around(zone, now, since=effective_at),
        definition.policies,
        definition.payload,
        definition.app,
        why,
    )


def _period(schedule: str | None) -> str | None:
    if schedule is None or not schedule.startswith("period "):
        return None
    return schedule.partition(";")[0].removeprefix("period ")


def _shown(period: str | None) -> str:
    if period is None:
        return "no period="
    name, _, offset = period.partition(" ")
    return f'period="{name}"' + (f" with period_offset={offset}" if offset != "0" else "")
