"""Runs one command: its output passed on as it comes, signals forwarded, its end told.

Decides when a command is over: when its process is, not when a child that it left behind lets go
of its output. It must never keep more of the output than its last lines, and never end by a
signal before the command has ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TAIL_LINES, TAIL_BYTES = 100, 8_192
"""How much of the end of each stream is kept."""
CHUNK = 65_536
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass
class Ended:
    """How a command ended.

    Attributes:
        status: The exit status; negative where a signal ended it.
        timed_out: It was ended for its time.
        stopped_by: The signal that duly was sent meanwhile, and passed on.
        tails: The last lines of `stdout` and `stderr`.
    """

    status: int
    timed_out: bool = False
    stopped_by: int | None = None
    tails: dict[str, str] = field(default_factory=dict)


class NotStarted(Exception):
    """The command did not begin; nothing of it was done."""


def run(
    arguments: Sequence[str],
    environment: Mapping[str, str],
    *,
    timeout_s: float | None = None,
    grace_s: float = 10.0,
) -> Ended:
    """Run a command to its end, in a process group of its own.

    Args:
        timeout_s: After that its group gets SIGTERM.
        grace_s: How long after a signal its group is killed.

    Raises:
        NotStarted: It could not be started.
        BaseException: What a signal that was forwarded raises, if the command did not end well.
    """
    return _Process(arguments, environment, timeout_s, grace_s).made()


class _Process:
    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        timeout_s: float | None,
        grace_s: float,
    ) -> None:
        self._arguments, self._environment = list(arguments), dict(environment)
        self._grace_s = grace_s
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._kill_at: float | None = None
        self._timed_out = False
        self._stopped_by: int | None = None
        self._tails: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def made(self) -> Ended:
        sys.stdout.flush()
        with self._forwarding() as previous:
            status = self._watched()
        ended = Ended(
            status,
            self._timed_out,
            self._stopped_by,
            {name: _lines(tail) for name, tail in self._tails.items()},
        )
        stopped_by = self._stopped_by
        if stopped_by is not None and status != 0 and callable(previous.get(stopped_by)):
            previous[stopped_by](stopped_by, None)
        return ended

    def _watched(self) -> int:
        # Not in the terminal's own group: there a Ctrl-C would reach it twice, and a read from
        # the terminal would stop it for good.
        stdin = subprocess.DEVNULL if _is_terminal(0) else None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - it is the user's own command
                self._arguments,
                env=self._environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                process_group=0,
            )
        except (OSError, ValueError) as error:
            raise NotStarted(str(error)) from error
        try:
            return self._followed(self._process)
        except BaseException:
            self._signal(signal.SIGKILL)  # nobody would hear of its end
            raise

    def _followed(self, process: subprocess.Popen[bytes]) -> int:
        """Its exit status, once it has ended; meanwhile what it prints is passed on."""
        if self._stopped_by is not None:
            self._signal(self._stopped_by)
        over, wake = os.pipe()
        threading.Thread(target=_wait, args=[process, wake], daemon=True).start()
        with selectors.DefaultSelector() as selector:
            assert process.stdout is not None
            assert process.stderr is not None
            selector.register(process.stdout, selectors.EVENT_READ, ("stdout", 1))
            selector.register(process.stderr, selectors.EVENT_READ, ("stderr", 2))
            selector.register(over, selectors.EVENT_READ, None)
            is_over = False
            while True:
                ready = [key for key, _ in selector.select(0 if is_over else 0.2)]
                streams = [key for key in ready if key.data is not None]
                for key in streams:
                    if not self._pass_on(key.fileobj, *key.data):
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
                if is_over and not streams:
                    break  # what is open still is a child's that it left behind
                is_over = is_over or any(key.data is None for key in ready)
                self._bound()
        os.close(over)
        process.stdout.close()
        process.stderr.close()
        return process.wait()

    def _pass_on(self, stream: Any, name: str, to: int) -> bool:
        """Pass on what is there; False at its end, or where nobody reads ours any more."""
        data = os.read(stream.fileno(), CHUNK)
        self._tails[name] = (self._tails[name] + data)[-TAIL_BYTES:]
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(to, rest) :]
        except OSError:
            return False  # the command is told of it as without duly, by SIGPIPE
        return bool(data)

    def _bound(self) -> None:
        now = time.monotonic()
        if self._until is not None and now >= self._until:
            self._until, self._timed_out = None, True
            self._signal(signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill_at = None
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if number != signal.SIGKILL and self._kill_at is None:
            self._kill_at = time.monotonic() + self._grace_s
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    @contextmanager
    def _forwarding(self) -> Iterator[dict[int, Any]]:
        """While inside, a signal goes to the command's group; a parent's choice to ignore stays."""
        previous: dict[int, Any] = {}

        def arrived(number: int, _frame: Any) -> None:
            self._stopped_by = self._stopped_by or number
            if hasattr(self, "_process"):
                self._signal(number)

        if threading.current_thread() is threading.main_thread():
            for number in _FORWARDED:
                if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                    previous[number] = signal.signal(number, arrived)
        try:
            yield previous
        finally:
            for each, handler in previous.items():
                signal.signal(each, handler)


def _wait(process: subprocess.Popen[bytes], wake: int) -> None:
    process.wait()
    os.close(wake)


def _lines(tail: bytes) -> str:
    text = tail.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")
    return "\n".join(text.splitlines()[-TAIL_LINES:])


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False
