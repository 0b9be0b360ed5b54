"""`duly exec`: start one occurrence whose work is a command.

Decides how the command line is read. It must never start anything before all of it is understood.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import click

from duly._cli import stopping, words
from duly._cli.correction import corrected, correction_options, ordered
from duly._cli.job_options import JobOptions, job_options
from duly._cli.settings import Settings, options
from duly._core.states import Disposition
from duly.errors import DefinitionStale, FormerlyInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._sync.app import App
    from duly._sync.commanding import Commanding

_CHOICE = (
    "--after-crash must be chosen: `retry` runs the command again where a crash left its end"
    " unknown (at least once), `hold` leaves it to a person (at most once)"
)


@click.command(name="exec")
@click.argument("job")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--after-crash",
    type=click.Choice(("retry", "hold")),
    help="retry: a crash may run the command again. hold: a crash leaves it to a person.",
)
@click.option(
    "--at",
    metavar="TIME",
    help="The nominal time: 2026-09-13T00:00:00Z, or a date with one nominal time."
    " [default: what the starter says, or the newest due]",
)
@click.option("--timeout", type=words.seconds, metavar="SECONDS", help="How long it may take.")
@click.option(
    "--grace",
    type=words.seconds,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="How long after a signal, or its time, it is killed.",
)
@click.option("--partition", metavar="TEXT", default="", help="Which part of the work.")
@click.option(
    "--wait",
    type=words.seconds,
    metavar="SECONDS",
    default="10",
    show_default=True,
    help="How long to wait for a rival; it does not bound the command.",
)
@correction_options
@job_options
@options()
@click.pass_obj
def exec_(
    settings: Settings,
    /,
    *,
    job: str,
    command: Sequence[str],
    after_crash: str | None,
    at: str | None,
    timeout: float | None,
    grace: float,
    partition: str,
    wait: float,
    correct: str | None,
    reason: str | None,
    actor: str | None,
    **definition: Any,
) -> int:
    """Run a COMMAND as the work of one occurrence of JOB.

    SQL that it writes to the file $DULY_SQL_OUT is committed together with the completion.

    \b
    duly exec report --database sqlite:///bank.db --schedule @daily --after-crash retry \\
        -- ./report.sh
    """  # noqa: D301 - the \\b is Click's
    from duly._cli import starter
    from duly._cli.job_options import adopted, app_with, worded
    from duly._cli.run_cmd import name_starter, say_result
    from duly._sync.commanding import Commanding

    chosen = _chosen(command, after_crash)
    if timeout == 0:
        raise UsageError("--timeout 0 would end the command at once: give seconds, or leave it out")
    order = ordered(correct, reason, actor, in_place_of={"--at": at, "--partition": partition})
    job_is = JobOptions(**definition)
    made: list[Commanding] = []

    def handler(app: Any) -> Commanding:
        work = Commanding(
            command, app.database, after_crash=chosen, timeout_s=timeout, grace_s=grace
        )
        made.append(work)
        return work

    app = app_with(settings, job, job_is, handler)
    try:
        adopted(app, job_is)
        if order is not None:
            name_starter(app, None)
            result = corrected(app, app.jobs[job], order)
        else:
            began = starter.put_off(app, job, starter.started(app, job, at), partition)
            name_starter(app, None, by=began.starter or "cli")
            result = app.run(job, began.at, partition=partition, wait=wait)
    except (DefinitionStale, FormerlyInvalid) as error:
        raise worded(error, job_is) from error
    except BaseException as error:
        number = stopping.signal_of(error)
        if number is None:
            raise
        raise _stopped(app, made[0], number) from error
    finally:
        for each in made:
            each.close()
    say_result(settings, result, value=False)
    return 0


def _stopped(app: App, work: Commanding, number: int) -> stopping.AttemptStopped:
    """What the database says about the key of a start that a signal ended."""
    from duly._core.commands import is_holder

    if work.run is None:
        return stopping.AttemptStopped(
            number, "before the command began, so nothing was done", fate="not_begun", key=None
        )
    key, settled = work.run.key, None
    try:
        settled = app.explain(work.run.occurrence).settled
        fate = "rolled_back" if settled is None else "unknown"
    except BaseException:
        fate = "unknown"
    if settled is not None and settled.attempt_id == work.run.attempt:
        fate = "settled" if settled.disposition is Disposition.APPLIED else "unknown"
    elif settled and is_holder(work.run.attempt, settled.disposition, settled.reason):
        fate = "held"
    said = {
        "rolled_back": f"{key} is not done, run it again",
        "settled": f"{key} was applied first, its commit was already on its way",
        "held": f"{key} is held and is not run again: look, then duly waive '{key}' --reason …, or"
        f" start this line again with --correct '{key}' --reason … in place of --at",
        "unknown": f"what became of {key} could not be learnt; duly explain tells it",
    }[fate]
    return stopping.AttemptStopped(number, said, fate=fate, key=key)


def _chosen(command: Sequence[str], after_crash: str | None) -> str:
    if not command or not command[0]:
        raise UsageError("no command was given: write it after --, such as -- ./report.sh --all")
    if after_crash is None:
        raise UsageError(_CHOICE)
    if shutil.which(command[0]) is None:
        raise UsageError(
            f"the command {command[0][:200]!r} is not found, or not executable: nothing was"
            " started; give its path, or add its folder to PATH"
        )
    return after_crash
