"""Who started this process, which occurrence it came for, and how long the start is put off.

Decides the order: a person's `--at`, then what a starter says, then the newest due. It must
never wait, or read the environment, for a start that a person named.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._cli import output

if TYPE_CHECKING:
    from duly._core.start import Start
    from duly._sync.app import App


@dataclass(frozen=True, slots=True)
class Started:
    """A start, as the command line understands it.

    Attributes:
        at: To be given to `App.run`.
        starter: The starter that was recognised; None if it was none, or a person.
    """

    at: Start | str | None
    starter: str | None


def started(app: App, job: str, at: str | None) -> Started:
    """What this process was started for.

    Raises:
        StartInvalid: What a starter says does not parse, or two of them disagree.
    """
    if at is not None:
        return Started(at, None)
    from duly.triggers.detect import detect, settle

    starts = detect(os.environ)
    found = settle(starts, lambda start: app.occurrence(job, start).nominal_time)
    return Started(found, None if found is None else found.starter)


def put_off(app: App, job: str, start: Started, partition: str) -> Started:
    """Wait for the job's jitter; what is waited for stays the occurrence that it was.

    Returns:
        The start, bound to its occurrence if it was put off.
    """
    found = app.jobs.get(job)
    if found is None or not found.jitter or found.schedule is None or isinstance(start.at, str):
        return start
    from duly._core import timing
    from duly._core.jitter import delay
    from duly._core.start import Start

    occurrence = app.occurrence(job, start.at, partition=partition)
    due = timing.due_time(found.schedule, occurrence.nominal_time)
    following = found.schedule.next(occurrence.nominal_time)
    next_due = None if following is None else timing.due_time(found.schedule, following)
    start_at = due + delay(occurrence.key, found.jitter, due=due, next_due=next_due)
    left = start_at - app._clock()  # noqa: SLF001 - a part of the App, as commands are
    if left > timedelta(0):
        say_waiting(occurrence.key, left)
        time.sleep(left.total_seconds())
    bound = start.at or Start("schedule", due, f"the schedule of {job}")
    return Started(bound, start.starter)


def say_waiting(key: str, left: timedelta) -> None:
    """Tell whoever looks why nothing happens yet."""
    if sys.stderr is not None:
        print(f"duly: jitter puts {key} off by {output.took(left)}", file=sys.stderr, flush=True)


def lateness(late: Any, source: str) -> str:
    """How late a start was that a person did not choose; empty within a second."""
    if source in {"explicit", "correction"} or late < timedelta(seconds=1):
        return ""
    return f", {output.took(late)} late"
