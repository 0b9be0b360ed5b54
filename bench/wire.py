"""A wire to a server that counts how often its client waits for an answer, and may be long."""

from __future__ import annotations

import queue
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from place import Place


class Wire:
    """Passes everything on to a server.

    Args:
        delay_s: How much longer a round trip takes.

    Attributes:
        place: The server's database, through the wire.
        trips: How often a client sent something after an answer.
    """

    def __init__(self, place: Place, delay_s: float = 0.0) -> None:
        self.trips = 0
        self._each_way_s = delay_s / 2
        at = place.address()
        self._target = (at["host"], at["port"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.place = place.behind(self._listener.getsockname()[1])
        _start(self._accept)

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                answered = threading.Event()
                answered.set()
                for source, target, up in ((client, server, True), (server, client, False)):
                    under_way: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                    _start(self._take, source, under_way, answered, up)
                    _start(self._deliver, under_way, target)

    def _take(self, source: Any, under_way: Any, answered: threading.Event, up: bool) -> None:
        data = b"x"
        while data:
            data = b""
            with suppress(OSError):
                data = source.recv(65_536)
            if not up:
                answered.set()
            elif data and answered.is_set():
                answered.clear()
                self.trips += 1
            under_way.put((time.perf_counter() + self._each_way_s, data))

    def _deliver(self, under_way: Any, target: Any) -> None:
        with suppress(OSError):
            while True:
                due, data = under_way.get()
                if (early := due - time.perf_counter()) > 0 and self._each_way_s:
                    time.sleep(early)
                if not data:
                    break
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


def _start(work: Any, *arguments: Any) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()
