"""What the long run ran on, for its report."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.torture.report import VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.database import Database

QUESTIONS = {
    "sqlite": "SELECT sqlite_version()",
    "postgresql": "SHOW server_version",
    "mariadb": "SELECT VERSION()",
}


@pytest.mark.torture
def test_version_of_the_database_is_reported(
    database: Database, record_property: Callable[[str, object], None]
) -> None:
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(QUESTIONS[database.name])
        version = str(cursor.fetchone()[0])

    record_property(VERSION, version)
    assert version[0].isdigit()
