"""What a test that runs on every database is given."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

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
        server: The server it is on; None for SQLite.
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
        if self.server is not None:
            raise TypeError(f"a database on {self.name} is no file")
        return Path(self.url.removeprefix("sqlite:///"))

    def connect(self) -> Any:
        """A new connection of sqlite3, psycopg or PyMySQL; the caller closes it."""
        if self.server is None:
            return sqlite3.connect(self.path)
        return self.server.connect(self.server.database_of(self.url))
