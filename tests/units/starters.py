"""What each starter makes of a definition: its starts in a span of time.

Other people's answers: systemd's own program, cronsim for Debian's cron, and for Kubernetes the
search of robfig/cron (spec.go, Next), followed step by step on Go's rules for times.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cronsim import CronSim

from duly import zones

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


# ------------------------------------------------------------------------------------------ systemd


def on_calendar(timer: str) -> list[str]:
    """The events of a timer."""
    return re.findall(r"^OnCalendar=(.+)$", timer, re.MULTILINE)


@functools.cache
def systemd(event: str, start: datetime, end: datetime) -> list[datetime]:
    """The times at which systemd elapses an event, in [start, end)."""
    found: list[datetime] = []
    after = start - timedelta(seconds=1)
    asked = 10
    while True:
        said = subprocess.run(
            [
                *("systemd-analyze", "calendar", f"--iterations={asked}"),
                f"--base-time={after:%Y-%m-%d %H:%M:%S} UTC",
                event,
            ],
            env={**os.environ, "TZ": "UTC", "SYSTEMD_COLORS": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        times = re.findall(r"(?:Next elapse|Iter\. #\d+): \w{3} (\S+ \S+) UTC", said)
        some = [datetime.fromisoformat(time).replace(tzinfo=UTC) for time in times]
        found += some
        if len(some) < asked or some[-1] >= end:
            return [at for at in found if at < end]
        after, asked = some[-1], 3 * asked


# --------------------------------------------------------------------------------------------- cron


def crontab_fields(text: str) -> list[str]:
    """The five fields of each line."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [" ".join(line.split()[:5]) for line in lines]


