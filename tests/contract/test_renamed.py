"""A job's name: whatever it is called later, its periods have one set of keys."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
import duly.aio
from tests.contract.bank import OLD, UNITS, async_url, execute, recent
from tests.contract.callers import claim_on
from tests.contract.doors import executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank
    from tests.contract.callers import ClaimDoor

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


@pytest.fixture
def renamed(bank: Bank) -> Bank:
    """Three nights of a job are settled, and it is called `JOB-b` now."""
    return _renamed(bank)


def _renamed(bank: Bank) -> Bank:
    called(bank, "").tick(now=midnight())
    called(bank, "b", [""]).register()
    return bank


def _later(bank: Bank) -> duly.Occurrence:
    return duly.Occurrence(f"{bank.job}-b", midnight(1))


def rows_of(bank: Bank, occurrence: duly.Occurrence) -> list[tuple[Any, ...]]:
    """What the ledger holds of a key's job."""
    tables = ("duly_occurrence", "duly_attempt", "duly_duplicate")
    where = f"WHERE job = '{occurrence.job}'"
    return [row for table in tables for row in bank.run(f"SELECT job FROM {table} {where}")]


def test_claim_under_a_later_name_is_refused_and_changes_nothing(caller_door: ClaimDoor) -> None:
    """Both names are named, and the key to give; the caller's transaction goes on."""
    bank = _renamed(caller_door.bank)
    first, later = bank.occurrence(midnight(1)), _later(bank)
    before = bank.units

    with caller_door.transaction() as connection:
        run = executor(connection)
        run(bank.credit(1))
        with pytest.raises(duly.errors.FormerlyInvalid) as raised:
            claim_on(connection, later)
        run(bank.credit(2))
        assert not claim_on(connection, first).is_new

    assert str(raised.value).startswith(f"{later.key}: in this ledger '{later.job}' is the later")
    assert f"of the job '{bank.job}'" in str(raised.value)
    assert f"give {first.key}" in str(raised.value)
    assert bank.units == before + 3
    assert rows_of(bank, later) == []


def test_claim_of_a_night_to_come_under_a_later_name_is_told_of_the_name(
    caller_door: ClaimDoor,
) -> None:
    """Also where it would wait for its time, and where a prune may have passed it."""
    bank = _renamed(caller_door.bank)
    for at in (midnight(-1), OLD):
        with caller_door.transaction() as connection:
            later = duly.Occurrence(_later(bank).job, at)
            with pytest.raises(duly.errors.FormerlyInvalid):
                claim_on(connection, later)
    assert rows_of(bank, _later(bank)) == []


def _in_a_block(bank: Bank, occurrence: duly.Occurrence) -> None:
    with duly.once(bank.url, occurrence) as run:
        run.execute(bank.credit())


def _decorated(bank: Bank, occurrence: duly.Occurrence) -> None:
    duly.once(bank.url, occurrence)(lambda run: run.execute(bank.credit()))()


def _in_an_awaited_block(bank: Bank, occurrence: duly.Occurrence) -> None:
    async def main() -> None:
        async with duly.aio.once(async_url(bank.url), occurrence) as run:
            await run.execute(bank.credit())

    asyncio.run(main())


def _decorated_and_awaited(bank: Bank, occurrence: duly.Occurrence) -> None:
    @duly.aio.once(async_url(bank.url), occurrence)
    async def credit(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())

    asyncio.run(credit())


@pytest.mark.parametrize(
    "start", [_in_a_block, _decorated, _in_an_awaited_block, _decorated_and_awaited]
)
@pytest.mark.parametrize("at", [midnight(1), OLD], ids=["young", "old"])
def test_once_under_a_later_name_is_refused_and_changes_nothing(
    renamed: Bank, start: Callable[[Bank, duly.Occurrence], None], at: datetime
) -> None:
    """Neither the block nor the function is entered, and the message says which key to give."""
    later = duly.Occurrence(f"{renamed.job}-b", at, "north")

    with pytest.raises(duly.errors.FormerlyInvalid) as raised:
        start(renamed, later)

    assert f"give {renamed.occurrence(at, 'north').key}" in str(raised.value)
    assert raised.value.details["first"] == renamed.job
    assert renamed.units == 3 * UNITS
    assert rows_of(renamed, later) == []


def test_once_and_claim_take_the_first_name(renamed: Bank) -> None:
    """They take a key as it is; what an App says that a start would mean has the right one."""
    occurrence = called(renamed, "b", [""]).occurrence(f"{renamed.job}-b", midnight(1))

    with duly.once(renamed.url, occurrence) as run:
        assert not run.is_new
    with duly.once(renamed.url, renamed.occurrence(midnight(5))) as run:
        assert run.is_new


def test_key_that_a_later_name_has_already_is_told_as_it_is(renamed: Bank) -> None:
    """What was done under it, before the rename came to this ledger, is no second effect."""
    later = _later(renamed)
    renamed.run(
        "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
        f" recorded_us, reason) VALUES ('{later.job}', {later.nominal_us}, '', 1, 'waived', 1, '')"
    )

    with pytest.raises(duly.AlreadySettled, match="waived"):
        _in_a_block(renamed, later)
    connection = renamed.connect()
    with pytest.raises(duly.AlreadySettled, match="waived"):
        duly.claim(connection, later)
    connection.rollback()
    assert renamed.units == 3 * UNITS


@pytest.mark.parametrize("way", ["claim", "once"])
def test_open_claim_holds_up_neither_a_registration_nor_a_tick(server_bank: Bank, way: str) -> None:
    """It looks at the jobs' names, and locks none of their rows and none beside them."""
    bank = _renamed(server_bank)
    claimed = duly.Occurrence(f"{bank.job}-zz", recent())
    with ExitStack() as open_:
        if way == "once":
            open_.enter_context(duly.once(bank.url, claimed)).is_new  # noqa: B018 - to be asked
        else:
            connection = bank.connect()
            open_.callback(connection.rollback)
            duly.claim(connection, claimed)
        other = bank.autocommit()
        bound = "lock_timeout = 200" if bank.name == "postgresql" else "lock_wait_timeout = 1"
        execute(other, f"SET {bound}" if bank.name == "postgresql" else f"SET innodb_{bound}")

        execute(other, "UPDATE duly_job SET name = name")
        for name in ("a", "z", "zzz"):
            execute(other, f"INSERT INTO duly_job (name) VALUES ('{bank.job}-{name}')")
        execute(other, f"DELETE FROM duly_job WHERE name LIKE '{bank.job}-%z'")
        assert called(bank, "c", ["", "b"]).register() == ([], {})


def test_refusal_of_an_earlier_definition_calls_the_job_by_its_name(bank: Bank) -> None:
    """A person looks for that name in the code, and would find no other."""
    called(bank, "").register()
    app = called(bank, "b", [""])
    app.register()
    edited = bank.app()
    edited.job(_full(bank, "b"), schedule="0 1 * * *", formerly=bank.job)(lambda _run: None)
    edited.register()

    _, stale = app.register()

    assert str(stale[_full(bank, "b")]).startswith(f"job {_full(bank, 'b')}: this code has")
