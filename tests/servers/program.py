"""What every server of the tests shares: a directory, a port and a life."""

from __future__ import annotations

import os
import random
import secrets
import shutil
import socket
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, ClassVar, Self

from tests.servers.processes import Account, Guarded

if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence

START_SECONDS = 60
STOP_SECONDS = 60


class UnavailableError(Exception):
    """This kind of server cannot be had on this machine; the message says why."""


class NotOursError(Exception):
    """A shared server may not be stopped by one test; ask for a private one."""


class WrongServerError(Exception):
    """Something else answers on our port or socket: nothing was said to it."""


@dataclass(frozen=True)
class Address:
    """How to reach a server; plain data, so that it can be handed to another process."""

    port: int
    directory: str
    password: str
    user: str = "duly"
    host: str = "127.0.0.1"


class Program(ABC):
    """One throw-away server program.

    `create()` makes and starts one that its caller owns and must `close()`. `at(address)` is a
    handle to one that another process owns, good for everything but its life.
    """

    name: ClassVar[str]
    account_name: ClassVar[str]

    def __init__(self, address: Address, *, is_ours: bool) -> None:
        self.address = address
        self._is_ours = is_ours
        self._process: Guarded | None = None

    @classmethod
    def create(cls, *, within: Path | None = None) -> Self:
        """Makes a server in a new temporary directory and starts it.

        Args:
            within: Where that directory is made; the system's place for them if None.

        Raises:
            UnavailableError: There is no such server program here.
        """
        cls.check_available()
        # Not pytest's tmp_path: the server's account must reach it, and a socket's path is short.
        directory = Path(tempfile.mkdtemp(prefix=f"duly-{cls.name}-", dir=within))
        try:
            account = Account.pick(cls.account_name)
            os.chown(directory, account.uid, account.gid)
            server = cls(cls._new_address(directory), is_ours=True)
            server._install(account)
            server._start_on_afree_port()
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise
        return server

    @classmethod
    def at(cls, address: Address) -> Self:
        return cls(address, is_ours=False)

    @property
    def directory(self) -> Path:
        return Path(self.address.directory)

    # ----------------------------------------------------------------------------------------- life

    def start(self) -> None:
        """Starts it on its port; returns when it answers."""
        self._require_ours()
        if self._process is not None:
            raise RuntimeError(f"{self.name} runs already")
        account = Account.pick(self.account_name)
        process = Guarded(
            self._command(),
            directory=self.directory,
            account=account,
            quick_signal=self._quick_signal(),
        )
        self._process = process
        deadline = time.monotonic() + START_SECONDS
        try:
            while not self._answers():
                if not process.is_running or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name} did not start:\n{self.log()}")
                time.sleep(0.05)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """An orderly shutdown; open connections are closed."""
        self._require_ours()
        if self._process is None:
            return
        self._process.signal(self._stop_signal())
        try:
            self._process.wait(seconds=STOP_SECONDS)
        except TimeoutExpired:
            self._process.kill()
        self._process = None

    def kill(self) -> None:
        """SIGKILL to the server and all its children at once; what was committed must survive."""
        self._require_ours()
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self) -> None:
        """Stops it if it runs, and starts it again on the same data, port and password."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Ends it for good, in no order, and removes its directory."""
        self._require_ours()
        if self._process is not None:
            self._process.signal(self._quick_signal())
            with suppress(TimeoutExpired):
                self._process.wait(seconds=STOP_SECONDS)
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> str:
        """The last lines that the server wrote about itself."""
        path = self.directory / "server.log"
        return "\n".join(path.read_text(errors="replace").splitlines()[-30:])

    # ----------------------------------------------------------------------- what each kind defines

    @classmethod
    @abstractmethod
    def check_available(cls) -> None:
        """Raises `UnavailableError`, with the reason, if there is no such server program here."""

    @abstractmethod
    def _install(self, account: Account) -> None: ...

    @abstractmethod
    def _command(self) -> Sequence[str]: ...

    @abstractmethod
    def _stop_signal(self) -> signal.Signals: ...

    @abstractmethod
    def _quick_signal(self) -> signal.Signals:
        """Ends it at once, leaving nothing behind outside its directory."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether it answers yet; checks that it is ours before it says anything else to it."""

    # -------------------------------------------------------------------------------------- helpers

    def _require_ours(self) -> None:
        if not self._is_ours:
            raise NotOursError(f"this {self.name} is shared; use the fixture for a private one")

    def _start_on_afree_port(self) -> None:
        for _ in range(4):
            try:
                return self.start()
            except (RuntimeError, WrongServerError):  # perhaps another took the port meanwhile
                self.address = self._new_address(self.directory)
        return self.start()

    @classmethod
    def _new_address(cls, directory: Path) -> Address:
        return Address(
            port=free_port(), directory=str(directory), password=secrets.token_urlsafe(12)
        )


def free_port() -> int:
    """A port that nothing listens on, below the range that clients' own ends are given from.

    So no connection can take it while a server is down between `kill` and `start`.
    """
    while True:
        port = random.randint(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
