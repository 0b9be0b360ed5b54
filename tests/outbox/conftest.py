"""Fixtures of messages: a desk on each database, and a peer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.victims import Victims
from tests.outbox.desk import Desk
from tests.outbox.peer import Peer
from tests.servers.database import DATABASES, Database, DatabaseName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.server import Server


@pytest.fixture(scope="session")
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[DatabaseName], Database]]:
    """This process's database of each kind, made when first asked for."""
    made: dict[DatabaseName, Database] = {}

    def ask(name: DatabaseName) -> Database:
        if name not in made:
            if name == "sqlite":
                made[name] = Database.in_file(tmp_path_factory.mktemp("outbox") / "bank.db")
            else:
                fixture = "postgres" if name == "postgresql" else name
                server: Server = request.getfixturevalue(fixture)
                made[name] = Database(name, server.create_database(), server)
        return made[name]

    yield ask
    for each in made.values():
        if each.server is not None:
            each.server.drop(each.url)


@pytest.fixture(params=DATABASES)
def desk(
    request: pytest.FixtureRequest, shared: Callable[[DatabaseName], Database]
) -> Iterator[Desk]:
    """The test runs once on each database."""
    made = Desk(shared(request.param))
    yield made
    made.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    """An HTTP receiver."""
    with Peer() as made:
        yield made


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    """Processes that die."""
    made = Victims("tests.outbox.dying")
    yield made
    made.close()
