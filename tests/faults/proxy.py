"""A wire between a client and its server that loses what it is told to lose."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Literal, TypeAlias

Loss: TypeAlias = Literal["request", "reply", "late"]
"""What happens to the next COMMIT.

- `request`: the client's connection breaks, and the server never hears of the COMMIT.
- `reply`: the server commits, and its answer never arrives.
- `late`: the client's connection breaks at once, and the COMMIT reaches the server later: it is in
  flight while the client asks what became of it.
"""


class Proxy:
    """Listens on a free port of 127.0.0.1 and passes everything on to *port*.

    Attributes:
        lost: How many COMMITs it has dealt with as told.
        late_s: How late a late one is.
    """

    def __init__(self, port: int, *, late_s: float = 0.4) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._loss: Loss | None = None
        self._said_by = b""
        self._open: list[socket.socket] = []
        self.late_s = late_s
        self.lost = 0
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_next_commit(self, loss: Loss, *, said_by: bytes = b"COMMIT") -> None:
        """Deal with the next message that holds *said_by*, which commits, as *loss* says."""
        self._loss, self._said_by = loss, said_by

    def close(self) -> None:
        for each in (self._listener, *self._open):
            _end(each)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            self._open += [client, server]
            for function in (self._upward, self._downward):
                threading.Thread(target=function, args=[client, server], daemon=True).start()

    def _upward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                if self._loss is not None and self._said_by in data:
                    loss, self._loss = self._loss, None
                    self.lost += 1
                    self._lose(loss, data, client, server)
                    return
                server.sendall(data)
        _end(server)

    def _downward(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)
        _end(client)

    def _lose(self, loss: Loss, data: bytes, client: socket.socket, server: socket.socket) -> None:
        match loss:
            case "request":
                _end(client)
            case "reply":
                # Nothing reaches the client from here on; the server's answer ends in us.
                client.shutdown(socket.SHUT_WR)
                server.sendall(data)
                time.sleep(0.05)
                _end(client)
            case "late":
                _end(client)
                time.sleep(self.late_s)
                server.sendall(data)
                time.sleep(0.05)
        _end(server)


def _end(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
