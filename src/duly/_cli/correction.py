"""`--correct KEY` of the commands that bring the work of a job themselves.

Decides how the order is read; what a correction is, `App.correct` decides. It must never be read
as an ordinary start, nor an ordinary start as one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from duly._cli import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.job import Job
    from duly._sync.app import App
    from duly._sync.refusals import Result

Command = TypeVar("Command", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True)
class Order:
    """A person's order for a second effect."""

    key: str
    reason: str
    actor: str


def correction_options(command: Command) -> Command:
    """Add the options to a command, which gets `correct`, `reason` and `actor`."""
    for option in (
        click.option(
            "--actor", type=words.words, metavar="TEXT", help="Who orders it.  [default: USER@HOST]"
        ),
        click.option("--reason", type=words.words, metavar="TEXT", help="Why, for the record."),
        click.option(
            "--correct",
            metavar="KEY",
            help="In place of --at: make a second effect for this settled occurrence of JOB, as"
            " duly correct does for a job with code; with --reason.",
        ),
    ):
        command = option(command)
    return command


def ordered(
    correct: str | None,
    reason: str | None,
    actor: str | None,
    *,
    in_place_of: dict[str, Any],
) -> Order | None:
    """The order that the options give; None if they give none.

    Args:
        in_place_of: What an ordinary start may be given, and a correction may not, by option.

    Raises:
        UsageError: They do not go together.
    """
    if correct is None:
        if reason or actor:
            raise click.UsageError("--reason and --actor go with --correct KEY: give that too")
        return None
    if reason is None:
        raise click.UsageError("--correct makes a second effect: say why, with --reason")
    for option, value in in_place_of.items():
        if value:
            raise click.UsageError(f"--correct KEY names the occurrence: leave {option} out")
    return Order(correct, reason, actor or words.person())


def corrected(app: App, job: Job, order: Order, **more: Any) -> Result:
    """Make the correction, by the work that *job* has now.

    Args:
        more: The payload, if it is another than the job's.

    Raises:
        UsageError: The key is of another job, whose own work would be run.
        Exception: As `App.correct`.
    """
    from duly._core.occurrence import Occurrence

    named = Occurrence.parse(order.key).job
    if named not in {job.name, job.ledger_name}:
        raise click.UsageError(f"--correct names a key of job {named!r}, and JOB is {job.name!r}")
    return app.correct(order.key, reason=order.reason, actor=order.actor, **more)
