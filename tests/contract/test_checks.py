"""What duly looks at before it trusts a database: refused by name, with the remedy."""

from __future__ import annotations

import os
import traceback
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
from sqlalchemy.engine import make_url

import duly
from duly._db.checks import NETWORK_FILE_SYSTEMS, file_system_of
from tests.contract.bank import OLD, autocommit, execute
from tests.servers.database import Database

if TYPE_CHECKING:
    import sqlite3

    from tests.contract.bank import Bank
    from tests.servers.mariadb import MariaDBServer
    from tests.servers.postgresql import PostgresServer

UNREACHABLE_PORT = 1


def run(database: Any, **options: Any) -> duly.Result:
    """Run a job that does nothing."""
    app = duly.App(database, **options)
    app.job("nothing")(lambda _run: None)
    try:
        return app.run("nothing", OLD)
    finally:
        app.close()


def initialised(database: Database) -> Database:
    app = duly.App(database.url)
    app.init()
    app.close()
    return database


def sql(database: Database, *statements: str) -> None:
    with closing(autocommit(database)) as connection:
        for statement in statements:
            execute(connection, statement)


# ----------------------------------------------------------------------------- reaching it


def test_wrong_password_is_an_operators_error_that_shows_none(server_bank: Bank) -> None:
    """The message names the user and the database, and no password, wrong or right."""
    secret = "n0t-the-passw0rd"
    url = make_url(server_bank.url).set(password=secret)

    with pytest.raises(duly.AccessDenied) as caught:
        run(url)

    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.details)
    assert "duly" in str(caught.value)
    assert secret not in str(caught.value) + repr(caught.value.details)
    assert str(make_url(server_bank.url).password) not in shown


def test_unreachable_server_is_a_transient_error_that_shows_no_password(
    server_bank: Bank,
) -> None:
    """A server that is away is to be tried again."""
    url = make_url(server_bank.url)

    with pytest.raises(duly.ConnectionLost, match="cannot be reached") as caught:
        run(url.set(port=UNREACHABLE_PORT))

    assert isinstance(url.password, str)
    assert url.password not in "".join(traceback.format_exception(caught.value))


def test_unknown_database_on_a_server_is_named(server_bank: Bank) -> None:
    """A typing error in the URL's name is told apart from a server that is away."""
    with pytest.raises(duly.DulyError, match="no_such_database"):
        run(make_url(server_bank.url).set(database="no_such_database"))


def test_missing_sqlite_file_is_not_made_and_its_absolute_path_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under cron a relative path names another place: the error says which."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(duly.DatabaseNotFound) as caught:
        run("sqlite:///bank.db")

    assert str(tmp_path / "bank.db") in str(caught.value)
    assert caught.value.details["path"] == str(tmp_path / "bank.db")
    assert list(tmp_path.iterdir()) == []


def test_sqlite_in_memory_is_refused() -> None:
    """The record would be gone with the process."""
    for url in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(duly.UsageError, match="memory"):
            duly.App(url)


def test_file_that_is_no_sqlite_database_is_refused(tmp_path: Path) -> None:
    """Something else at the path is left alone."""
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and no database\n" * 100)
    with pytest.raises(duly.DulyError, match=r"notes\.txt"):
        run(f"sqlite:///{file}")
    assert file.read_text().startswith("these are notes")


@pytest.mark.parametrize("url", ["oracle://u:p1ssw0rd@h/d", "mssql+pyodbc://u:p1ssw0rd@h/d"])
def test_database_of_another_make_is_refused_by_name(url: str) -> None:
    """What duly does not serve is refused before anything is imported or reached."""
    with pytest.raises(duly.UnsupportedDatabase) as caught:
        duly.App(url)
    assert url.split(":", maxsplit=1)[0].split("+", maxsplit=1)[0] in str(caught.value)
    assert "p1ssw0rd" not in str(caught.value)


def test_url_that_does_not_parse_is_refused_without_its_password() -> None:
    """Not even a broken URL is shown whole."""
    with pytest.raises(duly.UsageError) as caught:
        duly.App("postgresql:/duly:p1ssw0rd@host/bank")
    assert "p1ssw0rd" not in "".join(traceback.format_exception_only(caught.value))


# -------------------------------------------------------------------------------- the ledger


def test_ledger_that_is_absent_on_a_server_is_told_with_the_command(database: Database) -> None:
    """A server needs `duly init` once; in an existing SQLite file the tables are made."""
    if database.name == "sqlite":
        assert run(database.url).outcome is duly.Outcome.APPLIED
        return
    with pytest.raises(duly.SchemaMissing, match="duly init"):
        run(database.url)
    with closing(database.connect()) as connection, pytest.raises(duly.SchemaMissing):
        duly.claim(connection, duly.Occurrence("nothing", OLD))


