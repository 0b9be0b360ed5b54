"""Statements of duly's own as text for MariaDB, and what PyMySQL read of their answers.

Only what a text names is bound, and only text needs the driver's escaping. It decides nothing.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BIND = re.compile(r"%\((\w+)\)s")


@cache
def block(statements: tuple[str, ...]) -> str:
    """Several statements as one."""
    text = ";\n".join(statements)
    return f"BEGIN NOT ATOMIC\n{text};\nEND" if len(statements) > 1 else text


def bound(driver: Any, text: str, params: Mapping[str, Any]) -> str:
    """The text with its binds written in, as *driver* escapes for its session."""
    return text % {name: _literal(driver, params[name]) for name in _binds(text)}


@cache
def _binds(text: str) -> frozenset[str]:
    return frozenset(_BIND.findall(text))


def _literal(driver: Any, value: Any) -> str:
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is bytes:
        return f"X'{value.hex()}'"
    if value is None:
        return "NULL"
    escaped: str = driver.escape(value)
    return escaped


class Answers:
    """The answers to one message, one after the other; as a cursor, without a cursor's cost."""

    __slots__ = ("_answer", "_driver")

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._answer: Any = None

    @property
    def description(self) -> Any:
        """None for an answer without rows."""
        return self._answer.description

    @property
    def rowcount(self) -> int:
        """How many rows were changed."""
        return int(self._answer.affected_rows)

    def execute(self, text: str) -> None:
        """Send *text* and read the first answer."""
        self._driver.query(text)
        self._answer = self._driver._result  # noqa: SLF001 - as the driver's own cursors

    def fetchall(self) -> Sequence[Any]:
        """The rows of the answer."""
        rows: Sequence[Any] = self._answer.rows
        return rows

    def nextset(self) -> bool:
        """Read the next answer; False if this was the last one."""
        if not self._answer.has_next:
            return False
        self._driver.next_result()
        self._answer = self._driver._result  # noqa: SLF001 - as above
        return True
