"""One attempt whose work is a command: what a crash beside the transaction may mean.

Decides when the key is taken and given back: `outside` after the command (at least once),
`hold` before it (at most once). `attempt` itself serves where a claim may stay open for the
command's time. It never starts a command under a key that it does not hold, or has not looked at.
"""

from __future__ import annotations

from dataclasses import replace

from duly._core.ops import (
    Backoff,
    Begin,
    CallHandler,
    Commit,
    Contention,
    Explain,
    Hold,
    Interrupted,
    Lost,
    Ops,
    Raised,
    Ran,
    Reconnect,
    Refused,
    Release,
    Report,
    Request,
    Resume,
    Returned,
    Rollback,
    RunCommand,
    Seal,
    Standing,
    TakeTurn,
    Transaction,
    Unknown,
)
from duly._core.protocol import attempt, claiming, failed, settle_unknown, verdict
from duly._core.states import ErrorOrigin, Outcome
from duly._core.wording import said
from duly.errors import CommandHeld

_FREE = Report(None)
"""The key was free, or is held for the command: it may start."""


def outside(request: Request) -> Ops:
    """Run the command with no transaction open, then complete: for a database of one writer.

    The claim would block every other writer for the command's time, the command itself included.
    A crash after the command's end and before the commit runs it again.
    """
    try:
        yield TakeTurn()
        checked = yield from claiming(request, _let_go)
        if checked is not _FREE:
            return checked
        yield RunCommand()  # how it ended, the handler tells under the claim
    except Interrupted as fault:
        return (yield from failed(fault.cause, ErrorOrigin.SIGNAL))
    return (yield from attempt(request))


def hold(request: Request) -> Ops:
    """Take the key in a committed step of its own, run the command, then complete."""
    held = yield from claiming(request, _held)
    if held is _FREE:
        try:
            ran: Ran = yield RunCommand()
        except Interrupted as fault:
            return Report(Outcome.TORN, interrupted=fault.cause)
        if ran.error is not None and not ran.reported:
            return Report(Outcome.TORN, error=_unfinished(request, ran.error))
        return (yield from _finished(request, ran))
    if held.interrupted is not None and _is_mine(request, held.standing):
        # It was not started, so the key need not wait for a person.
        return (yield from _finished(request, Ran(held.interrupted), ErrorOrigin.SIGNAL))
    return held


def _let_go(_request: Request) -> Ops:
    yield Rollback()
    return _FREE


def _held(request: Request) -> Ops:
    """Commit the key as held; the command must not start before that is certain."""
    yield Hold()
    try:
        if (yield Commit()):
            return _FREE
        raise Lost(RuntimeError("the database rolled the commit back"))
    except Refused as fault:
        yield Rollback()
        return (yield from failed(fault.cause, ErrorOrigin.DATABASE))
    except Unknown as fault:
        report = yield from settle_unknown(request)
        signal = fault.cause if fault.interrupted else None
        if report is None:
            if signal is not None:
                return (yield from failed(signal, ErrorOrigin.SIGNAL))
            raise Lost(fault.cause) from None
        signal = report.interrupted or signal
        if signal is None and _is_mine(request, report.standing):
            return _FREE
        return replace(report, interrupted=signal)


def _finished(request: Request, ran: Ran, origin: ErrorOrigin = ErrorOrigin.HANDLER) -> Ops:
    """Complete the held key, or free it, in one transaction; tried until its fate is known."""
    tries = 0
    interrupted: BaseException | None = None
    while True:
        try:
            yield Begin()
            if ran.error is not None:
                report = yield from _released(ran.error, origin)
            else:
                report = yield from _completed(request)
            return replace(report, interrupted=interrupted)
        except Refused as fault:
            yield Rollback()
            return Report(Outcome.TORN, error=_uncompleted(request, fault.cause))
        except (Contention, Lost, Unknown, Interrupted) as fault:
            # After an unknown commit the next try finds whether the row is still held: its
            # update waits for a commit in flight, as a claim does (PROTOCOL 6).
            yield Rollback()
            cause = fault.cause
            if isinstance(fault, Interrupted) or (isinstance(fault, Unknown) and fault.interrupted):
                if interrupted is not None:
                    return Report(Outcome.TORN, interrupted=cause)
                interrupted = cause
            if not isinstance(fault, Contention):
                yield Reconnect()
        try:
            again: bool = yield Backoff(tries, settling=True)
        except Interrupted as fault:
            return Report(Outcome.TORN, interrupted=fault.cause)
        if not again:
            error = _uncompleted(request, cause)
            return Report(Outcome.TORN, error=error, interrupted=interrupted)
        tries += 1


def _released(error: BaseException, origin: ErrorOrigin) -> Ops:
    if not (yield Release(error, origin)):
        yield Rollback()  # a person was faster, or an earlier try landed
    elif not (yield Commit()):
        raise Lost(RuntimeError("the database rolled the commit back"))
    return Report(Outcome.FAILED, error=error, origin=origin)


def _completed(request: Request) -> Ops:
    if not (yield Resume()):
        standing: Standing | None = yield Explain()
        yield Rollback()
        if _is_mine(request, standing):
            return Report(Outcome.APPLIED, standing=standing)
        return verdict(request, standing)
    handled: Returned | Raised = yield CallHandler()
    if isinstance(handled, Raised):
        if handled.contention:
            raise Contention(handled.error)
        if handled.lost:
            raise Lost(handled.error)
        yield Rollback()
        return Report(Outcome.TORN, error=_uncompleted(request, handled.error))
    if handled.transaction is not Transaction.OPEN or not (yield Seal()) or not (yield Commit()):
        yield Rollback()
        lost = RuntimeError("its SQL ended the transaction")
        return Report(Outcome.TORN, error=_uncompleted(request, lost))
    return Report(Outcome.APPLIED)


def _is_mine(request: Request, standing: Standing | None) -> bool:
    return standing is not None and standing.attempt_id == request.attempt_id and standing.sealed


def _unfinished(request: Request, cause: BaseException) -> CommandHeld:
    return _told(request, f"{said(cause)}, so what it had done by then is not known", cause)


def _uncompleted(request: Request, cause: BaseException) -> CommandHeld:
    return _told(request, f"the command ended well, but was not completed: {said(cause)}", cause)


def _told(request: Request, why: str, cause: BaseException) -> CommandHeld:
    key = request.occurrence.key
    error = CommandHeld(
        f"{key}: {why}; the key is held, and the command is not run again: look, then"
        f" `duly waive '{key}' --reason …` if it is done or not wanted, or"
        f" `duly correct '{key}' --reason …` for a second effect",
        key=key,
    )
    error.__cause__ = cause
    return error
