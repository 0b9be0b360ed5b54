"""`duly init`: create or upgrade the tables, or print how.

Decides nothing about the schema; the migrations do.
"""

from __future__ import annotations

import click

from duly._cli import output
from duly._cli.settings import Settings, options


@click.command()
@click.option("--sql", is_flag=True, help="Print the statements for a new ledger; run none.")
@click.option(
    "--dialect",
    type=click.Choice(["sqlite", "postgresql", "mariadb"]),
    help="Whose SQL to print. [default: that of the app or the database]",
)
@options()
@click.pass_obj
def init(settings: Settings, *, sql: bool, dialect: str | None) -> int:
    """Create or upgrade duly's tables.

    Run it once per database and after an upgrade of duly, with a role that may create
    tables. Run again, it changes nothing. It makes a missing SQLite file.
    """
    from duly._cli.app_loading import load

    if dialect is not None and not sql:
        raise click.UsageError("--dialect says whose SQL to print: it needs --sql")
    if sql:
        return _print_sql(settings, dialect)
    app = load(settings)
    before, after = app.init()
    where = app.database.where
    if settings.json:
        output.say_json({"where": where, "before": before, "after": after})
    elif before == after:
        output.say(f"{where}: duly's tables are there, version {after}; nothing to do")
    elif before is None:
        output.say(f"{where}: created duly's tables, version {after}")
    else:
        output.say(f"{where}: upgraded duly's tables from version {before} to {after}")
    return 0


def _print_sql(settings: Settings, dialect: str | None) -> int:
    from duly._cli.app_loading import load
    from duly._db.migrate import migration_sql

    schema = settings.schema
    if dialect is None:
        database = load(settings).database
        dialect, schema = database.dialect.name, database.explicit_schema
    text = migration_sql(dialect, schema).strip()
    if settings.json:
        output.say_json({"dialect": dialect, "sql": text})
    else:
        output.say(text)
    return 0
