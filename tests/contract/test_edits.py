"""What an edit leaves behind: nothing expected before it is forgotten, or done otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import duly
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def this_hour() -> datetime:
    return datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def ticked(app: duly.App, bank: Bank) -> list[str]:
    """The keys that one tick started of this bank's job."""
    return [ran.key for job in app.tick().jobs if job.job == bank.job for ran in job.ran]


def test_missing_of_an_earlier_schedule_is_run_whatever_the_new_one_expects(bank: Bank) -> None:
    """The new schedule has not been due for months; the hours that the old one left are run."""
    now = this_hour()
    old = bank.define(bank.app(), schedule="0 * * * *", starts=now - 3 * HOUR)
    old.register()
    rare = f"0 0 1 {(now.month + 5) % 12 + 1} *"
    new = bank.define(bank.app(), schedule=rare, starts=now - 3 * HOUR)
    due = [bank.occurrence(now - hours * HOUR).key for hours in (3, 2, 1, 0)]

    assert ticked(new, bank)[:4] == due
    assert bank.units >= 4 * UNITS


def test_period_that_an_edit_left_over_has_one_payload_for_ticks_and_for_people(bank: Bank) -> None:
    """It is due when the edit took effect, by that edit's payload: a replay is a duplicate."""
    now = datetime.now(UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    # Today's start for yesterday is still to come by the old time of day, and past by the new.
    late: dict[str, Any] = {"schedule": "59 23 * * *", "period": "day", "period_offset": -1}
    early = {**late, "schedule": "0 0 * * *"}
    old = bank.define(bank.app(), **late, payload={"from": "old"}, starts=midnight - DAY)
    old.register()
    new = bank.define(bank.app(), **early, payload={"from": "new"}, starts=midnight - DAY)
    yesterday = bank.occurrence(midnight - DAY)

    keys = ticked(new, bank)

    assert yesterday.key in keys
    assert new.run(bank.job, midnight - DAY).outcome is duly.Outcome.DUPLICATE
    corrected = new.correct(yesterday.key, reason="as ordered", actor="ann")
    assert corrected.outcome is duly.Outcome.APPLIED
    prints = bank.run(
        f"SELECT fingerprint FROM duly_occurrence WHERE job = '{bank.job}'"
        f" AND nominal_us = {yesterday.nominal_us}"
    )
    assert len({bytes(row[0]) for row in prints}) == 1


def test_job_is_passed_by_again_when_all_before_its_edit_is_settled(bank: Bank) -> None:
    """One tick remembers it, so that the next ones need not look at the job."""
    now = this_hour()
    rare = f"0 0 1 {(now.month + 5) % 12 + 1} *"
    old = bank.define(bank.app(), schedule=rare, starts=now - 3 * HOUR)
    old.register()
    new = bank.define(bank.app(), schedule=rare, starts=now - 3 * HOUR, payload={"new": 1})
    new.register()
    effective = bank.run(
        f"SELECT effective_us FROM duly_job_revision WHERE job = '{bank.job}' AND revision = 2"
    )
    before = completed(bank)

    new.tick()

    assert before < int(effective[0][0])
    assert completed(bank) == int(effective[0][0])


def completed(bank: Bank) -> int:
    """How far the ledger says that all is settled."""
    return int(bank.run(f"SELECT complete_us FROM duly_job WHERE name = '{bank.job}'")[0][0])
