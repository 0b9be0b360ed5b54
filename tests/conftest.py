"""Fixtures of all tests: the databases.

- `database`: a `Database` (name, url), fresh and empty; the test runs once on each of the three.
- `postgres`, `mariadb`: the session's shared servers, for databases of one's own on one of them:
  `url = postgres.create_database()`, and `postgres.drop(url)`. Nobody may stop them.
- `postgres_private`, `mariadb_private`: a server of this test alone, which it may kill and restart.

A server that cannot be had skips its tests by name; under CI=true it fails them.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING, NoReturn, TypeVar

import hypothesis
import pytest

from tests.servers import keeper
from tests.servers.database import DATABASES, Database, DatabaseName
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgresql import PostgresServer
from tests.servers.server import Server, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AnyServer = TypeVar("AnyServer", bound=Server)

_KEEPER = pytest.StashKey[keeper.Keeper]()
_SKIP = "no database server"


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


def _refuse(kind: type[Server], error: UnavailableError) -> NoReturn:
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
