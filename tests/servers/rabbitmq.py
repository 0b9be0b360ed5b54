"""A RabbitMQ server of the tests' own."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from tests.servers.program import Program, UnavailableError, free_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.processes import Account

# Not the one on the PATH: that is a wrapper which insists on an account of its own.
PLACES = ("/usr/lib/rabbitmq/bin", "/usr/local/lib/rabbitmq/bin", "/opt/homebrew/opt/rabbitmq/sbin")
GREETING = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"
# Erlang's port mapper is our own too, and ends with the server: the one that Erlang would start by
# itself outlives everybody.
TOGETHER = """
epmd -port "$ERL_EPMD_PORT" & mapper=$!
"$0" & server=$!
trap 'kill -TERM $server' TERM
while kill -0 $server 2>/dev/null; do wait $server; done
kill $mapper
"""


class RabbitMQServer(Program):
    """RabbitMQ with one virtual host and one user, who may do everything."""

    name = "rabbitmq"
    account_name = "rabbitmq"

    @classmethod
    def check_available(cls) -> None:
        _program()

    @property
    def url(self) -> str:
        """What `pika.URLParameters` and Celery take; the virtual host is `/`."""
        here = self.address
        return f"amqp://{here.user}:{here.password}@{here.host}:{here.port}/%2F"

    def _install(self, account: Account) -> None:
        settings = {
            "default_pass": self.address.password,
            "default_user": self.address.user,
            "listeners.tcp.default": f"{self.address.host}:{self.address.port}",
            # Else it halts its queues on a machine whose disk is nearly full.
            "disk_free_limit.absolute": "10MB",
        }
        text = "".join(f"{name} = {value}\n" for name, value in settings.items())
        for name, content in (("rabbitmq.conf", text), ("enabled_plugins", "[].\n")):
            path = self.directory / name
            path.write_text(content)
            os.chown(path, account.uid, account.gid)

    def _command(self) -> Sequence[str]:
        here = self.directory
        mapper = free_port()
        environment = {
            "ERL_EPMD_ADDRESS": self.address.host,
            "ERL_EPMD_PORT": mapper,
            "HOME": here,
            "RABBITMQ_CONFIG_FILE": here / "rabbitmq.conf",
            "RABBITMQ_DIST_PORT": free_port(),
            "RABBITMQ_ENABLED_PLUGINS_FILE": here / "enabled_plugins",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_MNESIA_BASE": here / "data",
            "RABBITMQ_NODENAME": "duly@localhost",
            # Few threads, which do not spin while they wait: the tests share a small machine.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }
        assignments = [f"{name}={value}" for name, value in environment.items()]
        return ["env", *assignments, "sh", "-c", TOGETHER, str(_program())]

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _quick_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def _answers(self) -> bool:
        here = self.address
        try:
            with socket.create_connection((here.host, here.port), timeout=5) as connection:
                connection.sendall(GREETING)
                return connection.recv(1) == METHOD_FRAME
        except OSError:
            return False


def _program() -> Path:
    for place in PLACES:
        path = Path(place) / "rabbitmq-server"
        if path.exists():
            return path
    raise UnavailableError("no RabbitMQ server program (rabbitmq-server) is installed")