@pytest.mark.parametrize(
    ("version", "error", "remedy"),
    [("0000", duly.SchemaOutdated, "duly init"), ("9999", duly.SchemaNewer, "upgrade duly")],
)
def test_ledger_of_another_version_is_refused(
    database: Database, version: str, error: type[duly.OperatorError], remedy: str
) -> None:
    """Neither a run nor a claim writes to tables of another version."""
    initialised(database)
    sql(database, f"UPDATE duly_schema_version SET version_num = '{version}'")

    with pytest.raises(error, match=remedy) as caught:
        run(database.url)
    with closing(database.connect()) as connection, pytest.raises(error, match=remedy):
        duly.claim(connection, duly.Occurrence("nothing", OLD))

    assert caught.value.details["found"] == version


def test_guard_without_its_row_is_a_broken_invariant(database: Database) -> None:
    """With no row a lock locks nothing: nothing runs, and no claim of an old period passes."""
    initialised(database)
    sql(database, "DELETE FROM duly_guard")

    with pytest.raises(duly.InvariantBroken, match="duly_guard"):
        run(database.url)
    if database.name != "sqlite":  # its write lock is what guards a claim there
        with closing(database.connect()) as connection, pytest.raises(duly.InvariantBroken):
            duly.claim(connection, duly.Occurrence("nothing", OLD))


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_guard_that_loses_its_row_while_an_app_runs_is_a_broken_invariant(
    database: Database,
) -> None:
    """An attempt at an old period needs the guard each time; SQLite's is its write lock."""
    initialised(database)
    app = duly.App(database.url)
    app.job("nothing")(lambda _run: None)
    app.run("nothing", OLD)
    sql(database, "DELETE FROM duly_guard")

    with pytest.raises(duly.InvariantBroken, match="duly_guard"):
        app.run("nothing", OLD.replace(day=1))
    app.close()


# ------------------------------------------------------------------------------------ schemas


def test_ledger_in_another_schema_is_refused_unless_it_is_named(postgres: PostgresServer) -> None:
    """A role with its own search_path would make a second ledger, and apply twice."""
    url = postgres.create_database()
    database = initialised(Database("postgresql", url, postgres))
    sql(database, "CREATE SCHEMA other")
    elsewhere = f"{url}?options=-csearch_path%3Dother"

    with pytest.raises(duly.OperatorError, match="public") as caught:
        run(elsewhere)
    app = duly.App(elsewhere)
    with pytest.raises(duly.OperatorError, match="public"):
        app.init()
    app.close()

    assert caught.value.details["schemas"] == ["public"]
    assert run(elsewhere, schema="public").outcome is duly.Outcome.APPLIED
    assert run(url).outcome is duly.Outcome.DUPLICATE
    postgres.drop(url)


@pytest.mark.parametrize("schema", ["Ledger of ours", 'quo"te', "per%cent", "back`tick", "Ünïcode"])
def test_ledger_in_a_named_schema_is_used_whatever_its_name(
    postgres: PostgresServer, mariadb: MariaDBServer, schema: str
) -> None:
    """Every statement is qualified, and every name is quoted."""
    for server, mark in ((postgres, '"'), (mariadb, "`")):
        url = server.create_database()
        database = Database("postgresql" if server is postgres else "mariadb", url, server)
        quoted = mark + schema.replace(mark, mark * 2) + mark
        sql(database, f"CREATE SCHEMA {quoted}")
        app = duly.App(url, schema=schema)
        try:
            app.init()
            app.job("nothing")(lambda _run: None)
            assert app.run("nothing", OLD).outcome is duly.Outcome.APPLIED
            assert app.run("nothing", OLD).outcome is duly.Outcome.DUPLICATE
            app.prune(older_than=OLD)
            with pytest.raises(duly.Expired):
                app.run("nothing", OLD)
            with closing(server.connect(server.database_of(url))) as connection:
                occurrence = duly.Occurrence("claimed", OLD)
                assert duly.claim(connection, occurrence, schema=schema).is_new
                connection.commit()
                count = f"SELECT COUNT(*) FROM {quoted}.duly_occurrence"
                assert execute(connection, count) == [(1,)]
        finally:
            app.close()
            sql(database, f"DROP SCHEMA {quoted}" + (" CASCADE" if server is postgres else ""))
            server.drop(url)


def test_temporary_table_with_the_ledgers_name_does_not_shadow_it(postgres_bank: Bank) -> None:
    """Statements name the schema: a user's temporary table is another table."""
    connection = postgres_bank.connect()
    execute(connection, "CREATE TEMPORARY TABLE duly_occurrence (LIKE public.duly_occurrence)")
    execute(connection, "CREATE TEMPORARY TABLE duly_attempt (LIKE public.duly_attempt)")
    assert duly.claim(connection, postgres_bank.occurrence()).is_new
    connection.commit()
    assert postgres_bank.outcomes == ["applied"]


