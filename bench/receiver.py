"""An HTTP receiver in a process of its own: it answers 200 at once, and counts ids.

It has no idea of who sends. `GET` tells how many requests came, and how many ids they had.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.request import urlopen

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

ID_HEADER = b"idempotency-key"


class _Talk(asyncio.Protocol):
    """One connection, on which request follows request."""

    def __init__(self, seen: dict[bytes, int]) -> None:
        self._seen = seen
        self._heard = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = transport

    def data_received(self, data: bytes) -> None:
        self._heard += data
        while (end := self._heard.find(b"\r\n\r\n")) >= 0:
            first, *lines = self._heard[:end].split(b"\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(b":") for line in lines)
            }
            rest = end + 4 + int(headers.get(b"content-length", 0))
            if len(self._heard) < rest:
                return
            self._heard = self._heard[rest:]
            self._wire.write(self._answer(first, headers))  # type: ignore[attr-defined]

    def _answer(self, first: bytes, headers: dict[bytes, bytes]) -> bytes:
        body = b""
        if first.startswith(b"GET"):
            body = json.dumps([sum(self._seen.values()), len(self._seen)]).encode()
            self._seen.clear()
        else:
            key = headers[ID_HEADER]
            self._seen[key] = self._seen.get(key, 0) + 1
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        seen: dict[bytes, int] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Talk(seen), "127.0.0.1", 0, backlog=512)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


@contextmanager
def receiver() -> Iterator[str]:
    """The URL of a receiver that lives as long as the block."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=[theirs])
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/hook"
    finally:
        process.kill()
        process.join()


def seen(url: str) -> tuple[int, int]:
    """How many requests came since the last question, and with how many ids."""
    with urlopen(url) as response:  # noqa: S310 - the receiver's own
        requests, ids = json.load(response)
    return requests, ids
