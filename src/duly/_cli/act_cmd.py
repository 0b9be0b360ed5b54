"""`duly prune`: what a person deletes.

Decides nothing itself; it passes on how far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly._core.retention import PrunedJob


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

    A job that holds a torn, running or missing occurrence is pruned up to that one only.
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


_STEPS = {
    "torn": ": look at the data, then duly waive or duly correct it",
    "missing": ": duly run or duly backfill it, or duly waive it",
}


def _line(job: PrunedJob) -> str:
    text = f"{job.job}: {job.occurrences} occurrences and {job.attempts} attempts deleted"
    if job.horizon_us is not None:
        text += f"; refused from now on: {_at(job.horizon_us)} and before"
    if job.held is not None:
        text += f"; stopped by {job.held.key}, which is {job.held.why}"
        text += _STEPS.get(job.held.why, "")
    return text


def _json(job: PrunedJob) -> dict[str, object]:
    return {
        "job": job.job,
        "occurrences": job.occurrences,
        "attempts": job.attempts,
        "horizon": _at(job.horizon_us),
        "held_by": _at(job.held_us),
        "held_key": None if job.held is None else job.held.key,
        "held_why": None if job.held is None else job.held.why,
    }


def _at(us: int | None) -> str | None:
    from duly._core.instants import format_instant, from_us

    return None if us is None else format_instant(from_us(us))