# ------------------------------------------------------------------------------ unsafe storage


@pytest.mark.parametrize("table", ["duly_attempt", "duly_guard", "duly_job"])
def test_unlogged_ledger_is_refused(postgres: PostgresServer, table: str) -> None:
    """A crash would empty it, and keys would run again."""
    url = postgres.create_database()
    database = initialised(Database("postgresql", url, postgres))
    sql(
        database,
        "ALTER TABLE duly_occurrence DROP CONSTRAINT fk_duly_occurrence_sealed",
        f"ALTER TABLE {table} SET UNLOGGED",
    )
    with pytest.raises(duly.UnsafeStorage, match=f"ALTER TABLE {table} SET LOGGED"):
        run(url)
    with closing(database.connect()) as connection, pytest.raises(duly.UnsafeStorage):
        duly.claim(connection, duly.Occurrence("nothing", OLD))
    postgres.drop(url)


def test_role_whose_triggers_are_off_is_refused(postgres_bank: Bank) -> None:
    """`session_replication_role` switches the foreign key off that refuses an early COMMIT."""
    options = {"connect_args": {"options": "-c session_replication_role=replica"}}
    with pytest.raises(duly.UnsafeStorage, match="session_replication_role"):
        run(postgres_bank.engine(**options))
    with (
        postgres_bank.engine(**options).begin() as connection,
        pytest.raises(duly.UnsafeStorage),
    ):
        duly.claim(connection, postgres_bank.occurrence())


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("ANSI", "STRICT_TRANS_TABLES"),
        ("STRICT_ALL_TABLES,EMPTY_STRING_IS_NULL", "take EMPTY_STRING_IS_NULL out"),
    ],
)
def test_mariadb_that_would_store_other_values_is_refused(
    mariadb_bank: Bank, mode: str, said: str
) -> None:
    """Truncated values, or NULL for an empty text, would be stored without a word."""
    options = {"connect_args": {"init_command": f"SET SESSION sql_mode = '{mode}'"}}
    with pytest.raises(duly.UnsafeStorage, match=said):
        run(mariadb_bank.engine(**options))


def test_ledger_with_an_engine_without_transactions_is_refused(mariadb: MariaDBServer) -> None:
    """A MyISAM ledger cannot roll back."""
    url = mariadb.create_database()
    database = initialised(Database("mariadb", url, mariadb))
    sql(database, "ALTER TABLE duly_job ENGINE=MyISAM")
    with pytest.raises(duly.UnsafeStorage, match="duly_job ENGINE=InnoDB"):
        run(url)
    mariadb.drop(url)


def test_engine_that_attaches_a_second_file_is_refused(sqlite_bank: Bank, tmp_path: Path) -> None:
    """SQLite does not commit two files together in WAL mode."""
    engine = sqlite_bank.engine()

    @sqlalchemy.event.listens_for(engine, "connect")
    def attach(raw: sqlite3.Connection, _record: Any) -> None:
        raw.execute(f"ATTACH DATABASE '{tmp_path / 'second.db'}' AS second")

    with pytest.raises(duly.UnsafeStorage, match="second"):
        run(engine)


MOUNTS = r"""
22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
28 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
40 28 0:37 / /mnt/share rw,relatime shared:20 - nfs4 server:/export rw,vers=4.2
41 40 254:9 / /mnt/share/local\040disk rw shared:21 master:3 - xfs /dev/vdb1 rw
42 28 0:40 / /srv/ci rw - fuse.sshfs host:/ rw
43 28 0:41 / /mnt/over rw - overlay overlay rw
44 43 0:42 / /mnt/over rw - cifs //host/share rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/bank.db", "ext4"),
        ("/mnt/share/bank.db", "nfs4"),
        ("/mnt/share/local disk/bank.db", "xfs"),
        ("/mnt/sharepoint/bank.db", "ext4"),
        ("/srv/ci/bank.db", "fuse.sshfs"),
        ("/mnt/over/bank.db", "cifs"),  # mounted over another: the last one counts
    ],
)
def test_r09_file_system_of_a_path_is_that_of_its_nearest_mount(path: str, kind: str) -> None:
    """The mount that holds the file is found, also below another one."""
    assert file_system_of(Path(path), MOUNTS) == kind


def test_r09_sqlite_on_a_network_file_system_is_refused(
    sqlite_bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's locks do not hold there: refused by name, before the first write."""
    parent = str(sqlite_bank.database.path.parent).replace(" ", r"\040")
    mounts = f"{MOUNTS}50 28 0:50 / {parent} rw - nfs host:/ rw\n"
    read = Path.read_text

    def read_text(path: Path, *args: Any, **named: Any) -> str:
        return mounts if str(path) == "/proc/self/mountinfo" else read(path, *args, **named)

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(Path, "exists", lambda path: True)

    with pytest.raises(duly.UnsafeStorage, match="network file system") as caught:
        run(sqlite_bank.url)

    assert caught.value.details["file_system"] == "nfs"
    assert {"nfs", "nfs4", "cifs", "fuse.sshfs"} <= NETWORK_FILE_SYSTEMS


