"""`duly sql`: start one occurrence whose effect is a SQL script.

Decides how a script and its parameters are read from the command line. It must never run a part
of a script, and decides nothing about the occurrence.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from duly._cli import words
from duly._cli.correction import corrected, correction_options, ordered
from duly._cli.job_options import JobOptions, job_options
from duly._cli.settings import Settings, options
from duly.errors import DefinitionStale, FormerlyInvalid, ScriptInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._cli.starter import Started
    from duly._db.script import Script
    from duly._sync.app import App
    from duly._sync.scripts import ScriptHandler

_PARAMETER = re.compile(r"([^\W\d]\w*)(:?=)(.*)", re.DOTALL)


@click.command()
@click.argument("job")
@click.argument("file")
@click.option(
    "--at",
    metavar="TIME",
    help="The nominal time: 2026-09-13T00:00:00Z, or a date with one nominal time."
    " [default: what the starter says, or the newest due]",
)
@click.option(
    "-p",
    "--param",
    "params",
    metavar="NAME=VALUE",
    multiple=True,
    help="Bind :NAME to a text; with NAME:=VALUE, to a number, true, false or null of JSON."
    " May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Roll back, show the rows, and keep nothing.")
@click.option("--partition", metavar="TEXT", default="", help="Which part of the work.")
@click.option(
    "--wait",
    type=words.seconds,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="How long to wait for a rival; it does not bound the script.",
)
@correction_options
@job_options
@options()
@click.pass_obj
def sql(
    settings: Settings,
    /,
    *,
    job: str,
    file: str,
    at: str | None,
    params: Sequence[str],
    dry_run: bool,
    partition: str,
    wait: float,
    correct: str | None,
    reason: str | None,
    actor: str | None,
    **definition: Any,
) -> int:
    """Run the SQL script FILE (- is stdin) as the effect of one occurrence of JOB.

    All of its statements and the completion are committed together, or nothing is. It may
    bind :nominal_time, :interval_start, :interval_end, :local_date, :key and :partition.

    \b
    duly sql daily-credit credit.sql --database sqlite:///bank.db \\
        --schedule '0 0 * * *' --timezone Europe/Berlin -p units:=10

    Without --at it is the occurrence that the starter says, or the newest that is due.
    Exits 0 if its effect is there: applied now, or a duplicate of an earlier attempt.
    """  # noqa: D301 - the \\b is Click's
    from duly._cli import starter
    from duly._cli.attempt import attempted
    from duly._cli.job_options import adopted, app_with, worded
    from duly._cli.run_cmd import name_starter
    from duly._cli.sql_view import say_applied, say_rehearsed

    job_is = JobOptions(**definition)
    given = _parameters(params)
    others = {"--at": at, "--partition": partition, "--dry-run": dry_run}
    order = ordered(correct, reason, actor, in_place_of=others)
    data = _read(file)
    app = app_with(settings, job, job_is, lambda app: _handler(app, data, file))
    handler: Any = app.jobs[job].handler
    script: Script = handler.script
    _check(app, job, script, given)
    try:
        if not dry_run:
            adopted(app, job_is)
        more: dict[str, Any] = {} if given is None else {"payload": given}
        if order is not None:
            name_starter(app, None)
            start = partial(corrected, app, app.jobs[job], order, **more)
        else:
            began = starter.put_off(app, job, starter.started(app, job, at), partition)
            if dry_run:
                say_rehearsed(settings, _rehearsed(app, job, began, given, partition, wait))
                return 0
            name_starter(app, None, by=began.starter or "cli")
            start = partial(app.run, job, began.at, partition=partition, wait=wait, **more)

        result = attempted(app, job, start)
    except (DefinitionStale, FormerlyInvalid) as error:
        raise worded(error, job_is) from error
    assert result is not None
    say_applied(settings, result, script)
    return 0


def _handler(app: App, data: bytes, file: str) -> ScriptHandler:
    from duly._db.script import parse
    from duly._sync.scripts import ScriptHandler

    dialect = app.database.dialect
    where = "stdin" if file == "-" else file
    return ScriptHandler(parse(data, dialect, where=where), dialect)


def _check(app: App, job: str, script: Script, given: dict[str, Any] | None) -> None:
    """Refuse parameters without a value, and values without a parameter, before anything runs."""
    from duly._db.script import check_backslashes
    from duly._sync.scripts import OF_THE_RUN, check_names, check_schedule, members

    found = app.jobs[job]
    check_names(script, members(found.payload.value) if given is None else given)
    check_schedule(script, found.schedule)
    check_backslashes(script, app.database.dialect, partial(_asked, app))
    for name in given or ():
        if name in OF_THE_RUN:
            raise UsageError(f"-p {name} cannot be given: the occurrence says it; use another name")
        if name not in script.names:
            has = ", ".join(f":{each}" for each in script.names) or "none"
            raise ScriptInvalid(
                f"{script.where} has no parameter :{name}, which -p gives: it has {has}",
                parameter=name,
            )


def _asked(app: App, query: str) -> Any:
    """What a session answers, in one value."""
    with app.database.session() as session:
        cursor = session.raw.cursor()
        cursor.execute(query)
        return cursor.fetchone()[0]


def _rehearsed(
    app: App,
    job: str,
    began: Started,
    given: dict[str, Any] | None,
    partition: str,
    wait: float,
) -> Any:
    from duly._sync.rehearsal import rehearse
    from duly._sync.starting import UNSET, Wanted

    payload = UNSET if given is None else given
    return rehearse(app, app.jobs[job], Wanted(began.at, partition, payload, wait))


def _parameters(params: Sequence[str]) -> dict[str, Any] | None:
    """What -p gives, by name; None if none was given."""
    found: dict[str, Any] = {}
    for text in params:
        match = _PARAMETER.fullmatch(text)
        if match is None:
            raise UsageError(
                f"-p {text[:60]!r} is no parameter: write -p name=text, or -p name:=10"
            )
        name, sign, value = match.groups()
        if name in found:
            raise UsageError(f"-p {name} was given twice: give it once")
        found[name] = value if sign == "=" else _json(name, value)
    return found or None


def _json(name: str, text: str) -> Any:
    from duly._core.payload import from_text
    from duly.errors import PayloadInvalid

    try:
        value = from_text(text).value
    except PayloadInvalid as error:
        raise PayloadInvalid(f"-p {name}:={text[:40]}: {error}") from error
    if isinstance(value, dict | list):
        raise UsageError(
            f"-p {name}:= gives an object or a list, which no statement can bind: give its JSON as"
            f" a text, -p {name}=…"
        )
    return value


def _read(file: str) -> bytes:
    """The script's bytes; no more of a file than shows that it is too large."""
    from duly._db.script import SCRIPT_BYTES_MAX

    try:
        with click.open_file(file, "rb") as opened:
            data: bytes = opened.read(SCRIPT_BYTES_MAX + 1)
    except OSError as error:
        raise ScriptInvalid(
            f"{file} cannot be read: {error.strerror}; give the script's path, or - for stdin"
        ) from error
    return data
