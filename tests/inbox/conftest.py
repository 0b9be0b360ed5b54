"""Fixtures of the inbox's tests: a post office of the test's own, on each database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.contract.conftest import ledgers  # noqa: F401 - a fixture
from tests.inbox.post import Post
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.bank import Ledger
    from tests.servers.database import DatabaseName


@pytest.fixture(params=DATABASES)
def post(
    request: pytest.FixtureRequest,
    ledgers: Callable[[DatabaseName], Ledger],  # noqa: F811
) -> Iterator[Post]:
    made = Post(ledgers(request.param))
    yield made
    made.close()


@pytest.fixture(params=["postgresql", "mariadb"])
def server_post(
    request: pytest.FixtureRequest,
    ledgers: Callable[[DatabaseName], Ledger],  # noqa: F811
) -> Iterator[Post]:
    made = Post(ledgers(request.param))
    yield made
    made.close()
