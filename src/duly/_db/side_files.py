"""Evidence beside a SQLite file: attempts under way, refused duplicates, late records.

SQLite has one writer: a marker row would wait for the very handler it speaks of. So each
process keeps one locked file in `<database>-duly/`; the kernel frees the lock at its death.
Duplicates, and attempts that could not be recorded while another held the file, are
appended to files there, without a sync, and folded into their tables by the next reader.
These files are evidence only: no decision about an effect reads them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import uuid
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

FOLD_BYTES = 65_536
"""Above this size the appender folds the file itself."""
DUPLICATES, ATTEMPTS = "duplicates", "attempts"

Line = dict[str, Any]

_open_files: weakref.WeakSet[RunningFile] = weakref.WeakSet()


class SideFiles:
    """The folder beside one SQLite file.

    Args:
        path: The SQLite file.
        ledger_id: Of the ledger in it; lines of another ledger are ignored.
    """

    def __init__(self, path: str, ledger_id: str) -> None:
        self.folder = Path(f"{path}-duly")
        self.ledger_id = ledger_id
        self.running = RunningFile(self.folder, ledger_id)

    def append(self, name: str, line: Line) -> bool:
        """Append one line to a file; returns whether the file wants to be folded."""
        data = (json.dumps({**line, "ledger": self.ledger_id}) + "\n").encode()
        try:
            return self._appended(name, data) > FOLD_BYTES
        except FileNotFoundError:
            self.folder.mkdir(exist_ok=True)
            return self._appended(name, data) > FOLD_BYTES

    def _appended(self, name: str, data: bytes) -> int:
        """The size of the file with *data* at its end."""
        with _locked(self.folder / name) as descriptor:
            at = os.lseek(descriptor, 0, os.SEEK_END)
            return at + os.write(descriptor, data)

    def fold(self, name: str, store: Callable[[list[Line]], None]) -> None:
        """Hand all appended lines of a file to *store*, which commits them, then empty it."""
        path = self.folder / name
        if not path.exists() or path.stat().st_size == 0:
            return
        with _locked(path) as descriptor:
            lines = self._ours(_read(descriptor))
            if lines:
                store(lines)
            # A crash here counts these once more: evidence may be doubled, an effect not.
            os.ftruncate(descriptor, 0)

    def alive(self) -> list[Line]:
        """Markers of attempts whose processes live, in no order."""
        found: list[Line] = []
        for path in self._running_files():
            with contextlib.suppress(OSError), path.open("rb") as file:
                if path == self.running.path or not _try_lock(file.fileno()):
                    found += self._ours(file.read())
        return found

    def dead(self) -> Iterator[tuple[list[Line], Callable[[], None]]]:
        """Markers left by each dead process, and how to remove its file once recorded.

        The file stays locked meanwhile, so that one reader at a time sweeps it.
        """
        for path in self._running_files():
            if path == self.running.path:
                continue
            with contextlib.suppress(OSError), path.open("rb") as file:
                if _try_lock(file.fileno()):
                    yield self._ours(file.read()), lambda path=path: path.unlink(missing_ok=True)  # type: ignore[misc]

    def _running_files(self) -> Iterable[Path]:
        return sorted(self.folder.glob("*.running")) if self.folder.is_dir() else ()

    def _ours(self, data: bytes) -> list[Line]:
        lines = []
        for text in data.splitlines():
            with contextlib.suppress(ValueError):
                line = json.loads(text)
                if isinstance(line, dict) and line.get("ledger") == self.ledger_id:
                    lines.append(line)
        return lines


class RunningFile:
    """This process's markers: one file, locked for as long as it holds any."""

    def __init__(self, folder: Path, ledger_id: str) -> None:
        self.path = folder / f"{uuid.uuid4().hex}.running"
        self._ledger_id = ledger_id
        self._lines: dict[str, Line] = {}
        self._descriptor: int | None = None
        self._guard = threading.Lock()
        _open_files.add(self)

    def add(self, attempt_id: str, line: Line) -> None:
        """Write the marker of an attempt under way."""
        with self._guard:
            if self._descriptor is None:
                self.path.parent.mkdir(exist_ok=True)
                # Locked before it has its name: a sweep must never find it unlocked.
                unnamed = self.path.with_suffix(".new")
                descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                unnamed.rename(self.path)
                self._descriptor = descriptor
            self._lines[attempt_id] = {**line, "ledger": self._ledger_id}
            self._write()

    def remove(self, attempt_id: str) -> None:
        """Take the marker back; the last one takes the file with it."""
        with self._guard:
            if self._lines.pop(attempt_id, None) is None or self._descriptor is None:
                return
            self._write()
            if not self._lines:
                self.path.unlink(missing_ok=True)
                os.close(self._descriptor)
                self._descriptor = None

    def _write(self) -> None:
        assert self._descriptor is not None
        data = "".join(json.dumps(line) + "\n" for line in self._lines.values()).encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def forget(self) -> None:
        """In a forked child: the parent's lock must not live on in us."""
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None
        self._lines = {}
        self._guard = threading.Lock()
        self.path = self.path.with_name(f"{uuid.uuid4().hex}.running")


def _forget_all() -> None:
    for file in list(_open_files):
        file.forget()


os.register_at_fork(after_in_child=_forget_all)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
    return b"".join(parts)
