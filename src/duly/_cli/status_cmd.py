"""`duly status` and `duly missing`: how jobs are, and what is expected and not settled.

Decides what is printed and, for `status --check`, the exit code. It must never change anything.
"""

from __future__ import annotations

import click

from duly._cli import exits, output
from duly._cli.settings import Settings, options


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB]...")
@click.option("--check", is_flag=True, help="Exit 4 if an occurrence is overdue or given up.")
@options()
@click.pass_obj
def status(settings: Settings, *, jobs: tuple[str, ...], check: bool) -> int:
    """How each JOB is, in one line; without one, every job.

    From --database alone: by what the ledger holds. In a pipe: tab-separated rows.
    """
    from duly._cli.app_loading import load

    found = load(settings).status(*jobs)
    from duly._cli import status_view

    if settings.json:
        output.say_json(status_view.status_json(found))
    else:
        status_view.say_status(found)
    is_bad = any(job.needs_a_person for job in found.jobs)
    return exits.NOT_COMPLETED if check and is_bad else exits.OK


@click.command()
@click.argument("job", required=False)
@click.option(
    "--since", metavar="TIME", help="From this nominal time on, or this date in the job's zone."
)
@click.option("--until", metavar="TIME", help="Up to this one, without it.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    default=100,
    show_default=True,
    help="The most occurrences of each job to show.",
)
@options()
@click.pass_obj
def missing(
    settings: Settings, *, job: str | None, since: str | None, until: str | None, limit: int
) -> int:
    """The occurrences of JOB that are expected, due and not settled; without it, of every job.

    Oldest first, also those behind the newest. Works from --database alone. In a pipe:
    tab-separated rows.
    """
    from duly._cli.app_loading import load

    app = load(settings)
    names = [job] if job is not None else [each.job for each in app.status().jobs]
    found = [app.missing(name, since=since, until=until, limit=limit) for name in names]
    from duly._cli import status_view

    if settings.json:
        output.say_json(status_view.missing_json(found))
    else:
        status_view.say_missing(found)
    return exits.OK
