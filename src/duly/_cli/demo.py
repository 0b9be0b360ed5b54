"""`duly demo`: show the whole promise in seconds, and check it.

Decides where it may be shown: on a file of its own, or on a database that holds nothing of
duly's yet. It must never use a database that only the environment names.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duly._cli import exits, output
from duly._cli.settings import Settings, options
from duly.errors import OperatorError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._cli.demo_story import Step, Story
    from duly._sync.app import App


@click.command()
@options(targets=("database", "schema"))
@click.pass_obj
def demo(settings: Settings) -> int:
    """Show the whole promise in seconds, and check it.

    A rollback, eight racing workers, a replay, another day; then a killed process, its
    retry, and another payload. On a temporary SQLite file, or on the empty database that
    --database names. The last line is one JSON object; a promise that was not kept exits 70.
    """
    if "app" in settings.given:
        raise UsageError("the demo brings an app of its own: leave --app away")
    with _database(settings) as app:
        from duly._cli.demo_story import Story

        settings.secrets.update(app.database.secrets)
        _refuse_used(app)
        own = "a SQLite file of its own"
        where = app.database.where if "database" in settings.given else own
        _narrate(settings, f"duly demo, on {where}")
        _narrate(settings, "A job credits 10 units for each day; the account starts at 0.")
        app.init()
        story = Story(app)
        story.set_up()
        try:
            kept = _tell(settings, story)
        finally:
            story.clean_up()
        _farewell(settings, app)
    output.say_json({"database": app.database.dialect.name, "promises_kept": kept, **story.facts})
    return exits.OK if kept else exits.INTERNAL


@contextmanager
def _database(settings: Settings) -> Iterator[App]:
    from duly._sync.app import App

    given = settings.database if "database" in settings.given else None
    if given is None and "schema" in settings.given:
        raise UsageError("--schema needs --database: a file of the demo's own has none")
    with tempfile.TemporaryDirectory(prefix="duly-demo-") as folder:
        url = given or f"sqlite:///{Path(folder) / 'bank.db'}"
        app = App(url, schema=settings.schema if given else None, started_by="demo")
        try:
            yield app
        finally:
            app.close()


def _refuse_used(app: App) -> None:
    """Refuse a database in which the demo could meet somebody's work.

    Raises:
        OperatorError: It names what is there.
    """
    from sqlalchemy import inspect

    from duly._cli.demo_story import TABLE
    from duly._db import reading, tables
    from duly._db.checks import check_server

    database = app.database
    database.create_file()
    with database.connect() as session:
        check_server(database, session)
    with database.connect() as session:
        version = tables.schema_version(session)
        jobs = reading.known_jobs(session, limit=5) if version == tables.HEAD else []
    another = "give an empty database, or leave --database away"
    if version is not None and version != tables.HEAD:
        raise OperatorError(
            f"{database.where} holds a ledger of another version ({version}): {another}"
        )
    if jobs:
        raise OperatorError(
            f"{database.where} holds a ledger with jobs ({', '.join(jobs)}): {another}", jobs=jobs
        )
    prefix = TABLE.removesuffix("balance")
    found = [name for name in inspect(database.engine).get_table_names() if name.startswith(prefix)]
    if found:
        raise OperatorError(
            f"{database.where} holds the table {found[0]}: drop it if an earlier demo left it, or"
            f" {another}",
            tables=found,
        )


def _tell(settings: Settings, story: Story) -> bool:
    """Tell the steps one by one; returns whether every promise was kept."""
    kept = True
    for step in story.steps():
        kept = kept and step.kept
        _narrate(settings, _line(step))
    if not settings.json and output.on_terminal():
        from duly._cli.demo_worker import JOB
        from duly._cli.history_view import show_table

        output.say("")
        output.say(f"duly history {JOB}")
        show_table(story.app.history(JOB))
        output.say("")
    return kept


def _line(step: Step) -> str:
    mark, colour = ("ok", "green") if step.kept else ("BROKEN", "red")
    if output.on_terminal() and output.speaks("✓✗"):
        mark = "✓" if step.kept else "✗"
    return f"  {output.styled(mark, colour)}  {step.title:<37} {step.found}"


def _farewell(settings: Settings, app: App) -> None:
    if "database" in settings.given:
        _narrate(
            settings,
            f"The table of the demo is dropped; duly's own tables stay in {app.database.where},"
            " with the record of its two jobs.",
        )


def _narrate(settings: Settings, text: str) -> None:
    if not settings.json:
        output.say(text)
