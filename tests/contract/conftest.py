"""Fixtures of the contract suite.

- `bank`: a job and an account of the test's own; the test runs once on each database, and by
  each kind of App that its module names in `APPS`.
- `sqlite_bank`, `postgres_bank`, `mariadb_bank`: the same on one of them.
- `door`: a way in, opened on a bank; the test runs once for each way and database.
- `own_door`, `caller_door`: only those where duly, or the caller, owns the transaction.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.contract.bank import DRIVER_ERRORS, Bank, Ledger
from tests.contract.callers import ClaimDoor
from tests.contract.doors import AppDoor, Door
from tests.contract.ways import KINDS, WAYS, AppKind, Way
from tests.servers.database import DATABASES, Database, DatabaseName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.server import Server

_BANKS: dict[str, tuple[DatabaseName, ...]] = {
    "bank": DATABASES,
    "sqlite_bank": ("sqlite",),
    "postgres_bank": ("postgresql",),
    "mariadb_bank": ("mariadb",),
    # Where two transactions can be under way at once, and a network is between.
    "server_bank": ("postgresql", "mariadb"),
}

Ledgers = "Callable[[DatabaseName], Ledger]"


@pytest.fixture(scope="session")
def ledgers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[DatabaseName], Ledger]]:
    """This process's ledger on each kind of database, made when first asked for."""
    made: dict[DatabaseName, Ledger] = {}

    def ledger(name: DatabaseName) -> Ledger:
        if name not in made:
            if name == "sqlite":
                file = tmp_path_factory.mktemp("ledger") / "bank.db"
                made[name] = Ledger.create(Database.in_file(file))
            else:
                fixture = "postgres" if name == "postgresql" else name
                server: Server = request.getfixturevalue(fixture)
                made[name] = Ledger.create(Database(name, server.create_database(), server))
        return made[name]

    yield ledger
    for each in made.values():
        with suppress(*DRIVER_ERRORS):
            each.observer.close()
        if each.database.server is not None:
            each.database.server.drop(each.database.url)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test of a bank on each database, and by each kind of App that its module names."""
    # Only where a promise depends on the connection that an attempt runs on.
    kinds = getattr(metafunc.module, "APPS", ("own",))
    for fixture, names in _BANKS.items():
        if fixture in metafunc.fixturenames:
            cells = {
                f"{name}-{kind}".removesuffix("-own"): (name, kind)
                for kind in kinds
                for name in names
            }
            metafunc.parametrize(fixture, cells.values(), ids=cells, indirect=True)


@pytest.fixture
def bank(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[Bank]:
    name, kind = request.param
    yield from _bank(ledgers(name), kind)


sqlite_bank = postgres_bank = mariadb_bank = server_bank = bank


def _bank(ledger: Ledger, kind: AppKind = "own") -> Iterator[Bank]:
    bank = KINDS[kind](ledger)
    yield bank
    bank.close()


def _cells(*, own: bool | None = None) -> list[object]:
    return [
        pytest.param((name, way), id=f"{name}-{way.name}")
        for name in DATABASES
        for way in WAYS
        if name in way.databases and own in {None, way.own}
    ]


@pytest.fixture(params=_cells())
def door(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[Door]:
    yield from _door(request.param, ledgers)


@pytest.fixture(params=_cells(own=True))
def own_door(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[AppDoor]:
    for door in _door(request.param, ledgers):
        assert isinstance(door, AppDoor)
        yield door


@pytest.fixture(params=_cells(own=False))
def caller_door(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[ClaimDoor]:
    for door in _door(request.param, ledgers):
        assert isinstance(door, ClaimDoor)
        yield door


def _door(
    cell: tuple[DatabaseName, Way], ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[Door]:
    name, way = cell
    for bank in _bank(ledgers(name)):
        yield way.open(bank)
