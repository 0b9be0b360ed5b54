"""A task that is cancelled: its work is rolled back, or its commit is settled; never half."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
import duly.aio
from duly._db.sessions.aiosqlite_driver import AiosqliteSession, _there
from duly._db.sessions.sqlite_driver import SqliteSession
from tests.contract.bank import OLD, UNITS, async_url, wait_until

if TYPE_CHECKING:
    from tests.contract.bank import Bank

LONG_S = 60
LONG_STATEMENT = {
    "postgresql": f"SELECT pg_sleep({LONG_S})",
    "mariadb": f"SELECT SLEEP({LONG_S})",
    "sqlite": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000)"
        " SELECT count(*) FROM n"
    ),
}
AT_WORK = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(%'"
    ),
    "mariadb": (
        "SELECT id FROM information_schema.processlist"
        " WHERE db = DATABASE() AND info LIKE 'SELECT SLEEP(%'"
    ),
}
OPS = ("Begin", "Claim", "CallHandler", "Seal", "Commit")


def at_work(bank: Bank) -> bool:
    """Whether the server does the long statement; SQLite cannot be asked."""
    return bank.name == "sqlite" or bool(bank.run(AT_WORK[bank.name]))


def defined(bank: Bank, app: duly.aio.App, **options: Any) -> None:
    """Define the bank's job: it credits the account, and is done."""

    @app.job(bank.job, **options)
    async def job(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())


def sleeps(bank: Bank, app: duly.aio.App, **options: Any) -> asyncio.Event:
    """Define the bank's job: it credits the account, and then is long at a statement."""
    arrived = asyncio.Event()

    @app.job(bank.job, **options)
    async def job(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())
        arrived.set()
        await run.execute(LONG_STATEMENT[bank.name])

    return arrived


async def within(bound: asyncio.Timeout, work: Any) -> Any:
    async with bound:
        return await work


async def assert_free(bank: Bank) -> None:
    """Nothing was kept, nobody works on, and the next start applies at once."""
    assert bank.name == "sqlite" or not at_work(bank)
    assert bank.units == 0
    assert bank.settled == []
    async with duly.aio.App(async_url(bank.url)) as app:
        defined(bank, app)
        result = await app.run(bank.job, OLD, wait=5.0)
    assert result.outcome is duly.Outcome.APPLIED
    assert bank.units == UNITS


def test_task_cancelled_in_a_statement_of_its_handler_leaves_nothing(bank: Bank) -> None:
    """The statement ends on the server, its work is rolled back, the failure is recorded."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            arrived = sleeps(bank, app)
            task = asyncio.create_task(app.run(bank.job, OLD))
            await arrived.wait()
            await asyncio.to_thread(wait_until, lambda: at_work(bank), "the statement is at work")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert task.cancelled()
            assert [(a.outcome, a.error_origin) for a in bank.attempts] == [("failed", "signal")]
            await assert_free(bank)

    asyncio.run(main())


def test_task_cancelled_in_an_await_that_is_no_statement_leaves_nothing(bank: Bank) -> None:
    """The handler sees a CancelledError where it waits, as any coroutine does."""
    seen: list[BaseException] = []

    async def main() -> None:
        arrived = asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> None:
                await run.execute(bank.credit())
                arrived.set()
                try:
                    await asyncio.sleep(LONG_S)
                except BaseException as error:
                    seen.append(error)
                    raise

            task = asyncio.create_task(app.run(bank.job, OLD))
            await arrived.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [type(error) for error in seen] == [asyncio.CancelledError]
            await assert_free(bank)

    asyncio.run(main())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("op", OPS)
def test_task_cancelled_at_any_op_keeps_all_or_nothing(bank: Bank, op: str, when: str) -> None:
    """One effect with its row, or none; and the next start finds which."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            defined(bank, app)
            task = asyncio.create_task(app.run(bank.job, OLD))

            def probe(at: str, asked: Any, shell: Any) -> None:
                if (at, type(asked).__name__) == (when, op):
                    task.cancel()

            app._probe = probe
            with pytest.raises(asyncio.CancelledError):
                await task
            kept = len(bank.settled)
            assert kept == bank.outcomes.count("applied")
            assert bank.units == kept * UNITS

            app._probe = None
            again = await app.run(bank.job, OLD, wait=5.0)
            assert again.outcome.value == ("duplicate" if kept else "applied")
            assert bank.units == UNITS
            assert len(bank.settled) == 1

    asyncio.run(main())


