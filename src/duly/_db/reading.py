"""Reads rows of the ledger into the values of `_core/evidence.py`. It only reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly._core.evidence import Attempt, AuditEntry, Refused, Settled
from duly._core.instants import from_us
from duly._core.occurrence import Occurrence
from duly._core.payload import of_stored
from duly._core.states import Disposition, ErrorOrigin, Outcome
from duly._db.sessions.base import Row, Session, key_params

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


def attempts(session: Session, rows: Iterable[Row]) -> tuple[Attempt, ...]:
    """Finished attempts, in the order of *rows*."""
    return tuple(
        Attempt(
            Occurrence.from_us(*row[:4]),
            session.decode_id(row[4]) or UUID(int=0),
            Outcome(row[5]),
            row[6],
            row[7],
            row[8],
            row[9],
            from_us(row[10]),
            from_us(row[11]),
            row[12],
            ErrorOrigin(row[13]) if row[13] else None,
            row[14],
            row[15],
            row[16],
        )
        for row in rows
    )


def refused(rows: Iterable[Row]) -> tuple[Refused, ...]:
    """Counted refusals, in the order of *rows*."""
    return tuple(
        Refused(Occurrence.from_us(*row[:4]), row[4], int(row[5]), from_us(row[6]), from_us(row[7]))
        for row in rows
    )


def settled(session: Session, row: Row, *, sealed: bool = True) -> Settled:
    """A settled occurrence."""
    return Settled(
        Occurrence.from_us(*row[:4]),
        Disposition(row[4]),
        of_stored(row[5]),
        session.decode_id(row[6]),
        from_us(row[7]),
        row[8],
        row[9],
        sealed,
    )


def settled_on(session: Session, occurrence: Occurrence) -> Settled | None:
    """The row of one key, and whether its attempt proves it."""
    rows = session.run("read_occurrence", key_params(occurrence))
    if not rows:
        return None
    standing = session.read_standing(occurrence)
    sealed = standing is not None and (
        standing.sealed or standing.disposition is not Disposition.APPLIED
    )
    return settled(session, rows[0], sealed=sealed)


def audit(rows: Iterable[Row]) -> tuple[AuditEntry, ...]:
    """What persons did, in the order of *rows*."""
    return tuple(AuditEntry(from_us(row[0]), row[1], row[2], row[3]) for row in rows)


def horizon(session: Session, job: str) -> datetime | None:
    """The job's horizon."""
    found = session.read_horizon(job)
    return None if found is None else from_us(found)


def known_jobs(session: Session, limit: int = 1000) -> list[str]:
    """Names of jobs the ledger knows, sorted."""
    rows: Iterable[Any] = session.run("known_jobs", {"limit": limit})
    return [row[0] for row in rows]
