"""A NATS server of the tests' own, with JetStream in its directory."""

from __future__ import annotations

import json
import shutil
import signal
import socket
from typing import TYPE_CHECKING

from tests.servers.program import Program, UnavailableError, WrongServerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.processes import Account

# /usr/sbin is not on everybody's PATH.
PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"


class NatsServer(Program):
    """NATS with JetStream."""

    name = "nats"
    account_name = "nats"

    @classmethod
    def check_available(cls) -> None:
        _program()

    @property
    def url(self) -> str:
        """What `nats.connect` takes."""
        here = self.address
        return f"nats://{here.user}:{here.password}@{here.host}:{here.port}"

    def _install(self, account: Account) -> None:
        """Nothing: it makes its files by itself."""

    def _command(self) -> Sequence[str]:
        here = self.address
        return [
            *(_program(), "--addr", here.host, "--port", str(here.port)),
            *("--user", here.user, "--pass", here.password, "--name", self.directory.name),
            *("--jetstream", "--store_dir", str(self.directory / "data")),
        ]

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _quick_signal(self) -> signal.Signals:
        return signal.SIGKILL

    def _answers(self) -> bool:
        here = self.address
        try:
            with socket.create_connection((here.host, here.port), timeout=5) as connection:
                line = connection.makefile("rb").readline()
        except OSError:
            return False
        # A server that is shutting down, or still starting, closes without a word.
        kind, _, text = line.partition(b" ")
        if kind != b"INFO":
            return False
        if json.loads(text)["server_name"] != self.directory.name:
            raise WrongServerError(f"port {here.port} is not our NATS: {line!r}")
        return True


def _program() -> str:
    found = shutil.which("nats-server") or shutil.which("nats-server", path=PLACES)
    if found is None:
        raise UnavailableError("no NATS server program (nats-server) is installed")
    return found
