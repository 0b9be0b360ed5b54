"""Fixtures of all tests: the databases and the brokers.

- `database`: a `Database` (name, url), fresh and empty; the test runs once on each of the three.
- `postgres`, `mariadb`: the session's shared servers, for databases of one's own on one of them:
  `url = postgres.create_database()`, and `postgres.drop(url)`. Nobody may stop them.
- `postgres_private`, `mariadb_private`: a server of this test alone, which it may kill and restart.
- `rabbitmq`, `redis`, `nats`: the session's shared brokers; tests name their own queues on them.
- `rabbitmq_private`, `redis_private`, `nats_private`: a broker of this test alone.

No test starts in the last minutes of a day or seconds of an hour, of UTC: it waits for the next.
A server that cannot be had skips its tests by name; under CI=true it fails them.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from typing import TYPE_CHECKING, NoReturn, TypeVar

import hypothesis
import pytest

from tests.servers import keeper
from tests.servers.database import DATABASES, Database, DatabaseName
from tests.servers.mariadb import MariaDBServer
from tests.servers.nats import NatsServer
from tests.servers.postgresql import PostgresServer
from tests.servers.program import Program, UnavailableError
from tests.servers.rabbitmq import RabbitMQServer
from tests.servers.redis import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.servers.server import Server

AnyServer = TypeVar("AnyServer", bound=Program)

_KEEPER = pytest.StashKey[keeper.Keeper]()
_SKIP = "no server"


# ----------------------------------------------------------------------------------------- fixtures


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A fresh, empty database; the test runs once on each kind."""
    name: DatabaseName = request.param
    if name == "sqlite":
        yield Database.in_file(tmp_path / "test.db")
        return
    server: Server = request.getfixturevalue("postgres" if name == "postgresql" else name)
    url = server.create_database()
    yield Database(name, url, server)
    server.drop(url)


@pytest.fixture(autouse=True)
def _no_day_ends_within() -> None:
    """A test that asks for today, or for this hour, twice is told the same.

    Retries of two minutes are still of today; so the last two minutes of a day are waited out.
    """
    now = time.time()
    left_of_day, left_of_hour = -now % 86_400, -now % 3600
    if left_of_day < 120 or left_of_hour < 5:
        time.sleep(left_of_hour + 0.01)


@pytest.fixture(scope="session")
def postgres() -> PostgresServer:
    return _shared(PostgresServer)


@pytest.fixture(scope="session")
def mariadb() -> MariaDBServer:
    return _shared(MariaDBServer)


@pytest.fixture
def postgres_private() -> Iterator[PostgresServer]:
    yield from _private(PostgresServer)


@pytest.fixture
def mariadb_private() -> Iterator[MariaDBServer]:
    yield from _private(MariaDBServer)


@pytest.fixture(scope="session")
def rabbitmq() -> RabbitMQServer:
    return _shared(RabbitMQServer)


@pytest.fixture(scope="session")
def redis() -> RedisServer:
    return _shared(RedisServer)


@pytest.fixture(scope="session")
def nats() -> NatsServer:
    return _shared(NatsServer)


@pytest.fixture
def rabbitmq_private() -> Iterator[RabbitMQServer]:
    yield from _private(RabbitMQServer)


@pytest.fixture
def redis_private() -> Iterator[RedisServer]:
    yield from _private(RedisServer)


@pytest.fixture
def nats_private() -> Iterator[NatsServer]:
    yield from _private(NatsServer)


def _shared(kind: type[AnyServer]) -> AnyServer:
    try:
        return kind.at(keeper.ask(kind.name))
    except UnavailableError as error:
        _refuse(kind, error)


def _private(kind: type[AnyServer]) -> Iterator[AnyServer]:
    try:
        server = kind.create()
    except UnavailableError as error:
        _refuse(kind, error)
    yield server
    server.close()


def _refuse(kind: type[Program], error: UnavailableError) -> NoReturn:
    reason = f"{_SKIP} {kind.name}: {error}"
    if os.environ.get("CI") == "true":
        raise pytest.fail.Exception(reason, pytrace=False) from None
    pytest.skip(reason)


# -------------------------------------------------------------------------------------- the session


# How long an example takes is the machine's affair: no test is timed.
hypothesis.settings.register_profile("duly", deadline=None)
hypothesis.settings.load_profile("duly")


def pytest_configure(config: pytest.Config) -> None:
    """The session's process, not an xdist worker, holds the keeper of the shared servers."""
    # A shell starts a job in the background with Ctrl-C ignored, and every child would inherit it.
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    if not hasattr(config, "workerinput"):
        config.stash[_KEEPER] = keeper.Keeper()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Runs last, when the workers have ended; also after Ctrl-C."""
    if _KEEPER in config.stash:
        config.stash[_KEEPER].close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Counts, by name, what was not tested for want of a server."""
    skipped = Counter[str]()
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple) and _SKIP in report.longrepr[2]:
            skipped[report.longrepr[2].partition(_SKIP)[2].split(":")[0].strip()] += 1
    for name, count in sorted(skipped.items()):
        terminalreporter.write_line(f"NOT TESTED on {name}: {count} tests", yellow=True)
