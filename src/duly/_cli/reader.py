"""Whoever reads stdout, and may leave.

Decides that only a broken pipe of our own stdout is no error: one from a handler, a module
or a driver is theirs. It must never touch another stream.
"""

from __future__ import annotations

from typing import Any


class ReaderLeft(BrokenPipeError):
    """Nobody reads our stdout any more; what was done is done."""


class Reader:
    """Stdout, whose broken pipe has a name of its own."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """As the stream's.

        Raises:
            ReaderLeft: Nobody reads any more.
        """
        try:
            return int(self._stream.write(text))
        except BrokenPipeError as error:
            raise ReaderLeft(*error.args) from error

    def flush(self) -> None:
        """As the stream's.

        Raises:
            ReaderLeft: Nobody reads any more.
        """
        try:
            self._stream.flush()
        except BrokenPipeError as error:
            raise ReaderLeft(*error.args) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
