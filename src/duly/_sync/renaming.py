"""A job's name against the names that the ledger knows: keys keep the first name for good.

Decides whether a definition's name in keys is the one under which the ledger keeps the job. It
must never let one job's periods get a second set of keys, and it writes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._db import expectation
from duly.errors import FormerlyInvalid

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly._core.job import Job
    from duly._db.sessions.base import Session


def shown_as(session: Session, name: str) -> str | None:
    """The first name of the job that the ledger shows as *name*; None if there is no such job."""
    rows = session.run("job_shown_as", {"shown_name": name})
    return str(rows[0][0]) if rows else None


def check_names(session: Session, job: Job, *, app: str, defined: Collection[str]) -> None:
    """Refuse a definition whose keys would not be those that the job has.

    Args:
        app: The name of the App that defines it.
        defined: The names in keys of all jobs of that App.

    Raises:
        FormerlyInvalid: It says which names to give.
    """
    first = job.ledger_name
    for name in (job.name, *job.formerly):
        kept = shown_as(session, name)
        if kept not in {None, first}:
            raise _kept_elsewhere(job, name, str(kept))
    if not job.formerly:
        return
    for name in (*job.formerly[1:], job.name):
        if _is_held(session, name):
            raise FormerlyInvalid(
                f"job {job.name}: formerly={first!r} would start the periods of {first} and"
                f" {name} under one name, and the ledger has keys of {name!r} already: leave"
                f" {first!r} out of formerly=, and retire it",
                job=job.name,
            )
    if _is_held(session, first):
        return
    # A new ledger takes any name; beside a job that this code lost, an unknown one is a slip.
    lost = [
        each.job
        for each in expectation.latest(session).values()
        if each.app == app and not each.retired and each.job not in defined
    ]
    if lost:
        raise FormerlyInvalid(
            f"job {job.name}: the ledger has no job {first!r}, which formerly= names first, and"
            f" this code no longer defines {', '.join(lost[:3])}{'…' if len(lost) > 3 else ''}:"
            " give the name in its keys, or leave formerly= out for a job that is new",
            job=job.name,
        )


def _kept_elsewhere(job: Job, name: str, kept: str) -> FormerlyInvalid:
    if job.name == kept:
        remedy = f"the keys of {kept!r} are its own again without it: leave formerly= out"
    else:
        names = [kept, *(each for each in (*job.formerly, name) if each not in {kept, job.name})]
        given = repr(kept) if len(names) == 1 else repr(tuple(dict.fromkeys(names)))
        remedy = f"its keys keep that name, so write formerly={given}, or give a new job another"
    return FormerlyInvalid(
        f"job {job.name}: in this ledger {name!r} is the later name of the job {kept!r}: {remedy}",
        job=job.name,
        first=kept,
    )


def _is_held(session: Session, name: str) -> bool:
    return bool(session.run("is_name_held", {"job": name})[0][0])
