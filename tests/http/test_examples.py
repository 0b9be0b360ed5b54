"""The examples, in real servers: what a client sees of them, and what the database holds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import duly
from tests.contract.bank import async_url, autocommit, execute
from tests.servers.database import DATABASES, Database
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ROOT / "examples" / "http"
UVICORN = "import uvicorn, {0}; uvicorn.run({0}.app, port={1}, log_level='warning')"
WERKZEUG = (
    "import {0}; from werkzeug.serving import run_simple;"
    " run_simple('127.0.0.1', {1}, {0}.application, threaded=True)"
)
SERVED = {
    "with_fastapi": UVICORN,
    "with_starlette": UVICORN,
    "with_flask": WERKZEUG,
    "with_django": WERKZEUG,
}


class Server:
    """One example at work, and its clients."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        self.database = database
        self.observer = autocommit(database)
        late = " DEFERRABLE INITIALLY DEFERRED" if database.name == "postgresql" else ""
        unique = f", UNIQUE (amount){late}" if late else ""
        execute(self.observer, f"CREATE TABLE payment (amount INTEGER NOT NULL{unique})")
        self.start()

    def start(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVED[self.name].format(self.name, self.port)],
            cwd=FOLDER,
            env={**os.environ, "DULY_DATABASE_URL": self._url},
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "the example did not start"
                assert time.monotonic() < deadline
                time.sleep(0.05)

    @property
    def _url(self) -> str:
        """With the driver that the example's server takes."""
        is_async = SERVED[self.name] is UVICORN
        return async_url(self.database.url) if is_async else self.database.url

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.kill()
        self.observer.close()

    def pay(
        self, key: str | None = "k-1", *, who: str = "ann", path: str = "/payments", **content: Any
    ) -> httpx.Response:
        said = {} if key is None else {"Idempotency-Key": key}
        content = content or {"json": {"amount": 10}}
        return httpx.post(
            f"http://127.0.0.1:{self.port}{path}", timeout=60, **content,
            headers={"Authorization": f"Bearer token-of-{who}", "Content-Type": "application/json",
                     **said},
        )  # fmt: skip

    @property
    def payments(self) -> list[int]:
        return [row[0] for row in execute(self.observer, "SELECT amount FROM payment")]


CELLS = [
    pytest.param((example, name), id=f"{example}-{name}")
    for example in SERVED
    for name in DATABASES
    if example != "with_django" or name == "sqlite"  # it names a SQLite file
]
LATE = [cell for cell in CELLS if str(cell.id).endswith("-postgresql")]


@pytest.fixture
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    example, name = request.param
    if name == "sqlite":
        database = Database.in_file(tmp_path / "test.db")
    else:
        kept: Any = request.getfixturevalue("postgres" if name == "postgresql" else name)
        database = Database(name, kept.create_database(), kept)
    app = duly.App(database.url)
    app.init()
    app.close()
    made = Server(example, database)
    yield made
    made.close()
    if database.server is not None:
        database.server.drop(database.url)


@pytest.mark.parametrize("server", CELLS, indirect=True)
def test_example_pays_once_for_a_key(server: Server) -> None:
    """Twenty at once, again after a crash, by another tenant, to another path, in another order."""
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: server.pay(), range(20)))
    fresh = [
        each for each in answers if each.is_success and "idempotent-replayed" not in each.headers
    ]
    replays = [each for each in answers if "idempotent-replayed" in each.headers]
    assert len(fresh) == 1
    assert {each.status_code for each in answers} <= {201, 409}
    assert {each.content for each in replays} <= {fresh[0].content}
    assert server.payments == [10]

    server.kill()
    server.start()
    again = server.pay()
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.json() == {"paid": 10}

    assert server.pay(path="/refunds").status_code == 422
    assert server.pay(json={"amount": 11}).status_code == 422
    assert server.pay(None).status_code == 400
    assert server.pay(who="nobody").status_code == 403
    assert server.payments == [10]

    both = (b'{"amount": 20, "note": 1}', b'{"note":1,"amount":20}')
    first, second = (server.pay("k-2", who="bob", content=each) for each in both)
    assert (first.status_code, second.headers.get("idempotent-replayed")) == (201, "true")
    assert sorted(server.payments) == [10, 20]


@pytest.mark.parametrize("server", LATE, indirect=True)
def test_m10_example_shows_no_success_that_is_found_impossible_late(server: Server) -> None:
    """M10: on PostgreSQL the amount is unique, and that is checked at the commit."""
    assert server.pay("k-1").status_code == 201
    assert server.pay("k-2").status_code == 500
    assert server.payments == [10]
