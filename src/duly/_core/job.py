"""A job's definition and its validation.

Decides what a definition may say. It never reads the database, and it is not the job's
identity: that is the name alone.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from duly._core.occurrence import JOB_NAME
from duly._core.policies import Policies
from duly._core.resolve import TOLERANCE
from duly.errors import DuplicateJob, HandlerInvalid, KeyInvalid, UnknownJob

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly._core.payload import Payload
    from duly._core.schedules import Schedule


@dataclass(frozen=True, slots=True)
class Job:
    """One job as its code defines it.

    Attributes:
        name: Its identity.
        handler: Makes the effect; called with the run.
        schedule: When it is due; None for a job that is only started by name.
        zone: The zone of dates and of `Run.local_time`.
        payload: What an attempt gets unless another is given.
        policies: What it does about time.
        formerly: The names it had, oldest first; the ledger keeps the oldest.
        partitions: A list, or a query, of the partitions of each occurrence; None for none.
        jitter: By how much, at most, a start that a schedule asked for is put off.
        tolerance: How much before its due time a start counts as due; for early clocks only.
    """

    name: str
    handler: Callable[..., Any]
    schedule: Schedule | None
    zone: Any
    payload: Payload
    policies: Policies = field(default_factory=Policies)
    jitter: timedelta = timedelta(0)
    tolerance: timedelta = TOLERANCE
    formerly: tuple[str, ...] = ()
    partitions: tuple[str, ...] | str | None = None

    @property
    def ledger_name(self) -> str:
        """The name in keys and rows: the first that the job ever had."""
        return self.formerly[0] if self.formerly else self.name

    @property
    def shown_name(self) -> str | None:
        """The name for people, where it is not the ledger's."""
        return self.name if self.formerly else None


def define(jobs: Mapping[str, Job], job: Job) -> None:
    """Refuse a definition that is wrong by itself or beside *jobs*.

    Raises:
        KeyInvalid, HandlerInvalid, ScheduleInvalid, DuplicateJob: With the remedy.
    """
    check_name(job.name)
    if not callable(job.handler):
        raise HandlerInvalid(
            f"the handler of {job.name!r} is {type(job.handler).__name__}, which cannot be called:"
            " decorate a function that takes the run"
        )
    if is_awaited(job.handler) or inspect.isasyncgenfunction(job.handler):
        raise HandlerInvalid(
            f"the handler of {job.name!r} is an async function, which duly.App does not await: use"
            " a plain `def`, or duly.aio.App"
        )
    if job.name in jobs:
        raise DuplicateJob(
            f"the job {job.name!r} is defined twice in this process"
            f" ({_place(jobs[job.name].handler)} and {_place(job.handler)}): give one another name",
            job=job.name,
        )
    for former in job.formerly:
        check_name(former)
        if former == job.name:
            raise KeyInvalid(f"formerly={former!r} is the job's own name: leave it out")
    for other in jobs.values():
        if {job.name, *job.formerly} & {other.name, *other.formerly}:
            raise DuplicateJob(
                f"the jobs {other.name!r} and {job.name!r} share a former name, and would share"
                " their keys: one name belongs to one job",
                job=job.name,
            )


def is_awaited(handler: Any) -> bool:
    """Whether a call of *handler* gives a coroutine."""
    called = getattr(type(handler), "__call__", None)  # noqa: B004 - what a call runs
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(called)


def check_name(name: object) -> None:
    """Refuse what is not a job's name.

    Raises:
        KeyInvalid: It says which names are allowed.
    """
    if not isinstance(name, str) or not re.fullmatch(JOB_NAME, name):
        raise KeyInvalid(
            f"{str(name)[:80]!r} is not a job's name: use 1 to 100 of a-z, 0-9, '.', '_' and '-',"
            " the first a letter or a digit"
        )


def find(jobs: Mapping[str, Job], name: str) -> Job:
    """The job of that name.

    Raises:
        UnknownJob: It suggests the nearest names.
    """
    if name in jobs:
        return jobs[name]
    near = get_close_matches(str(name), jobs, n=3, cutoff=0.5)
    if near:
        hint = f"did you mean {' or '.join(repr(other) for other in near)}?"
    elif jobs:
        hint = f"this app defines {', '.join(sorted(jobs)[:10])}"
    else:
        hint = "this app defines none; is the module with its jobs imported?"
    raise UnknownJob(f"no job is called {str(name)[:100]!r}: {hint}", job=str(name)[:100])


def _place(handler: Callable[..., Any]) -> str:
    module = getattr(handler, "__module__", "?")
    return f"{module}.{getattr(handler, '__qualname__', handler)}"
