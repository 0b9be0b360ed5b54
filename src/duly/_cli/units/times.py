"""When a job must be started: at each due time of the next ten years, and what is doubtful of it.

Decides from the job's own schedule, never from what its text looks like to a starter. Must
never forget a due time near a switch of a zone: there starters differ, so each of them is told
which instants to look at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from duly import zones
from duly._cli.units import rules
from duly._cli.units.rules import DAYS, WEEKDAYS, Rule
from duly._core.schedules.cron import CronSchedule
from duly._core.schedules.cron_fields import parse
from duly._core.schedules.period import PeriodSchedule
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from zoneinfo import ZoneInfo

    from duly._core.job import Job
    from duly._core.schedules import Schedule

__all__ = ["Starts", "moved_by_whole_hours", "starts_of", "zone_of"]

MINUTE: Final = timedelta(minutes=1)
DAY: Final = timedelta(days=1)
AHEAD: Final = 3653 * DAY
# What a switch can make of a wall time lies within this after it: no zone moves by more.
AFTER_SWITCH: Final = timedelta(hours=3)

# A schedule that is due this often shows all that it does within a year and a month.
LOOKED_AT_MAX: Final = 200_000
LOOKED_AT_LEAST: Final = 400 * DAY

NAMES: Final = re.compile(
    "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC|SUN|MON|TUE|WED|THU|FRI|SAT"
)
PLAIN: Final = re.compile(r"[\d*,/-]+(?: [\d*,/-]+){4}")


@dataclass(frozen=True, slots=True)
class Starts:
    """When a job must be started, in the zone that its starter counts in.

    Attributes:
        zone: That zone.
        rules: Wall times there that name every due time, but for what a switch does.
        exact: They name nothing else.
        doubtful: The starts, aware UTC, ascending, that lie near a switch of a zone.
        until: What was looked at; a schedule or a zone may do something new after that.
    """

    zone: ZoneInfo
    rules: tuple[Rule, ...]
    exact: bool
    doubtful: tuple[datetime, ...]
    until: datetime

    def unmet(self, started: Callable[[datetime], bool]) -> list[datetime]:
        """The doubtful starts, in `zone`, at which a starter does not start.

        Args:
            started: Whether a rule makes the starter start at an aware local time.
        """
        local = (start.astimezone(self.zone) for start in self.doubtful)
        return [start for start in local if not started(start)]

    def named(self, local: datetime) -> bool:
        """Whether a rule names an aware local time."""
        return any(rule.matches(local) for rule in self.rules)


def zone_of(job: Job) -> ZoneInfo:
    """The zone whose clock says a job's due times most simply."""
    schedule = _due_schedule(job)
    zone: ZoneInfo = getattr(schedule, "zone", job.zone)
    if hasattr(schedule, "zone") or zone.key == "UTC":
        return zone
    # Elapsed time, such as every 90 minutes, knows no zone; dates may lie on either clock.
    utc = zones.load("UTC")
    return min((utc, zone), key=lambda each: _complexity(schedule, each))


def moved_by_whole_hours(zone: ZoneInfo, *, now: datetime) -> bool:
    """Whether every switch of a zone, in the ten years from *now* on, is by whole hours."""
    return not any(by % (60 * MINUTE) for _, by in _switches(zone, now, now + AHEAD))


def starts_of(job: Job, zone: ZoneInfo, *, now: datetime) -> Starts:
    """When *job* must be started from *now* on.

    Args:
        job: With a schedule.
        zone: The zone that the starter counts in.
        now: Aware UTC.

    Raises:
        UsageError: The job has no schedule, is not due in the next ten years, or is due twice
            within a minute.
    """
    schedule = _due_schedule(job)
    until = min(now, datetime.max.replace(tzinfo=UTC) - AHEAD - DAY) + AHEAD
    first = schedule.next(now)
    if first is None or first > until:
        raise UsageError(
            f"{job.name} is not due in the ten years from {now:%Y-%m-%d} on ({schedule.text}):"
            " there is nothing to start; run it by name, or give it another schedule"
        )
    near = _near_switches({zone.key: zone, job.zone.key: job.zone, **_own(schedule)}, now, until)
    exact = _as_written(schedule, zone)
    if exact is not None:
        doubtful = _doubtful(job, schedule, near, now, until)
        return Starts(zone, (exact,), True, doubtful, until)
    doubtful = _doubtful(job, schedule, near, now, until)
    near_one = set(doubtful)
    plain = rules.Cover()
    for count, start in enumerate(_starts(job, schedule, now, until)):
        if plain.full or (count > LOOKED_AT_MAX and start - now > LOOKED_AT_LEAST):
            until = until if plain.full else start
            break
        if start not in near_one:
            plain.add(start.astimezone(zone))
    if not plain.times:
        for start in doubtful:
            plain.add(start.astimezone(zone))
    return Starts(zone, plain.rules(), False, doubtful, until)


