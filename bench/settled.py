"""A ledger with many settled occurrences, and the room that each takes."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from place import Place

MINUTE_US = 60_000_000
DIRTY_MOST = 50
_SERIES = {
    "sqlite": "(WITH RECURSIVE s(g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < {n})"
    " SELECT g FROM s)",
    "postgresql": "(SELECT g FROM generate_series(1::bigint, {n}) AS g)",
    "mariadb": "(SELECT seq AS g FROM seq_1_to_{n})",
}
# UUIDv7 of a time past, so that new ones come after them, as an attempt's do.
_ID = {
    "sqlite": "attempt_id_of(g)",
    "postgresql": "(lpad(to_hex(1750000000000 + g), 12, '0') || '7000' || '8000' ||"
    " substr(md5(g::text), 1, 12))::uuid",
    "mariadb": "UNHEX(CONCAT(LPAD(HEX(1750000000000 + g), 12, '0'), '70008000',"
    " SUBSTR(MD5(g), 1, 12)))",
}
TABLES = ("duly_attempt", "duly_occurrence")


def settle(place: Place, count: int) -> float:
    """So many minutes of the job of the one occurrence there is; returns bytes for each.

    They have no partition, as those of a job that runs once a minute.
    """
    before = _bytes(place)
    with closing(place.connect()) as raw:
        cursor = raw.cursor()
        if place.name == "postgresql":
            cursor.execute("SET session_replication_role = replica")  # what is copied fits already
        elif place.name == "sqlite":
            raw.create_function("attempt_id_of", 1, _attempt_id, deterministic=True)
            cursor.execute("BEGIN")
        for table in TABLES:
            cursor.execute(f"SELECT * FROM {table} LIMIT 1")
            cursor.fetchall()
            columns = [column[0] for column in cursor.description]
            changed = {
                "nominal_us": f"nominal_us - ({count} + 1 - g) * {MINUTE_US}",
                "id": _ID[place.name],
                "attempt_id": _ID[place.name],
                "partition_key": "''",
            }
            selected = ", ".join(changed.get(column, column) for column in columns)
            series = _SERIES[place.name].format(n=count)
            cursor.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) SELECT {selected}"
                f" FROM {series} AS series CROSS JOIN (SELECT * FROM {table} LIMIT 1) AS one"
                " ORDER BY g"
            )
        raw.commit()
    if place.name != "sqlite":
        word = "ANALYZE TABLE" if place.name == "mariadb" else "VACUUM ANALYZE"
        place.change(*(f"{word} {table}" for table in TABLES))
    _written_back(place)
    return (_bytes(place) - before) / count


def _attempt_id(number: int) -> bytes:
    at, chance = (1_750_000_000_000 + number).to_bytes(6), number * 2_654_435_761 % (1 << 48)
    return at + b"\x70\x00\x80\x00" + chance.to_bytes(6)


def _written_back(place: Place) -> None:
    """Let the disk be done with what was filled in, or its writing meets what is measured next."""
    if place.name == "sqlite":
        place.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    elif place.name == "postgresql":
        place.change("CHECKPOINT")
    else:
        place.change("SET GLOBAL innodb_max_dirty_pages_pct = 0")
        deadline = time.monotonic() + 60
        while _dirty_pages(place) > DIRTY_MOST and time.monotonic() < deadline:
            time.sleep(0.2)
        place.change("SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT")
    os.sync()


def _dirty_pages(place: Place) -> int:
    ((_name, pages),) = place.rows("SHOW GLOBAL STATUS LIKE 'innodb_buffer_pool_pages_dirty'")
    return int(pages)


def record_by_hand(place: Place, count: int) -> float:
    """So many keys with their time in the table that one would make; bytes for each."""
    series = _SERIES[place.name].format(n=count)
    name = "g || '.0-' || g" if place.name != "mariadb" else "CONCAT(g, '.0-', g)"
    before = _bytes(place, ("done",))
    place.change(f"INSERT INTO done SELECT {name}, g + 1700000000000000 FROM {series} AS series")
    if place.name == "mariadb":
        place.change("ANALYZE TABLE done")
    return (_bytes(place, ("done",)) - before) / count


def _bytes(place: Place, tables: Sequence[str] = TABLES) -> int:
    if place.name == "sqlite":
        ((pages,),) = place.rows("PRAGMA page_count")
        ((size,),) = place.rows("PRAGMA page_size")
        return int(pages * size)
    if place.name == "postgresql":
        sizes = ", ".join(f"('{table}')" for table in tables)
        ((total,),) = place.rows(
            f"SELECT sum(pg_total_relation_size(t::regclass)) FROM (VALUES {sizes}) AS v (t)"
        )
        return int(total)
    names = ", ".join(f"'{table}'" for table in tables)
    ((total,),) = place.rows(
        "SELECT SUM(data_length + index_length) FROM information_schema.tables"
        f" WHERE table_schema = DATABASE() AND table_name IN ({names})"
    )
    return int(total)
