"""`App.work` and `App.backfill` of code that awaits: tasks in place of threads, the same rules."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
import duly.aio
from tests.aio.test_cancelling import LONG_STATEMENT, at_work
from tests.contract.bank import OLD, UNITS, async_url, wait_until

if TYPE_CHECKING:
    from duly._sync.worker import Stopped
    from tests.contract.bank import Bank

SECOND = duly.Every(timedelta(seconds=1), anchor=datetime(2026, 1, 1, tzinfo=UTC))
HOURLY = "0 * * * *"


class Rejected(Exception):
    """The caller's own error."""


def some_seconds_ago() -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=3)


def credits_each_second(bank: Bank, app: duly.aio.App) -> None:
    @app.job(bank.job, schedule=SECOND, starts=some_seconds_ago())
    async def job(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())


def waits(bank: Bank, app: duly.aio.App, go_on: asyncio.Event) -> asyncio.Event:
    """Define a job with a backlog, whose handler credits and then waits for *go_on*."""
    arrived = asyncio.Event()

    @app.job(bank.job, schedule=SECOND, starts=some_seconds_ago())
    async def job(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())
        arrived.set()
        await go_on.wait()

    return arrived


def test_worker_runs_what_is_due_until_its_event_is_set(bank: Bank) -> None:
    """A backlog and what falls due meanwhile, each once; then it ends cleanly."""
    ran: list[duly.Outcome | None] = []

    async def main() -> Stopped:
        stop = asyncio.Event()

        def told(one: Any) -> None:
            ran.append(one.outcome)
            if len(ran) == 5:
                stop.set()

        async with duly.aio.App(async_url(bank.url)) as app:
            credits_each_second(bank, app)
            return await app.work(stop=stop, told=told)

    ended = asyncio.run(main())
    assert (ended.signal, ended.rolled_back, ended.is_clean) == (None, (), True)
    assert set(ran) == {duly.Outcome.APPLIED}
    assert len(ran) >= 5
    assert bank.units == len(ran) * UNITS
    assert bank.outcomes == ["applied"] * len(ran)


def test_workers_of_one_loop_share_the_work_and_double_nothing(server_bank: Bank) -> None:
    """The key decides between them, and a job's slots keep its occurrences apart."""
    bank = server_bank

    async def main() -> None:
        stop = asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:
            credits_each_second(bank, app)
            workers = [asyncio.create_task(app.work(stop=stop, signals=False)) for _ in range(3)]
            await asyncio.to_thread(wait_until, lambda: len(bank.settled) >= 5, "it is applied")
            stop.set()
            for worker in workers:
                assert (await worker).is_clean

    asyncio.run(main())
    assert bank.units == len(bank.settled) * UNITS
    assert len(bank.settled) == bank.outcomes.count("applied")


def test_jobs_of_a_worker_run_at_once(server_bank: Bank) -> None:
    """Each of two handlers goes on only when the other is there."""
    bank = server_bank

    async def main() -> None:
        stop, there = asyncio.Event(), [asyncio.Event(), asyncio.Event()]
        async with duly.aio.App(async_url(bank.url)) as app:

            async def meet(number: int) -> None:
                there[number].set()
                await there[1 - number].wait()
                stop.set()

            start = datetime.now(UTC) - timedelta(hours=2)

            @app.job(f"{bank.job}-a", schedule=HOURLY, starts=start)
            async def first(run: duly.aio.Run) -> None:
                await meet(0)

            @app.job(f"{bank.job}-b", schedule=HOURLY, starts=start)
            async def second(run: duly.aio.Run) -> None:
                await meet(1)

            assert (await app.work(threads=2, stop=stop)).is_clean

    asyncio.run(main())


