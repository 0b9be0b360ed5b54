"""Ends a statement of an asynchronous driver when the task that sent it is cancelled.

A driver that is cancelled in the middle of an answer loses its place on the wire, and leaves
the statement and its locks on the server. So the statement is never cancelled itself: it is
stopped where it runs, and its end is waited for. It decides nothing about a transaction.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from duly._db.sessions.cancelling import CANCEL_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

Value = TypeVar("Value")


async def stoppable(
    work: Coroutine[Any, Any, Value],
    stop: Callable[[], Awaitable[None]],
    give_up: Callable[[], None],
) -> Value:
    """What *work* returns.

    Args:
        stop: Lets the statement end early, by an error of its own.
        give_up: Closes the connection, where it does not end within a bound.

    Raises:
        CancelledError: The task was cancelled; the statement has ended, or its connection is
            closed.
    """
    statement = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(statement)
    except asyncio.CancelledError:
        try:
            await _ended(statement, stop)
        finally:
            if not statement.done():
                give_up()
            statement.add_done_callback(_forget)
        raise


async def _ended(statement: asyncio.Future[Any], stop: Callable[[], Awaitable[None]]) -> None:
    if statement.done():
        return
    try:
        async with asyncio.timeout(CANCEL_S):
            await stop()
            await asyncio.wait([statement])
    except Exception:
        return  # the server cannot be asked; the connection goes


def _forget(statement: asyncio.Future[Any]) -> None:
    """Its error is that it was stopped; the cancellation says so already."""
    if not statement.cancelled():
        statement.exception()
