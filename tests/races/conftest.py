"""A bank for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.races.bank import Bank

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.database import Database


@pytest.fixture
def bank(database: Database) -> Iterator[Bank]:
    """A fresh database with a ledger and a table of effects; once on each of the three."""
    made = Bank.found(database.name, database.url)
    yield made
    made.close()
