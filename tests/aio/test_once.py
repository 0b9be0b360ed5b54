"""`duly.aio.once` does something once for a key, as a block that awaits or a decorator."""

from __future__ import annotations

import asyncio
import gc
import inspect
import warnings
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

import duly
import duly.aio
from duly._aio.once import _place_of
from duly._db.write_queue import queue_of
from tests.aio.test_cancelling import LONG_STATEMENT, at_work
from tests.contract.bank import OLD, UNITS, async_url, wait_until
from tests.faults.scenarios import driver_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank


BOUND_S = 20.0
"""Far above what a stop needs, and far below what it would wait for."""


class Rejected(Exception):
    """The block's own error."""


def once(bank: Bank, **options: Any) -> Any:
    return duly.aio.once(async_url(bank.url), bank.occurrence().key, **options)


async def credit(bank: Bank, error: Exception | None = None, **options: Any) -> duly.aio.OnceRun:
    """Credit the account in a block, unless that was done before; and raise *error* there."""
    async with once(bank, **options) as run:
        if run.is_new:
            await run.execute(bank.credit())
            if error is not None:
                raise error
            run.value = {"rows": (1, 2)}
    return run  # type: ignore[no-any-return]


def test_block_is_applied_once_and_a_duplicate_has_its_value(bank: Bank) -> None:
    """Every later start says so, and gives what the first one stored."""

    async def main() -> None:
        first, again = await credit(bank), await credit(bank)
        assert (first._is_new, again._is_new) == (True, False)
        assert first.value == again.value == {"rows": [1, 2]}
        assert first.attempt == again.attempt

    asyncio.run(main())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_blocks_of_many_tasks_for_one_key_make_one_effect(bank: Bank) -> None:
    """A rival waits for the block that is under way, without blocking the loop."""

    async def main() -> None:
        runs = await asyncio.gather(*(credit(bank) for _ in range(4)))
        assert sorted(run._is_new for run in runs) == [False, False, False, True]

    asyncio.run(main())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_block_that_raises_keeps_nothing_and_its_error_comes_out(bank: Bank) -> None:
    """The attempt is recorded as failed, and the key stays free."""
    error = Rejected()

    async def main() -> None:
        with pytest.raises(Rejected) as raised:
            await credit(bank, error)
        assert raised.value is error
        assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])
        await credit(bank)

    asyncio.run(main())
    assert bank.units == UNITS


def test_block_that_does_not_ask_changes_nothing_on_its_first_start(bank: Bank) -> None:
    """The mistake that would make a second effect is found before it makes a first."""

    async def main() -> None:
        async with once(bank) as run:
            await run.execute(bank.credit())

    with pytest.raises(duly.UsageError, match="is_new"):
        asyncio.run(main())
    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])


def test_block_that_neither_asks_nor_writes_is_refused_at_its_end(bank: Bank) -> None:
    """A block whose work is elsewhere is told too, new or duplicate."""

    async def silent() -> None:
        async with once(bank):
            pass

    async def main() -> None:
        for _ in range(2):
            with pytest.raises(duly.UsageError, match="is_new"):
                await silent()
            await credit(bank)

    asyncio.run(main())
    assert bank.units == UNITS


@pytest.mark.parametrize("way", ["execute", "connection", "session"])
def test_block_that_ignores_the_answer_makes_no_second_effect(bank: Bank, way: str) -> None:
    """On a duplicate nothing is lent, whatever the block does."""

    async def main() -> None:
        await credit(bank)
        async with once(bank) as run:
            assert not run.is_new
            if way == "execute":
                await run.execute(bank.credit())
            else:
                await getattr(run, way).execute(sqlalchemy.text(bank.credit()))

    with pytest.raises(duly.UsageError, match="applied before"):
        asyncio.run(main())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_run_that_outlives_its_block_is_refused(bank: Bank) -> None:
    """Its connection went back to the pool, and may be another's."""

    async def main() -> None:
        run = await credit(bank)
        with pytest.raises(duly.UsageError, match="the run is over"):
            await run.execute(bank.credit())
        with pytest.raises(duly.NotInTransaction, match="the run is over"):
            run.send("receipts", 1)

    asyncio.run(main())
    assert bank.units == UNITS


