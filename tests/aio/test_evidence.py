"""The marker of an attempt that awaits, and the connection that wrote it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from functools import partial
from typing import TYPE_CHECKING

import duly.aio
from tests.contract.bank import OLD, async_url, wait_until

if TYPE_CHECKING:
    from tests.contract.bank import Bank


def test_closed_app_leaves_no_connection_of_its_markers(bank: Bank) -> None:
    """The connection that wrote a marker is closed with the App, not left to the collector."""

    async def main() -> None:
        async with duly.aio.App(async_url(bank.url), evidence_after=0.0) as app:

            @app.job(bank.job)
            async def job(run: duly.aio.Run) -> None:
                other = bank.app()
                marked = partial(wait_until, lambda: bool(other.explain(key).running), "marked")
                await asyncio.to_thread(marked)

            await app.run(bank.job, OLD)

    key = bank.occurrence()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(main())
        gc.collect()
    assert [str(each.message) for each in seen] == []
