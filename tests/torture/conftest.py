"""Fixtures of the long runs; the report's plugin where the command line did not load it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.victims import Victims
from tests.torture import report

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def victims() -> Iterator[Victims]:
    made = Victims()
    yield made
    made.close()


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin(report.__name__):
        config.pluginmanager.register(report, report.__name__)
