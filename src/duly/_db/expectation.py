"""Rows about what is expected, as values of the core; and back.

It decides nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core.expected import Pause
from duly._core.instants import NEVER_US, from_us, to_us
from duly._core.policies import Policies
from duly._core.revision import Revision
from duly._core.zone_record import ZoneRecord

if TYPE_CHECKING:
    from datetime import datetime

    from duly._db.sessions.base import Session


@dataclass(frozen=True, slots=True)
class Latest:
    """What the ledger's latest revision of a job says, in short.

    Attributes:
        job: The name in keys.
        revision: Its number.
        digest: Of the definition; "" for a retirement.
        zone_version: Of its writer.
        complete_us: Everything expected that was due by then is settled; None if unknown.
        shown_name: The name that people see, if it is another.
        app: The name of the App that wrote it; "" if it has none.
    """

    job: str
    revision: int
    digest: str
    retired: bool
    zone_version: str
    effective_us: int
    complete_us: int | None
    shown_name: str | None
    app: str


def latest(session: Session) -> dict[str, Latest]:
    """The latest revision of every job."""
    return {
        row[0]: Latest(row[0], int(row[1]), row[2], row[3] == "retired", *row[4:])
        for row in session.run("latest_revisions", {})
    }


def revisions(session: Session, job: str) -> list[Revision]:
    """Every revision of a job, by number."""
    return [
        Revision(
            job=row[0],
            number=int(row[1]),
            effective_at=from_us(int(row[2])),
            digest=row[3],
            schedule=row[4],
            zone=row[5],
            zone_version=row[6],
            zone_record=ZoneRecord.read(row[7]),
            policies=Policies.read(json.loads(row[8])),
            payload=row[9],
            app=row[10],
            why=row[11],
        )
        for row in session.run("list_revisions", {"job": job})
    ]


def add_revision(session: Session, revision: Revision, recorded_by: str) -> None:
    """Write a revision, and the slots that its policies allow."""
    session.change("add_job", {"job": revision.job})
    # A tick that marks the job complete is before all of this, or after it and sees it.
    session.lock_job(revision.job, 10.0)
    session.change(
        "add_revision",
        {
            "job": revision.job,
            "revision": revision.number,
            "effective_us": to_us(revision.effective_at),
            "why": revision.why,
            "digest": revision.digest,
            "schedule": revision.schedule,
            "zone": revision.zone,
            "zone_version": revision.zone_version,
            "zone_record": revision.zone_record.text,
            "policies": json.dumps(revision.policies.stored(), sort_keys=True),
            "payload": revision.payload,
            "app": revision.app,
            "recorded_by": recorded_by[:200],
        },
    )
    # The first expects nothing of the past. What a later one expects is to be looked at, whatever
    # was found complete before.
    before = {
        "job": revision.job,
        "complete_us": to_us(revision.effective_at) - 1,
        "known_us": NEVER_US,
        "never_us": NEVER_US,
        "revision": revision.number,
    }
    session.change("mark_complete" if revision.number == 1 else "unmark_complete", before)
    held = {int(row[0]) for row in session.run("list_slots", {"job": revision.job})}
    for slot in range(1, revision.policies.max_running + 1):
        if slot not in held:
            session.change("add_slot", {"job": revision.job, "slot": slot})


def pauses(session: Session, job: str, *, counted: bool = True) -> list[Pause]:
    """The pauses of a job, by start; *counted* leaves out those that were included again."""
    return [
        Pause(from_us(int(paused)), None if resumed is None else from_us(int(resumed)))
        for paused, resumed, included in session.run("list_pauses", {"job": job})
        if not (counted and included)
    ]


def paused_jobs(session: Session) -> dict[str, datetime]:
    """The jobs that are paused now, and since when."""
    return {row[0]: from_us(int(row[1])) for row in session.run("open_pauses", {})}


def row_of(session: Session, job: str) -> tuple[Any, ...] | None:
    """(name, shown name, horizon, complete) of a job; None if the ledger does not know it."""
    rows = session.run("read_job", {"job": job})
    return tuple(rows[0]) if rows else None
