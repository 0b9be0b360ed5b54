"""Every due time of a schedule has a start within the minute after it, whoever the starter is.

What a starter starts is not asked of duly: see `starters`.
"""

from __future__ import annotations

import functools
import os
import shutil
from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import zones
from duly._cli.units import cron, kubernetes, systemd, times
from duly._cli.units.order import Order
from tests.units import starters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from zoneinfo import ZoneInfo

    from duly._core.job import Job

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PRINTED_AT = datetime(2026, 12, 2, 1, 13, 7, 5, tzinfo=UTC)
FIRST, LAST = datetime(2027, 1, 1, tzinfo=UTC), datetime(2029, 1, 1, tzinfo=UTC)
ZONES = ["Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"]
CRON_ZONES = [
    *((zone, None) for zone in ZONES),
    ("Europe/Berlin", "UTC"),
    ("Europe/Berlin", "Australia/Lord_Howe"),
    ("America/Santiago", "America/New_York"),
    ("Australia/Lord_Howe", "Europe/Berlin"),
]


def every(**interval: float) -> duly.Every:
    return duly.Every(timedelta(**interval), anchor=datetime(2026, 1, 1, tzinfo=UTC))


SCHEDULES: dict[str, Callable[[str], dict[str, Any]]] = {
    text: lambda zone, text=text: {"schedule": text, "timezone": zone}
    for text in (
        "30 2 * * *",
        "0 0 * * *",
        "15 0 * * *",
        "0 3 * * *",
        "*/5 * * * *",
        "* * * * *",
        "0 * * * *",
        "15,45 1-3 * * *",
        "30 */2 * * *",
        "0 9 1,15 * MON",
        "0 6 */2 * FRI-SUN",
        "0 2 */7 * MON,WED",
        "0 12 29 2 *",
        "0 0 1 1,JUL *",
        "0 3 1,* * 1",
        "0 6 * * 5-7",
        "0 7 1,15 * MON-SUN",
        "5 0 * MAR-APR,SEP-OCT SUN",
        "0 0-23/3,4 * * 1-5",
    )
} | {
    "last 02:30": lambda zone: {"schedule": duly.Cron("30 2 * * *", zone, fold="last")},
    "both 01:30-02:30, shifted": lambda zone: {
        "schedule": duly.Cron("*/15 1-2 * * *", zone, fold="both", gap="shift")
    },
    "first */5": lambda zone: {
        "schedule": duly.Cron("*/5 * * * *", zone, fold="first", gap="next")
    },
    "previous day": lambda zone: {
        "schedule": "30 2 * * *", "timezone": zone, "period": "day", "period_offset": -1,
    },
    "every 90 min": lambda zone: {"schedule": every(minutes=90), "timezone": zone},
    "every 45 min": lambda zone: {"schedule": every(minutes=45), "timezone": zone},
    "every 31 h": lambda zone: {"schedule": every(hours=31), "timezone": zone},
    "every hour at :00:30": lambda zone: {
        "schedule": duly.Every(HOUR, anchor=datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)),
        "timezone": zone,
    },
    "every 7 min": lambda zone: {"schedule": every(minutes=7), "timezone": zone},
    "every 61.5 s": lambda zone: {"schedule": every(seconds=61.5), "timezone": zone},
}  # fmt: skip


def job_of(definition: dict[str, Any]) -> Job:
    app = duly.App("sqlite:///nowhere.db")
    app.job("daily-credit", **definition)(lambda run: None)
    return app.jobs["daily-credit"]


def order_of(job: Job, zone: ZoneInfo) -> Order:
    starts = times.starts_of(job, zone, now=PRINTED_AT)
    return Order(job, starts, ("/bin/duly", "run"), directory="/srv", user="bank", image="x")


def dues_of(job: Job, start: datetime, end: datetime) -> list[datetime]:
    schedule: Any = job.schedule
    return list(getattr(schedule, "schedule", schedule).between(start, end))