def test_stop_waits_for_what_runs_and_starts_nothing_new(bank: Bank) -> None:
    """The handler under way is applied, however much more is due."""

    async def main() -> Stopped:
        stop, go_on = asyncio.Event(), asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:
            arrived = waits(bank, app, go_on)
            worker = asyncio.create_task(app.work(stop=stop))
            await arrived.wait()
            stop.set()
            asyncio.get_running_loop().call_later(1.5, go_on.set)  # it looks each second
            return await worker

    ended = asyncio.run(main())
    assert (ended.rolled_back, ended.is_clean) == ((), True)
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_stop_whose_grace_is_over_rolls_back_and_records_it(bank: Bank) -> None:
    """The key stays free, and the worker says which."""

    async def main() -> Stopped:
        stop = asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:
            arrived = waits(bank, app, asyncio.Event())
            worker = asyncio.create_task(app.work(stop=stop, grace=0))
            await arrived.wait()
            stop.set()
            return await worker

    ended = asyncio.run(main())
    assert ended.is_clean
    assert len(ended.rolled_back) == 1
    assert (bank.units, bank.settled) == (0, [])
    assert [(a.outcome, a.error_type) for a in bank.attempts] == [("failed", "WorkerStopped")]


def test_cancelled_worker_rolls_back_what_runs_and_leaves_no_statement(bank: Bank) -> None:
    """A cancellation does not wait for the grace; what ran is recorded, its statement stopped."""

    async def main() -> None:
        arrived = asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job, schedule=SECOND, starts=some_seconds_ago())
            async def job(run: duly.aio.Run) -> None:
                await run.execute(bank.credit())
                arrived.set()
                await run.execute(LONG_STATEMENT[bank.name])

            worker = asyncio.create_task(app.work(grace=3600))
            await arrived.wait()
            await asyncio.to_thread(wait_until, lambda: at_work(bank), "the statement is at work")
            worker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await worker
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert [task for task in others if task.get_name().startswith("duly")] == []

    asyncio.run(main())
    assert bank.name == "sqlite" or not at_work(bank)
    assert (bank.units, bank.settled) == (0, [])
    assert [(a.outcome, a.error_origin) for a in bank.attempts] == [("failed", "signal")]


def test_worker_whose_listener_raises_ends_with_that_error(bank: Bank) -> None:
    """What it was told of is applied; nothing goes on unseen."""

    def told(_ran: Any) -> None:
        raise Rejected

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:
            credits_each_second(bank, app)
            await app.work(told=told)

    with pytest.raises(Rejected):
        asyncio.run(main())
    assert bank.units == len(bank.settled) * UNITS > 0


def test_listener_that_is_a_coroutine_function_is_awaited(sqlite_bank: Bank) -> None:
    """What a worker and a backfill tell of may be sent on, without blocking the loop."""
    bank, told = sqlite_bank, list[str]()

    async def main() -> None:
        stop = asyncio.Event()

        async def tell(one: Any) -> None:
            await asyncio.sleep(0)
            told.append(one.key)
            stop.set()

        async with duly.aio.App(async_url(bank.url)) as app:
            credits_each_second(bank, app)
            await app.work(stop=stop, told=tell)
            now = datetime.now(UTC)
            hour = timedelta(hours=1)
            await app.backfill(
                bank.job, since=now - hour, until=now - hour + 2 * (hour / 3600), on_done=tell
            )

    asyncio.run(main())
    assert len(told) == len(bank.settled) >= 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_worker_and_its_handler_is_given_back(bank: Bank, number: int) -> None:
    """The event loop hears it at once; afterwards it is the program's again."""

    async def main() -> Stopped:
        go_on = asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:
            arrived = waits(bank, app, go_on)
            before = signal.getsignal(number)
            worker = asyncio.create_task(app.work())
            await arrived.wait()
            os.kill(os.getpid(), number)
            go_on.set()
            ended = await worker
            assert signal.getsignal(number) == before
            return ended

    ended = asyncio.run(main())
    assert (ended.signal, ended.is_clean) == (number, True)
    assert bank.units == len(bank.settled) * UNITS > 0


def test_worker_without_signals_leaves_them_to_the_program(sqlite_bank: Bank) -> None:
    """Inside a web server the server decides what a SIGTERM means."""

    async def main() -> None:
        stop, go_on = asyncio.Event(), asyncio.Event()
        async with duly.aio.App(async_url(sqlite_bank.url)) as app:
            arrived = waits(sqlite_bank, app, go_on)
            before = signal.getsignal(signal.SIGTERM)
            worker = asyncio.create_task(app.work(stop=stop, signals=False))
            await arrived.wait()
            assert signal.getsignal(signal.SIGTERM) is before
            stop.set()
            go_on.set()
            await worker

    asyncio.run(main())


