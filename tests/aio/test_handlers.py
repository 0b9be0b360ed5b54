"""What may be a handler of an async App, and what a handler may do to its event loop."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

import duly
import duly.aio
from tests.contract.bank import OLD, UNITS, async_url

if TYPE_CHECKING:
    from tests.contract.bank import Bank

BOUND_S = 60.0


class Heard(logging.Handler):
    """Keeps warnings, and lets whoever waits go on."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[Any] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
        self.came.set()


@pytest.fixture
def heard() -> Any:
    handler, logger = Heard(), logging.getLogger("duly.attempt")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.mark.parametrize("way", ["job", "once"])
def test_handler_that_blocks_the_loop_is_named_while_it_does(
    sqlite_bank: Bank, heard: Heard, way: str
) -> None:
    """One warning, with the key and the place; what it did is applied all the same."""
    bank = sqlite_bank

    async def block(run: duly.aio.Run) -> None:
        await run.execute(bank.credit())
        assert heard.came.wait(BOUND_S)

    async def main() -> None:
        if way == "once":
            await duly.aio.once(async_url(bank.url), bank.occurrence())(block)()
            return
        async with duly.aio.App(async_url(bank.url)) as app:
            app.job(bank.job)(block)
            await app.run(bank.job, OLD)

    asyncio.run(main())
    (record,) = heard.records
    assert (record.getMessage(), record.key) == ("loop_blocked", bank.occurrence().key)
    assert "test_handlers.py, line" in record.error
    assert "asyncio.to_thread" in record.error
    assert "\n" not in record.error
    assert bank.units == UNITS


def test_handler_that_waits_for_long_is_not_told_of(sqlite_bank: Bank, heard: Heard) -> None:
    """Only the time between two awaits counts."""
    bank = sqlite_bank

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url)) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> None:
                await run.execute(bank.credit())
                await asyncio.sleep(2.5)

            await app.run(bank.job, OLD)

    asyncio.run(main())
    assert heard.records == []
    assert bank.units == UNITS


def plain(run: Any) -> None:
    """No coroutine function."""


async def yields(run: Any) -> Any:
    """An async generator, which nobody iterates."""
    yield run


class Awaited:
    """An object whose call gives a coroutine."""

    async def __call__(self, run: Any) -> int:
        return 7


@pytest.mark.parametrize("handler", [plain, yields, lambda run: run, functools.partial(plain)])
def test_handler_that_is_no_coroutine_function_is_refused(sqlite_bank: Bank, handler: Any) -> None:
    """One line says what to write, when it is defined and not when it is due."""
    app = duly.aio.App(async_url(sqlite_bank.url))
    with pytest.raises(duly.HandlerInvalid, match="no coroutine function") as raised:
        app.job(sqlite_bank.job)(handler)
    assert "\n" not in str(raised.value)
    assert app.jobs == {}


@pytest.mark.parametrize("handler", [Awaited(), functools.partial(Awaited().__call__)])
def test_whatever_gives_a_coroutine_may_be_a_handler(sqlite_bank: Bank, handler: Any) -> None:
    """An object with an async call, and a partial function."""

    async def main() -> None:
        async with duly.aio.App(async_url(sqlite_bank.url)) as app:
            app.job(sqlite_bank.job)(handler)
            assert (await app.run(sqlite_bank.job, OLD)).value == 7

    asyncio.run(main())


@pytest.mark.parametrize("handler", [yields, Awaited(), functools.partial(Awaited().__call__)])
def test_async_handler_is_refused_by_an_app_that_does_not_await(
    sqlite_bank: Bank, handler: Any
) -> None:
    """Its effect would never be made, and its occurrence be applied."""
    with pytest.raises(duly.HandlerInvalid, match=r"duly\.aio\.App"):
        sqlite_bank.app().job(sqlite_bank.job)(handler)
