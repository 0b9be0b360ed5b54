"""Which occurrence a start is for: starters, periods and due times, on each database."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank

# 02:30 in Berlin on the night that has it twice.
FIRST, SECOND = datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def said(at: datetime | None, starter: str = "kubernetes") -> duly.Start:
    return duly.Start(starter, at, f"said={at}")


def today() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def test_two_starts_in_a_repeated_hour_are_one_occurrence(bank: Bank) -> None:
    """A starter that fires at both 02:30 makes one effect, and its word is recorded."""
    app = bank.define(bank.app(), schedule=duly.Cron("30 2 * * *", timezone="Europe/Berlin"))

    first = app.run(bank.job, said(FIRST))
    second = app.run(bank.job, said(SECOND))

    assert (first.outcome, second.outcome) == (duly.Outcome.APPLIED, duly.Outcome.DUPLICATE)
    assert first.key == second.key == f"{bank.job}:2026-10-25T00:30:00Z"
    assert bank.units == UNITS
    assert [attempt.source for attempt in bank.attempts] == ["kubernetes"]
    assert (first.source, second.source) == ("kubernetes", "kubernetes")


def test_start_says_how_late_it_is_by_its_due_time(bank: Bank) -> None:
    """Lateness counts from the due time, whatever the nominal time is."""
    app = bank.define(
        bank.app(), schedule="15 2 * * *", timezone="UTC", period="day", period_offset=-1
    )
    due = today() - timedelta(days=2) + timedelta(hours=2, minutes=15)

    result = app.run(bank.job, said(due + timedelta(hours=1)))

    nominal_time = duly.Occurrence.parse(result.key).nominal_time
    assert nominal_time == today() - timedelta(days=3)
    late = datetime.now(UTC) - due
    assert abs(result.late - late) < timedelta(minutes=1)


def test_start_that_says_no_instant_means_the_newest_due(bank: Bank) -> None:
    """A starter that only says that it is there does not change what is due."""
    app = bank.define(bank.app(), schedule="0 0 * * *")

    result = app.run(bank.job, said(None, "systemd"))

    assert result.source == "schedule"
    assert duly.Occurrence.parse(result.key).nominal_time in {today(), today() - timedelta(days=1)}


def test_start_of_the_future_keeps_the_key_free(bank: Bank) -> None:
    """A starter whose clock is wrong does not use up tomorrow's key."""
    app = bank.define(bank.app(), schedule="0 0 * * *")

    with pytest.raises(duly.NotDue):
        app.run(bank.job, said(today() + timedelta(days=2)))

    assert (bank.units, bank.settled) == (0, [])


def test_start_of_a_job_without_a_schedule_keeps_the_instant(bank: Bank) -> None:
    """Without a schedule there is nothing to floor to; the starter's instant is the identity."""
    app = bank.define(bank.app(), schedule=None)

    result = app.run(bank.job, said(SECOND))

    assert result.key == f"{bank.job}:2026-10-25T01:30:00Z"


def test_period_that_is_over_but_not_due_is_refused(bank: Bank) -> None:
    """With `period=` a start counts from the due time: yesterday is not run before its hour."""
    yesterday = today() - timedelta(days=1)
    # Due 24 hours after tomorrow began: for yesterday it is never due now.
    app = bank.define(bank.app(), schedule="0 0 * * *", period="day", period_offset=-3)

    with pytest.raises(duly.NotDue) as caught:
        app.run(bank.job, yesterday)

    assert caught.value.details["due_at"] == f"{today() + timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}"
    assert (bank.units, bank.settled) == (0, [])
    assert app.run(bank.job, yesterday, early=True).outcome is duly.Outcome.APPLIED


def test_moving_the_hour_of_a_period_makes_no_second_effect(bank: Bank) -> None:
    """S52: a daily job that is moved from 01:15 to 02:15 does not credit the day again."""
    schedules = ("15 1 * * *", "15 2 * * *")
    day = (today() - timedelta(days=3)).date()

    outcomes = [
        bank.define(bank.app(), schedule=text, period="day", period_offset=-1).run(bank.job, day)
        for text in schedules
    ]

    assert [result.outcome for result in outcomes] == [
        duly.Outcome.APPLIED,
        duly.Outcome.DUPLICATE,
    ]
    assert bank.units == UNITS


