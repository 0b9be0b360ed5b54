"""Turns a report into the public result or error, with the words for a person.

Decides nothing about an attempt; the report already has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core.instants import format_instant, from_us
from duly._core.occurrence import Occurrence
from duly._core.states import Disposition, Outcome, is_in_parts
from duly._db.translate import first_line
from duly.errors import (
    AlreadySettled,
    Busy,
    CommandHeld,
    ConnectionLost,
    DulyError,
    Expired,
    FormerlyInvalid,
    InvariantBroken,
    NotDue,
    OperatorError,
    PayloadConflict,
    TransactionEnded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

    from duly._core import ops
    from duly._sync.markers import Marker


@dataclass(frozen=True, slots=True)
class Result:
    """How one start of an occurrence ended.

    Attributes:
        outcome: `applied`, or `duplicate` if it had been applied before.
        key: The logical key.
        attempt_id: The attempt that applied it; for a duplicate, the earlier one.
        value: What the handler returned, as JSON keeps it; for a duplicate, the stored one.
        duration: How long this start took.
        source: Where the nominal time came from: `schedule`, `explicit`, or the starter that
            said it.
        late: How long after its due time it was started; negative if it was early.
    """

    outcome: Outcome
    key: str
    attempt_id: UUID
    value: Any
    duration: timedelta
    source: str
    late: timedelta


class NoSlot(Exception):
    """As many occurrences of a job as may run at once are running; nothing was done."""


def loaded(text: str | None) -> Any:
    """A stored result as a value."""
    return None if text is None else json.loads(text)


def refusal(request: ops.Request, report: ops.Report, holders: Sequence[Marker] = ()) -> DulyError:
    """The error for a report that is neither applied, duplicate nor the handler's failure."""
    key = request.occurrence.key
    match report.outcome:
        case Outcome.CONFLICT:
            return _conflict(key, request, report.standing)
        case Outcome.EXPIRED:
            horizon = format_instant(from_us(report.horizon_us or 0))
            return Expired(
                f"{key} is at or below the horizon of its job ({horizon}): its record may have"
                " been pruned, so it is never run again; order what is still needed under a later"
                " nominal time",
                key=key,
                horizon=horizon,
            )
        case Outcome.BUSY:
            return _busy(key, report, holders)
        case Outcome.TORN:
            return _torn(key, report)
        case Outcome.FAILED:
            return ConnectionLost(
                f"{key}: the database went away ({_words(report)}); nothing was committed, so run"
                " it again",
                key=key,
            )
        case None if report.not_due_us is not None:
            due = format_instant(from_us(request.due_us or request.occurrence.nominal_us))
            return NotDue(
                f"{key} is due at {due}, and the database's clock says"
                f" {format_instant(from_us(report.not_due_us))}: starting it now would use up its"
                " key; start it then, or pass early=True (duly run --early)",
                key=key,
                due_at=due,
            )
        case None if report.first_name is not None:
            return _later_name(request.occurrence, report.first_name)
        case None if report.unknown:
            return ConnectionLost(
                f"{key}: the connection was lost while the commit was under way, and whether it"
                " landed could not be learnt: run it again, the key decides",
                key=key,
                unknown=True,
            )
        case None if report.standing is not None:
            return settled_otherwise(key, report.standing)
        case None:
            return OperatorError(f"{key}: the occurrence it corrects is not settled: run that one")
        case _:
            return InvariantBroken(f"{key}: impossible report {report!r}: please report it")


def settled_otherwise(key: str, standing: ops.Standing) -> DulyError:
    """The error for a key that is settled, but not as applied."""
    reason = f" ({standing.reason})" if standing.reason else ""
    if standing.disposition is Disposition.TORN:
        # Before its end a command's attempt has no row: then there may be no App with its work.
        again = (
            f"`duly correct '{key}' --reason …`"
            if standing.attempt_id
            else f"start its line of `duly exec` with `--correct '{key}' --reason …`"
        )
        step = (
            f"look at the data, then `duly waive '{key}' --reason …` if its effect is there or not"
            f" wanted, or {again} to make it"
        )
    elif is_in_parts(standing.disposition, standing.reason):
        step = (
            "a second run, of the whole, would make their effects again; start or correct one part"
            f" (`{key}:PART`), and `duly missing` lists those that are still owed"
        )
    else:
        step = f"if its effect is needed, `duly correct '{key}' --reason …`"
    return AlreadySettled(
        f"{key} is already settled as {standing.disposition}{reason}: {step}",
        key=key,
        disposition=standing.disposition.value,
        attempt_id=str(standing.attempt_id) if standing.attempt_id else None,
    )


def _later_name(named: Occurrence, first_name: str) -> DulyError:
    key = Occurrence(first_name, named.nominal_time, named.partition).key
    return FormerlyInvalid(
        f"{named.key}: in this ledger {named.job!r} is the later name of the job {first_name!r},"
        f" whose keys keep that name, so this key would do its work again: give {key}, as"
        " app.occurrence(…) of its App does",
        job=named.job,
        first=first_name,
        key=key,
    )


def _words(report: ops.Report) -> str:
    return first_line(report.error) if report.error is not None else "no answer"


def _conflict(key: str, request: ops.Request, standing: ops.Standing | None) -> DulyError:
    stored = standing.fingerprint.hex() if standing and standing.fingerprint else "none"
    given = request.fingerprint.hex()
    return PayloadConflict(
        f"{key} was applied with another payload (stored fingerprint {stored[:16]}…, this one"
        f" {given[:16]}…): nothing was changed; start it with the payload it had, or order a"
        " correction",
        key=key,
        stored_fingerprint=stored,
        given_fingerprint=given,
        attempt_id=str(standing.attempt_id) if standing else None,
    )


def _busy(key: str, report: ops.Report, holders: Sequence[Marker]) -> DulyError:
    if report.unrepeated:
        return Busy(
            f"{key}: the database was contended ({_words(report)}) while the block was at work, so"
            " it was rolled back and nothing was applied: start it again, or write it as a"
            " function under @duly.once, which is called again by itself",
            key=key,
            holder=None,
            cause=str(report.error),
        )
    if holders:
        holder = holders[0]
        who = (
            f"held by attempt {holder.attempt_id}, started by {holder.started_by} on {holder.host}"
            f" (pid {holder.pid}) at {format_instant(from_us(holder.started_us))}"
        )
    else:
        who = "held by another transaction, or the database is contended"
    return Busy(
        f"{key} stayed busy for all of the wait: {who}; nothing was done, try again",
        key=key,
        holder=str(holders[0].attempt_id) if holders else None,
        cause=str(report.error) if report.error else None,
    )


def _torn(key: str, report: ops.Report) -> DulyError:
    if isinstance(report.error, TransactionEnded | CommandHeld):
        return report.error
    why = f" (and then it failed: {report.error})" if report.error is not None else ""
    error = TransactionEnded(
        f"{key}: the handler ended duly's transaction{why}, so its effect may have landed without"
        f" its completion; the key is held as torn: look at the data, then `duly waive '{key}'"
        f" --reason …` if the effect is there or not wanted, or `duly correct '{key}' --reason …`"
        " to make it; and take the COMMIT, ROLLBACK or DDL out of the handler",
        key=key,
    )
    error.__cause__ = report.error
    return error
