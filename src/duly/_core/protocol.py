"""One attempt at one occurrence: every exactly-once decision, made once.

`attempt` runs on a connection of duly's own, `claim` inside a caller's transaction. Both
are generators of ops (`ops.py`). They never do I/O, never read a clock, and never yield
in `finally` or on GeneratorExit: only the shell rolls back (PROTOCOL 7).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, TypeAlias

from duly._core.ops import (
    FLOOR_US,
    Backoff,
    Begin,
    CallHandler,
    Claim,
    Claimed,
    Commit,
    Contention,
    CountDuplicate,
    Cover,
    Explain,
    Fault,
    HoldTorn,
    Interrupted,
    LockGuard,
    Lost,
    Op,
    Ops,
    Raised,
    ReadHorizon,
    Reconnect,
    Record,
    Refused,
    Report,
    Request,
    Returned,
    Rollback,
    Seal,
    SettleCorrected,
    Standing,
    Transaction,
    Unclaim,
    Unknown,
)
from duly._core.states import Disposition, ErrorOrigin, Outcome
from duly.errors import SwallowedError, TransactionEnded

_Step: TypeAlias = Generator[Op, Any, Report | None]


def attempt(request: Request) -> Ops:
    """Every exactly-once decision of one attempt on duly's own connection (PROTOCOL 1 to 9).

    Returns:
        A report whose outcome is None where the key is settled otherwise than applied, or
        where the commit's fate stayed unknown.
    """
    return claiming(request, _effect)


def claiming(request: Request, then: Callable[[Request], Ops]) -> Ops:
    """Claim the key, as often as contention asks for it, and go on with *then* under the claim.

    Args:
        then: Goes on in the open transaction, and ends it.
    """
    guarded = request.looks_old
    tries = 0
    while True:
        try:
            try:
                return (yield from _once(request, guarded, then))
            except _GuardNeeded:
                yield Rollback()
                guarded = True
            except (Contention, Lost) as fault:
                # Nothing was committed: a fault after the seal comes as Unknown instead.
                yield Rollback()
                if not (yield from _another_try(fault, tries)):
                    return (yield from give_up(fault))
                tries += 1
        except Interrupted as interrupted:
            yield Rollback()
            return (yield from failed(interrupted.cause, ErrorOrigin.SIGNAL))


def claim(request: Request) -> Ops:
    """The same decisions inside a transaction that a caller owns (PROTOCOL 10 to 13, 15, 16).

    It records nothing of a refusal: what it wrote there would hold locks, or be rolled
    back, with the caller's own work.
    """
    guarded = request.looks_old
    if guarded and (behind := _behind(request, (yield from _horizon()))):
        return behind
    claimed: Claimed = yield Claim(by_key=request.by_key)
    if claimed.inserted and not guarded and _is_old(request, claimed):
        # The caller's clock was behind by more than half of FLOOR.
        yield Unclaim()
        if behind := _behind(request, (yield from _horizon())):
            return behind
        claimed = yield Claim(by_key=request.by_key)
    if not claimed.inserted:
        return verdict(request, (yield Explain()))
    if unwanted := _unwanted(request, claimed):
        yield Unclaim()
        return unwanted
    return Report(Outcome.APPLIED)


class _GuardNeeded(Exception):
    """The database's clock says the nominal time is old; claim again, under the guard."""


def _once(request: Request, guarded: bool, then: Callable[[Request], Ops]) -> Ops:
    yield Begin()
    horizon_us = (yield from _horizon()) if guarded else None
    if behind := _behind(request, horizon_us):
        yield Rollback()
        yield from evidence(Record(Outcome.EXPIRED))
        return behind
    claimed: Claimed = yield Claim(request.slots, by_key=request.by_key)
    if claimed.no_slot:
        yield Rollback()
        return Report(None, no_slot=True)
    if not claimed.inserted:
        return (yield from _refused(request))
    if not guarded and _is_old(request, claimed):
        raise _GuardNeeded
    if unwanted := _unwanted(request, claimed):
        yield Rollback()
        return unwanted
    if request.order is not None and not (yield SettleCorrected()):
        yield Rollback()
        return Report(None)
    try:
        if request.cover:
            # After the newest, as every claim of several keys (PROTOCOL 22).
            yield Cover(horizon_us)
        return (yield from then(request))
    except (Contention, Lost) as fault:
        if request.repeatable:
            raise
        yield Rollback()
        return replace((yield from give_up(fault)), unrepeated=True)


