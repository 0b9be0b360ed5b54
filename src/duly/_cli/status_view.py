"""How jobs are and what is missing, as lines, as rows and as JSON.

Decides the words beside a state. It must never leave out a job, or word a state of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.exits import one_line
from duly._cli.lines import Line, minute, show
from duly._core.instants import format_instant
from duly._core.status import State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly._core.status import (
        Failing,
        JobStatus,
        MissingOccurrence,
        MissingReport,
        StatusReport,
    )

STATUS = ("job", "state", "last completed", "lag", "missing", "oldest missing", "next due", "note")
MISSING = ("key", "due at", "state", "note")
ERROR_MAX = 200
_STYLES = {
    State.REFUSED: "bold red",
    State.GIVEN_UP: "bold red",
    State.OVERDUE: "red",
    State.FAILING: "red",
    State.MISSING: "yellow",
    State.DUE: "cyan",
    State.OK: "green",
    State.PAUSED: "yellow",
    State.RETIRED: "dim",
    State.UNSCHEDULED: "dim",
}


def say_status(report: StatusReport) -> None:
    """Print a line for each job."""
    if report.jobs:
        show(STATUS, [_line(job) for job in report.jobs], state=1)
    elif output.on_terminal():
        output.say("no job yet: the ledger holds none, and none is defined here")
    else:
        output.say_rows(STATUS, [])


def status_json(report: StatusReport) -> dict[str, Any]:
    """The same as one object."""
    return {"at": format_instant(report.at), "jobs": [_json(job) for job in report.jobs]}


def say_missing(reports: Sequence[MissingReport]) -> None:
    """Print a line for each missing occurrence, and how many more there are."""
    lines = [_missing_line(each) for report in reports for each in report.occurrences]
    hidden = {report.job: report.total - len(report.occurrences) for report in reports}
    if not output.on_terminal():
        output.say_rows(MISSING, [(*line.cells, line.said) for line in lines])
        for job, more in hidden.items():
            if more:
                output.say(f"# {job}: {more} more are missing; see them with --limit")
        return
    if lines:
        show(MISSING, lines, state=2)
    else:
        names = ", ".join(report.job for report in reports) or "no job yet"
        output.say(f"nothing is missing ({names})")
    for job, more in hidden.items():
        if more:
            output.say(f"{job}: {more} more are missing; see them with --limit")


def missing_json(reports: Sequence[MissingReport]) -> dict[str, Any]:
    """The same as one object."""
    return {
        "jobs": [
            {
                "job": report.job,
                "at": format_instant(report.at),
                "missing": report.total,
                "occurrences": [_missing_json(each) for each in report.occurrences],
            }
            for report in reports
        ]
    }


def _line(job: JobStatus) -> Line:
    cells = (
        job.job,
        job.state.value,
        minute(job.last_completed),
        "" if job.lag is None else output.took(job.lag),
        str(job.missing) if job.missing else "",
        minute(job.oldest_missing),
        minute(job.next_due_at),
    )
    return Line(cells, "; ".join(_notes(job)), _STYLES[job.state])


def _notes(job: JobStatus) -> list[str]:
    notes = []
    if job.refused is not None:
        notes.append(str(job.refused))
    if job.retired_since is not None:
        notes.append(f"retired since {output.instant(job.retired_since)}")
    if job.paused_since is not None:
        notes.append(f"paused since {output.instant(job.paused_since)}")
    if job.overdue_since is not None:
        notes.append(f"overdue since {output.instant(job.overdue_since)}")
    if job.given_up:
        notes.append(f"{job.given_up} not tried again")
    if job.failing is not None:
        notes.append(_failing(job.failing))
    if job.retry_at is not None:
        notes.append(f"tried again from {output.instant(job.retry_at)}")
    if job.pending == "first":
        notes.append("not registered yet: duly init or a tick does it")
    elif job.pending is not None:
        notes.append(f"not recorded yet ({job.pending}): duly init or a tick does it")
    return notes


def _failing(failing: Failing) -> str:
    times = "once" if failing.attempts == 1 else f"{failing.attempts} times"
    said = "" if failing.error is None else f": {one_line(failing.error)}"
    said = said if len(said) <= ERROR_MAX else f"{said[: ERROR_MAX - 1]}…"
    return f"failed {times} since {output.instant(failing.since)}{said}"


def _missing_line(each: MissingOccurrence) -> Line:
    word, style = "missing", "yellow"
    if each.overdue_since is not None:
        word, style = "overdue", "red"
    if each.given_up:
        word, style = "given up", "bold red"
    notes = []
    if each.failures:
        notes.append("failed once" if each.failures == 1 else f"failed {each.failures} times")
    if each.retry_at is not None:
        notes.append(f"tried again from {output.instant(each.retry_at)}")
    return Line((each.key, minute(each.due_at), word), "; ".join(notes), style)


def _json(job: JobStatus) -> dict[str, Any]:
    failing, refused = job.failing, job.refused
    return {
        "job": job.job,
        "ledger_name": job.ledger_name,
        "state": job.state.value,
        "schedule": job.schedule,
        "timezone": job.zone,
        "revision": job.revision,
        "records": job.pending,
        "last_completed": _text(job.last_completed),
        "lag_s": None if job.lag is None else job.lag.total_seconds(),
        "missing": job.missing,
        "oldest_missing": _text(job.oldest_missing),
        "overdue_since": _text(job.overdue_since),
        "given_up": job.given_up,
        "failing": None
        if failing is None
        else {
            "since": _text(failing.since),
            "attempts": failing.attempts,
            "key": failing.key,
            "error": failing.error,
        },
        "retry_at": _text(job.retry_at),
        "paused_since": _text(job.paused_since),
        "retired_since": _text(job.retired_since),
        "next_due": _text(job.next_due_at),
        "refused": None if refused is None else {"code": refused.code, "message": str(refused)},
    }


def _missing_json(each: MissingOccurrence) -> dict[str, Any]:
    return {
        "key": each.key,
        "nominal_time": _text(each.occurrence.nominal_time),
        "partition": each.occurrence.partition,
        "due_at": _text(each.due_at),
        "overdue_since": _text(each.overdue_since),
        "failures": each.failures,
        "last_failed_at": _text(each.last_failed_at),
        "given_up": each.given_up,
        "retry_at": _text(each.retry_at),
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else format_instant(at)
