"""A database to be measured on: how to reach it, and what its server tells of itself.

A place is plain text, so that it can be handed to a worker process. Drivers are imported where they
are used: a peer's environment has one of them at most, and no SQLAlchemy.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ACCOUNTS = 1_000
_PREPARE = (
    "CREATE TABLE account (id INTEGER PRIMARY KEY, units BIGINT NOT NULL)",
    "CREATE TABLE done (name VARCHAR(100) PRIMARY KEY, recorded_us BIGINT NOT NULL)",
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
        if self.name == "sqlite":
            raw = sqlite3.connect(
                self.path, timeout=60, isolation_level=None, check_same_thread=False
            )
            raw.execute("PRAGMA synchronous = FULL")
            return raw
        at = self.address()
        if self.name == "postgresql":
            import psycopg

            return psycopg.connect(
                host=at["host"], port=at["port"], user=at["user"], password=at["password"],
                dbname=at["database"], prepare_threshold=0,
            )  # fmt: skip
        import pymysql

        return pymysql.connect(**at)

    def address(self) -> dict[str, Any]:
        """Where a server is, in the words of PyMySQL."""
        url = urlsplit(self.url)
        return {
            "host": url.hostname, "port": url.port, "user": unquote(url.username or ""),
            "password": unquote(url.password or ""), "database": url.path.removeprefix("/"),
        }  # fmt: skip

    def behind(self, port: int) -> Place:
        """The same place through another port of this machine."""
        url = urlsplit(self.url)
        account = url.netloc.rpartition("@")[0]
        netloc = f"{account}@127.0.0.1:{port}"
        return Place(self.name, url._replace(netloc=netloc).geturl(), self.pid)

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

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Without PostgreSQL's autovacuum, whose commits and syncs would be counted, too."""
        if self.name != "postgresql":
            yield
            return
        self.change("ALTER SYSTEM SET autovacuum = off", "SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.change("ALTER SYSTEM RESET autovacuum", "SELECT pg_reload_conf()")

    # What the server tells

    def counters(self) -> dict[str, float]:
        """Syncs, commits and processor seconds of the server, since it began."""
        if self.name == "sqlite":
            return {}
        if self.name == "postgresql":
            self.await_quiet()
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

    def await_quiet(self) -> None:
        """Until the server has noticed that others are gone, and PostgreSQL has their counts."""
        if self.name == "sqlite":
            return
        others = {
            "postgresql": "pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
            "mariadb": "information_schema.processlist"
            " WHERE id <> CONNECTION_ID() AND user = SUBSTRING_INDEX(USER(), '@', 1)",
        }
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if not self.rows(f"SELECT count(*) FROM {others[self.name]}")[0][0]:
                break
            time.sleep(0.02)


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