def test_commit_under_way_when_its_task_is_cancelled_is_settled_and_told(bank: Bank) -> None:
    """A cancellation waits for the answer to COMMIT, and says which it was."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            defined(bank, app)
            task = asyncio.create_task(app.run(bank.job, OLD))

            def probe(at: str, asked: Any, shell: Any) -> None:
                if (at, type(asked).__name__) == ("before", "Commit"):
                    task.cancel()

            app._probe = probe
            with pytest.raises(asyncio.CancelledError) as raised:
                await task
        assert "the commit was under way and is settled: it is applied" in str(
            raised.value.__notes__
        )
        assert (bank.units, bank.outcomes) == (UNITS, ["applied"])

    asyncio.run(main())


def test_bound_of_the_callers_around_a_run_is_a_timeout_error(bank: Bank) -> None:
    """`asyncio.timeout` works as around any await: nothing of the work is kept."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            arrived = sleeps(bank, app)
            bound = asyncio.timeout(None)

            async def end() -> None:
                await arrived.wait()
                bound.reschedule(asyncio.get_running_loop().time())

            ending = asyncio.create_task(end())
            with pytest.raises(TimeoutError):
                await within(bound, app.run(bank.job, OLD))
            await ending
            await assert_free(bank)

    asyncio.run(main())


def test_handler_that_takes_longer_than_its_timeout_is_ended(bank: Bank) -> None:
    """The same error as of a `duly.App`, and nothing of the work is kept."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            sleeps(bank, app, timeout=timedelta(seconds=0.4))
            with pytest.raises(duly.HandlerTimeout):
                await app.run(bank.job, OLD)
            assert [(a.outcome, a.error_origin) for a in bank.attempts] == [("failed", "handler")]
            await assert_free(bank)

    asyncio.run(main())


def test_app_at_work_in_one_loop_is_refused_in_another(bank: Bank) -> None:
    """Connections belong to their loop; the message says what to do."""

    async def apply(app: duly.aio.App) -> duly.Result:
        return await app.run(bank.job, OLD)

    app = duly.aio.App(async_url(bank.url))
    defined(bank, app)
    with asyncio.Runner() as first:
        assert first.run(apply(app)).outcome is duly.Outcome.APPLIED
        with (
            asyncio.Runner() as second,
            pytest.raises(duly.UsageError, match="at work in another event loop"),
        ):
            second.run(apply(app))
        first.run(app.close())


def test_task_that_is_cancelled_while_sqlite_lends_its_connection_breaks_no_later_one(
    sqlite_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread still lends the connection, to nobody; so it must not go back to the pool."""

    async def main() -> None:
        app = duly.aio.App(async_url(sqlite_bank.url))
        loop, heard = asyncio.get_running_loop(), threading.Event()

        @app.consumer(sqlite_bank.job)
        async def apply(received: Any) -> None:
            await received.execute(sqlite_bank.credit())
            if received.message_id == "bad":
                raise ValueError("bad")

        async def receive(message: str) -> None:
            await app.receive(sqlite_bank.job, source="tests", message_id=message, payload=1)

        async def cancel(task: asyncio.Task[None]) -> None:
            task.cancel()
            for _ in range(5):
                await asyncio.sleep(0)  # until the task has heard of it
            heard.set()

        # It is rolled back, so the driver keeps that statement, and nobody is asked of it again.
        with pytest.raises(ValueError, match="bad"):
            await receive("bad")
        task = asyncio.create_task(receive("second"))

        def armed(session: AiosqliteSession) -> None:
            monkeypatch.undo()
            asyncio.run_coroutine_threadsafe(cancel(task), loop)
            assert heard.wait(10)
            SqliteSession.arm(session)

        monkeypatch.setattr(AiosqliteSession, "_arm_there", _there(armed))
        with pytest.raises(asyncio.CancelledError):
            await task
        for message in ("second", "third"):
            await receive(message)
        await app.close()

    asyncio.run(main())
    assert sqlite_bank.units == 2 * UNITS
