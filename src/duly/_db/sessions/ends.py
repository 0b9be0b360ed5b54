"""What of a driver's connection would end a transaction, refused while a handler has it.

It decides nothing: each driver's session says which methods those are.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence


def refuse_ends(raw: Any, methods: Sequence[str]) -> None:
    """Until `allow_ends`, let *methods* of a driver's connection raise (PROTOCOL 4)."""
    if hasattr(raw, "__dict__"):  # a plain sqlite3.Connection has none; the authorizer is there
        for name in methods:
            setattr(raw, name, _refuser(name))


def allow_ends(raw: Any, methods: Sequence[str]) -> None:
    """Give the driver's connection its own *methods* back."""
    if hasattr(raw, "__dict__"):
        for name in methods:
            vars(raw).pop(name, None)


@cache
def _refuser(name: str) -> Any:
    def refuse(*_args: Any, **_named: Any) -> None:
        raise UsageError(
            f"{name}() on duly's connection would end its transaction: leave it out, duly commits"
            " when the handler returns and rolls back when it raises"
        )

    return refuse
