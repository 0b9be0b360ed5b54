"""Creates or upgrades duly's tables, or prints how.

One init runs at a time: SQLite's write lock, PostgreSQL's advisory transaction lock,
MariaDB's named lock. Run again it changes nothing.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._db.checks import check_server
from duly._db.tables import HEAD, require_current, schema_version
from duly._db.translate import public_error
from duly.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection
    from sqlalchemy.engine import Engine

    from duly._db.connect import Database

_ADVISORY_KEY = 0x64756C79  # "duly"
_WAIT_S = 30


def migrate(database: Database) -> tuple[str | None, str | None]:
    """Create or upgrade the tables.

    Returns:
        The version before and after; before is None where there were no tables.
    """
    with database.session() as session:
        check_server(database, session)
    with database.session() as session:
        before = schema_version(session)
    if before is not None and before > HEAD:
        with database.session() as session:
            require_current(session, database.where)  # it says what to do
    try:
        with _locked(database) as connection:
            upgrade(connection, _schema_for_ddl(database))
    except Exception as error:
        known = public_error(database.dialect, error, database.where)
        raise (known or error) from (error if known else None)
    with database.session() as session:
        return before, schema_version(session)


def migration_sql(dialect_name: str, schema: str | None) -> str:
    """The statements that `migrate` would run on an empty database."""
    from alembic import command

    text = io.StringIO()
    config = _config(output_buffer=text)
    config.attributes.update(
        dialect_name="mysql" if dialect_name == "mariadb" else dialect_name, schema=schema
    )
    command.upgrade(config, "head", sql=True)
    return text.getvalue()


def _schema_for_ddl(database: Database) -> str | None:
    return None if database.path is not None else database.schema


def upgrade(connection: Connection, schema: str | None) -> None:
    """Bring the tables to this release's version, on a connection that the caller commits."""
    from alembic import command

    config = _config()
    config.attributes.update(connection=connection, schema=schema)
    command.upgrade(config, "head")


def _config(**options: Any) -> Any:
    from alembic.config import Config

    config = Config(**options)
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


@contextmanager
def _locked(database: Database) -> Iterator[Connection]:
    engine: Engine = database.engine
    with engine.connect() as connection:
        match database.dialect.name:
            case "sqlite":
                # exec_driver_sql, because SQLAlchemy's own begin sends nothing here.
                before = connection.exec_driver_sql("PRAGMA busy_timeout").scalar()
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {_WAIT_S * 1000}")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                yield connection
                connection.commit()
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {before}")
            case "postgresql":
                connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_WAIT_S}s'")
                connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_KEY})")
                yield connection
                connection.commit()
            case _:
                name = f"duly_init_{database.schema}"[:64]
                got = connection.exec_driver_sql(
                    "SELECT GET_LOCK(%(name)s, %(wait)s)", {"name": name, "wait": _WAIT_S}
                ).scalar()
                if got != 1:
                    raise Busy(
                        f"another `duly init` holds {database.where}: try again when it has ended"
                    )
                try:
                    yield connection
                    connection.commit()
                finally:
                    connection.exec_driver_sql("SELECT RELEASE_LOCK(%(name)s)", {"name": name})