def _effect(request: Request) -> Ops:
    handled: Returned | Raised = yield CallHandler()
    if handled.transaction is Transaction.ENDED:
        return (yield from _hold_torn(handled.error if isinstance(handled, Raised) else None))
    if isinstance(handled, Raised):
        if handled.contention:
            raise Contention(handled.error)
        yield Rollback()
        return (yield from failed(handled.error, handled.origin, lost=handled.lost))
    if handled.transaction is not Transaction.OPEN:
        yield Rollback()
        return (yield from failed(_swallowed(), ErrorOrigin.DATABASE))
    return (yield from _complete(request))


def _complete(request: Request) -> Ops:
    """Seal and commit; from here on only a clean reply counts (PROTOCOL 3, 5, 6)."""
    try:
        if not (yield Seal()):
            return (yield from _hold_torn(None))
        committed: bool | None = yield Commit()
        if committed is None:
            return (yield from _hold_torn(None))
        if not committed:
            return (yield from failed(_swallowed(), ErrorOrigin.DATABASE))
        return Report(Outcome.APPLIED)
    except Refused as fault:
        # A constraint of the user's own, deferred to the commit: a clean answer, rolled back.
        yield Rollback()
        return (yield from failed(fault.cause, ErrorOrigin.DATABASE))
    except Unknown as fault:
        report = yield from settle_unknown(request)
        if report is not None:
            signal = report.interrupted or (fault.cause if fault.interrupted else None)
            return replace(report, interrupted=signal, error=report.error or fault.cause)
        if fault.interrupted:
            return (yield from failed(fault.cause, ErrorOrigin.SIGNAL))
        raise Lost(fault.cause) from None


def settle_unknown(request: Request) -> _Step:
    """Learn a commit's fate by claiming again on a new connection (PROTOCOL 6).

    The claim waits for a commit that is still in flight; a SELECT would miss it.

    Returns:
        None if it did not commit, so the attempt may be made again; a report otherwise.
    """
    tries = 0
    while True:
        try:
            yield Reconnect()
            yield Begin()
            claimed: Claimed = yield Claim()
            standing: Standing | None = None if claimed.inserted else (yield Explain())
            yield Rollback()
            if claimed.inserted:
                return None
            if standing is not None:
                if standing.attempt_id == request.attempt_id and standing.sealed:
                    return Report(Outcome.APPLIED, standing=standing)
                return verdict(request, standing)
        except Interrupted as fault:
            yield Rollback()
            return Report(None, unknown=True, interrupted=fault.cause)
        except Fault:
            # Whatever it is, it says nothing about the commit.
            yield Rollback()
        try:
            if not (yield Backoff(tries, settling=True)):
                return Report(None, unknown=True)
        except Interrupted as fault:
            return Report(None, unknown=True, interrupted=fault.cause)
        tries += 1


def _horizon() -> Generator[Op, Any, int | None]:
    """Below what a prune may have deleted: the guard first, then the horizon (PROTOCOL 15)."""
    yield LockGuard()
    horizon_us: int | None = yield ReadHorizon()
    return horizon_us


def _behind(request: Request, horizon_us: int | None) -> Report | None:
    if horizon_us is None or request.occurrence.nominal_us > horizon_us:
        return None
    return Report(Outcome.EXPIRED, horizon_us=horizon_us)


def _is_old(request: Request, claimed: Claimed) -> bool:
    """Whether a prune may have passed it, or the oldest that it covers."""
    oldest_us = request.cover[-1] if request.cover else request.occurrence.nominal_us
    return oldest_us <= claimed.clock_us - FLOOR_US


def _unwanted(request: Request, claimed: Claimed) -> Report | None:
    """Why a key that was free may not be ours, by what the claim brought along; None if it may."""
    if claimed.first_name is not None:
        # Whatever is settled of this job is so under its first name.
        return Report(None, first_name=claimed.first_name)
    if request.due_us is not None and claimed.clock_us < request.due_us - request.tolerance_us:
        # It would use up tomorrow's key.
        return Report(None, not_due_us=claimed.clock_us)
    return None


