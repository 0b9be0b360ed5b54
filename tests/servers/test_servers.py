"""The throw-away servers keep what was committed, and nothing of theirs outlives its owner."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.processes import ROOT
from tests.servers.program import NotOursError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.database import Database
    from tests.servers.mariadb import MariaDBServer
    from tests.servers.postgresql import PostgresServer
    from tests.servers.server import Server


@pytest.fixture(params=["postgres_private", "mariadb_private"])
def private(request: pytest.FixtureRequest) -> Server:
    server: Server = request.getfixturevalue(request.param)
    return server


def _count(server: Server, url: str) -> int:
    with closing(server.connect(server.database_of(url))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM proof")
        count: int = cursor.fetchone()[0]
        return count


def test_killed_server_keeps_what_was_committed_and_nothing_else(private: Server) -> None:
    url = private.create_database()
    with closing(private.connect(private.database_of(url))) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE proof (id INTEGER PRIMARY KEY)")
        cursor.execute("INSERT INTO proof VALUES (1)")
        connection.commit()
        cursor.execute("INSERT INTO proof VALUES (2)")

        private.kill()

        with pytest.raises(Exception, match=r"(?i)lost|closed|terminat|refused"):
            connection.commit()
    private.start()
    assert _count(private, url) == 1


def test_restarted_server_has_its_data_port_and_password(private: Server) -> None:
    url = private.create_database()
    with closing(private.connect(private.database_of(url))) as connection:
        connection.cursor().execute("CREATE TABLE proof (id INTEGER PRIMARY KEY)")
        connection.commit()

    private.restart()

    assert private.url(private.database_of(url)) == url
    assert _count(private, url) == 0


def test_wrong_password_is_refused(private: Server) -> None:
    url = private.create_database()
    wrong = type(private).at(replace(private.address, password="wrong"))
    with pytest.raises(Exception, match=r"(?i)password"):
        wrong.connect(private.database_of(url))


def test_database_is_empty_and_exists(database: Database) -> None:
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE proof (id INTEGER PRIMARY KEY)")
        cursor.execute("SELECT COUNT(*) FROM proof")
        assert cursor.fetchone()[0] == 0
    if database.name == "sqlite":
        assert database.path.exists()


def test_shared_server_cannot_be_stopped_by_a_test(
    postgres: PostgresServer, mariadb: MariaDBServer
) -> None:
    ways: list[Callable[[], None]] = []
    for server in (postgres, mariadb):
        ways += [server.stop, server.kill, server.restart, server.close]
    for way in ways:
        with pytest.raises(NotOursError):
            way()


def test_dropped_database_is_gone_although_a_transaction_is_open(
    postgres: PostgresServer, mariadb: MariaDBServer
) -> None:
    for server in (postgres, mariadb):
        url = server.create_database()
        with closing(server.connect(server.database_of(url))) as connection:
            connection.cursor().execute("CREATE TABLE proof (id INTEGER PRIMARY KEY)")
            connection.commit()
            connection.cursor().execute("INSERT INTO proof VALUES (1)")
            server.drop(url)
        with pytest.raises(Exception, match=r"(?i)not exist|unknown database"):
            server.connect(server.database_of(url))


OWNER = """
import sys, time
from tests.servers.{module} import {kind}
server = {kind}.create()
print(server._process.pid, server.directory, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    ("module", "kind"), [("postgresql", "PostgresServer"), ("mariadb", "MariaDBServer")]
)
def test_server_ends_with_its_owner_though_the_owner_is_killed(
    module: str, kind: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue({"postgresql": "postgres"}.get(module, module))  # or skips by name
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER.format(module=module, kind=kind)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pid, directory = owner.stdout.readline().split()
        owner.kill()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and Path(directory).exists():
        time.sleep(0.05)
    assert not Path(directory).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)
