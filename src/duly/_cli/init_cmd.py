"""`duly init`: create or upgrade the tables and tell the ledger of the App's jobs, or print how.

Decides nothing about the schema or a definition; the migrations and the revisions do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly._core.revision import Revision
    from duly._sync.app import App
    from duly.errors import DulyError


@click.command()
@click.option("--sql", is_flag=True, help="Print the statements for a new ledger; run none.")
@click.option(
    "--dialect",
    type=click.Choice(["sqlite", "postgresql", "mariadb"]),
    help="Whose SQL to print. [default: that of the app or the database]",
)
@click.option(
    "--adopt",
    is_flag=True,
    help="Make this code's definitions the rule again, where the ledger has later ones.",
)
@options()
@click.pass_obj
def init(settings: Settings, *, sql: bool, dialect: str | None, adopt: bool) -> int:
    """Create or upgrade duly's tables, and tell the ledger of the App's jobs.

    Run it once per database, after an upgrade of duly, and with each release of your jobs;
    with a role that may create tables. Run again, it changes nothing. It makes a missing
    SQLite file.

    Exits 3 if a definition is refused, which is then not recorded; the others are.
    """
    from duly._cli.app_loading import load

    if dialect is not None and not sql:
        raise click.UsageError("--dialect says whose SQL to print: it needs --sql")
    if sql:
        return _print_sql(settings, dialect)
    app = load(settings, code_for="init --adopt" if adopt else None)
    before, after = app.init()
    written, refused = app.register(adopt=adopt)
    where = app.database.where
    code = exits.OPERATOR if refused else exits.OK
    if settings.json:
        told = {"where": where, "before": before, "after": after}
        output.say_json({**told, **_json(app, written, refused)})
        return code
    if before == after:
        rest = "" if written or refused else "; nothing to do"
        output.say(f"{where}: duly's tables are there, version {after}{rest}")
    elif before is None:
        output.say(f"{where}: created duly's tables, version {after}")
    else:
        output.say(f"{where}: upgraded duly's tables from version {before} to {after}")
    for revision in written:
        output.say(f"job {_name(app, revision)}: {_words(revision)}")
    for error in refused.values():
        output.say(output.styled(f"refused: {output.plain(str(error))}", "red"))
    return code


def _name(app: App, revision: Revision) -> str:
    """The name for people."""
    names = {job.ledger_name: job.name for job in app.jobs.values()}
    return names.get(revision.job, revision.job)


def _words(revision: Revision) -> str:
    since = output.instant(revision.effective_at)
    if revision.retired:
        return f"revision {revision.number}, retired: nothing is expected from {since} on"
    if revision.number > 1:
        return f"revision {revision.number} ({revision.why}), in force from {since}"
    if revision.schedule is None:
        return "first revision; it has no schedule, so it is only started by name"
    starts = revision.policies.starts
    first = since if starts is None else output.instant(starts)
    return f"first revision, expects from {first}"


def _json(app: App, written: list[Revision], refused: Mapping[str, DulyError]) -> dict[str, Any]:
    from duly._core.instants import format_instant

    return {
        "revisions": [
            {
                "job": _name(app, revision),
                "revision": revision.number,
                "why": revision.why,
                "schedule": revision.schedule,
                "timezone": revision.zone,
                "effective_at": format_instant(revision.effective_at),
            }
            for revision in written
        ],
        "refused": [
            {"job": job, "error": error.code, "message": str(error)}
            for job, error in refused.items()
        ],
    }


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
