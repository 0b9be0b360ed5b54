"""Synchronous methods, awaited: what a class of `duly.aio` is made of.

It decides nothing, and it never performs a method in another loop than its database's.
"""

from __future__ import annotations

from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from duly._aio.turn import performed
from duly._core.job import is_awaited
from duly._db.waiting import awaited

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from duly._aio.loops import OneLoop

Given = ParamSpec("Given")
Value = TypeVar("Value")


class Awaiting:
    """Something of `duly.aio`, and the synchronous one that does its work."""

    _sync: Any
    _loop: OneLoop


def awaits(
    method: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Awaiting, Given], Coroutine[Any, Any, Value]]:
    """The synchronous *method*, awaited."""

    async def called(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Value:
        self._loop.require()
        given = {name: _in_place(value) for name, value in named.items()}
        return await performed(partial(cast("Any", method), self._sync, *args, **given))

    update_wrapper(called, method)
    return called


def _in_place(given: Any) -> Any:
    """A listener of the caller's, awaited where the synchronous method calls it."""
    if not (callable(given) and is_awaited(given)):
        return given

    def called(*args: Any) -> Any:
        return awaited(given(*args))

    return called
