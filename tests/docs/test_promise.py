"""The limits that the promise page admits are the real ones: each is shown to be there.

A limit that goes away is good news; then its sentence goes too.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import text

import duly
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.servers.mariadb import MariaDBServer
    from tests.servers.postgresql import PostgresServer

PAGE = " ".join((DOCS / "promise.md").read_text("utf-8").split())
WHEN = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)


def says(words: str) -> None:
    assert words in PAGE, f"the promise page does not say any more: {words}"


def bank(url: str, handler: Callable[[duly.Run], object]) -> duly.App:
    app = duly.App(url)
    with app.database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE balance (id INTEGER PRIMARY KEY, units BIGINT)"))
        connection.execute(text("INSERT INTO balance VALUES (1, 0)"))
    app.init()
    app.job("credit")(handler)
    return app


def units(app: duly.App) -> int:
    with app.database.engine.connect() as connection:
        return int(connection.execute(text("SELECT units FROM balance")).scalar_one())


def raw_cursor(run: duly.Run) -> Any:
    raw: Any = run.connection.connection.driver_connection
    return raw.cursor()


def test_handler_that_replaces_the_transaction_and_fails_is_not_found_on_postgresql(
    postgres: PostgresServer,
) -> None:
    says("**Not found, on PostgreSQL:** a handler that rolls duly's transaction back as SQL text")

    def handler(run: duly.Run) -> None:
        cursor = raw_cursor(run)
        cursor.execute("ROLLBACK; UPDATE balance SET units = units + 10; COMMIT; BEGIN")
        cursor.execute("SELECT nothing FROM nowhere")

    url = postgres.create_database()
    app = bank(url, handler)
    with pytest.raises(Exception, match="nowhere"):
        app.run("credit", WHEN)

    [attempt] = app.history("credit").attempts
    assert (attempt.outcome, units(app)) == (duly.Outcome.FAILED, 10)
    app.close()
    postgres.drop(url)


def test_same_handler_is_held_as_torn_on_mariadb(mariadb: MariaDBServer) -> None:
    """The limit above is PostgreSQL's alone; the statements hide in blocks."""

    def handler(run: duly.Run) -> None:
        cursor = raw_cursor(run)
        for statement in (
            "ROLLBACK",
            "UPDATE balance SET units = units + 10",
            "COMMIT",
            "START TRANSACTION",
        ):
            cursor.execute(f"BEGIN NOT ATOMIC {statement}; END")
        cursor.execute("SELECT nothing FROM nowhere")

    url = mariadb.create_database()
    app = bank(url, handler)
    with pytest.raises(duly.TransactionEnded):
        app.run("credit", WHEN)
    assert units(app) == 10
    app.close()
    mariadb.drop(url)


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "ALTER TABLE balance ADD x INTEGER"])
def test_end_of_the_transaction_as_text_on_the_raw_driver_is_refused_on_mariadb(
    mariadb: MariaDBServer, statement: str
) -> None:
    says("for the methods and, on SQLite and MariaDB, for the statements")
    url = mariadb.create_database()
    app = bank(url, lambda run: raw_cursor(run).execute(statement))
    with pytest.raises(duly.UsageError):
        app.run("credit", WHEN)
    [attempt] = app.history("credit").attempts
    assert attempt.outcome is duly.Outcome.FAILED
    app.close()
    mariadb.drop(url)


def test_temporary_table_hides_the_real_one_on_mariadb_only(
    mariadb: MariaDBServer, postgres: PostgresServer
) -> None:
    says("On MariaDB a temporary table hides the real one even when the statement names the")
    occurrence = duly.Occurrence("credit", WHEN)
    found = {}
    for server in (mariadb, postgres):
        url = server.create_database()
        app = duly.App(url)
        app.init()
        with app.database.engine.begin() as connection:
            assert duly.claim(connection, occurrence).is_new
        with app.database.engine.connect() as connection:
            connection.exec_driver_sql(
                "CREATE TEMPORARY TABLE duly_occurrence (job VARCHAR(100), nominal_us BIGINT,"
                " partition_key VARCHAR(200), correction INTEGER, disposition VARCHAR(16),"
                f" fingerprint {'BINARY(32)' if server is mariadb else 'BYTEA'},"
                f" attempt_id {'BINARY(16)' if server is mariadb else 'UUID'}, recorded_us BIGINT)"
            )
            found[server.name] = duly.claim(connection, occurrence).is_new
        app.close()
        server.drop(url)
    assert found == {"mariadb": True, "postgresql": False}


def test_rollback_by_sqlite_itself_is_a_failure_and_what_follows_is_denied(tmp_path: Any) -> None:
    says("What the handler runs after that is denied, and the attempt is `failed`")

    def lets_out(run: duly.Run) -> None:
        run.execute("INSERT OR ROLLBACK INTO balance VALUES (1, 5)")

    def hides(run: duly.Run) -> None:
        with suppress(Exception):
            lets_out(run)
        with suppress(Exception):
            run.execute("UPDATE balance SET units = units + 10")

    file = tmp_path / "bank.db"
    file.touch()
    app = bank(f"sqlite:///{file}", lets_out)
    app.job("hides")(hides)
    with pytest.raises(Exception, match="UNIQUE"):
        app.run("credit", WHEN)
    with pytest.raises(duly.SwallowedError):
        app.run("hides", WHEN)
    assert units(app) == 0
    app.close()


def test_handler_cannot_attach_a_second_file_on_sqlite(tmp_path: Any) -> None:
    says("a second attached file is refused, and a handler cannot attach one")
    file = tmp_path / "bank.db"
    file.touch()
    attach = f"ATTACH '{tmp_path / 'other.db'}' AS other"
    app = bank(f"sqlite:///{file}", lambda run: str(run.connection.exec_driver_sql(attach)))
    with pytest.raises(Exception, match="not authorized"):
        app.run("credit", WHEN)
    app.close()


def test_unlogged_business_table_is_not_looked_at_and_dulys_own_is_refused(
    postgres: PostgresServer,
) -> None:
    says("An unlogged *business* table is not looked at")
    url = postgres.create_database()
    app = bank(url, lambda run: str(run.execute("UPDATE balance SET units = units + 10")))
    with app.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE balance SET UNLOGGED"))
    assert app.run("credit", WHEN).outcome is duly.Outcome.APPLIED
    with app.database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE duly_occurrence SET UNLOGGED"))
    other = duly.App(url)
    with pytest.raises(duly.UnsafeStorage):
        other.explain(duly.Occurrence("credit", WHEN))
    app.close()
    other.close()
    postgres.drop(url)


def test_myisam_table_is_refused_through_the_run_and_not_seen_on_the_raw_driver(
    mariadb: MariaDBServer,
) -> None:
    says("It is not seen in a view, a trigger, a procedure, another database, or on the raw driver")
    change = "UPDATE balance SET units = units + 10"
    url = mariadb.create_database()
    app = bank(url, lambda run: str(run.execute(change)))
    with app.database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE balance ENGINE=MyISAM")
    app.close()

    app = duly.App(url)
    app.job("credit")(lambda run: str(run.execute(change)))
    app.job("raw")(lambda run: raw_cursor(run).execute(change))
    with pytest.raises(duly.UnsafeStorage):
        app.run("credit", WHEN)
    assert units(app) == 0
    assert app.run("raw", WHEN).outcome is duly.Outcome.APPLIED
    app.close()
    mariadb.drop(url)
