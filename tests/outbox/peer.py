"""A real HTTP receiver, on a socket of its own: it does what it is told, and remembers all it saw.

Each request is answered by the next of its *behaviours*, or by 200. What it applied is counted by
the request's id, with a memory for ids as good as it was told: it honours, forgets or ignores them.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

Memory = Literal["honours", "forgets", "ignores"]


@dataclass(frozen=True)
class Seen:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def key(self) -> str:
        """Its idempotency key, bare."""
        return self.headers.get("idempotency-key", "").strip('"')


@dataclass(frozen=True)
class Does:
    """How one request is answered.

    Attributes:
        status: Of the answer; None to close the connection without one.
        applies: The request takes effect.
        after_s: So many seconds later, or when the peer is closed.
        drip: The answer's body never ends.
        half: The answer ends in the middle of its headers.
    """

    status: int | None = 200
    applies: bool = True
    after_s: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b"{}"
    drip: bool = False
    half: bool = False


class Peer:
    """Serves until it is closed."""

    def __init__(self, memory: Memory = "honours", port: int = 0) -> None:
        self.memory = memory
        self.behaviours: deque[Does] = deque()
        self.always = Does()
        self.seen: list[Seen] = []
        self.applied: Counter[str] = Counter()
        self._stored: dict[str, Does] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        self._closed.set()
        self._thread.join()
        self._listener.close()
        with self._lock:
            for each in self._open:
                with suppress(OSError):  # its thread may be closing it just now
                    each.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def keys(self) -> list[str]:
        """The ids of all requests, in the order in which they came."""
        return [each.key for each in list(self.seen)]

    def _accept(self) -> None:
        while not self._closed.is_set():
            ready, _, _ = select.select([self._listener], [], [], 0.02)
            if not ready:
                continue
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as reader:
                while self._one(connection, reader):
                    pass
        except (OSError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(connection)

    def _one(self, connection: socket.socket, reader: object) -> bool:
        first = reader.readline()  # type: ignore[attr-defined]
        if not first:
            return False
        method, path, _ = first.decode("latin-1").split(" ", 2)
        headers = {}
        while line := reader.readline().decode("latin-1").strip():  # type: ignore[attr-defined]
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined]
        does = self._decide(Seen(method, path, headers, body, time.monotonic()))
        if does.after_s:
            self._closed.wait(does.after_s)
        if does.status is None:
            return False
        extra = "".join(f"{name}: {value}\r\n" for name, value in does.headers.items())
        head = f"HTTP/1.1 {does.status} Told\r\n{extra}"
        if does.half:
            connection.sendall(head.encode())
            return False
        if does.drip:
            connection.sendall(f"{head}Content-Length: 1000000000\r\n\r\n".encode())
            while not self._closed.wait(0.05):
                connection.sendall(b"x")
            return False
        head += f"Content-Length: {len(does.body)}\r\n\r\n"
        connection.sendall(head.encode("latin-1") + does.body)
        return True

    def _decide(self, seen: Seen) -> Does:
        with self._lock:
            self.seen.append(seen)
            stored = self._stored.get(seen.key)
            if stored is not None and self.memory == "honours":
                return Does(status=stored.status, applies=False)
            does = self.behaviours.popleft() if self.behaviours else self.always
            if does.applies:
                self.applied[seen.key] += 1
                self._stored[seen.key] = Does(status=does.status or 200)
            return does