# ------------------------------------------------------------------------------- read-only


def test_database_that_cannot_be_written_is_an_operators_error(bank: Bank) -> None:
    """A replica, a role or a file without the right to write is named as such."""
    match bank.name:
        case "sqlite":
            engine = bank.engine()

            @sqlalchemy.event.listens_for(engine, "connect")
            def only_read(raw: sqlite3.Connection, _record: Any) -> None:
                raw.execute("PRAGMA query_only = ON")
        case "postgresql":
            options = "-c default_transaction_read_only=on"
            engine = bank.engine(connect_args={"options": options})
        case _:
            init = {"init_command": "SET SESSION TRANSACTION READ ONLY"}
            engine = bank.engine(connect_args=init)
    app = bank.define(bank.app(engine))

    with pytest.raises(duly.DatabaseReadOnly, match="read-only"):
        app.run(bank.job, OLD)

    assert (bank.units, bank.settled) == (0, [])
    # Reading is all that is needed to ask.
    assert not app.explain(bank.occurrence()).completed


def test_sqlite_file_opened_read_only_is_an_operators_error(sqlite_bank: Bank) -> None:
    """An engine that opens its file with mode=ro is told so."""
    engine = sqlalchemy.create_engine(
        f"sqlite:///file:{sqlite_bank.database.path}?mode=ro&uri=true"
    )
    with pytest.raises(duly.DatabaseReadOnly):
        run(engine)
    engine.dispose()


def test_read_only_mariadb_server_is_an_operators_error(mariadb_private: MariaDBServer) -> None:
    """`read_only` on a replica stops an ordinary user, by name."""
    url = mariadb_private.create_database()
    database = initialised(Database("mariadb", url, mariadb_private))
    name = mariadb_private.database_of(url)
    sql(
        database,
        "CREATE USER clerk@'%' IDENTIFIED BY 'cl3rk-secret'",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{name}`.* TO clerk@'%'",
        "SET GLOBAL read_only = 1",
    )
    clerk = make_url(url).set(username="clerk", password="cl3rk-secret")
    with pytest.raises(duly.DatabaseReadOnly) as caught:
        run(clerk)
    assert "cl3rk-secret" not in "".join(traceback.format_exception(caught.value))


def test_role_without_a_right_is_told_which_database_refused(server_bank: Bank) -> None:
    """A missing privilege is an operator's error."""
    role = f"clerk_{os.getpid()}_{server_bank.account}"
    name = make_url(server_bank.url).database
    if server_bank.name == "postgresql":
        server_bank.run(f"CREATE ROLE {role} LOGIN PASSWORD 'cl3rk-secret'")
        server_bank.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    else:
        server_bank.run(f"CREATE USER {role}@'%' IDENTIFIED BY 'cl3rk-secret'")
        server_bank.run(f"GRANT SELECT ON `{name}`.* TO {role}@'%'")
    url = make_url(server_bank.url).set(username=role, password="cl3rk-secret")
    try:
        with pytest.raises(duly.AccessDenied) as caught:
            run(url)
    finally:
        if server_bank.name == "postgresql":
            server_bank.run(f"DROP OWNED BY {role}")
        server_bank.run(f"DROP {'ROLE' if server_bank.name == 'postgresql' else 'USER'} {role}")
    assert "cl3rk-secret" not in "".join(traceback.format_exception(caught.value))


# ---------------------------------------------------------------------------------- secrets


def test_password_in_a_handlers_error_is_not_recorded(server_bank: Bank) -> None:
    """What is stored of an error never holds the password of the database."""
    password = make_url(server_bank.url).password
    assert isinstance(password, str)

    def handler(run: duly.Run) -> None:
        raise RuntimeError(
            f"could not sync {server_bank.url} nor 'host=h password={password}' nor {password}"
        )

    app = server_bank.define(server_bank.app(), handler)
    with pytest.raises(RuntimeError):
        app.run(server_bank.job, OLD)

    (attempt,) = server_bank.attempts
    assert attempt.error_message is not None
    assert attempt.error_message.startswith("could not sync")
    assert password not in repr(attempt)


def test_password_is_not_in_what_an_app_shows_of_itself(server_bank: Bank) -> None:
    """Neither its name for people nor its representation holds the password."""
    password = make_url(server_bank.url).password
    assert isinstance(password, str)
    app = server_bank.app()
    assert password not in app.database.where
    assert password not in repr(app) + repr(app.database.engine)