def _due_schedule(job: Job) -> Schedule:
    """The schedule of a job's due times, which a business period does not move."""
    if job.schedule is None:
        raise UsageError(
            f"{job.name} has no schedule, so nothing says when to start it:"
            ' give the job one, such as schedule="30 2 * * *"'
        )
    return job.schedule.schedule if isinstance(job.schedule, PeriodSchedule) else job.schedule


def _doubtful(
    job: Job,
    schedule: Schedule,
    near: Iterable[tuple[datetime, datetime]],
    first: datetime,
    until: datetime,
) -> tuple[datetime, ...]:
    """The starts near a switch."""
    spans = ((max(start, first), min(end, until)) for start, end in near)
    return tuple(
        due for start, end in spans if start < end for due in _starts(job, schedule, start, end)
    )


def _own(schedule: Schedule) -> dict[str, ZoneInfo]:
    zone: ZoneInfo | None = getattr(schedule, "zone", None)
    return {} if zone is None else {zone.key: zone}


def _complexity(schedule: Schedule, zone: ZoneInfo) -> int:
    """How many times of day a year of due times has on a zone's clock."""
    begin = schedule.next(datetime(2026, 1, 1, tzinfo=UTC))
    if begin is None:
        return 0
    found = set()
    for count, due in enumerate(schedule.between(begin, begin + LOOKED_AT_LEAST)):
        found.add(due.astimezone(zone).time())
        if count > 10_000 or len(found) > 1_440:
            break
    return len(found)


def _starts(job: Job, schedule: Schedule, first: datetime, end: datetime) -> Iterator[datetime]:
    """The due times in [*first*, *end*), each at the next full minute: no starter counts finer."""
    before: datetime | None = None
    for due in schedule.between(first, end):
        over = timedelta(seconds=due.second, microseconds=due.microsecond)
        start = due + (MINUTE - over) if over else due
        if start == before:
            raise UsageError(
                f"{job.name} is due twice within the minute before {start:%Y-%m-%dT%H:%MZ}"
                f" ({schedule.text}), and a starter starts it once a minute at most:"
                " make it due less often, or start it from a process of your own"
            )
        yield start
        before = start


def _as_written(schedule: Schedule, zone: ZoneInfo) -> Rule | None:
    """The rule that a plain cron expression is in its own zone; None for anything else."""
    if not isinstance(schedule, CronSchedule) or schedule.zone.key != zone.key:
        return None
    if not PLAIN.fullmatch(NAMES.sub("0", schedule.expression)):
        return None  # seconds, or a day that only duly counts, such as the last one
    read = parse(schedule.expression)
    minute, hour, day, month, weekday = schedule.expression.split()
    restricted = read.day.values != DAYS and read.weekday.values != WEEKDAYS
    starred = read.day.starred or read.weekday.starred
    any_day = not starred and not restricted  # either field names every day, and one is enough
    return Rule(
        hours=read.hour.values,
        minutes=read.minute.values,
        days=DAYS if any_day else read.day.values,
        months=read.month.values,
        weekdays=WEEKDAYS if any_day else read.weekday.values,
        either=restricted and not starred,
        spelled=(minute, hour, day, month, weekday),
    )


def _near_switches(
    of: dict[str, ZoneInfo], first: datetime, until: datetime
) -> list[tuple[datetime, datetime]]:
    """The spans [start, end), ascending and apart, that follow a switch of one of the zones."""
    found = sorted(
        (switch, switch + max(AFTER_SWITCH, 2 * abs(by)))
        for zone in of.values()
        for switch, by in _switches(zone, first - DAY, until)
    )
    return list(_joined(found))


def _joined(spans: Iterable[tuple[datetime, datetime]]) -> Iterator[tuple[datetime, datetime]]:
    held: tuple[datetime, datetime] | None = None
    for start, end in spans:
        if held is not None and start <= held[1]:
            held = held[0], max(held[1], end)
            continue
        if held is not None:
            yield held
        held = start, end
    if held is not None:
        yield held


def _switches(
    zone: ZoneInfo, first: datetime, until: datetime
) -> Iterator[tuple[datetime, timedelta]]:
    """The instants in a span at which a zone's clock is moved, and by how much."""
    # From midnight on: halving a day in whole seconds then meets the switch itself.
    day = first.replace(hour=0, minute=0, second=0, microsecond=0)
    offset = day.astimezone(zone).utcoffset()
    while day < until:
        after = (day + DAY).astimezone(zone).utcoffset()
        if after != offset:
            assert after is not None
            assert offset is not None
            low, high = 0, DAY // timedelta(seconds=1)  # old at *low*, new at *high*
            while high - low > 1:
                middle = (low + high) // 2
                there = (day + timedelta(seconds=middle)).astimezone(zone).utcoffset()
                low, high = (middle, high) if there == offset else (low, middle)
            yield day + timedelta(seconds=high), after - offset
        day, offset = day + DAY, after
