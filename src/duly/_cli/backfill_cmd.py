"""`duly backfill`: every nominal time of a span that is not settled is run.

Decides the form of what is told on the way, by what stdout is; never what is run.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output, stopping, words
from duly._cli.settings import Settings, options
from duly._core.wording import said

if TYPE_CHECKING:
    from duly._sync.backfill import Backfilled, BackfillReport


@click.command()
@click.argument("job")
@click.option(
    "--since", metavar="TIME", required=True, help="The first nominal time, or a date in its zone."
)
@click.option("--until", metavar="TIME", required=True, help="The end of the span, without it.")
@click.option("--dry-run", is_flag=True, help="Count what would be run, and run nothing.")
@click.option(
    "--workers",
    type=click.IntRange(1, 12),
    metavar="N",
    default=1,
    show_default=True,
    help="How many run at once; more than 1 passes over max_running.",
)
@click.option("--stop-on-failure", is_flag=True, help="Stop at the first that fails.")
@click.option("--reason", type=words.words, metavar="TEXT", help="Why, for the record.")
@click.option(
    "--actor", type=words.words, metavar="TEXT", help="Who decides.  [default: USER@HOST]"
)
@options()
@click.pass_obj
def backfill(
    settings: Settings,
    *,
    job: str,
    since: str,
    until: str,
    dry_run: bool,
    workers: int,
    stop_on_failure: bool,
    reason: str | None,
    actor: str | None,
) -> int:
    """Run every nominal time of JOB in a span that is due and not settled, oldest first.

    Also those before the job's start. One that fails is recorded and the rest goes on. It may be
    stopped and repeated: what is settled is not run again.
    """
    from duly._cli.app_loading import load
    from duly._cli.run_cmd import name_starter

    app = load(settings, code_for="backfill")
    name_starter(app, None, by="backfill")
    teller = _Teller(settings)
    try:
        with teller:
            report = app.backfill(
                job,
                since=since,
                until=until,
                dry_run=dry_run,
                workers=workers,
                stop_on_failure=stop_on_failure,
                reason=reason,
                actor=actor or words.person(),
                on_counted=teller.counted,
                on_done=teller.done,
            )
    except BaseException as error:
        number = stopping.signal_of(error)
        if teller.report is None or (number is None and not isinstance(error, Exception)):
            raise
        if number is None:
            teller.say_end(teller.report)
            raise
        text = (
            f"{_summary(teller.report)}; what was under way ended or was rolled back; run it again"
        )
        raise stopping.AttemptStopped(number, text, fate="partly", key=None) from error
    _say_report(settings, report, dry_run=dry_run)
    if report.counts.get("failed"):
        return exits.HANDLER_FAILED
    return exits.TRY_AGAIN if report.counts.get("busy") else exits.OK


class _Teller:
    """Tells of each occurrence: a bar on a terminal, a line in a pipe, nothing with `--json`.

    Attributes:
        report: Once everything was counted.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bar: Any = nullcontext()
        self._task: Any = None
        self.report: BackfillReport | None = None
        if output.on_terminal() and not settings.json:
            from rich.progress import (
                BarColumn,
                MofNCompleteColumn,
                Progress,
                TextColumn,
                TimeRemainingColumn,
            )

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=output.console(),
            )

    def __enter__(self) -> _Teller:
        self._bar.__enter__()
        return self

    def __exit__(self, *ended: Any) -> None:
        self._bar.__exit__(*ended)

    def counted(self, report: BackfillReport) -> None:
        """Before the first."""
        self.report = report
        if hasattr(self._bar, "add_task"):
            self._task = self._bar.add_task(report.job, total=report.total)

    def done(self, one: Backfilled) -> None:
        """After each."""
        if self._settings.json:
            return
        if self._task is None:
            output.say(_line(one))
            return
        if one.error is not None:
            self._bar.console.print(_line(one), markup=False)
        self._bar.advance(self._task)

    def say_end(self, report: BackfillReport) -> None:
        """How far it came, before an error is told of."""
        if not self._settings.json:
            output.say(_summary(report))


def _line(one: Backfilled) -> str:
    text = f"{one.word} {one.key}"
    if one.error is not None:
        name = type(one.error).__name__
        words_ = output.plain(said(one.error)).splitlines()
        text += f"  {name}: {words_[0][:300]}" if words_ else f"  {name}"
    return text


def _summary(report: BackfillReport) -> str:
    counts = ", ".join(f"{word} {count}" for word, count in sorted(report.counts.items()))
    return f"{report.job}: {report.done} of {report.total} done" + (
        f" ({counts})" if counts else ""
    )


def _say_report(settings: Settings, report: BackfillReport, *, dry_run: bool) -> None:
    if settings.json:
        output.say_json(
            {
                "job": report.job,
                "total": report.total,
                "oldest": report.oldest,
                "newest": report.newest,
                "done": report.done,
                **{word: report.counts.get(word, 0) for word in _WORDS},
                "stopped": report.stopped,
                "failures": [
                    {"key": one.key, "outcome": one.word, "error": said(one.error)[:300]}
                    for one in report.failures
                    if one.error is not None
                ],
            }
        )
        return
    if not report.total:
        output.say(f"{report.job}: nothing to run, each one that is due is settled")
    elif dry_run:
        output.say(
            f"{report.job}: would run {report.total}, from {report.oldest} to {report.newest};"
            " nothing was done"
        )
    else:
        left = "; stopped at the first failure" if report.stopped else ""
        colour = "red" if report.counts.get("failed") else "green"
        output.say(output.styled(_summary(report), colour) + left)


_WORDS = ("applied", "duplicate", "failed", "settled", "busy")