def test_contention_in_a_block_is_busy_with_nothing_applied(bank: Bank) -> None:
    """A block cannot be entered twice, so it is told, recorded, and free to start again."""

    async def main() -> None:
        with pytest.raises(duly.Busy, match="block"):
            await credit(bank, driver_error("contention", bank.name))
        assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["busy"])
        await credit(bank)

    asyncio.run(main())
    assert bank.units == UNITS


def test_block_cancelled_in_a_statement_leaves_nothing(bank: Bank) -> None:
    """The statement ends on the server, its work is rolled back, the failure is recorded."""

    async def main() -> None:
        arrived = asyncio.Event()

        async def long() -> None:
            async with once(bank) as run:
                if run.is_new:
                    await run.execute(bank.credit())
                    arrived.set()
                    await run.execute(LONG_STATEMENT[bank.name])

        task = asyncio.create_task(long())
        await arrived.wait()
        await asyncio.to_thread(wait_until, lambda: at_work(bank), "the statement is at work")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()
        assert bank.name == "sqlite" or not at_work(bank)
        assert (bank.units, bank.settled) == (0, [])
        assert [(a.outcome, a.error_origin) for a in bank.attempts] == [("failed", "signal")]
        await credit(bank, wait=5.0)

    asyncio.run(main())
    assert bank.units == UNITS


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", ["Begin", "Claim", "Seal", "Commit"])
def test_block_cancelled_at_any_op_keeps_all_or_nothing(bank: Bank, op: str, when: str) -> None:
    """One effect with its row, or none; and the next start finds which."""

    async def main() -> None:
        attempts = (await _place_of(async_url(bank.url), None)).attempts
        task = asyncio.create_task(credit(bank))

        def probe(at: str, asked: Any, shell: Any) -> None:
            if (at, type(asked).__name__) == (when, op):
                task.cancel()

        attempts.probe = probe
        with pytest.raises(asyncio.CancelledError):
            await task
        attempts.probe = None
        kept = len(bank.settled)
        assert kept == bank.outcomes.count("applied")
        assert bank.units == kept * UNITS
        again = await credit(bank, wait=5.0)
        assert again._is_new is not bool(kept)

    asyncio.run(main())
    assert (bank.units, len(bank.settled)) == (UNITS, 1)


