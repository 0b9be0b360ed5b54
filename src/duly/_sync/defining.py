"""From what a module says of a job to the job: its schedule, zone, periods and policies.

Decides which zone a job has and how text becomes a schedule. It never reads the database.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly import zones
from duly._core.job import Job
from duly._core.occurrence import check_partition
from duly._core.payload import canonical
from duly._core.policies import Policies
from duly._core.resolve import TOLERANCE, TOLERANCE_MAX
from duly._core.schedules import Schedule
from duly._core.wording import shown
from duly.errors import ScheduleInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from zoneinfo import ZoneInfo

    from duly._core.schedules.period import Period


def defined(
    name: str,
    handler: Callable[..., Any],
    *,
    schedule: str | Schedule | None,
    timezone: str | None,
    period: Period | None,
    period_offset: int,
    payload: Any,
    policies: dict[str, Any],
    formerly: str | Sequence[str],
    partitions: Sequence[str] | str | None,
    jitter: timedelta | None,
    tolerance: timedelta | None,
) -> Job:
    """The job of a definition, checked by itself.

    Raises:
        ScheduleInvalid: A schedule, zone, period or duration that cannot be used.
        PayloadInvalid: The payload is not JSON.
    """
    zone = _zone(schedule, timezone)
    made = _schedule(schedule, zone)
    if period is None and period_offset:
        raise ScheduleInvalid(f"period_offset={period_offset} means nothing without period=")
    if period is not None:
        if made is None:
            raise ScheduleInvalid(f'period="{period}" needs a schedule that starts it; give one')
        from duly.schedules.period import Periods

        made = Periods(made, period, offset=period_offset, timezone=zone.key)
    if jitter is not None and made is None:
        raise ScheduleInvalid("jitter= needs a schedule, whose starts it spreads; give one")
    return Job(
        name,
        handler,
        made,
        zone,
        canonical(payload),
        Policies(**policies),
        jitter=_duration(jitter, "jitter", timedelta(0)),
        tolerance=_tolerance(tolerance),
        formerly=(formerly,) if isinstance(formerly, str) else tuple(formerly),
        partitions=_partitions(partitions),
    )


class naming:  # noqa: N801 - read as what it is used for, `with naming(job):`
    """Say which job a refusal is about: a module may define many."""

    __slots__ = ("_job",)

    def __init__(self, job: str) -> None:
        self._job = job

    def __enter__(self) -> None:
        """Whatever is refused from now on."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, UsageError):
            said = f"job {str(self._job)[:100]}: {error}"
            raise type(error)(said, **error.details) from error


def _zone(schedule: object, timezone: str | None) -> ZoneInfo:
    """The zone that was given, or else the schedule's own, or UTC."""
    own: ZoneInfo | None = None if isinstance(schedule, str) else getattr(schedule, "zone", None)
    if timezone is None:
        return own if own is not None else zones.load("UTC")
    zone = zones.load(timezone)
    if own is not None and own.key != zone.key:
        raise ScheduleInvalid(
            f"timezone {shown(timezone)} and the schedule's own zone, {own.key}, differ; "
            "give the zone to the schedule alone"
        )
    return zone


def _schedule(schedule: str | Schedule | None, zone: ZoneInfo) -> Schedule | None:
    if isinstance(schedule, str):
        from duly.schedules.cron import Cron

        return Cron(schedule, timezone=zone.key)
    if schedule is None or isinstance(schedule, Schedule):
        return schedule
    raise ScheduleInvalid(
        f"{shown(schedule)} is no schedule; give cron text such as '30 2 * * *', "
        "or a value such as duly.Cron(…), duly.Every(…) or duly.Dates(…)"
    )


def _partitions(given: Sequence[str] | str | None) -> tuple[str, ...] | str | None:
    """A list that names each partition once, or the text of a query."""
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, list | tuple):
        raise ScheduleInvalid(
            f"partitions={shown(given)} is neither a list of names nor a query; name each, as in"
            ' ["north", "south"], or write a SELECT that gives them'
        )
    found = tuple(given)
    for each in found:
        check_partition(each)
    if not found:
        raise ScheduleInvalid("partitions= is an empty list; name the partitions, or leave it out")
    if len(set(found)) != len(found):
        twice = next(each for each in found if found.count(each) > 1)
        raise ScheduleInvalid(f"partitions= names {shown(twice)} twice; name each once")
    return found


def _duration(given: timedelta | None, name: str, default: timedelta) -> timedelta:
    if given is None:
        return default
    if not _is_duration(given):
        raise ScheduleInvalid(
            f"{name} must be a timedelta of zero or more, not {shown(given)}; "
            "give one such as timedelta(minutes=5)"
        )
    return given


def _tolerance(given: timedelta | None) -> timedelta:
    """How early a start may come; a bound, because it uses up the key of what is not due yet."""
    found = _duration(given, "tolerance", TOLERANCE)
    if found > TOLERANCE_MAX:
        raise ScheduleInvalid(
            f"tolerance {found} is more than {TOLERANCE_MAX}: it is for clocks that are a little "
            "early; set the clock that is more so"
        )
    return found


def _is_duration(given: object) -> bool:
    return isinstance(given, timedelta) and given >= timedelta(0)
