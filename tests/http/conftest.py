"""Fixtures of the HTTP tests: a shop behind each middleware, on each database."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from tests.contract.conftest import ledgers  # noqa: F401 - a fixture
from tests.http.shop import AsgiShop, Shop, WsgiShop
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.bank import Ledger
    from tests.servers.database import DatabaseName

KINDS: dict[str, type[Shop]] = {"asgi": AsgiShop, "wsgi": WsgiShop}


@pytest.fixture(params=product(DATABASES, KINDS), ids="-".join)
def shop(
    request: pytest.FixtureRequest,
    ledgers: Callable[[DatabaseName], Ledger],  # noqa: F811
) -> Iterator[Shop]:
    name, kind = request.param
    made = KINDS[kind](ledgers(name))
    yield made
    made.close()


@pytest.fixture(params=DATABASES)
def wsgi_shop(
    request: pytest.FixtureRequest,
    ledgers: Callable[[DatabaseName], Ledger],  # noqa: F811
) -> Iterator[Shop]:
    made = KINDS["wsgi"](ledgers(request.param))
    yield made
    made.close()