def _refused(request: Request) -> Ops:
    """The key is held; say why, and count or record the refusal."""
    standing: Standing | None = yield Explain()
    report = verdict(request, standing)
    if report.outcome is Outcome.CONFLICT:
        yield Rollback()
        yield from evidence(Record(Outcome.CONFLICT))
    else:
        yield from evidence(CountDuplicate())
    return report


def verdict(request: Request, standing: Standing | None) -> Report:
    """What a held key means for this request (PROTOCOL 8)."""
    if standing is None:
        # It was pruned between the claim and the reading: claiming again finds the horizon.
        raise Contention(RuntimeError("the key's row vanished between two statements"))
    if standing.disposition is Disposition.APPLIED and not standing.sealed:
        # MariaDB: an implicit commit inside a handler landed the claim, and its process died.
        standing = replace(standing, disposition=Disposition.TORN)
    if standing.disposition is not Disposition.APPLIED:
        return Report(None, standing=standing)
    if standing.fingerprint != request.fingerprint:
        return Report(Outcome.CONFLICT, standing=standing)
    return Report(Outcome.DUPLICATE, standing=standing)


def _hold_torn(error: BaseException | None) -> Ops:
    """The handler lost our transaction: let a torn row hold the key (PROTOCOL 9)."""
    yield Rollback()
    tries = 0
    interrupted: BaseException | None = None
    while True:
        try:
            yield HoldTorn(error)
            return Report(Outcome.TORN, error=error, interrupted=interrupted)
        except Interrupted as fault:
            if interrupted is not None:
                raise
            interrupted = fault.cause  # once: the key must be held before the signal is obeyed
            yield Rollback()
            yield Reconnect()
        except Fault as fault:
            yield Rollback()
            if not (yield from _another_try(fault, tries, settling=True)):
                unheld = TransactionEnded(
                    "the handler ended duly's transaction and the database could not be"
                    " reached to hold the key: look at the data before running it again"
                )
                unheld.__cause__ = error
                return Report(Outcome.TORN, error=unheld)
        tries += 1


def failed(error: BaseException, origin: ErrorOrigin, *, lost: bool = False) -> Ops:
    """Record the failed attempt, in a transaction of its own, and report it."""
    if lost:
        yield Reconnect()
    yield from evidence(Record(Outcome.FAILED, error, origin))
    return Report(Outcome.FAILED, error=error, origin=origin)


def _another_try(fault: Fault, tries: int, *, settling: bool = False) -> Generator[Op, Any, bool]:
    """Wait a little, and take a new connection if the old one is gone."""
    if not (yield Backoff(tries, settling=settling)):
        return False
    if not isinstance(fault, Contention):
        # If the server is still away, the next op finds out and is tried again within the
        # same bound.
        yield Reconnect()
    return True


def give_up(fault: Contention | Lost) -> Ops:
    """The caller's `wait` is used up."""
    if isinstance(fault, Lost):
        record = Record(Outcome.FAILED, fault.cause, ErrorOrigin.DATABASE)
        yield from evidence(record, tries=1)
        return Report(
            Outcome.FAILED, error=fault.cause, origin=ErrorOrigin.DATABASE, unreachable=True
        )
    yield from evidence(Record(Outcome.BUSY, fault.cause, ErrorOrigin.DATABASE))
    return Report(Outcome.BUSY, error=fault.cause, origin=ErrorOrigin.DATABASE)


def evidence(op: Record | CountDuplicate, tries: int = 2) -> Generator[Op, Any, None]:
    """Write evidence, once more on a new connection if need be.

    Evidence that cannot be written changes nothing about the outcome.
    """
    for _ in range(tries):
        try:
            yield op
            return
        except Interrupted:
            raise
        except Fault as fault:
            yield Rollback()
            if not isinstance(fault, Contention):
                yield Reconnect()


def _swallowed() -> SwallowedError:
    return SwallowedError(
        "the handler hid a database error that had aborted its transaction, so nothing was"
        " kept: let the error out, or wrap the risky statement in run.connection.begin_nested()"
    )