def test_run_knows_its_interval_date_and_shift(bank: Bank) -> None:
    """A handler sees what its occurrence is about, also where 02:30 did not exist."""
    seen = []

    def handler(run: duly.Run) -> None:
        seen.append((run.local_date.isoformat(), run.shifted, run.due_time, run.interval))

    app = bank.app()
    app.job(bank.job, schedule="30 2 * * *", timezone="Europe/Berlin")(handler)
    app.run(bank.job, "2026-03-29")

    start = datetime(2026, 3, 28, 1, 30, tzinfo=UTC)
    gap_end = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert seen == [("2026-03-29", True, gap_end, duly.Interval(start, gap_end))]


@pytest.mark.parametrize(
    ("policies", "message"),
    [
        ({"period": "day"}, 'period="day" needs a schedule'),
        ({"period_offset": -1}, "means nothing without period="),
        ({"jitter": timedelta(minutes=1)}, "jitter= needs a schedule"),
        ({"schedule": "0 0 * * *", "jitter": 60}, "jitter must be a timedelta"),
        ({"schedule": "0 0 * * *", "tolerance": timedelta(-1)}, "tolerance must be a timedelta"),
        ({"schedule": "0 0 * * *", "tolerance": timedelta(hours=1)}, "is more than 0:01:00"),
        ({"schedule": 5}, "5 is no schedule; give cron text"),
        ({"schedule": "0 0 * * *", "timezone": "EST"}, "'EST' is an abbreviation"),
        (
            {"schedule": duly.Cron("0 0 * * *", timezone="UTC"), "timezone": "Europe/Berlin"},
            "'Europe/Berlin' and the schedule's own zone, UTC, differ",
        ),
    ],
)
def test_job_whose_times_cannot_be_is_refused_by_name(
    policies: dict[str, object], message: str
) -> None:
    """A definition that is wrong is refused when it is made, and says of which job it is."""
    app = duly.App("sqlite:///nowhere.db")

    with pytest.raises(duly.ScheduleInvalid, match=f"job work: .*{message}"):
        app.job("work", **policies)  # type: ignore[arg-type]


def test_zone_of_a_job_is_that_of_its_schedule() -> None:
    """A zone that the schedule has is not asked for again."""
    app = duly.App("sqlite:///nowhere.db")
    app.job("work", schedule=duly.Cron("0 9 * * *", timezone="Asia/Tokyo"))(lambda run: None)

    assert app.jobs["work"].zone.key == "Asia/Tokyo"


def test_tolerance_of_a_job_decides_which_early_start_counts(bank: Bank) -> None:
    """A start within the tolerance means the time that is about to fall due."""
    app = bank.app()
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=40)
    hourly = duly.Every(timedelta(hours=1), anchor=soon - timedelta(hours=5))
    bank.define(app, schedule=hourly, tolerance=timedelta(minutes=1))

    result = app.run(bank.job)

    assert result.key == duly.Occurrence(bank.job, soon).key
    assert result.late < timedelta(0)


@pytest.mark.parametrize(
    ("at", "error"),
    [
        ("junk", duly.NominalTimeInvalid),
        ("2026-09-13T00:30:00Z", duly.OffSchedule),
        (said(datetime(2999, 1, 1, tzinfo=UTC)), duly.NotDue),
    ],
)
def test_start_that_is_refused_for_its_own_sake_leaves_no_revision(
    bank: Bank, at: Any, error: type[duly.DulyError]
) -> None:
    """A mistyped start from a stray checkout does not make the code in service stale."""
    in_service = bank.define(bank.app(), schedule="0 0 * * *")
    in_service.run(bank.job, "2026-09-13T00:00:00Z")
    stray = bank.define(bank.app(), schedule="0 12 * * *")

    with pytest.raises(error):
        stray.run(bank.job, at)

    revisions = bank.run(f"SELECT COUNT(*) FROM duly_job_revision WHERE job = '{bank.job}'")
    assert int(revisions[0][0]) == 1
    assert bank.define(bank.app(), schedule="0 0 * * *").run(bank.job, "2026-09-14").outcome is (
        duly.Outcome.APPLIED
    )


def test_child_that_was_forked_while_a_job_was_registered_starts_it(bank: Bank) -> None:
    """The parent's lock is held for ever in the child, which has no thread to let go of it."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.register()
    with app._registry._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # instead of a wait for ever
            status = 1
            try:
                app.run(bank.job, "2026-09-13")
                status = 0
            finally:
                os._exit(status)
        _, ended = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(ended) == 0
    assert bank.units == UNITS
