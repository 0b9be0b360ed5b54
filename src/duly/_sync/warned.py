"""What a warning says beside its event's name: of which thing, what it means, the next step.

Decides words only, one line each: whoever has set no logging up reads this line alone. Must never
decide whether to warn, nor show what a driver says beyond its first line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._core.instants import format_instant
from duly._core.occurrence import Occurrence
from duly._db.translate import first_line

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from duly._core.ops import Request
    from duly._sync.markers import Marker


def not_recorded(request: Request, error: BaseException) -> dict[str, Any]:
    """`evidence_not_kept`: a start ended, and its row could not be written."""
    key = request.occurrence.key
    return {
        "key": key,
        "error": f"{key}: how a start of it ended could not be recorded ({first_line(error)}); the"
        " key itself is as the start left it: look at the rights of this role on duly_attempt and"
        " duly_duplicate, and whether the database can be written",
    }


def not_marked(marker: Marker, error: BaseException) -> dict[str, Any]:
    """`marker_not_kept`: a long attempt is not seen while it runs."""
    key = Occurrence.from_us(
        marker.job, marker.nominal_us, marker.partition_key, marker.correction
    ).key
    return {
        "key": key,
        "error": f"{key}: attempt {marker.attempt_id} goes on without its marker"
        f" ({first_line(error)}), so nobody sees that it runs: look at the rights of this role on"
        " duly_running, or on the folder beside the SQLite file",
    }


def not_unmarked(attempt_id: UUID, error: BaseException) -> dict[str, Any]:
    """`marker_not_kept`: an attempt has ended, and its marker is still there."""
    return {
        "attempt_id": str(attempt_id),
        "error": f"attempt {attempt_id} has ended, and its marker is still there"
        f" ({first_line(error)}): it may be shown as running until this process ends; look at the"
        " rights of this role on duly_running, or on the folder beside the SQLite file",
    }


def clock_behind(job: str, at: datetime) -> dict[str, Any]:
    """`clock_behind`: of a job something is settled, or defined, as from a later time."""
    return {
        "job": job,
        "at": at.isoformat(),
        "error": f"job {job}: something is settled that falls due only after the database's clock"
        f" ({format_instant(at)}), or its definition was recorded as from a later time, so that"
        " clock went back, or was ahead once: set it right; no key is run twice, nothing runs by"
        f" itself before the clock gets there, and `duly history {job}` shows what ran too soon",
    }


def late_answer(message_id: UUID, destination: str) -> dict[str, Any]:
    """`late_answer`: a send ended after its message had been taken over."""
    return {
        "message_id": str(message_id),
        "destination": destination,
        "error": f"message {message_id} to {destination}: a send ended after its lease, so the"
        f" message may have been sent twice, under the same id: `duly outbox show {message_id}`"
        " shows both; if it happens often, give the destination a longer lease=",
    }


def answers_lost(count: int, error: BaseException) -> dict[str, Any]:
    """`answers_lost`: sends ended while the outbox could not be written, until the relay did."""
    return {
        "error": f"how {count} sends ended could not be written ({first_line(error)}): their"
        " messages are taken over when their leases end; `duly outbox list` shows those in doubt",
    }
