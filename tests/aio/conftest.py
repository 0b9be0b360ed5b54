"""A bank of one test's own for code that awaits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.bank import Bank, Ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.database import Database


@pytest.fixture
def bank(database: Database) -> Iterator[Bank]:
    ledger = Ledger.create(database)
    bank = Bank(ledger)
    yield bank
    bank.close()
    ledger.observer.close()
