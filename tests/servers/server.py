"""What the database servers share beyond their life: databases by the dozen."""

from __future__ import annotations

import uuid
from abc import abstractmethod
from pathlib import Path
from typing import Any

from tests.servers.program import Program, WrongServerError


class Server(Program):
    """A throw-away database server."""

    # ------------------------------------------------------------------------------------ databases

    def create_database(self) -> str:
        """Makes a new empty database; returns its URL."""
        database = f"t_{uuid.uuid4().hex[:20]}"
        self._create(database)
        return self.url(database)

    def url(self, database: str) -> str:
        """The SQLAlchemy URL of *database*, with driver, user and password."""
        here = self.address
        return f"{self.scheme()}://{here.user}:{here.password}@{here.host}:{here.port}/{database}"

    @staticmethod
    def database_of(url: str) -> str:
        return url.partition("?")[0].rpartition("/")[2]

    @classmethod
    @abstractmethod
    def scheme(cls) -> str:
        """What stands before `://`."""

    @abstractmethod
    def connect(self, database: str | None = None) -> Any:
        """A connection of the native driver, over TCP, not in autocommit; the caller closes it."""

    @abstractmethod
    def drop(self, url: str) -> None:
        """Removes a database, whoever is still connected to it."""

    @abstractmethod
    def _create(self, database: str) -> None: ...

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def _check_data(self, answered: str) -> None:
        if Path(answered).resolve() != self.data.resolve():
            raise WrongServerError(f"port {self.address.port} serves {answered}, not {self.data}")
