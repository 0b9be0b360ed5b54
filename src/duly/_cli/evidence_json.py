"""Evidence as JSON-ready values, whole and stable in its names.

Decides the names. It must never shorten anything: what a person's view leaves out is here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duly._core.instants import format_instant

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.evidence import Attempt, Explanation, History, Refused, Running, Settled
    from duly._core.occurrence import Occurrence


def history(found: History) -> dict[str, Any]:
    """A job's history."""
    return {
        "job": found.job,
        "last_completed": _settled(found.last_completed),
        "horizon_at": _text(found.horizon_at),
        **_rows(found),
    }


def explanation(found: Explanation) -> dict[str, Any]:
    """All that is known of one key."""
    return {
        **_which(found.occurrence),
        "verdict": found.verdict,
        "completed": found.completed,
        "applied": found.applied,
        "settled": _settled(found.settled),
        "corrections": [_settled(later) for later in found.corrections],
        "horizon_at": _text(found.horizon_at),
        **_rows(found),
        "audit": [
            {"at": _text(a.at), "actor": a.actor, "action": a.action, "reason": a.reason}
            for a in found.audit
        ],
    }


def _rows(found: History | Explanation) -> dict[str, Any]:
    return {
        "attempts": [_attempt(attempt) for attempt in found.attempts],
        "refused": [_refused(refused) for refused in found.refused],
        "running": [_running(running) for running in found.running],
        "held": [_settled(settled) for settled in found.held],
    }


def _which(occurrence: Occurrence) -> dict[str, Any]:
    return {
        "key": occurrence.key,
        "job": occurrence.job,
        "nominal_time": _text(occurrence.nominal_time),
        "partition": occurrence.partition,
        "correction": occurrence.correction,
    }


def _settled(settled: Settled | None) -> dict[str, Any] | None:
    if settled is None:
        return None
    return {
        **_which(settled.occurrence),
        "disposition": settled.disposition.value,
        "sealed": settled.sealed,
        "fingerprint": settled.fingerprint.hex() if settled.fingerprint else None,
        "attempt_id": str(settled.attempt_id) if settled.attempt_id else None,
        "recorded_at": _text(settled.recorded_at),
        "reason": settled.reason,
        "actor": settled.actor,
    }


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        **_which(attempt.occurrence),
        "attempt_id": str(attempt.id),
        "outcome": attempt.outcome.value,
        "started_by": attempt.started_by,
        "source": attempt.source,
        "host": attempt.host,
        "pid": attempt.pid,
        "started_at": _text(attempt.started_at),
        "finished_at": _text(attempt.finished_at),
        "duration_s": attempt.duration.total_seconds(),
        "value": None if attempt.result is None else json.loads(attempt.result),
        "error_origin": attempt.error_origin.value if attempt.error_origin else None,
        "error_type": attempt.error_type,
        "error_message": attempt.error_message,
        "error_traceback": attempt.error_traceback,
    }


def _refused(refused: Refused) -> dict[str, Any]:
    return {
        **_which(refused.occurrence),
        "started_by": refused.started_by,
        "times": refused.times,
        "first_at": _text(refused.first_at),
        "last_at": _text(refused.last_at),
    }


def _running(running: Running) -> dict[str, Any]:
    return {
        **_which(running.occurrence),
        "attempt_id": str(running.attempt_id),
        "started_by": running.started_by,
        "host": running.host,
        "pid": running.pid,
        "started_at": _text(running.started_at),
    }


def _text(at: datetime | None) -> str | None:
    return None if at is None else format_instant(at)