def test_rival_cancelled_while_it_waits_for_a_block_goes_at_once(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long before its wait is over, and the block that it waits for is not disturbed."""
    # Else a statement that cannot be stopped loses its connection after some seconds.
    monkeypatch.setattr("duly._db.sessions.stopping.CANCEL_S", 3600.0)

    async def main() -> None:
        begun = asyncio.Event()

        async def later() -> None:
            await begun.wait()
            await credit(bank, wait=90.0)

        # Begun here, since whatever a block begins is inside of the block.
        rival = asyncio.create_task(later())
        async with once(bank) as run:
            assert run.is_new
            await run.execute(bank.credit())
            begun.set()
            await is_waiting(bank)
            rival.cancel()
            await asyncio.wait([rival], timeout=BOUND_S)
            assert rival.cancelled()

    asyncio.run(main())
    assert (bank.units, bank.outcomes.count("applied")) == (UNITS, 1)


async def is_waiting(bank: Bank) -> None:
    """Return when somebody waits for the transaction that is under way."""
    if bank.name == "sqlite":
        line = queue_of(bank.url.removeprefix("sqlite:///"))
        await asyncio.to_thread(wait_until, lambda: bool(line.behind), "somebody stands in line")
    await asyncio.to_thread(bank.wait_until_blocked)


def test_other_transaction_on_the_same_sqlite_file_is_refused_inside_a_block(
    sqlite_bank: Bank,
) -> None:
    """It could only wait for the block, which waits for it."""
    bank = sqlite_bank

    async def main() -> None:
        async with once(bank) as run:
            if run.is_new:
                other = bank.occurrence(OLD + timedelta(days=1))
                async with duly.aio.once(async_url(bank.url), other):
                    pass

    with pytest.raises(duly.UsageError, match="inside a handler"):
        asyncio.run(main())
    assert bank.settled == []


def test_decorated_function_runs_once_and_later_calls_get_its_value(bank: Bank) -> None:
    """The key is made from the arguments; contention is tried again."""
    calls: list[int] = []

    @duly.aio.once(async_url(bank.url), key=lambda partition: bank.occurrence(OLD, partition))
    async def pay(run: duly.aio.Run, partition: str) -> Any:
        calls.append(1)
        await run.execute(bank.credit())
        if len(calls) == 1:
            raise driver_error("contention", bank.name)
        return {"rows": (1, 2)}

    async def main() -> None:
        assert await pay("a") == await pay(partition="a") == {"rows": [1, 2]}

    asyncio.run(main())
    assert (bank.units, len(calls)) == (UNITS, 2)
    assert list(inspect.signature(pay).parameters) == ["partition"]


def test_engine_of_the_users_serves_blocks_too(bank: Bank) -> None:
    """Its pool is used, and stays the user's to dispose of."""

    async def main() -> None:
        engine = create_async_engine(async_url(bank.url))
        for _ in range(2):
            async with duly.aio.once(engine, bank.occurrence()) as run:
                if run.is_new:
                    await run.execute(bank.credit())
        await engine.dispose()

    asyncio.run(main())
    assert bank.units == UNITS


def test_connections_of_a_url_are_closed_when_the_loop_ends(bank: Bank) -> None:
    """Nothing is left to the collector, and another loop begins with its own."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        for _ in range(2):
            asyncio.run(credit_once(bank))
            gc.collect()
    assert [str(each.message) for each in seen] == []
    assert bank.units == UNITS


async def credit_once(bank: Bank) -> None:
    await credit(bank)


def plain(run: Any) -> None:
    """No coroutine function."""


async def without() -> Any:
    """It takes no run."""


def ahead() -> str:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(days=2)
    return f"job:{at:%Y-%m-%dT%H:%M:%SZ}"


NO_DATABASE: Any = {}

WRONG: dict[str, tuple[type[duly.DulyError], str, Callable[[Any], Any]]] = {
    "plain function": (duly.HandlerInvalid, "async function", lambda make: make("a:b")(plain)),
    "no run": (duly.HandlerInvalid, "takes no run", lambda make: make("a:b")(without)),
    "no function": (duly.HandlerInvalid, "async function", lambda make: make("a:b")(3)),
    "key of arguments": (duly.UsageError, "has no arguments", lambda make: make(lambda day: day)),
    "no key": (duly.KeyInvalid, "key", lambda make: make("no key")),
    "no key at all": (duly.KeyInvalid, "a key is", lambda make: make(3)),
    "correction": (duly.KeyInvalid, "correction", lambda make: make("a:2024-01-01T00:00:00Z#2")),
    "no database": (duly.UsageError, "not dict", lambda make: duly.aio.once(NO_DATABASE, ahead())),
    "future": (duly.NotDue, "is due", lambda make: make(ahead())),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_use_is_one_clear_line(sqlite_bank: Bank, wrong: str) -> None:
    """By the error that `duly.once` has for it."""
    kind, said, use = WRONG[wrong]

    def make(key: Any) -> Any:
        return duly.aio.once(async_url(sqlite_bank.url), key)

    async def main() -> None:
        async with use(make):
            pass

    with pytest.raises(kind, match=said) as raised:
        asyncio.run(main())
    assert "\n" not in str(raised.value)


def test_object_that_is_inside_its_block_is_refused(sqlite_bank: Bank) -> None:
    """One for each block: the second would have to be the first's."""

    async def main() -> None:
        mine = once(sqlite_bank)
        async with mine as run:
            assert run.is_new
            async with mine:
                pass

    with pytest.raises(duly.UsageError, match="inside its block already"):
        asyncio.run(main())


def test_plain_once_refuses_an_async_function_and_names_duly_aio(sqlite_bank: Bank) -> None:
    """A coroutine that nobody awaits would be an effect that never happens."""
    with pytest.raises(duly.HandlerInvalid, match=r"duly\.aio\.once"):
        duly.once(sqlite_bank.url, sqlite_bank.occurrence())(cast("Any", without))
