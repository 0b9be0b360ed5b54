"""Turns at a key on this host: a lock file beside a SQLite file, so that one start runs a command.

Decides when such a file goes: whoever holds its lock takes it away, at the end of its turn or
after a process that died in its own. It must never let two hold a key at once, so whoever gets a
lock looks whether the file is still there under its name.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from duly.errors import AccessDenied

if TYPE_CHECKING:
    from pathlib import Path

_PREFIX, _SUFFIX = "exec-", ".lock"


class Turn:
    """A key that is this start's, until it is given back or the process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor

    def give_back(self) -> None:
        """Remove the file while it is locked, then let go of it."""
        with suppress(OSError):
            self._path.unlink()
        os.close(self._descriptor)


class Turns:
    """The files of one folder.

    Args:
        folder: Beside the SQLite file; made if it is not there.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: str) -> Turn | None:
        """The turn at *key*; None while another start has it.

        Raises:
            AccessDenied: The file cannot be made or written.
        """
        name = sha256(key.encode()).hexdigest()[:32]
        path = self._folder / f"{_PREFIX}{name}{_SUFFIX}"
        try:
            self._folder.mkdir(exist_ok=True)
            turn = _locked(path, os.O_CREAT)
        except OSError as error:
            raise AccessDenied(
                f"{path} cannot be made or written ({error.strerror}), and without it two starts of"
                f" {key} could run its command at once: give this user the right to"
            ) from error
        if turn is not None:
            self._sweep()
        return turn

    def _sweep(self) -> None:
        """Remove the files of processes that died in their turn."""
        for path in self._folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            with suppress(OSError):  # another's, or gone
                left = _locked(path, 0)
                if left is not None:
                    left.give_back()


def _locked(path: Path, flags: int) -> Turn | None:
    """The file under lock, and still under its name; None while another has the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(descriptor, path):
                return Turn(path, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # removed between the opening and the lock: there may be another


def _is_named(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
