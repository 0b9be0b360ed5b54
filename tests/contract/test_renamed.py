"""A job's name: whatever it is called later, its periods have one set of keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank

DAY = timedelta(days=1)


def midnight(days_ago: int = 0) -> datetime:
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days_ago * DAY


def called(bank: Bank, name: str, formerly: Any = (), app: str = "") -> duly.App:
    """An App, by itself, with this bank's daily job under the name `JOB` or `JOB-name`."""
    made = bank.app(name=app)
    former = [_full(bank, each) for each in formerly]

    @made.job(_full(bank, name), schedule="0 0 * * *", starts=midnight(2), formerly=former)
    def credit(run: duly.Run) -> None:
        run.execute(bank.credit())

    return made


def _full(bank: Bank, name: str) -> str:
    return f"{bank.job}-{name}" if name else bank.job


def refused(app: duly.App) -> str:
    """Why a tick of an App with one job refused it, and started nothing."""
    [job] = app.tick(now=midnight()).jobs
    assert not job.ran
    assert isinstance(job.refused, duly.errors.FormerlyInvalid)
    return str(job.refused)


@pytest.mark.parametrize(
    ("name", "formerly", "remedy"),
    [
        ("b", [], "write formerly='{job}'"),
        ("c", ["b"], "write formerly=('{job}', '{job}-b')"),
        ("", ["b"], "leave formerly= out"),
    ],
    ids=["formerly-removed", "second-rename", "renamed-back"],
)
def test_renamed_job_whose_first_name_is_not_said_is_refused(
    bank: Bank, name: str, formerly: list[str], remedy: str
) -> None:
    """Nothing of it runs again, by a tick or by name, and the message says what to write."""
    called(bank, "").tick(now=midnight())
    called(bank, "b", [""]).tick(now=midnight())
    app = called(bank, name, formerly)

    assert remedy.format(job=bank.job) in refused(app)
    with pytest.raises(duly.errors.FormerlyInvalid):
        app.run(_full(bank, name), midnight(1))
    assert [plan.refused is not None for plan in app.plan(now=midnight()).jobs] == [True]
    assert bank.units == 3 * UNITS


@pytest.mark.parametrize(
    ("name", "formerly"), [("c", ["", "b"]), ("", []), ("b", [""])], ids=["c", "back", "same"]
)
def test_renamed_job_whose_first_name_is_said_goes_on(
    bank: Bank, name: str, formerly: list[str]
) -> None:
    """The remedies of the refusals: each settled period is settled under them too."""
    called(bank, "").tick(now=midnight(1))
    called(bank, "b", [""]).tick(now=midnight(1))

    [job] = called(bank, name, formerly).tick(now=midnight()).jobs

    assert [ran.key for ran in job.ran] == [bank.occurrence(midnight()).key]
    assert bank.units == 3 * UNITS


@pytest.mark.parametrize("way", ["tick", "once"])
def test_former_name_given_to_a_job_with_keys_of_its_own_is_refused(bank: Bank, way: str) -> None:
    """Its periods are settled under its own name, and would run again under the other's."""
    called(bank, "").register()
    if way == "tick":
        called(bank, "b").tick(now=midnight())
    else:
        with duly.once(bank.url, duly.Occurrence(f"{bank.job}-b", midnight(1))) as run:
            assert run.is_new
            run.execute(bank.credit())
    before = bank.units

    assert "has keys of" in refused(called(bank, "b", [""]))
    assert bank.units == before


def test_former_name_that_the_ledger_does_not_know_is_refused_where_a_job_is_lost(
    bank: Bank,
) -> None:
    """A slip of the pen would make a new job; and the one that was meant is not retired."""
    called(bank, "", app=bank.job).tick(now=midnight())

    message = refused(called(bank, "b", ["slip"], app=bank.job))

    assert f"no longer defines {bank.job}:" in message
    assert bank.units == 3 * UNITS
    assert called(bank, "b", [""], app=bank.job).register() == ([], {})


def test_former_names_are_taken_by_a_ledger_that_knows_none_of_them(bank: Bank) -> None:
    """The code of years can begin on a database that is new to it."""
    [job] = called(bank, "c", ["", "b"], app=bank.job).tick(now=midnight()).jobs

    assert next(ran.key for ran in job.ran) == bank.occurrence(midnight(2)).key
    assert bank.units == 3 * UNITS


def test_once_and_claim_take_the_first_name(bank: Bank) -> None:
    """They take a key as it is; what an App says that a start would mean has the right one."""
    called(bank, "").tick(now=midnight())
    app = called(bank, "b", [""])
    app.register()

    occurrence = app.occurrence(f"{bank.job}-b", midnight(1))
    with duly.once(bank.url, occurrence) as run:
        assert not run.is_new
    with duly.once(bank.url, duly.Occurrence(f"{bank.job}-b", midnight(1))) as run:
        assert run.is_new, "another key, as docs/catch-up.md says"
