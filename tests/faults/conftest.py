"""Fixtures of the fault matrix: one ledger per database and session, and the victims."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.faults.ledger import Ledger
from tests.faults.victims import Victims

Ledgers = Callable[[str], Ledger]
_counter = itertools.count()


@pytest.fixture(scope="session")
def ledgers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ledgers]:
    """The session's ledger on the named database, made when first asked for."""
    made: dict[str, Ledger] = {}

    def ask(name: str) -> Ledger:
        if name not in made:
            if name == "sqlite":
                url = f"sqlite:///{tmp_path_factory.mktemp('faults')}/bank.db"
            else:
                fixture = "postgres" if name == "postgresql" else name
                url = request.getfixturevalue(fixture).create_database()
            made[name] = Ledger(name, url)
        return made[name]

    yield ask
    for each in made.values():
        each.close()


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    made = Victims("tests.faults.test_claim")
    yield made
    made.close()


@pytest.fixture
def partition() -> str:
    """A part of a key that no other test has."""
    return f"p{next(_counter)}"


@pytest.fixture
def real_signals() -> Iterator[None]:
    """SIGINT and SIGTERM raise, as in a program that a person may stop."""
    before = [
        signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.signal(signal.SIGTERM, _terminate),
    ]
    yield
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


def _terminate(_number: int, _frame: object) -> None:
    raise SystemExit(143)
