"""The room that a settled occurrence takes, in bytes: a ledger is kept for years."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import duly
from tests.contract.bank import OLD

if TYPE_CHECKING:
    from tests.servers.database import Database

COUNT = 20_000
MOST = {"sqlite": 200, "postgresql": 350}
TABLES = ("duly_attempt", "duly_occurrence")
SERIES = {
    "sqlite": "(WITH RECURSIVE s(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {})"
    " SELECT g FROM s)",
    "postgresql": "(SELECT g FROM generate_series(1::bigint, {}) AS g)",
}
IDS = {"sqlite": "CAST(printf('%016d', g) AS BLOB)", "postgresql": "md5(g::text)::uuid"}


@pytest.mark.parametrize("database", MOST, indirect=True)
def test_settled_occurrence_with_its_attempt_takes_no_more_room_than_was_promised(
    database: Database,
) -> None:
    """Of a job without payload and partition, with its indexes, in the order of time."""
    with closing(duly.App(database.url)) as app:
        app.init()
        app.job("credit")(lambda _run: None)
        app.run("credit", OLD)
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        # The longest names that most hosts have: the room of text is its owner's choice.
        cursor.execute("UPDATE duly_attempt SET host = 'vm', started_by = 'python:root@vm'")
        if database.name == "postgresql":
            # What is copied fits already.
            cursor.execute("SET session_replication_role = replica")
        connection.commit()
        before = _bytes(database)
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table}")
            columns = [column[0] for column in cursor.description]
            cursor.fetchall()
            changed = {
                "nominal_us": "nominal_us + g * 60000000",
                "id": IDS[database.name],
                "attempt_id": IDS[database.name],
            }
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(columns)})"
                f" SELECT {', '.join(changed.get(name, name) for name in columns)}"
                f" FROM {SERIES[database.name].format(COUNT)} AS series CROSS JOIN {table}"
                " ORDER BY g"
            )
        connection.commit()

    assert (_bytes(database) - before) / COUNT <= MOST[database.name]


def _bytes(database: Database) -> int:
    if database.name == "sqlite":
        asked = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    else:
        sizes = " + ".join(f"pg_total_relation_size('{table}')" for table in TABLES)
        asked = f"SELECT {sizes}"
    with closing(database.connect()) as connection:
        cursor = connection.cursor()
        cursor.execute(asked)
        return int(cursor.fetchone()[0])
