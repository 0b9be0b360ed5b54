"""What a test that runs on every database is given."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import psycopg
import pymysql
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from tests.servers.server import Server

DatabaseName = Literal["sqlite", "postgresql", "mariadb"]
DATABASES: tuple[DatabaseName, ...] = ("sqlite", "postgresql", "mariadb")


@dataclass(frozen=True)
class Database:
    """A fresh, empty database of one test's own.

    Attributes:
        name: Which of the three.
        url: A SQLAlchemy URL; on a server it holds driver, user and password.
        server: The server it is on; None for SQLite, and where it is only reached.
    """

    name: DatabaseName
    url: str
    server: Server | None = None

    @classmethod
    def in_file(cls, path: Path) -> Self:
        """A SQLite database in a new file at *path*."""
        path.touch(exist_ok=False)  # to SQLite, an empty file is an empty database
        return cls("sqlite", f"sqlite:///{path}")

    @property
    def path(self) -> Path:
        """The file of a SQLite database."""
        if self.name != "sqlite":
            raise TypeError(f"a database on {self.name} is no file")
        return Path(self.url.removeprefix("sqlite:///"))

    def connect(self) -> Any:
        """A new connection of sqlite3, psycopg or PyMySQL; the caller closes it."""
        match self.name:
            case "sqlite":
                return sqlite3.connect(self.path)
            case "postgresql":
                return psycopg.connect(**self.address("dbname"))
            case "mariadb":
                return pymysql.connect(**self.address("database"))

    def address(self, database: str) -> dict[str, Any]:
        """What a driver calls by these names, and the name of the database by *database*."""
        url = make_url(self.url)
        names = {"host": url.host, "port": url.port, "user": url.username}
        return {**names, "password": url.password, database: url.database, "connect_timeout": 10}
