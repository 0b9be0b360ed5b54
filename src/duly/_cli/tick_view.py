"""What a tick did, as lines, as rows and as JSON.

Decides the words: what ran, what was skipped, what waits and until when, and how a gap that one
tick does not close is closed. It must never leave out what a person has to act on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.exits import one_line
from duly._cli.lines import Line, show
from duly._core.catch_up import Decision
from duly._core.instants import format_instant, from_us
from duly._core.occurrence import Occurrence
from duly._core.redact import redact
from duly._core.states import Outcome
from duly._core.wording import said
from duly.errors import DulyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from duly._core.catch_up import Plan, Waiting
    from duly._core.policies import Policies
    from duly._sync.ticking import JobTick, Ran, TickReport

HEADER = ("job", "what", "key", "took", "late", "note")
WAITING_SHOWN = 10
_STYLES = {"applied": "green", "duplicate": "dim", "failed": "red", "busy": "yellow"}


def say(report: TickReport, policies: Mapping[str, Policies], secrets: Iterable[str]) -> None:
    """Print the report: a line for each occurrence that it ran, then what is left.

    Args:
        policies: Of each job, by name.
        secrets: What no line shows.
    """
    lines = [line for job in report.jobs for line in _lines(job, policies.get(job.job))]
    lines += [Line((job, "clock behind", "", "", ""), _behind(report, job), "red")
              for job in report.clock_behind]  # fmt: skip
    if lines:
        show(HEADER, [replace(each, said=redact(each.said, secrets)) for each in lines], state=1)
    elif output.on_terminal():
        when = output.instant(report.at)
        output.say(f"nothing to do: nothing of {len(policies)} jobs is missing at {when}")
    else:
        output.say_rows(HEADER, [])


def as_json(
    report: TickReport, policies: Mapping[str, Policies], secrets: Iterable[str]
) -> dict[str, Any]:
    """The same as one object."""
    return {
        "at": format_instant(report.at),
        "jobs": [_json(job, policies.get(job.job), secrets) for job in report.jobs],
        "clock_behind": report.clock_behind,
    }


def closing(job: str, since: datetime) -> str:
    """The three ways to close a gap that one tick leaves."""
    start = format_instant(since)
    return (
        f"run them now: `duly backfill {job} --since {start} --until …`; do not run them:"
        ' `duly waive KEY --reason …`, or catch_up="skip" in the job; or one run for all:'
        ' catch_up="reconcile"'
    )


def _lines(job: JobTick, policies: Policies | None) -> Iterator[Line]:
    if job.refused is not None:
        yield Line((job.job, "refused", "", "", ""), str(job.refused), "red")
    if job.paused_since is not None:
        since = output.instant(job.paused_since)
        note = f"since {since}; nothing of it is run before `duly resume {job.job}`"
        yield Line((job.job, "paused", "", "", ""), note, "yellow")
    for ran in job.ran:
        yield _ran(job.job, ran)
    if job.skipped:
        after = (
            "" if policies is None else f": due longer ago than skip_after={policies.skip_after}"
        )
        yield Line((job.job, "skipped", "", "", ""), f"{job.skipped} settled{after}", "yellow")
    if covered := _covered(job):
        note = f"{covered} older ones, by the one that ran"
        yield Line((job.job, "superseded", "", "", ""), note, "yellow")
    if job.full:
        note = "as many as max_running= allows are running elsewhere; the rest waits for them"
        yield Line((job.job, "full", "", "", ""), note, "yellow")
    yield from _waiting(job)
    yield from _left(job, policies)


def _ran(job: str, ran: Ran) -> Line:
    late = ""
    if ran.result is not None and ran.result.late >= timedelta(seconds=1):
        late = output.took(ran.result.late)
    word = ran.outcome.value if ran.outcome is not None else "not run"
    note = "" if ran.error is None else one_line(_error(ran.error))
    cells = (job, word, ran.key, output.took(ran.took), late)
    return Line(cells, note, _STYLES.get(word, "red"))


def _error(error: BaseException) -> str:
    if isinstance(error, DulyError):
        return str(error)
    name = type(error).__name__
    return f"{name}: {said(error)}" if said(error) else name


def _waiting(job: JobTick) -> Iterator[Line]:
    found = [
        (waiting, partition, plan)
        for partition, plan in job.parts.items()
        for waiting in plan.waiting
    ]
    # What a person must act on is shown whole.
    given_up = [each for each in found if each[0].decision is Decision.GIVEN_UP]
    later = [each for each in found if each[0].decision is Decision.RETRY_LATER]
    later.sort(key=lambda each: each[0].until or from_us(each[0].nominal_us))
    for waiting, partition, _ in given_up:
        key = _key(job, waiting, partition)
        note = (
            f"it failed and is not tried again: `duly explain '{key}'` says why; repair it and"
            f" run it with --at, or `duly waive '{key}' --reason …`"
        )
        yield Line((job.job, "given up", key, "", ""), note, "red")
    for waiting, partition, _ in later[:WAITING_SHOWN]:
        assert waiting.until is not None
        note = f"it failed; tried again from {output.instant(waiting.until)}"
        yield Line((job.job, "waits", _key(job, waiting, partition), "", ""), note, "yellow")
    if len(later) > WAITING_SHOWN:
        note = f"{len(later) - WAITING_SHOWN} more that failed are tried again later"
        yield Line((job.job, "waits", "", "", ""), note, "yellow")


def _left(job: JobTick, policies: Policies | None) -> Iterator[Line]:
    held = sum(plan.held for plan in job.parts.values())
    if held:
        yield Line((job.job, "held", "", "", ""), f"{held} wait for the one before", "yellow")
    left = sum(plan.left for plan in job.parts.values())
    if left:
        note = f'{left} stay missing: catch_up="none" leaves them to a person; {_close(job)}'
        yield Line((job.job, "missing", "", "", ""), note, "yellow")
    over = over_limit(job.parts, policies)
    if over:
        most = "" if policies is None else f" (max_per_tick={policies.max_per_tick})"
        note = f"{over} stay missing: one tick does no more{most}; the next one goes on."
        yield Line((job.job, "missing", "", "", ""), f"{note} {_close(job)}", "yellow")


def over_limit(parts: Mapping[str, Plan], policies: Policies | None) -> int:
    """How many stay missing because one tick does no more."""
    runs = sum(len(plan.run) for plan in parts.values())
    most = runs if policies is None else policies.max_per_tick
    return sum(plan.over_limit for plan in parts.values()) + max(0, runs - most)


def _close(job: JobTick) -> str:
    oldest = min(plan.oldest_us for plan in job.parts.values() if plan.oldest_us is not None)
    return closing(job.job, from_us(oldest))


def _covered(job: JobTick) -> int:
    applied = {ran.key for ran in job.ran if ran.outcome is Outcome.APPLIED}
    if not applied:
        return 0
    return sum(len(plan.cover) for plan in job.parts.values() if plan.run)


def _behind(report: TickReport, job: str) -> str:
    return (
        f"the database's clock says {output.instant(report.at)}, and occurrences that are due only"
        " later are settled, or the definition was recorded as from a later time: set the clock"
        " right; nothing is run twice, and nothing runs by itself before the clock gets there"
        f" (`duly run {job}` does, and `duly backfill {job}`)"
    )


def _key(job: JobTick, waiting: Waiting, partition: str) -> str:
    return Occurrence.from_us(job.ledger_name, waiting.nominal_us, partition).key


def _json(job: JobTick, policies: Policies | None, secrets: Iterable[str]) -> dict[str, Any]:
    return {
        "job": job.job,
        "ran": [_json_ran(ran, secrets) for ran in job.ran],
        "skipped": job.skipped,
        "superseded": _covered(job),
        "waiting": [
            {
                "key": _key(job, waiting, partition),
                "decision": waiting.decision.value,
                "until": None if waiting.until is None else format_instant(waiting.until),
            }
            for partition, plan in job.parts.items()
            for waiting in plan.waiting
        ],
        "missing": job.missing,
        "over_limit": over_limit(job.parts, policies),
        "held": sum(plan.held for plan in job.parts.values()),
        "left": sum(plan.left for plan in job.parts.values()),
        "full": job.full,
        "paused_since": None if job.paused_since is None else format_instant(job.paused_since),
        "refused": None if job.refused is None else _json_error(job.refused, secrets),
    }


def _json_ran(ran: Ran, secrets: Iterable[str]) -> dict[str, Any]:
    result = ran.result
    return {
        "key": ran.key,
        "outcome": None if ran.outcome is None else ran.outcome.value,
        "attempt_id": None if result is None else str(result.attempt_id),
        "value": None if result is None else result.value,
        "took_s": round(ran.took.total_seconds(), 6),
        "late_s": None if result is None else round(result.late.total_seconds(), 6),
        "error": None if ran.error is None else _json_error(ran.error, secrets),
    }


def _json_error(error: BaseException, secrets: Iterable[str]) -> dict[str, Any]:
    code = error.code if isinstance(error, DulyError) else None
    message = redact(one_line(_error(error)), secrets)
    return {"type": type(error).__name__, "code": code, "message": message}