def test_worker_of_an_app_without_schedules_is_refused(sqlite_bank: Bank) -> None:
    """It would wait for ever."""

    async def main() -> None:
        async with duly.aio.App(async_url(sqlite_bank.url)) as app:

            @app.job(sqlite_bank.job)
            async def job(run: duly.aio.Run) -> None: ...

            await app.work()

    with pytest.raises(duly.UsageError, match="has a schedule"):
        asyncio.run(main())


# ----------------------------------------------------------------------------------- backfill


SINCE, UNTIL = OLD, OLD + timedelta(hours=8)


def test_backfill_of_several_workers_runs_each_occurrence_once_and_at_once(
    server_bank: Bank,
) -> None:
    """Four handlers are inside before the first may go on."""
    bank, told = server_bank, list[str]()

    async def main() -> Any:
        inside, all_in = list[str](), asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job, schedule=HOURLY)
            async def job(run: duly.aio.Run) -> None:
                inside.append(run.key)
                if len(inside) == 4:
                    all_in.set()
                await all_in.wait()
                await run.execute(bank.credit())

            return await app.backfill(
                bank.job,
                since=SINCE,
                until=UNTIL,
                workers=4,
                on_done=lambda one: told.append(one.key),
            )

    report = asyncio.run(main())
    assert (report.total, report.counts) == (8, {"applied": 8})
    assert len(set(told)) == 8
    assert bank.units == 8 * UNITS


def test_errors_of_a_backfills_handlers_are_told_apart_from_dulys(server_bank: Bank) -> None:
    """Side by side too: a handler's own `Busy` is its failure, whoever fails meanwhile."""
    bank = server_bank

    async def main() -> Any:
        raised = 0
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job, schedule=HOURLY)
            async def job(run: duly.aio.Run) -> None:
                nonlocal raised
                raised += 1
                raise duly.Busy(f"the handler's own, number {raised}")

            return await app.backfill(bank.job, since=SINCE, until=UNTIL, workers=4)

    report = asyncio.run(main())
    assert report.counts == {"failed": 8}
    assert bank.outcomes == ["failed"] * 8


@pytest.mark.parametrize("workers", [1, 4])
def test_cancelled_backfill_rolls_back_what_runs_and_begins_no_more(
    server_bank: Bank, workers: int
) -> None:
    """What was applied before stays, and the rest is left for another time."""
    bank = server_bank

    async def main() -> None:
        inside, all_in = list[str](), asyncio.Event()
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job, schedule=HOURLY)
            async def job(run: duly.aio.Run) -> None:
                inside.append(run.key)
                if len(inside) == 1:  # the others would wait for the row
                    await run.execute(bank.credit())
                if len(inside) == workers:
                    all_in.set()
                await asyncio.Event().wait()

            task = asyncio.create_task(
                app.backfill(bank.job, since=SINCE, until=UNTIL, workers=workers)
            )
            await all_in.wait()
            task.cancel()
            await asyncio.wait([task], timeout=60)
            assert task.cancelled()
            assert len(inside) == workers

    asyncio.run(main())
    assert (bank.units, bank.settled) == (0, [])
    assert [(a.outcome, a.error_origin) for a in bank.attempts] == [("failed", "signal")] * workers


class Halt(BaseException):
    """Ends whatever it comes out of."""


def test_handler_that_halts_ends_a_backfill_of_several_workers(server_bank: Bank) -> None:
    """It comes out, as it does with one worker; nobody waits for ever."""
    with pytest.raises(Halt):
        asyncio.run(backfilled(server_bank, Halt()))


def test_exit_in_a_handler_fails_its_own_occurrence_in_a_backfill_of_several_workers(
    server_bank: Bank,
) -> None:
    asyncio.run(backfilled(server_bank, SystemExit(3)))
    expected = {("failed", "signal", "SystemExit")}
    assert {(a.outcome, a.error_origin, a.error_type) for a in server_bank.attempts} == expected


async def backfilled(bank: Bank, error: BaseException) -> None:
    """A backfill by two workers, whose handlers raise *error*."""
    async with duly.aio.App(async_url(bank.url)) as app:

        @app.job(bank.job, schedule=HOURLY)
        async def job(run: duly.aio.Run) -> None:
            raise error

        await app.backfill(bank.job, since=SINCE, until=UNTIL, workers=2)
