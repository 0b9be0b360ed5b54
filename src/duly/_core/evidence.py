"""Rows -> what an operator can quote: attempts, refused starts, and the verdict on a key.

Pure: it is given rows and words them. It never decides whether an effect may run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly._core.commands import is_holder
from duly._core.states import Disposition, ErrorOrigin, Outcome, is_in_parts

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from uuid import UUID

    from duly._core.occurrence import Occurrence


@dataclass(frozen=True, slots=True)
class Attempt:
    """One finished attempt.

    Attributes:
        error_origin: Whose error ended it: the handler's, the database's, a signal's.
        error_traceback: Its end, at most 8,000 characters.
    """

    occurrence: Occurrence
    id: UUID
    outcome: Outcome
    started_by: str | None
    source: str | None
    host: str | None
    pid: int | None
    started_at: datetime
    finished_at: datetime
    result: str | None = None
    error_origin: ErrorOrigin | None = None
    error_type: str | None = None
    error_message: str | None = None
    error_traceback: str | None = None

    @property
    def duration(self) -> timedelta:
        """How long it took; for an abandoned one, until it was found."""
        return self.finished_at - self.started_at


@dataclass(frozen=True, slots=True)
class Refused:
    """Starts of a settled key by one starter, counted."""

    occurrence: Occurrence
    started_by: str
    times: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Running:
    """An attempt under way for some time, or what a dead process left."""

    occurrence: Occurrence
    attempt_id: UUID
    started_by: str
    host: str
    pid: int
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """The row of a settled occurrence.

    Attributes:
        sealed: False for an applied row without its attempt, which is held as torn.
    """

    occurrence: Occurrence
    disposition: Disposition
    fingerprint: bytes | None
    attempt_id: UUID | None
    recorded_at: datetime
    reason: str | None = None
    actor: str | None = None
    sealed: bool = True


@dataclass(frozen=True, slots=True)
class History:
    """What happened to one job, newest first.

    Attributes:
        last_completed: The newest applied occurrence; not a watermark, only the newest.
        horizon_at: Records at or below it were pruned; None if none were.
        held: Held for a command whose end is not known to the ledger.
    """

    job: str
    last_completed: Settled | None
    horizon_at: datetime | None
    attempts: tuple[Attempt, ...]
    refused: tuple[Refused, ...]
    running: tuple[Running, ...]
    held: tuple[Settled, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What a person did, when and why."""

    at: datetime
    actor: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that is known of one key.

    Attributes:
        verdict: One sentence that can be quoted.
        completed: Settled by its effect, its policy or a person.
        applied: Settled by its effect.
        corrections: Later settled corrections of it, in their order.
        parts_missing: How many of its partitions are not settled, where they are run instead of it.
    """

    occurrence: Occurrence
    verdict: str
    completed: bool
    applied: bool
    settled: Settled | None
    corrections: tuple[Settled, ...]
    horizon_at: datetime | None
    attempts: tuple[Attempt, ...]
    refused: tuple[Refused, ...]
    running: tuple[Running, ...]
    audit: tuple[AuditEntry, ...]
    parts_missing: int = 0

    @property
    def held(self) -> tuple[Settled, ...]:
        """Its row, if a command holds it, as of a `History`."""
        settled = self.settled
        is_held = settled is not None and settled.disposition is Disposition.TORN
        return (settled,) if settled is not None and is_held and not settled.attempt_id else ()


_PARTICIPLES = {Outcome.ABANDONED, Outcome.BUSY, Outcome.EXPIRED, Outcome.FENCED, Outcome.TORN}


def explain(
    occurrence: Occurrence,
    *,
    settled: Settled | None,
    corrections: tuple[Settled, ...],
    horizon_at: datetime | None,
    attempts: tuple[Attempt, ...],
    refused: tuple[Refused, ...],
    running: tuple[Running, ...],
    audit: tuple[AuditEntry, ...],
    parts_missing: int = 0,
) -> Explanation:
    """The verdict on one key from its rows."""
    torn = settled is not None and (settled.disposition is Disposition.TORN or not settled.sealed)
    completed = settled is not None and not torn and not parts_missing
    later = f": {parts_missing} of them missing" if parts_missing else ""
    later += "".join(
        f"; corrected by {other.occurrence.key} ({other.disposition})" for other in corrections
    )
    return Explanation(
        occurrence,
        " ".join(
            (_verdict(occurrence, settled, torn, horizon_at, attempts, running) + later).split()
        ),
        completed,
        completed and settled is not None and settled.disposition is Disposition.APPLIED,
        settled,
        corrections,
        horizon_at,
        attempts,
        refused,
        running,
        audit,
        parts_missing,
    )


def ended_of(held: Settled, attempts: tuple[Attempt, ...]) -> Attempt | None:
    """The attempt that holds a key for its command, if it has come to its end."""
    mine = (a for a in attempts if is_holder(a.id, held.disposition, held.reason))
    return next(mine, None)


def _held(key: str, ended: Attempt | None) -> str:
    step = (
        f"(then duly waive '{key}', or start its line of duly exec with --correct '{key}',"
        " with --reason …)"
    )
    if ended is None:
        return f"if it still runs, wait; else a person must look {step}"
    said = f"{ended.error_type}: {ended.error_message}" if ended.error_type else ended.outcome
    return f"it ended ({said[:300]}), and a person must look {step}"


def _verdict(
    occurrence: Occurrence,
    settled: Settled | None,
    torn: bool,
    horizon_at: datetime | None,
    attempts: tuple[Attempt, ...],
    running: tuple[Running, ...],
) -> str:
    key = occurrence.key
    if settled is not None:
        when = f"{settled.recorded_at:%Y-%m-%d %H:%M:%S}Z"
        if torn:
            if settled.reason:
                return f"{key} is {settled.reason}: {_held(key, ended_of(settled, attempts))}"
            return (
                f"{key} is torn: its handler ended duly's transaction, and a person must look"
                f" (then duly waive '{key}' or duly correct '{key}', with --reason …)"
            )
        if is_in_parts(settled.disposition, settled.reason):
            return f"{key} is run in parts since {when}"
        why = f" by {settled.actor}" if settled.actor else ""
        why += f": {settled.reason}" if settled.reason else ""
        by = f" by attempt {settled.attempt_id}" if settled.attempt_id else ""
        return f"{key} completed: {settled.disposition} at {when}{by}{why}"
    if horizon_at is not None and occurrence.nominal_time <= horizon_at:
        return (
            f"{key} is at or below the horizon {horizon_at:%Y-%m-%d %H:%M:%S}Z: its record may have"
            " been pruned, and it never runs again"
        )
    if running:
        first = running[0]
        return (
            f"{key} is under way: attempt {first.attempt_id} on {first.host} (pid {first.pid})"
            f" since {first.started_at:%Y-%m-%d %H:%M:%S}Z"
        )
    if attempts:
        last = attempts[0]
        said = f" ({last.error_type}: {last.error_message})" if last.error_type else ""
        ended = "was " if last.outcome in _PARTICIPLES else ""
        return f"{key} is not completed; its last attempt {ended}{last.outcome}{said[:300]}"
    return f"{key} is not completed, and no attempt at it is recorded"
