"""A Redis server of the tests' own, which keeps all that it acknowledged."""

from __future__ import annotations

import shutil
import signal
import socket
from typing import TYPE_CHECKING

from tests.servers.program import Program, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.processes import Account


class RedisServer(Program):
    """Redis with an append-only file that is synced at each write."""

    name = "redis"
    account_name = "redis"

    @classmethod
    def check_available(cls) -> None:
        if shutil.which("redis-server") is None:
            raise UnavailableError("no Redis server program (redis-server) is installed")

    @property
    def url(self) -> str:
        """What `redis.Redis.from_url` takes."""
        here = self.address
        return f"redis://:{here.password}@{here.host}:{here.port}/0"

    def _install(self, account: Account) -> None:
        """Nothing: it makes its files by itself."""

    def _command(self) -> Sequence[str]:
        settings = {
            "appendfsync": "always",
            "appendonly": "yes",
            "bind": self.address.host,
            "dir": str(self.directory),
            "port": str(self.address.port),
            "requirepass": self.address.password,
            "save": "",
        }
        options = [word for name, value in settings.items() for word in (f"--{name}", value)]
        return ["redis-server", *options]

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _quick_signal(self) -> signal.Signals:
        return signal.SIGKILL

    def _answers(self) -> bool:
        here = self.address
        try:
            with socket.create_connection((here.host, here.port), timeout=5) as connection:
                # Whoever takes our random password is ours.
                connection.sendall(f"AUTH {here.password}\r\n".encode())
                return connection.recv(64).startswith(b"+OK")
        except OSError:
            return False
