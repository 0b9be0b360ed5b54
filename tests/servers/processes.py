"""Starts a server under a guard and kills it whole. Knows nothing about databases."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def heard(number: signal.Signals) -> Iterator[None]:
    """What is started within obeys a signal, although we were started to ignore it (nohup)."""
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@dataclass(frozen=True)
class Account:
    """Whom a server runs as. Both servers refuse root."""

    uid: int
    gid: int

    @classmethod
    def pick(cls, preferred: str) -> Account:
        """Returns *preferred* or nobody when we are root, else ourselves."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        for name in (preferred, "nobody"):
            with suppress(KeyError):
                entry = pwd.getpwnam(name)
                return cls(entry.pw_uid, entry.pw_gid)
        raise LookupError(f"neither the account {preferred} nor nobody exists")

    def run(self, command: Sequence[str], *, cwd: Path) -> None:
        """Runs *command* as this account; raises with its output if it fails."""
        done = subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self.popen_arguments(),
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} exited {done.returncode}:\n{done.stdout[-4000:]}")

    def popen_arguments(self) -> dict[str, Any]:
        """What `subprocess` needs to become this account; nothing when we are it."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


class Guarded:
    """A running server and its guard, which ends it as soon as our end of a pipe closes."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: Path,
        account: Account,
        quick_signal: signal.Signals,
    ) -> None:
        self._guard = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.servers.guard", str(directory)),
                *(str(account.uid), str(account.gid), str(int(quick_signal)), *command),
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for pytest; we stop in order
        )
        assert self._guard.stdout is not None
        line = self._guard.stdout.readline()
        if not line:
            self._guard.wait()
            raise RuntimeError(f"the guard of {command[0]} did not start it")
        self.pid = int(line)

    @property
    def is_running(self) -> bool:
        return self._guard.poll() is None

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        if self.is_running:
            kill_whole(self.pid)
        self.wait(seconds=30)

    def wait(self, *, seconds: float) -> None:
        """Waits until the server has ended; raises `TimeoutExpired`."""
        self._guard.wait(timeout=seconds)
        for pipe in (self._guard.stdin, self._guard.stdout):
            assert pipe is not None
            pipe.close()


def kill_whole(pid: int) -> None:
    """SIGKILL to *pid* and all below it, as a power cut would: none of them sees another die.

    A PostgreSQL backend has a session of its own, so a process group would not do.
    """
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts no child and reacts to no death meanwhile
    victims = descendants_of(pid)
    for victim in (*victims, pid):
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while any(_is_alive(victim) for victim in victims) and time.monotonic() < deadline:
        time.sleep(0.01)


def children_of(pid: int) -> list[int]:
    """The direct children of *pid* now, dead ones left out."""
    return [child for child, parent, state in _processes() if parent == pid and state != "Z"]


def descendants_of(pid: int) -> list[int]:
    """All that *pid* began, and what those began, dead ones left out."""
    children = children_of(pid)
    return [*children, *(each for child in children for each in descendants_of(child))]


def _is_alive(pid: int) -> bool:
    return any(each == pid and state != "Z" for each, _, state in _processes())


def _processes() -> Iterator[tuple[int, int, str]]:
    """Every process: its id, its parent's, and the letter of its state."""
    if not Path("/proc/self/stat").exists():  # not Linux
        listed = subprocess.check_output(
            ["ps", "-A", "-o", "pid=,ppid=,state="],  # noqa: S607 - wherever the system keeps it
            text=True,
        )
        for line in listed.splitlines():
            pid, parent, state = line.split()
            yield int(pid), int(parent), state[0]
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                # pid (name, which may hold anything) state parent …
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                yield int(entry.name), int(parent), state
