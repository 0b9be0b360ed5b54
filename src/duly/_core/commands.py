"""One attempt whose work is a command: what a crash beside the transaction may mean.

Decides when the key is taken and given back: `outside` after the command (at least once),
`hold` before it (at most once). `attempt` itself serves where a claim may stay open for the
command's time. It never starts a command under a key that it does not hold, or has not looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly._core.ops import (
    Backoff,
    Begin,
    CallHandler,
    Commit,
    Contention,
    Explain,
    Fault,
    Hold,
    Interrupted,
    Lost,
    Op,
    Ops,
    Raised,
    Ran,
    Reconnect,
    Record,
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
from duly._core.protocol import (
    attempt,
    claiming,
    evidence,
    failed,
    give_up,
    settle_unknown,
    verdict,
)
from duly._core.states import Disposition, ErrorOrigin, Outcome
from duly._core.wording import said
from duly.errors import CommandHeld

if TYPE_CHECKING:
    from collections.abc import Generator

_FREE = Report(None)
"""The key was free, or is held for the command: it may start."""


def outside(request: Request) -> Ops:
    """Run the command with no transaction open, then complete: for a database of one writer.

    The claim would block every other writer for the command's time, the command itself included.
    A crash after the command's end and before the commit runs it again.
    """
    try:
        if refused := (yield from _turn()):
            return refused
        checked = yield from claiming(request, _let_go)
        if checked is not _FREE:
            return checked
        yield RunCommand()  # how it ended, the handler tells under the claim
    except Interrupted as fault:
        return (yield from failed(fault.cause, ErrorOrigin.SIGNAL))
    except (Contention, Lost) as fault:
        return (yield from failed(fault.cause, ErrorOrigin.HANDLER))
    return (yield from attempt(request))


def hold(request: Request) -> Ops:
    """Take the key in a committed step of its own, run the command, then complete."""
    report = yield from _taken(request)
    if report.outcome is Outcome.TORN:
        # The row of the key tells of the start alone; how it ended is known only now.
        error = report.error or report.interrupted
        cause = error.__cause__ if error is not None else None
        yield from evidence(Record(Outcome.TORN, cause or error, report.origin))
    return report


def holder(attempt_id: object) -> str:
    """The words in the reason of a held row that say whose it is; no attempt has a row yet."""
    return f"attempt {attempt_id}"


def is_holder(attempt_id: object, disposition: Disposition, reason: str | None) -> bool:
    """Whether a key is held for the command of that attempt."""
    return disposition is Disposition.TORN and holder(attempt_id) in (reason or "")


def _taken(request: Request) -> Ops:
    held = yield from claiming(request, _held)
    if held is _FREE:
        try:
            ran: Ran = yield RunCommand()
        except Interrupted as fault:
            return _torn(interrupted=fault.cause)
        except Fault as fault:
            ran = Ran(fault.cause, reported=False)  # duly's own trouble beside the command
        if ran.error is not None and not ran.reported:
            return _torn(_unfinished(request, ran.error), ErrorOrigin.HANDLER)
        return (yield from _finished(request, ran))
    if held.interrupted is not None and _is_held(request, held.standing):
        # It was not started, so the key need not wait for a person.
        return (yield from _finished(request, Ran(held.interrupted), ErrorOrigin.SIGNAL))
    return held


def _turn() -> Generator[Op, Any, Report | None]:
    """Wait for the command of another start; a report if it took all of the time for that."""
    tries = 0
    while True:
        try:
            yield TakeTurn()
            return None
        except Contention as fault:
            if not (yield Backoff(tries)):
                return (yield from give_up(fault))
        tries += 1


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
        if signal is None and _is_held(request, report.standing):
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
            return _torn(_uncompleted(request, fault.cause), ErrorOrigin.DATABASE)
        except (Contention, Lost, Unknown, Interrupted) as fault:
            # After an unknown commit the next try finds whether the row is still held: its
            # update waits for a commit in flight, as a claim does (PROTOCOL 6).
            yield Rollback()
            cause = fault.cause
            if isinstance(fault, Interrupted) or (isinstance(fault, Unknown) and fault.interrupted):
                if interrupted is not None:
                    return _torn(interrupted=cause)
                interrupted = cause
            if not isinstance(fault, Contention):
                yield Reconnect()
        try:
            again: bool = yield Backoff(tries, settling=True)
        except Interrupted as fault:
            return _torn(interrupted=fault.cause)
        if not again:
            return _torn(_uncompleted(request, cause), ErrorOrigin.DATABASE, interrupted)
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
        return _torn(_uncompleted(request, handled.error), handled.origin)
    if handled.transaction is not Transaction.OPEN or not (yield Seal()) or not (yield Commit()):
        yield Rollback()
        lost = RuntimeError("its SQL ended the transaction")
        return _torn(_uncompleted(request, lost), ErrorOrigin.HANDLER)
    return Report(Outcome.APPLIED)


def _is_mine(request: Request, standing: Standing | None) -> bool:
    return standing is not None and standing.attempt_id == request.attempt_id and standing.sealed


def _is_held(request: Request, standing: Standing | None) -> bool:
    return standing is not None and is_holder(
        request.attempt_id, standing.disposition, standing.reason
    )


def _torn(
    error: BaseException | None = None,
    origin: ErrorOrigin = ErrorOrigin.SIGNAL,
    interrupted: BaseException | None = None,
) -> Report:
    """The key stays held: only a person knows what the command had done."""
    return Report(Outcome.TORN, error=error, origin=origin, interrupted=interrupted)


def _unfinished(request: Request, cause: BaseException) -> CommandHeld:
    return _told(request, f"{said(cause)}, so what it had done by then is not known", cause)


def _uncompleted(request: Request, cause: BaseException) -> CommandHeld:
    return _told(request, f"the command ended well, but was not completed: {said(cause)}", cause)


def _told(request: Request, why: str, cause: BaseException) -> CommandHeld:
    key = request.occurrence.key
    error = CommandHeld(
        f"{key}: {why}; the key is held, and the command is not run again: look, then"
        f" `duly waive '{key}' --reason …` if it is done or not wanted, or start it again by the"
        f" same line of `duly exec` with `--correct '{key}' --reason …` in place of --at",
        key=key,
    )
    error.__cause__ = cause
    return error
