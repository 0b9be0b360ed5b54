"""A ledger as an earlier version left it: its tables by the migrations, its rows by SQL."""

from __future__ import annotations

from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import duly
from duly._core.payload import canonical
from duly._db import migrate
from duly._db.checks import check_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.database import Database

JOB = "credit"
PRUNED_JOB = "pruned"
HORIZON = datetime(2020, 1, 1, tzinfo=UTC)
RECORDED = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
MINUTE = timedelta(minutes=1)

APPLIED = RECORDED - MINUTE
FAILED = RECORDED - 2 * MINUTE
UNAPPLIED = {
    "skipped": RECORDED - 3 * MINUTE,
    "superseded": RECORDED - 4 * MINUTE,
    "waived": RECORDED - 5 * MINUTE,
    "torn": RECORDED - 6 * MINUTE,
}
PARTITION = "Ä 1"

TABLES = (
    "duly_occurrence",
    "duly_attempt",
    "duly_duplicate",
    "duly_running",
    "duly_guard",
    "duly_job",
    "duly_audit",
)


def make(database: Database, version: str = "0001") -> None:
    """The tables of *version* and a row of each kind in every one of them."""
    with closing(duly.App(database.url)) as app:
        with app.database.session() as session:
            check_server(app.database, session)
        upgrade(app, version)
    with _connection(database) as raw:
        cursor = raw.cursor()
        for statement in _rows(database.name, set(tables(database))):
            cursor.execute(statement)
        raw.commit()


def upgrade(app: duly.App, version: str) -> None:
    """Run the migrations up to *version*, as `init` runs them to the newest."""
    from alembic import command

    with migrate._locked(app.database) as connection:
        config = migrate._config()
        schema = migrate._schema_for_ddl(app.database)
        config.attributes.update(connection=connection, schema=schema)
        command.upgrade(config, version)


def version(database: Database) -> str:
    """The version that the ledger says it has."""
    (row,) = query(database, "SELECT version_num FROM duly_schema_version")
    return str(row["version_num"])


def tables(database: Database) -> list[str]:
    """Those of version 0001 that this database has: SQLite keeps what runs in a side file."""
    return [name for name in TABLES if not (database.name == "sqlite" and name == "duly_running")]


def content(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table of version 0001, by column."""
    found = {}
    for table in tables(database):
        rows = query(database, f"SELECT * FROM {table}")
        found[table] = sorted(rows, key=lambda row: repr(sorted(row.items())))
    return found


def query(database: Database, statement: str) -> list[dict[str, Any]]:
    with _connection(database) as raw:
        cursor = raw.cursor()
        cursor.execute(statement)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@contextmanager
def _connection(database: Database) -> Iterator[Any]:
    with closing(database.connect()) as raw:
        yield raw


def _us(at: datetime) -> int:
    return duly.Occurrence(JOB, at).nominal_us


def _rows(name: str, there: set[str]) -> Iterator[str]:
    def uuid(number: int) -> str:
        each = UUID(int=number)
        return f"'{each}'" if name == "postgresql" else f"X'{each.hex}'"

    def binary(value: bytes) -> str:
        return f"'\\x{value.hex()}'::bytea" if name == "postgresql" else f"X'{value.hex()}'"

    now = _us(RECORDED)
    print_of_null = binary(canonical(None).fingerprint)

    def attempt(at: datetime, partition: str, number: int, outcome: str, result: str) -> str:
        error = "'handler', 'ValueError', 'no', 'Traceback'"
        if outcome == "applied":
            error = "NULL, NULL, NULL, NULL"
        return (
            "INSERT INTO duly_attempt (job, nominal_us, partition_key, correction, id, outcome,"
            " started_by, source, host, pid, started_us, finished_us, result, error_origin,"
            f" error_type, error_message, error_traceback) VALUES ('{JOB}', {_us(at)},"
            f" '{partition}', 1, {uuid(number)}, '{outcome}', 'cron', 'explicit', 'host', 7,"
            f" {now}, {now}, {result}, {error})"
        )

    def occurrence(at: datetime, partition: str, disposition: str, attempt_id: str) -> str:
        reason = "NULL" if disposition == "applied" else f"'why {disposition}'"
        return (
            "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
            f" fingerprint, attempt_id, recorded_us, reason, actor) VALUES ('{JOB}', {_us(at)},"
            f" '{partition}', 1, '{disposition}', {print_of_null}, {attempt_id}, {now}, {reason},"
            " 'ann')"
        )

    for number, partition in enumerate(("", PARTITION), start=1):
        yield attempt(APPLIED, partition, number, "applied", "'42'")
        yield occurrence(APPLIED, partition, "applied", uuid(number))
    yield attempt(FAILED, "", 3, "failed", "NULL")
    yield attempt(UNAPPLIED["torn"], "", 4, "torn", "NULL")
    for disposition, at in UNAPPLIED.items():
        yield occurrence(at, "", disposition, uuid(4) if disposition == "torn" else "NULL")
    yield (
        f"INSERT INTO duly_duplicate VALUES ('{JOB}', {_us(APPLIED)}, '', 1, 'cron', 3,"
        f" {now}, {now})"
    )
    if "duly_running" in there:
        yield (
            "INSERT INTO duly_running (attempt_id, job, nominal_us, partition_key, correction,"
            " started_by, host, process, pid, started_us) VALUES"
            f" ({uuid(5)}, '{JOB}', {_us(FAILED)}, '', 1, 'cron', 'host', 'm/b/n', 7, {now})"
        )
    yield f"UPDATE duly_guard SET pruned_us = {now}"
    yield f"INSERT INTO duly_job (name, horizon_us) VALUES ('{PRUNED_JOB}', {_us(HORIZON)})"
    yield (
        "INSERT INTO duly_audit (id, at_us, actor, action, job, nominal_us, partition_key,"
        f" correction, reason) VALUES ({uuid(6)}, {now}, 'ann', 'waive', '{JOB}',"
        f" {_us(UNAPPLIED['waived'])}, '', 1, 'not wanted')"
    )
