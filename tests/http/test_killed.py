"""A server that is killed while it answers: the client's next request with that key is the end."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.contract.bank import async_url
from tests.faults.victims import Victims
from tests.http.dying import BOUNDARIES, COMMITTED, STOP
from tests.http.shop import AsgiShop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from tests.http.shop import Shop

BOUND_S = 60


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    made = Victims("tests.http.dying")
    yield made
    made.close()


class Server:
    """A server in a process of its own, until it dies."""

    def __init__(self, shop: Shop, victims: Victims, boundary: str) -> None:
        is_asgi = isinstance(shop, AsgiShop)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self._pool = ThreadPoolExecutor(1)
        self.end: Future[int] = self._pool.submit(
            victims.kill_one,
            f"tests.http.dying:serve_{'asgi' if is_asgi else 'wsgi'}",
            url=async_url(shop.url) if is_asgi else shop.url,
            scope=shop.scope_name("ann"),
            sql=shop.credit(),
            boundary=boundary,
            port=self.port,
        )
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + BOUND_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert not self.end.done(), "the server did not start"
                assert time.monotonic() < deadline
                time.sleep(0.01)

    def post(self) -> tuple[int | None, bytes]:
        """The status, None unless the answer is whole, and the body, as far as it came."""
        status, seen = None, b""
        try:
            with httpx.stream(
                "POST", f"http://127.0.0.1:{self.port}/orders", json={"item": 1},
                headers={"Idempotency-Key": "k-1"}, timeout=BOUND_S,
            ) as response:  # fmt: skip
                status = response.status_code
                self.headers = response.headers
                for part in response.iter_raw():
                    seen += part
        except httpx.TransportError:
            return None, seen
        return status, seen

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_raised: object) -> None:
        """Wait for its death, of which it is told if it has not come to it."""
        with suppress(httpx.TransportError):
            httpx.get(f"http://127.0.0.1:{self.port}{STOP}", timeout=BOUND_S)
        assert self.end.result(BOUND_S) == -signal.SIGKILL
        self._pool.shutdown()


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_server_killed_at_a_boundary_of_a_request_makes_one_effect(
    boundary: str, shop: Shop, victims: Victims
) -> None:
    """The client has no whole answer; repeated, its request is made, or its answer is told."""
    with Server(shop, victims, boundary) as dying:
        status, seen = dying.post()
        assert dying.end.result(BOUND_S) == -signal.SIGKILL
    assert status is None
    assert bool(seen) == (boundary == "in the body")
    has_landed = boundary in COMMITTED
    assert shop.effects == has_landed

    with Server(shop, victims, "never") as whole:
        status, body = whole.post()
        assert status == 201
        assert ("idempotent-replayed" in whole.headers) == has_landed
        assert body.startswith(seen)
        assert shop.effects == 1
        assert whole.post() == (201, body)
        assert whole.headers["idempotent-replayed"] == "true"
        assert shop.effects == 1
