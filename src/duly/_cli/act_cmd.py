"""`duly resolve` and `prune`: what a person decides.

Decides nothing itself; it passes on who, what and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly._core.retention import PrunedJob
    from duly._sync.refusals import Result


@click.command()
@click.argument("key")
@click.option(
    "--as",
    "settle_as",
    type=click.Choice(["waived", "corrected"]),
    required=True,
    help="waived: its effect is there, or not wanted. corrected: make it now.",
)
@click.option(
    "--reason", type=words.words, metavar="TEXT", required=True, help="Why, for the record."
)
@click.option(
    "--actor", type=words.words, metavar="TEXT", help="Who decides.  [default: USER@HOST]"
)
@options()
@click.pass_obj
def resolve(settings: Settings, *, key: str, settle_as: str, reason: str, actor: str | None) -> int:
    """Settle the torn occurrence KEY, or order a correction of a settled one.

    Look at the data first. `--as waived` works from --database alone; `--as corrected`
    runs the handler again, under the key's next number, and needs --app.
    """
    from duly._cli.app_loading import load
    from duly._core.occurrence import Occurrence

    corrected = settle_as == "corrected"
    job = Occurrence.parse(key).job
    app = load(settings, code_for="resolve --as corrected" if corrected else None)
    from duly._cli.attempt import attempted
    from duly._cli.run_cmd import name_starter, say_result

    name_starter(app, None)
    who = actor or words.person()

    def start() -> Result | None:
        return app.resolve(key, settle_as=settle_as, reason=reason, actor=who)

    result = attempted(app, job, start)
    if result is not None:
        say_result(settings, result)
    elif settings.json:
        output.say_json({"key": key, "disposition": "waived", "actor": who, "reason": reason})
    else:
        output.say(
            f"{output.styled('waived', 'green')} {key}  by {output.plain(f'{who}: {reason}')}"
        )
    return exits.OK


@click.command()
@click.option(
    "--older-than",
    type=words.age,
    metavar="AGE",
    required=True,
    help="400d, 12w or 2026-01-01T00:00:00Z: by nominal time.",
)
@click.option(
    "--clock-is-right",
    is_flag=True,
    help="Nothing was recorded for a day, and that is as it should be.",
)
@options()
@click.pass_obj
def prune(settings: Settings, *, older_than: timedelta | datetime, clock_is_right: bool) -> int:
    """Delete old records; their keys stay refused for ever.

    A job that holds a torn or running occurrence is pruned up to that one only.
    Works from --database alone.
    """
    from duly._cli.app_loading import load

    app = load(settings)
    done = app.prune(older_than=older_than, clock_is_right=clock_is_right)
    if settings.json:
        output.say_json({"jobs": [_json(job) for job in done]})
        return exits.OK
    for job in done:
        output.say(_line(job))
    if not done:
        output.say("nothing to prune: no record is that old")
    return exits.OK


def _line(job: PrunedJob) -> str:
    text = f"{job.job}: {job.occurrences} occurrences and {job.attempts} attempts deleted"
    if job.horizon_us is not None:
        text += f"; refused from now on: {_at(job.horizon_us)} and before"
    if job.held_us is not None:
        text += f"; stopped by {_at(job.held_us)}, which is torn or running"
    return text


def _json(job: PrunedJob) -> dict[str, object]:
    return {
        "job": job.job,
        "occurrences": job.occurrences,
        "attempts": job.attempts,
        "horizon": _at(job.horizon_us),
        "held_by": _at(job.held_us),
    }


def _at(us: int | None) -> str | None:
    from duly._core.instants import format_instant, from_us

    return None if us is None else format_instant(from_us(us))
