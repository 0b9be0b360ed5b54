"""One keeper process per test session: it starts each shared server once and ends with the session.

    python -m tests.servers.keeper SOCKET

The session's process holds the other end of the keeper's standard input, so the servers are ended
however the session ends: finished, interrupted by Ctrl-C, or killed. xdist workers find the keeper
through an environment variable and ask it by a server's name; the first to ask waits for the start.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from tests.servers.mariadb import MariaDBServer
from tests.servers.nats import NatsServer
from tests.servers.postgresql import PostgresServer
from tests.servers.processes import ROOT
from tests.servers.program import Address, Program, UnavailableError
from tests.servers.rabbitmq import RabbitMQServer
from tests.servers.redis import RedisServer

SOCKET_VARIABLE = "DULY_TESTS_KEEPER"
MEMORY_BYTES_MIN = 4 * 1024**3
KINDS: dict[str, type[Program]] = {
    each.name: each
    for each in (PostgresServer, MariaDBServer, RabbitMQServer, RedisServer, NatsServer)
}


# ----------------------------------------------------------------------------------- in the session


class Keeper:
    """The session's end of its keeper."""

    def __init__(self) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="duly-keeper-"))
        path = self._directory / "socket"
        os.environ[SOCKET_VARIABLE] = str(path)
        with (self._directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.servers.keeper", str(path)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest
            )

    def close(self) -> None:
        """Ends the shared servers; returns when they are gone."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        os.environ.pop(SOCKET_VARIABLE, None)
        shutil.rmtree(self._directory, ignore_errors=True)


def ask(name: str) -> Address:
    """The address of the session's shared server *name*, started if need be.

    Raises:
        UnavailableError: It cannot be had here.
    """
    with _connect(os.environ[SOCKET_VARIABLE]) as connection, connection.makefile("rw") as stream:
        stream.write(name + "\n")
        stream.flush()
        answer = json.loads(stream.readline())
    if "unavailable" in answer:
        raise UnavailableError(answer["unavailable"])
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return Address(**answer["address"])


def _connect(path: str) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):  # it is still starting
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return connection


# ------------------------------------------------------------------------------------ in the keeper


class _Kept:
    """One shared server of the keeper's, or why there is none."""

    def __init__(self, kind: type[Program]) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._server: Program | None = None
        self._answer: dict[str, object] | None = None

    def answer(self) -> dict[str, object]:
        with self._lock:
            if self._answer is None:
                self._answer = self._start()
            return self._answer

    def close(self) -> None:
        with self._lock:
            self._answer = {"failed": "the session is over"}
            if self._server is not None:
                self._server.close()

    def _start(self) -> dict[str, object]:
        try:
            self._server = self._kind.create(within=_memory())
        except UnavailableError as error:
            return {"unavailable": str(error)}
        except Exception:
            return {"failed": traceback.format_exc()}
        return {"address": asdict(self._server.address)}


def _memory() -> Path | None:
    """A file system in memory with room enough, if there is one.

    Most of the time that a new database takes is spent on syncs. The servers still ask for each of
    them; a process that is killed loses nothing here that it would keep on a disk.
    """
    place = Path("/dev/shm")  # noqa: S108 - a new private directory is made in it
    if not os.access(place, os.W_OK) or shutil.disk_usage(place).free < MEMORY_BYTES_MIN:
        return None
    return place


def main(path: str) -> None:
    kept = {name: _Kept(kind) for name, kind in KINDS.items()}
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    threading.Thread(target=_serve, args=[listener, kept], daemon=True).start()
    sys.stdin.buffer.read()
    for each in kept.values():
        each.close()
    shutil.rmtree(Path(path).parent, ignore_errors=True)


def _serve(listener: socket.socket, kept: dict[str, _Kept]) -> None:
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_answer, args=[connection, kept], daemon=True).start()


def _answer(connection: socket.socket, kept: dict[str, _Kept]) -> None:
    with suppress(OSError), connection, connection.makefile("rw") as stream:
        name = stream.readline().strip()
        stream.write(json.dumps(kept[name].answer()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
