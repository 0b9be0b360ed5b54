"""`duly history`, `explain` and `check`: ask the ledger.

Decides what is printed and, for `check`, the exit code. It must never start an attempt or
change a settled occurrence.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from duly._cli import exits, output
from duly._cli.settings import Settings, options
from duly.errors import NominalTimeInvalid, UnknownJob

if TYPE_CHECKING:
    from duly._core.evidence import Explanation, History
    from duly._core.occurrence import Occurrence
    from duly._sync.app import App


@click.command()
@click.argument("job")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=50,
    show_default=True,
    help="The most attempts, and the most refused starts, to show.",
)
@options()
@click.pass_obj
def history(settings: Settings, *, job: str, limit: int) -> int:
    """What happened to JOB, newest first.

    Works from --database alone. In a pipe: tab-separated rows below a headline.
    """
    from duly._cli.app_loading import load

    found = load(settings).history(job, limit=limit)
    if settings.json:
        from duly._cli import evidence_json

        output.say_json(evidence_json.history(found))
        return exits.OK
    from duly._cli import history_view

    mark = "" if output.on_terminal() else "# "
    output.say(mark + history_view.headline(found))
    _show(found)
    return exits.OK


@click.command()
@click.argument("key")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    metavar="N",
    default=50,
    show_default=True,
    help="The most attempts, and the most refused starts, to show.",
)
@options()
@click.pass_obj
def explain(settings: Settings, *, key: str, limit: int) -> int:
    """All that is known of KEY, with a verdict to quote.

    KEY is what `run` and `history` print, such as daily-credit:2026-09-13T00:00:00Z.
    Works from --database alone.
    """
    from duly._cli.app_loading import load

    app = load(settings)
    found = app.explain(key, limit=limit)
    if not (found.settled or found.attempts or found.refused or found.running or found.audit):
        # Nothing is known of the key: that is an answer, unless nobody knows its job either.
        app.history(found.occurrence.job, limit=1)
    if settings.json:
        from duly._cli import evidence_json

        output.say_json(evidence_json.explanation(found))
        return exits.OK
    output.say(output.plain(found.verdict))
    if found.attempts or found.refused or found.running:
        output.say("")
        _show(found)
    _say_traceback(found)
    for entry in found.audit:
        words = output.plain(f"{entry.actor}: {entry.action}, {entry.reason}")
        output.say(f"\n{output.instant(entry.at)}  {words}")
    return exits.OK


@click.command()
@click.argument("job")
@click.option(
    "--at",
    metavar="TIME",
    help="The nominal time: 2026-09-13T00:00:00Z, or a date in the job's zone."
    "  [default: the newest due]",
)
@click.option("--partition", metavar="TEXT", default="", help="Which part of the work.")
@click.option("--applied-only", is_flag=True, help="Settled by a policy or a person is not enough.")
@options()
@click.pass_obj
def check(
    settings: Settings, *, job: str, at: str | None, partition: str, applied_only: bool
) -> int:
    """Ask whether an occurrence of JOB is completed.

    Exits 0 if it is settled by its effect, its policy or a person; 4 if it is not; 3 if it
    is torn, so that a person must look. Works from --database alone.
    """
    from duly._cli.app_loading import load

    app = load(settings)
    found = app.explain(_occurrence(app, job, at, partition))
    code = _verdict_code(found, applied_only=applied_only)
    if settings.json:
        said = {"key": found.occurrence.key, "verdict": found.verdict}
        output.say_json({**said, "completed": found.completed, "applied": found.applied})
    else:
        output.say(output.plain(found.verdict))
    return code


def _occurrence(app: App, job: str, at: str | None, partition: str) -> Occurrence:
    from duly._core.instants import parse_instant
    from duly._core.occurrence import Occurrence

    if not app.jobs and at is not None:
        with suppress(NominalTimeInvalid):  # a date needs the job's zone
            return Occurrence(job, parse_instant(at, name="--at"), partition)
    try:
        return app.occurrence(job, at, partition=partition)
    except UnknownJob as error:
        if app.jobs:
            raise
        raise UnknownJob(
            f"the ledger holds no schedule of {job!r}: give --app, or --at an instant such as"
            " 2026-09-13T00:00:00Z",
            **error.details,
        ) from error


def _verdict_code(found: Explanation, *, applied_only: bool) -> int:
    if found.settled is not None and not found.completed and not found.parts_missing:
        return exits.OPERATOR
    done = found.applied if applied_only else found.completed
    return exits.OK if done else exits.NOT_COMPLETED


def _say_traceback(found: Explanation) -> None:
    """Of the newest attempt, where it is what a person has to look into."""
    newest = found.attempts[0] if found.attempts else None
    if newest is not None and newest.error_traceback and not found.completed:
        trace = output.plain(newest.error_traceback.rstrip())
        output.say(f"\nattempt {newest.id}:\n{trace}")


def _show(found: History | Explanation) -> None:
    from duly._cli import history_view

    if output.on_terminal():
        history_view.show_table(found)
    else:
        output.say_rows(history_view.HEADER, history_view.cells(found))
