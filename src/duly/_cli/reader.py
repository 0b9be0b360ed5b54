"""Whoever reads stdout, and may leave.

Decides that a stdout nobody reads, or that is full or closed, changes neither what a command
does nor its exit code: the text is lost, the answer is not. It must never touch another
stream: a broken pipe of a handler, a module or a driver is theirs.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any


class Reader:
    """Stdout; once a write to it has failed, the rest goes nowhere."""

    def __init__(self, stream: Any) -> None:
        # Closed by the shell (`>&-`), it is None.
        self._stream = stream if stream is not None else open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process

    def write(self, text: str) -> int:
        """As the stream's, but it never fails."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """As the stream's, but it never fails."""
        try:
            self._stream.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if not isinstance(error, BrokenPipeError):
            with suppress(OSError):
                print(
                    f"duly: warning: stdout takes no more text: {error.strerror}", file=sys.stderr
                )
        # Later writes, and the flush at exit, go nowhere.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
