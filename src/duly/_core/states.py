"""The words for how attempts and occurrences end, and which ending may follow which.

Literal data: the docs' diagrams are made from it. It must never grow behaviour.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["DISPOSITION_TRANSITIONS", "RECORDED_OUTCOMES", "Disposition", "ErrorOrigin", "Outcome"]


class Outcome(StrEnum):
    """How one attempt ended.

    Attributes:
        APPLIED: The effect and its completion were committed by this attempt.
        DUPLICATE: Already applied with the same payload; nothing was done.
        FAILED: The handler or the database failed; rolled back, the key stays free.
        CONFLICT: Already settled with another payload; refused.
        BUSY: Another transaction held the key for all of `wait`.
        EXPIRED: At or below the job's horizon; refused.
        FENCED: The attempt lost its lease to another.
        ABANDONED: The process died; written by whoever found it.
        TORN: The handler ended the transaction itself; only a person settles it.
    """

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    FAILED = "failed"
    CONFLICT = "conflict"
    BUSY = "busy"
    EXPIRED = "expired"
    FENCED = "fenced"
    ABANDONED = "abandoned"
    TORN = "torn"


class Disposition(StrEnum):
    """How a settled occurrence ended."""

    APPLIED = "applied"
    SKIPPED = "skipped"
    SUPERSEDED = "superseded"
    WAIVED = "waived"
    TORN = "torn"


class ErrorOrigin(StrEnum):
    """Whose error ended an attempt: it tells a failing handler from a failing database."""

    HANDLER = "handler"
    DATABASE = "database"
    SIGNAL = "signal"


# A duplicate is counted in duly_duplicate; each of these has an immutable row in duly_attempt.
RECORDED_OUTCOMES = frozenset(Outcome) - {Outcome.DUPLICATE}

# From -> to. A settled row is never changed, but a torn one, and that only by a person; while a
# held command's own attempt lives, that attempt may still complete or free its row (commands.py).
DISPOSITION_TRANSITIONS: dict[Disposition | None, frozenset[Disposition]] = {
    None: frozenset(Disposition),
    Disposition.APPLIED: frozenset(),
    Disposition.SKIPPED: frozenset(),
    Disposition.SUPERSEDED: frozenset(),
    Disposition.WAIVED: frozenset(),
    Disposition.TORN: frozenset({Disposition.WAIVED}),
}
