"""The banks of the contract suite, for code that awaits."""

from __future__ import annotations

from tests.contract.conftest import (  # noqa: F401 - fixtures, and the databases they run on
    bank,
    ledgers,
    mariadb_bank,
    postgres_bank,
    pytest_generate_tests,
    server_bank,
    sqlite_bank,
)
