"""`duly worker`: stay, and run each job's occurrences as they fall due.

Decides what a stop is called; the worker decides when to look, and the plan what is run.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

import click

from duly._cli import words
from duly._cli.settings import Settings, options


@click.command()
@click.option(
    "--threads",
    type=click.IntRange(1, 64),
    metavar="N",
    default=4,
    show_default=True,
    help="How many jobs run at once; 1 on SQLite, which has one writer.",
)
@click.option(
    "--grace",
    type=words.seconds,
    metavar="SECONDS",
    default="30",
    show_default=True,
    help="How long a stop waits for what runs.",
)
@click.option(
    "--poll",
    type=words.seconds,
    metavar="SECONDS",
    default="30",
    show_default=True,
    help="How often the ledger is looked at although nothing is due.",
)
@click.option(
    "--started-by", type=words.words, metavar="TEXT", help="Who starts it, for the record."
)
@options()
@click.pass_obj
def worker(
    settings: Settings, *, threads: int, grace: float, poll: float, started_by: str | None
) -> int:
    """Stay, and run what is due of every job, until SIGTERM, SIGHUP or Ctrl-C.

    Any number of hosts may do it at once, beside `duly tick` and starts by name: each
    occurrence takes effect once. A second signal does not wait for what runs.

    Exits 0 if everything had ended by then, else 143, 130 or 129: what ran was rolled back.
    """
    from duly._cli import stopping
    from duly._cli.app_loading import load
    from duly._cli.run_cmd import name_starter
    from duly._cli.told import say_ran

    app = load(settings, code_for="worker")
    name_starter(app, started_by, by="worker")
    ended = app.work(
        threads=threads, grace=grace, poll=poll, told=lambda ran: say_ran(settings, ran)
    )
    if ended.signal is None or (not ended.rolled_back and ended.is_clean):
        return 0
    keys = ", ".join(ended.rolled_back[:10])
    stopped = stopping.AttemptStopped(
        ended.signal,
        f"rolled back, and tried again by the next worker: {keys}",
        fate="rolled_back",
        key=ended.rolled_back[0] if ended.rolled_back else None,
    )
    if ended.is_clean:
        raise stopped
    from duly._cli import exits

    code = exits.report(stopped, settings)
    with suppress(Exception):
        sys.stdout.flush()
    # A handler that does not come back has a thread of its own, which nothing else can end.
    os._exit(code)
