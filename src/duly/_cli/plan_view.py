"""A plan as rows and as JSON.

Decides the words for what a tick would leave. It must never leave out a job that would do
something.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.lines import Line, minute, show
from duly._cli.tick_view import closing
from duly._core.catch_up import Decision
from duly._core.instants import format_instant
from duly._core.status import oldest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core.status import JobPlan, PlanReport, Step

HEADER = ("job", "what", "key", "due at", "why")
_STYLES = {
    Decision.RUN: "green",
    Decision.SKIP: "yellow",
    Decision.SUPERSEDE: "yellow",
    Decision.RETRY_LATER: "yellow",
    Decision.GIVEN_UP: "red",
}
_PENDING = {
    "first": "its first revision: it expects nothing of the past unless starts= says so",
    "edit": "a revision: what was expected before stays",
    "zone data": "a revision: newer time zone data",
    "retired": "its code does not define it any more: nothing more of it is expected",
}


def say(report: PlanReport, limit: int) -> None:
    """Print a line for each decision, and for each job what is left."""
    lines = [line for job in report.jobs for line in _lines(job, limit)]
    if lines:
        show(HEADER, lines, state=1)
    elif output.on_terminal():
        count = len(report.jobs)
        output.say(
            f"nothing to do: nothing of {count} jobs is missing at {output.instant(report.at)}"
        )
    else:
        output.say_rows(HEADER, [])


def as_json(report: PlanReport, limit: int) -> dict[str, Any]:
    """The same as one object."""
    return {"at": format_instant(report.at), "jobs": [_json(job, limit) for job in report.jobs]}


def _lines(job: JobPlan, limit: int) -> Iterator[Line]:
    if job.refused is not None:
        yield Line((job.job, "refused", "", ""), str(job.refused), "red")
    if job.paused_since is not None:
        note = f"since {output.instant(job.paused_since)}: nothing of it is run"
        yield Line((job.job, "paused", "", ""), note, "yellow")
    if job.pending is not None:
        what = "retire" if job.pending == "retired" else "record"
        yield Line((job.job, what, "", ""), _PENDING.get(job.pending, job.pending), "cyan")
    for step in islice(job.steps(), limit):
        yield _step(job, step)
    more = sum(len(p.skip) + len(p.cover) + len(p.waiting) for p in job.parts.values())
    more += min(sum(len(plan.run) for plan in job.parts.values()), _most(job)) - limit
    if more > 0:
        yield Line((job.job, "…", "", ""), f"{more} more decisions; see them with --limit", "dim")
    yield from _left(job)


def _left(job: JobPlan) -> Iterator[Line]:
    start = oldest(job.parts)
    if start is None:
        return
    if job.held:
        yield Line((job.job, "held", "", ""), f"{job.held} wait for the one before", "yellow")
    if job.left:
        note = f'{job.left} stay missing: catch_up="none" leaves them to a person'
        yield Line((job.job, "missing", "", ""), f"{note}; {closing(job.job, start)}", "yellow")
    if job.over_limit:
        note = f"{job.over_limit} stay missing: one tick does no more (max_per_tick={_most(job)})"
        yield Line((job.job, "missing", "", ""), f"{note}; {closing(job.job, start)}", "yellow")


def _most(job: JobPlan) -> int:
    return 0 if job.policies is None else job.policies.max_per_tick


def _step(job: JobPlan, step: Step) -> Line:
    cells = (job.job, step.decision.value, step.occurrence.key, minute(step.due_at))
    return Line(cells, step.why, _STYLES[step.decision])


def _json(job: JobPlan, limit: int) -> dict[str, Any]:
    return {
        "job": job.job,
        "records": job.pending,
        "paused_since": None if job.paused_since is None else format_instant(job.paused_since),
        "refused": None
        if job.refused is None
        else {"code": job.refused.code, "message": str(job.refused)},
        "steps": [
            {
                "key": step.occurrence.key,
                "decision": step.decision.value,
                "due_at": format_instant(step.due_at),
                "until": None if step.until is None else format_instant(step.until),
                "why": step.why,
            }
            for step in islice(job.steps(), limit)
        ],
        "missing": job.missing,
        "over_limit": job.over_limit,
        "held": job.held,
        "left": job.left,
    }
