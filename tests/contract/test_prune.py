"""A prune does not pass what is missing, and leaves nothing to be launched again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.instants import to_us
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank

DAY = timedelta(days=1)
ORDER: Any = {"reason": "nobody needs it", "actor": "ann"}


def days_ago(days: int) -> datetime:
    """A midnight."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days * DAY


def daily(bank: Bank, **policies: Any) -> duly.App:
    """A daily job that is expected since ten days ago."""
    app = bank.define(bank.app(), schedule="0 0 * * *", starts=days_ago(10), **policies)
    app.register()
    return app


def mine(bank: Bank, done: list[Any]) -> Any:
    """What a prune of the shared ledger did to this bank's job."""
    (found,) = [each for each in done if each.job == bank.job]
    return found


def prune(bank: Bank, app: duly.App, older_than: datetime) -> Any:
    return mine(bank, app.prune(older_than=older_than, clock_is_right=True))


def test_prune_does_not_pass_a_missing_occurrence(bank: Bank) -> None:
    """It stops just before the oldest hole, behind later ones that are settled, and names it."""
    app = daily(bank)
    for days in (10, 9, 7, 6, 0):
        app.run(bank.job, days_ago(days))

    job = prune(bank, app, days_ago(5))

    hole = bank.occurrence(days_ago(8))
    assert (job.held.key, job.held.why) == (hole.key, "missing")
    assert (job.horizon_us, job.occurrences) == (hole.nominal_us - 1, 2)
    assert app.run(bank.job, days_ago(8)).outcome is duly.Outcome.APPLIED
    again = prune(bank, app, days_ago(6))
    assert (again.held, again.horizon_us) == (None, to_us(days_ago(6)))
    assert bank.units == 6 * UNITS


@pytest.mark.parametrize("way", ["waive", "run", "pause"])
def test_prune_passes_what_was_closed(bank: Bank, way: str) -> None:
    """A waiver and an effect close a hole; a pause expects nothing."""
    app = daily(bank)
    for days in (10, 9, 7, 0):
        app.run(bank.job, days_ago(days))
    if way == "waive":
        app.waive(bank.occurrence(days_ago(8)).key, **ORDER)
    elif way == "run":
        app.run(bank.job, days_ago(8))
    else:
        app.pause(bank.job, **ORDER)
        app.resume(bank.job, **ORDER)
        bank.run(
            f"UPDATE duly_pause SET paused_us = {to_us(days_ago(8))},"
            f" resumed_us = {to_us(days_ago(7))} WHERE job = '{bank.job}'"
        )

    job = prune(bank, app, days_ago(7))

    assert (job.held, job.horizon_us) == (None, to_us(days_ago(7)))


def test_prune_of_a_job_without_revisions_passes(bank: Bank) -> None:
    """Nothing is expected of a job that is only started by name."""
    app = bank.define(bank.app())
    for days in (10, 8, 0):
        app.run(bank.job, days_ago(days))
    assert prune(bank, app, days_ago(5)).held is None


def test_prune_does_not_pass_a_partition_that_is_missing(bank: Bank) -> None:
    """An occurrence is complete when all its parts are settled."""
    app = daily(bank, partitions=["north", "south"], retry=duly.Retry(attempts=1))
    app.tick(days_ago(9))
    app.run(bank.job, days_ago(0), partition="north")
    south = bank.occurrence(days_ago(9), "south")
    bank.run(
        f"DELETE FROM duly_occurrence WHERE job = '{bank.job}' AND partition_key = 'south'"
        f" AND nominal_us = {south.nominal_us}"
    )
    bank.run(f"UPDATE duly_job SET complete_us = NULL WHERE name = '{bank.job}'")

    job = prune(bank, app, days_ago(5))

    assert (job.held.key, job.held.why) == (south.key, "missing")


def test_prune_holds_at_a_period_that_is_due_later_than_its_start(bank: Bank) -> None:
    """With `period=`, what is due lies behind the nominal time by up to a period and more."""
    app = bank.define(
        bank.app(), schedule="0 0 * * *", period="day", period_offset=-1, starts=days_ago(10)
    )
    app.register()
    for days in (11, 10, 8, 7, 2):
        app.run(bank.job, days_ago(days))

    job = prune(bank, app, days_ago(9))

    assert (job.held.key, job.held.why) == (bank.occurrence(days_ago(9)).key, "missing")


def test_pruned_period_is_expired_and_not_due(bank: Bank) -> None:
    """S53: history of a month, a monthly job: its pruned period is not launched again."""
    first = datetime(2025, 1, 1, tzinfo=UTC)
    app = bank.define(bank.app(), schedule="0 0 1 * *", starts=first)
    app.register()
    now = datetime.now(UTC)
    while any(job.ran for job in app.tick(now).jobs):
        pass
    units = bank.units
    assert units > 12 * UNITS

    job = prune(bank, app, now - 30 * DAY)

    assert job.held is None
    bank.run(f"UPDATE duly_job SET complete_us = NULL WHERE name = '{bank.job}'")
    assert [each for each in app.tick(now).jobs if each.job == bank.job] == []
    with pytest.raises(duly.Expired):
        app.run(bank.job, first)
    assert bank.units == units
