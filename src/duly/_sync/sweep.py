"""Finds attempts whose process died and records them as abandoned.

Death is proved by the key, or by the kernel's lock on SQLite, never by a heartbeat
(PROTOCOL 20). A settled occurrence stays as it is; the sweep never frees a key and never
takes one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from duly._core.commands import is_holder
from duly._core.occurrence import Occurrence
from duly._core.states import Outcome
from duly._db.sessions.base import Session, key_params
from duly._sync.evidence import Evidence, marker_of_line
from duly._sync.markers import Marker
from duly._sync.process import is_of_this_host, runs_here
from duly.errors import AccessDenied, Busy, DatabaseReadOnly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._db.connect import Database

log = logging.getLogger("duly.sweep")


def sweep(database: Database, evidence: Evidence) -> int:
    """Record what dead processes left behind; returns how many attempts were abandoned.

    Reading must work on a read-only replica and under contention, so a sweep that cannot
    write is put off, not raised.
    """
    try:
        with database.session() as session:
            if evidence.side is not None:
                evidence.fold(session)
                return _sweep_files(session, evidence)
            return _sweep_rows(session)
    except (Busy, DatabaseReadOnly, AccessDenied, PermissionError) as error:
        log.info("sweep_put_off", extra={"error": str(error)})
        return 0


def _sweep_files(session: Session, evidence: Evidence) -> int:
    assert evidence.side is not None
    found = 0
    for lines, remove in evidence.side.dead():
        session.begin(0.1)
        for line in lines:
            found += _abandon(session, marker_of_line(line))
        session.commit(1.0)
        remove()
    return found


def _sweep_rows(session: Session) -> int:
    found = 0
    rows: Sequence[tuple[Any, ...]] = session.run("list_running", {"limit": 1000})
    session.rollback()
    for row in rows:
        marker = Marker(_id(session, row[0]), *row[1:])
        # Alive on this host: it may be between its rollback and its own record of it.
        if runs_here(marker.process) or not session.key_is_released(_occurrence(marker)):
            continue
        # Nobody waits for a key that is held for a command: only its own host knows of its death.
        if _is_held(session, marker) and not is_of_this_host(marker.process):
            continue
        session.begin(1.0)
        if session.change("unmark_running", {"attempt_id": row[0]}):
            found += _abandon(session, marker)
        session.commit(1.0)
    return found


def is_under_way(session: Session, marker: Marker) -> bool:
    """Whether the marker is not just late to go: its attempt has no row of its end."""
    return not session.run("attempt_is_recorded", _attempt(session, marker))


def _attempt(session: Session, marker: Marker) -> dict[str, Any]:
    key = key_params(_occurrence(marker))
    return {**key, "attempt_id": session.encode_id(marker.attempt_id)}


def _abandon(session: Session, marker: Marker) -> int:
    """Write the abandoned attempt, unless it had ended and said so itself."""
    params = _attempt(session, marker)
    if session.run("attempt_is_recorded", params):
        return 0
    kept = (
        "the key is held, because what its command had done is not known"
        if _is_held(session, marker)
        else "nothing it did was kept"
    )
    session.change(
        "record_attempt",
        {
            **params,
            "outcome": Outcome.ABANDONED.value,
            "started_by": marker.started_by,
            "source": None,
            "host": marker.host,
            "pid": marker.pid,
            "started_us": marker.started_us,
            "finished_us": max(marker.started_us, session.clock_us()),
            "error_origin": None,
            "error_type": None,
            "error_message": f"its process died; {kept}",
            "error_traceback": None,
            "final": None,
        },
    )
    return 1


def _is_held(session: Session, marker: Marker) -> bool:
    standing = session.read_standing(_occurrence(marker))
    return standing is not None and is_holder(
        marker.attempt_id, standing.disposition, standing.reason
    )


def _occurrence(marker: Marker) -> Occurrence:
    return Occurrence.from_us(
        marker.job, marker.nominal_us, marker.partition_key, marker.correction
    )


def _id(session: Session, value: Any) -> Any:
    return session.decode_id(value)
