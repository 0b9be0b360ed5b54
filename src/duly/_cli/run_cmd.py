"""`duly run`: start one occurrence.

Decides nothing about it; it reads the arguments and says how it ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from duly._sync.refusals import Result


@click.command()
@click.argument("job")
@click.option(
    "--at",
    metavar="TIME",
    help="The nominal time: 2026-09-13T00:00:00Z, or a date with one nominal time."
    " [default: what the starter says, or the newest due]",
)
@click.option("--partition", metavar="TEXT", default="", help="Which part of the work.")
@click.option("--payload", metavar="JSON", help="In place of the job's own payload.")
@click.option("--payload-file", metavar="FILE", help="Read the payload from a file; - reads stdin.")
@click.option(
    "--wait",
    type=words.seconds,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="How long to wait for a rival; it does not bound the handler.",
)
@click.option("--off-schedule", is_flag=True, help="--at need not be on the schedule.")
@click.option("--early", is_flag=True, help="--at may lie in the future.")
@click.option(
    "--started-by", type=words.words, metavar="TEXT", help="Who starts it, for the record."
)
@options()
@click.pass_obj
def run(
    settings: Settings,
    *,
    job: str,
    at: str | None,
    partition: str,
    payload: str | None,
    payload_file: str | None,
    wait: float,
    off_schedule: bool,
    early: bool,
    started_by: str | None,
) -> int:
    """Start one occurrence of JOB.

    Without --at it is the one that the starter says (Kubernetes, Airflow, EventBridge or
    DULY_SCHEDULED_TIME), or else the newest that is due.

    Exits 0 if its effect is there: applied now, or a duplicate of an earlier attempt.
    """
    from duly._cli.app_loading import load

    given = words.payload_of(payload, payload_file)
    app = load(settings, code_for="run")
    from duly._cli import starter
    from duly._cli.attempt import attempted

    began = starter.put_off(app, job, starter.started(app, job, at), partition)
    name_starter(app, started_by, by=began.starter or "cli")
    more: dict[str, Any] = {} if given is None else {"payload": given}

    def start() -> Result:
        return app.run(
            job,
            began.at,
            partition=partition,
            wait=wait,
            off_schedule=off_schedule,
            early=early,
            **more,
        )

    result = attempted(app, job, start)
    assert result is not None
    say_result(settings, result)
    return 0


def name_starter(app: Any, started_by: str | None, *, by: str = "cli") -> None:
    """Who starts attempts: the one given, or the app's own, or the starter and this user."""
    if started_by is not None:
        app.started_by = started_by
    elif app.started_by == f"python:{words.person()}":
        app.started_by = f"{by}:{words.person()}"


def say_result(settings: Settings, result: Result, *, value: bool = True) -> None:
    """Print how a start ended, and on the same line the handler's value."""
    if settings.json:
        output.say_json(
            {
                "outcome": result.outcome.value,
                "key": result.key,
                "attempt_id": str(result.attempt_id),
                "value": result.value,
                "duration_s": round(result.duration.total_seconds(), 6),
                "source": result.source,
                "late_s": round(result.late.total_seconds(), 6),
            }
        )
        return
    from duly._cli.starter import lateness

    if result.outcome.value == "applied":
        word = output.styled("applied", "green")
        how = f"attempt {result.attempt_id} in {output.took(result.duration)}"
    else:
        word = output.styled(result.outcome.value, "yellow")
        how = f"applied before, by attempt {result.attempt_id}"
    late = lateness(result.late, result.source)
    output.say(f"{word} {result.key}  {how}{late}{_value(result.value) if value else ''}")


def _value(value: Any) -> str:
    if value is None:
        return ""
    from json import dumps

    text = dumps(value)
    return f"  {text}" if len(text) <= 200 else f"  {text[:199]}…"
