"""Types a command on a terminal of a given width, and reads what stands there afterwards."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECONDS = 60
# Colours and styles (ECMA-48, SGR): what a person sees as such and not as text.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def typed(
    command: str, folder: Path, environment: Mapping[str, str], *, columns: int = 80
) -> tuple[int, str]:
    """Run *command* in bash on a terminal; returns its exit code and the text, unstyled."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command],  # noqa: S607
        cwd=folder,
        env={**environment, "TERM": "xterm", "COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    written = bytearray()
    try:
        while chunk := _read(ours):
            written += chunk
        code = process.wait(SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return code, _STYLE.sub("", written.decode("utf-8").replace("\r\n", "\n"))


def _read(terminal: int) -> bytes:
    """What was written next; nothing once the last writer has closed it."""
    try:
        return os.read(terminal, 65_536)
    except OSError:  # EIO: how Linux says so
        return b""