@functools.cache
def debian_cron(fields: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The times at which Debian's cron starts a line, in [start, end)."""
    found = []
    before = (start - timedelta(days=1)).astimezone(zones.load(zone))
    for local in CronSim(fields, before):
        at = local.astimezone(UTC)
        if at >= end:
            break
        if at >= start:
            found.append(at)
    return found


@functools.cache
def vixie_cron(fields: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The same by the main loop of Vixie cron (cron.c), a minute at a time.

    cronsim takes the repeated hour for a whole one, which it is not on Lord Howe.
    """
    minute, hour, day, _, weekday = fields.split()
    wild = minute.startswith("*") or hour.startswith("*")
    place = zones.load(zone)
    line = _Search(" ".join((*fields.split()[:4], "*")), place)
    line.weekdays = {value % 7 for value in _values(weekday, 0, 7)[0]}
    line.both = day.startswith("*") or weekday.startswith("*")
    found = set()
    at = start - timedelta(hours=12)
    seen = at.astimezone(place).replace(tzinfo=None) - MINUTE
    while at < end:
        now = at.astimezone(place).replace(tzinfo=None, fold=0)
        moved = now - seen
        if moved > 3 * HOUR or moved < -3 * HOUR:
            seen, moved = now - MINUTE, MINUTE
        if moved <= timedelta(0):
            due = wild and line.names(now)
        elif wild:
            due, seen = line.names(now), now
        else:
            passed = (seen + n * MINUTE for n in range(1, moved // MINUTE + 1))
            due, seen = any(map(line.names, passed)), now
        if due and at >= start:
            found.add(at)
        at += MINUTE
    return sorted(found)


# --------------------------------------------------------------------------------------- Kubernetes


@functools.cache
def kubernetes(fields: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The times of a CronJob, in [start, end)."""
    found = []
    search = _Search(fields, zones.load("UTC" if zone == "Etc/UTC" else zone))
    at = start - timedelta(seconds=1)
    while (following := search.after(at)) is not None and following < end:
        found.append(following)
        at = following
    return found


class _Search:
    """robfig/cron's search for the next time, in elapsed hours and minutes from a local date."""

    def __init__(self, fields: str, zone: ZoneInfo) -> None:
        minute, hour, day, month, weekday = fields.split()
        self.minutes, _ = _values(minute, 0, 59)
        self.hours, _ = _values(hour, 0, 23)
        self.days, day_star = _values(day, 1, 31)
        self.months, _ = _values(month, 1, 12)
        self.weekdays, weekday_star = _values(weekday, 0, 6)
        self.both = day_star or weekday_star
        self.zone = zone

    def after(self, at: datetime) -> datetime | None:
        now = at + timedelta(seconds=1)
        begun = False
        while True:
            reached, begun, wrapped = self._step(now, begun=begun)
            if not wrapped:
                return reached
            if reached.year > at.year + 5:
                return None
            now = reached

    def names(self, wall: datetime) -> bool:
        """Whether the fields name a wall time."""
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self._day_matches(wall)
        )

    def _step(  # noqa: C901, PLR0912 - as long as what it follows
        self, now: datetime, *, begun: bool
    ) -> tuple[datetime, bool, bool]:
        """One pass over the fields: where it came to, and whether it must begin anew."""
        while self._local(now).month not in self.months:
            local = self._local(now)
            if not begun:
                begun, now = True, self._date(datetime(local.year, local.month, 1))
                local = self._local(now)
            year, month = divmod(local.year * 12 + local.month, 12)
            now = self._date(local.replace(year=year, month=month + 1))
            if self._local(now).month == 1:
                return now, begun, True
        while not self._day_matches(self._local(now)):
            local = self._local(now)
            if not begun:
                begun, now = True, self._date(datetime(local.year, local.month, local.day))
                local = self._local(now)
            now = self._date(local + timedelta(days=1))
            hour = self._local(now).hour
            if hour != 0:
                now += (24 - hour if hour > 12 else -hour) * HOUR
            if self._local(now).day == 1:
                return now, begun, True
        while self._local(now).hour not in self.hours:
            if not begun:
                begun, now = True, self._date(self._local(now).replace(minute=0, second=0))
            now += HOUR
            if self._local(now).hour == 0:
                return now, begun, True
        while self._local(now).minute not in self.minutes:
            if not begun:
                begun, now = True, now.replace(second=0)
            now += MINUTE
            if self._local(now).minute == 0:
                return now, begun, True
        if now.second:
            now = now.replace(second=0) + MINUTE
            return now, begun, True
        return now, begun, False

    def _day_matches(self, local: datetime) -> bool:
        by_day, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return by_day and by_weekday if self.both else by_day or by_weekday

    def _local(self, at: datetime) -> datetime:
        return at.astimezone(self.zone).replace(tzinfo=None)

    def _date(self, wall: datetime) -> datetime:
        """Go's time.Date: the offset that holds at the wall time read as UTC, if it fits."""
        as_utc = wall.replace(tzinfo=UTC, fold=0)
        guess = self._offset(as_utc)
        if self._offset(as_utc - guess) != guess:
            guess = self._offset(as_utc - guess)
        return as_utc - guess

    def _offset(self, at: datetime) -> timedelta:
        offset = at.astimezone(self.zone).utcoffset()
        assert offset is not None
        return offset


def _values(text: str, low: int, high: int) -> tuple[set[int], bool]:
    """The values of a field, and whether it has a star without a step."""
    found: set[int] = set()
    star = False
    for term in text.split(","):
        span, _, step = term.partition("/")
        if span == "*":
            first, last = low, high
            star = star or int(step or 1) == 1
        else:
            begin, _, finish = span.partition("-")
            first = int(begin)
            last = int(finish) if finish else (high if step else first)
        assert low <= first <= last <= high, f"robfig/cron refuses {text}"
        found.update(range(first, last + 1, int(step or 1)))
    return found, star


def cron_jobs(text: str) -> Iterator[tuple[str, str]]:
    """The schedule and the zone of each CronJob of a manifest."""
    schedules = re.findall(r'^  schedule: "(.+)"$', text, re.MULTILINE)
    places = re.findall(r'^  timeZone: "(.+)"$', text, re.MULTILINE)
    yield from zip(schedules, places, strict=True)
