"""A database to be measured on: how to reach it, and what its server tells of itself.

A place is plain text, so that it can be handed to a worker process.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pymysql
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACCOUNTS = 1_000
_PREPARE = (
    "CREATE TABLE account (id INTEGER PRIMARY KEY, units BIGINT NOT NULL)",
    "CREATE TABLE done (name VARCHAR(100) PRIMARY KEY, recorded_us BIGINT NOT NULL)",
    "CREATE TABLE effect (name VARCHAR(100) NOT NULL)",
)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Place:
    """One database.

    Attributes:
        name: sqlite, postgresql or mariadb.
        url: A SQLAlchemy URL.
        pid: The server's main process; 0 for SQLite.
    """

    name: str
    url: str
    pid: int = 0

    @property
    def path(self) -> str:
        """The file of a SQLite database."""
        return self.url.removeprefix("sqlite:///")

    @property
    def mark(self) -> str:
        """How the driver writes a bind."""
        return "?" if self.name == "sqlite" else "%s"

    def connect(self) -> Any:
        """A connection of the raw driver; on SQLite the caller begins its transactions itself."""
        url = make_url(self.url)
        if self.name == "sqlite":
            raw = sqlite3.connect(
                self.path, timeout=60, isolation_level=None, check_same_thread=False
            )
            raw.execute("PRAGMA synchronous = FULL")
            return raw
        if self.name == "postgresql":
            return psycopg.connect(
                host=url.host, port=url.port, user=url.username, password=url.password,
                dbname=url.database, prepare_threshold=0,
            )  # fmt: skip
        return pymysql.connect(
            host=url.host, port=url.port or 3306, user=url.username,
            password=url.password or "", database=url.database,
        )  # fmt: skip

    def prepare(self) -> None:
        """Make the business tables."""
        with closing(self.connect()) as raw:
            if self.name == "sqlite":
                raw.execute("PRAGMA journal_mode = WAL")
            cursor = raw.cursor()
            for statement in _PREPARE:
                cursor.execute(statement)
            if self.name == "sqlite":
                cursor.execute("BEGIN")
            rows = [(number,) for number in range(ACCOUNTS)]
            cursor.executemany(f"INSERT INTO account (id, units) VALUES ({self.mark}, 0)", rows)
            raw.commit()

    def rows(self, statement: str) -> Sequence[tuple[Any, ...]]:
        with closing(self.connect()) as raw:
            cursor = raw.cursor()
            cursor.execute(statement)
            found: Sequence[tuple[Any, ...]] = cursor.fetchall()
            return found

    def change(self, *statements: str) -> None:
        """Each in a transaction of its own."""
        with closing(self.connect()) as raw:
            if self.name == "postgresql":
                raw.autocommit = True
            for statement in statements:
                raw.cursor().execute(statement)
                raw.commit()

    # What the server tells

    def counters(self) -> dict[str, float]:
        """Syncs, commits and processor seconds of the server, since it began."""
        if self.name == "sqlite":
            return {}
        if self.name == "postgresql":
            self._await_quiet()
            ((syncs,),) = self.rows("SELECT wal_sync FROM pg_stat_wal")
            ((commits,),) = self.rows(
                "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
            )
            return {"syncs": syncs, "commits": commits, "server_s": cpu_of(self.pid)}
        status = {
            str(name): int(value)
            for name, value in self.rows(
                "SHOW GLOBAL STATUS WHERE Variable_name IN"
                " ('Innodb_os_log_fsyncs', 'Innodb_data_fsyncs', 'Com_commit')"
            )
        }
        syncs = status.get("Innodb_os_log_fsyncs", status.get("Innodb_data_fsyncs", 0))
        commits = status["Com_commit"]
        return {"syncs": syncs, "commits": commits, "server_s": cpu_of(self.pid)}

    def _await_quiet(self) -> None:
        """PostgreSQL's backends hand in their counts when they end."""
        deadline = time.monotonic() + 10
        others = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        while self.rows(others)[0][0] and time.monotonic() < deadline:
            time.sleep(0.05)


def cpu_of(pid: int) -> float:
    """Processor seconds of a process, of its children, and of those that have ended."""
    total = 0.0
    for each in (pid, *_children(pid)):
        with suppress(OSError):
            fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15] if each == pid else fields[11:13])) / _TICKS
    return total


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        yield from map(int, text.split())


class Wire:
    """Passes everything on to a server, and counts how often the client waits for an answer."""

    def __init__(self, place: Place) -> None:
        url = make_url(place.url)
        self.trips = 0
        self._target = (url.host or "127.0.0.1", url.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        shown = url.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        self.place = Place(place.name, shown, place.pid)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                answered = threading.Event()
                answered.set()
                for source, target, up in ((client, server, True), (server, client, False)):
                    arguments = (source, target, answered, up)
                    threading.Thread(target=self._pass, args=arguments, daemon=True).start()

    def _pass(self, source: Any, target: Any, answered: threading.Event, up: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                if not up:
                    answered.set()
                elif answered.is_set():
                    answered.clear()
                    self.trips += 1
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(1)
