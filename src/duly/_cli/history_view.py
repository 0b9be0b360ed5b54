"""A history and an explanation as rows: the words and the order that a person sees.

Decides how attempts, refused starts and running attempts stand side by side, and how each is
called. It must never leave one out that it was given, or word a verdict of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from duly._cli import output
from duly._core.evidence import ended_of
from duly._core.states import ErrorOrigin, Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly._core.evidence import Attempt, Explanation, History, Refused, Running, Settled
    from duly._core.occurrence import Occurrence

HEADER = ("nominal time", "outcome", "started (UTC)", "took", "started by", "what happened")


KEY_WIDTH = 24
"""Of the nominal time with its partition; a longer one stands on a line of its own."""


@dataclass(frozen=True)
class Row:
    """One line: an attempt that ended, one under way, or starts that were refused."""

    nominal: str
    outcome: str
    started_at: datetime
    took: str
    starter: str
    said: str
    colour: str

    @property
    def cells(self) -> tuple[str, ...]:
        """As they stand under `HEADER`."""
        started = f"{self.started_at:%Y-%m-%d %H:%M:%S}"
        cells = (self.nominal, self.outcome, started, self.took, self.starter, self.said)
        return tuple(output.plain(cell) for cell in cells)


def rows(found: History | Explanation) -> list[Row]:
    """What happened: running first, then newest first."""
    held = {each.occurrence for each in found.held}
    running = {each.occurrence for each in found.running}
    waiting = [
        each
        for each in found.held
        if each.occurrence not in running and ended_of(each, found.attempts) is None
    ]
    torn = held | {a.occurrence for a in found.attempts if a.outcome is Outcome.TORN}
    ended = [
        *(_held(each) for each in waiting),
        *(_attempt(attempt) for attempt in found.attempts),
        *(_refused(refused, torn=refused.occurrence in torn) for refused in found.refused),
    ]
    ended.sort(key=lambda row: row.started_at, reverse=True)
    return [*(_running(running) for running in found.running), *ended]


def headline(history: History) -> str:
    """The newest completed occurrence, in one line; not all before it need be."""
    last = history.last_completed
    if last is None and history.horizon_at is not None:
        text = (
            f"{history.job}: nothing completed since the horizon"
            f" {output.instant(history.horizon_at)}; older records were pruned"
        )
    elif last is None:
        text = f"{history.job}: nothing completed yet"
    else:
        text = (
            f"{history.job}: last completed {_which(last.occurrence)},"
            f" at {output.instant(last.recorded_at)}"
        )
    if history.running:
        text += f"; {len(history.running)} under way"
    return text


def show_table(found: History | Explanation) -> None:
    """Print the rows for a terminal: a line each, and below it what went wrong.

    The outcome always stands whole: a long key gets a line of its own, an error the width.
    """
    from rich.text import Text

    console = output.console()
    lines = [row.cells for row in rows(found)]
    widths = [max(map(len, column)) for column in zip(HEADER, *lines, strict=True)][:4]
    widths[0] = min(widths[0], KEY_WIDTH)
    console.print(Text(_line(HEADER[:5], widths), style="bold"), soft_wrap=True)
    for row, cells_ in zip(rows(found), lines, strict=True):
        first, said = cells_[:5], cells_[5]
        if len(first[0]) > KEY_WIDTH:
            console.print(Text(first[0]), soft_wrap=True)
            first = ("", *first[1:])
        text = Text(_line(first, widths))
        text.truncate(max(console.width, 72), overflow="ellipsis")  # of the starter, if anything
        start = widths[0] + 2
        text.stylize(row.colour, start, start + widths[1])
        console.print(text, soft_wrap=True)
        if said:
            room = max(console.width - 4, 40)
            brief = said if len(said) <= room else f"{said[: room - 1]}…"
            console.print(Text(f"    {brief}", style=row.colour), soft_wrap=True)


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    """Columns of *widths*, and the starter as it is."""
    nominal, outcome, started, took, starter = values
    return (
        f"{nominal:<{widths[0]}}  {outcome:<{widths[1]}}  {started:<{widths[2]}}"
        f"  {took:>{widths[3]}}  {starter}"
    ).rstrip()


def cells(found: History | Explanation) -> Sequence[Sequence[str]]:
    """The rows as plain cells under `HEADER`, for a pipe."""
    return [row.cells for row in rows(found)]


def _attempt(attempt: Attempt) -> Row:
    word, colour = _word(attempt)
    message = " ".join((attempt.error_message or "").split())
    said = f"{attempt.error_type}: {message}" if attempt.error_type else message
    # How long a dead process had been at work is not known, only when it was found.
    took = "" if attempt.outcome is Outcome.ABANDONED else output.took(attempt.duration)
    return Row(
        _which(attempt.occurrence),
        word,
        attempt.started_at,
        took,
        attempt.started_by or "",
        said if len(said) <= 200 else f"{said[:199]}…",
        colour,
    )


def _word(attempt: Attempt) -> tuple[str, str]:
    """The outcome; for a failure also whose it was."""
    match attempt.outcome:
        case Outcome.APPLIED:
            return "applied", "green"
        case Outcome.FAILED:
            origin = attempt.error_origin
            whose = "" if origin in {None, ErrorOrigin.HANDLER} else f" ({origin})"
            return f"failed{whose}", "red"
        case Outcome.TORN:
            return "torn", "bold red"
        case Outcome.CONFLICT | Outcome.EXPIRED | Outcome.FENCED:
            return attempt.outcome.value, "red"
        case Outcome.BUSY | Outcome.ABANDONED:
            return attempt.outcome.value, "yellow"
        case Outcome.DUPLICATE:
            return "duplicate", "dim"
        case _:
            assert_never(attempt.outcome)


def _held(settled: Settled) -> Row:
    said = (settled.reason or "").removeprefix("held: ")
    return Row(_which(settled.occurrence), "held", settled.recorded_at, "", "", said, "bold red")


def _refused(refused: Refused, *, torn: bool) -> Row:
    """Starts of a settled key, counted; of a torn one they are no duplicates."""
    last = output.instant(refused.last_at)
    times = "once" if refused.times == 1 else f"{refused.times} times, last {last}"
    return Row(
        _which(refused.occurrence),
        "refused" if torn else "duplicate",
        refused.first_at,
        "",
        refused.started_by,
        times,
        "red" if torn else "dim",
    )


def _running(running: Running) -> Row:
    return Row(
        _which(running.occurrence),
        "running",
        running.started_at,
        "",
        running.started_by,
        f"on {running.host}, pid {running.pid}",
        "cyan",
    )


def _which(occurrence: Occurrence) -> str:
    """The key without the job's name."""
    return occurrence.key.partition(":")[2]