def spans_of(order: Order, *, costly: bool = False) -> Iterator[tuple[datetime, datetime]]:
    """Where to look: all of two years, or, where that is much, at switches and ends of months."""
    a_day = sum(rule.times_a_day() for rule in order.starts.rules)
    if a_day <= 6 and not costly:
        yield FIRST, LAST
        return
    around = 2 * DAY if a_day <= 6 else 12 * HOUR if a_day <= 50 else 2 * HOUR
    places = {order.job.zone.key: order.job.zone, order.starts.zone.key: order.starts.zone}
    switches = [at for zone in places.values() for at in switches_of(zone)]
    for at in [datetime(2028, 2, 29, tzinfo=UTC), datetime(2028, 7, 1, tzinfo=UTC), *switches]:
        yield at - around, at + around + 2 * HOUR


@functools.cache
def switches_of(zone: ZoneInfo) -> list[datetime]:
    """The quarters of an hour in 2028 at which the zone's offset is new."""
    quarters = [datetime(2028, 1, 1, tzinfo=UTC) + n * HOUR / 4 for n in range(366 * 96)]
    offsets = [at.astimezone(zone).utcoffset() for at in quarters]
    return [quarters[n] for n in range(1, len(quarters)) if offsets[n] != offsets[n - 1]]


def assert_covered(dues: Iterable[datetime], starts: Iterable[datetime]) -> None:
    begun = sorted(set(starts))
    late = []
    for due in dues:
        at = bisect_left(begun, due)
        if at == len(begun) or begun[at] - due >= MINUTE:
            late.append(due.isoformat())
    assert late == []


def systemd_analyze() -> None:
    if shutil.which("systemd-analyze") is None:
        reason = "no systemd-analyze (Debian package systemd)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_timer_starts_at_every_due_time(name: str, zone: str) -> None:
    systemd_analyze()
    job = job_of(SCHEDULES[name](zone))
    order = order_of(job, times.zone_of(job))
    events = starters.on_calendar(systemd.files(order)["duly-daily-credit.timer"])

    for start, end in spans_of(order, costly=True):
        begun = [at for event in events for at in starters.systemd(event, start, end + MINUTE)]
        assert_covered(dues_of(job, start, end), begun)


@pytest.mark.parametrize(("zone", "counts_in"), CRON_ZONES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_crontab_starts_at_every_due_time(name: str, zone: str, counts_in: str | None) -> None:
    """Also where the daemon counts in another zone."""
    job = job_of(SCHEDULES[name](zone))
    order = order_of(job, zones.load(counts_in) if counts_in else times.zone_of(job))
    [text] = cron.files(order).values()

    place = order.starts.zone.key
    halves = place == "Australia/Lord_Howe"
    oracle = starters.vixie_cron if halves else starters.debian_cron
    for start, end in spans_of(order, costly=halves):
        begun = [
            at
            for fields in starters.crontab_fields(text)
            for at in oracle(fields, place, start, end + MINUTE)
        ]
        assert_covered(dues_of(job, start, end), begun)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("name", SCHEDULES)
def test_cron_jobs_start_at_every_due_time(name: str, zone: str) -> None:
    job = job_of(SCHEDULES[name](zone))
    order = order_of(job, kubernetes.zone_for(job, now=PRINTED_AT))
    [text] = kubernetes.files(order).values()

    for start, end in spans_of(order):
        begun = [
            at
            for fields, place in starters.cron_jobs(text)
            for at in starters.kubernetes(fields, place, start, end + MINUTE)
        ]
        assert_covered(dues_of(job, start, end), begun)


@pytest.mark.parametrize("name", ["30 2 * * *", "0 0 * * *", "last 02:30", "0 9 1,15 * MON"])
@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Santiago"])
def test_crontab_is_enough_for_a_cron_that_skips_what_the_clock_skips(name: str, zone: str) -> None:
    """As busybox does, and cronie below a line CRON_TZ=."""
    job = job_of(SCHEDULES[name](zone))
    order = order_of(job, times.zone_of(job))
    [text] = cron.files(order).values()

    for start, end in spans_of(order):
        begun = [
            at
            for fields in starters.crontab_fields(text)
            for at in starters.kubernetes(fields, zone, start, end + MINUTE)
        ]
        assert_covered(dues_of(job, start, end), begun)
