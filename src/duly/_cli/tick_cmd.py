"""`duly tick`: run what is due and missing, once; and `duly plan`: say what it would do.

Decides the exit code of a tick: the worst of what happened, by who must act. It decides nothing
about an occurrence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options
from duly._core.catch_up import Decision
from duly._core.states import Outcome
from duly.errors import AlreadySettled, InvariantBroken, OperatorError, TransientError

if TYPE_CHECKING:
    from duly._sync.ticking import JobTick, Ran, TickReport

# The worst first.
_WORST = (exits.INTERNAL, exits.OPERATOR, exits.HANDLER_FAILED, exits.TRY_AGAIN)


@click.command()
@click.option(
    "--started-by", type=words.words, metavar="TEXT", help="Who starts it, for the record."
)
@options()
@click.pass_obj
def tick(settings: Settings, *, started_by: str | None) -> int:
    """Run what is due and missing, once, by each job's policies.

    Start it as often as you like, from cron, systemd or Kubernetes, on any number of hosts: the
    key decides. In a pipe: tab-separated rows.

    Exits 0 if everything that it started took effect, or nothing was to do; 3 if a person must
    act (a job refused, an occurrence given up, a conflict); else 1 if a handler failed; else 75
    if the database was busy or away.
    """
    from duly._cli.app_loading import load

    app = load(settings, code_for="tick")
    from duly._cli import tick_view
    from duly._cli.run_cmd import name_starter

    name_starter(app, started_by)
    report = app.tick()
    policies = {job.name: job.policies for job in app.jobs.values()}
    if settings.json:
        output.say_json(tick_view.as_json(report, policies, app.database.secrets))
    else:
        tick_view.say(report, policies, app.database.secrets)
    return code_of(report)


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    metavar="N",
    default=100,
    show_default=True,
    help="The most occurrences of each job to show.",
)
@options()
@click.pass_obj
def plan(settings: Settings, *, limit: int) -> int:
    """Say what `duly tick` would do now, and why; change nothing.

    From --database alone: for every job that the ledger holds. In a pipe: tab-separated rows.
    """
    from duly._cli.app_loading import load

    found = load(settings).plan()
    from duly._cli import plan_view

    if settings.json:
        output.say_json(plan_view.as_json(found, limit))
    else:
        plan_view.say(found, limit)
    return exits.OK


def code_of(report: TickReport) -> int:
    """The exit code of a tick: the worst of its parts."""
    codes = {code for job in report.jobs for code in _codes(job)}
    return next((code for code in _WORST if code in codes), exits.OK)


def _codes(job: JobTick) -> set[int]:
    codes = {_code(ran) for ran in job.ran}
    given_up = any(
        waiting.decision is Decision.GIVEN_UP
        for plan in job.parts.values()
        for waiting in plan.waiting
    )
    if given_up or job.refused is not None:
        codes.add(exits.OPERATOR)
    return codes


def _code(ran: Ran) -> int:
    error = ran.error
    if error is None:
        return exits.OK
    if ran.outcome is Outcome.FAILED:
        is_ours = isinstance(error, InvariantBroken)
        return exits.INTERNAL if is_ours else exits.HANDLER_FAILED
    if isinstance(error, AlreadySettled):  # somebody was faster
        return exits.OPERATOR if error.details.get("disposition") == "torn" else exits.OK
    if isinstance(error, OperatorError):
        return exits.OPERATOR
    return exits.TRY_AGAIN if isinstance(error, TransientError) else exits.INTERNAL
