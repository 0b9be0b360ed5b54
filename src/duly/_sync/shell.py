"""Performs the ops of one attempt on duly's own connection.

It decides nothing about an occurrence: it turns ops into statements, driver errors into
the protocol's faults, and on the way out closes the protocol and rolls back what is open.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, cast

from duly._core import ops
from duly._core.occurrence import Occurrence
from duly._core.states import ErrorOrigin, Outcome
from duly._db.dialects import ErrorKind, code_text
from duly._db.translate import public_error
from duly._db.watchdog import watchdog
from duly._sync import nesting, warned
from duly._sync.budget import ANSWER_S, SETTLE_S, SPENDING, WAITING, Budget
from duly._sync.handling import Handling, run_without_transaction
from duly._sync.work import Account, Work
from duly.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from types import TracebackType

    from sqlalchemy.engine import Engine

    from duly._db.connect import Database, Lease
    from duly._db.sessions.base import Session
    from duly._sync.commanding import Commanding
    from duly._sync.deadline import Calls
    from duly._sync.evidence import Evidence
    from duly._sync.manner import Manner
    from duly._sync.markers import Marker, Markers
    from duly._sync.run import Run

log = logging.getLogger("duly.attempt")

Probe = Callable[[str, ops.Op, Any], None]


class Shell:
    """One attempt, being made.

    Attributes:
        account: Its times and rows.
        value: The handler's result, canonical JSON text, once it returned.
        holders: Attempts that were seen to hold the key, for `busy`.
        late_at: When the watchdog takes the statement under way for lost.
        performs: What performs each op.
    """

    def __init__(
        self,
        database: Database,
        lending: Engine,
        work: Work,
        *,
        wait_s: float,
        evidence: Evidence,
        markers: Markers,
        calls: Calls,
        manner: Manner,
        probe: Probe | None = None,
    ) -> None:
        self._database, self._lending, self._work = database, lending, work
        self._budget, self._probe = Budget(wait_s), probe
        self._evidence, self._markers, self._calls = evidence, markers, calls
        self._held, self._pid = manner.held(), os.getpid()
        self._lease: Lease | None = None
        self.account = Account(work, database.secrets, self._pid)
        self._covered: list[int] = []
        self.value: str | None = None
        self.holders: list[Marker] = []
        self.late_at = inf

    def drive(self, protocol: ops.Ops) -> ops.Report:
        """Run *protocol* to its end.

        Raises:
            DulyError: The database refused a statement of duly's own.
        """
        self._protocol = protocol
        with self._held, self:
            report: ops.Report = self._advance(protocol.send, None)
            return report

    def drive_block(self, protocol: ops.Ops) -> Generator[Run, None, ops.Report]:
        """The same where the handler is the block of a `with`, entered at the one yield.

        Nothing is yielded where the protocol asks for no handler.

        Raises:
            DulyError: As `drive`.
        """
        self._protocol = protocol
        with self._held, self:
            asked = self._advance(protocol.send, None, until=ops.CallHandler)
            if isinstance(asked, ops.Report):
                return asked
            try:
                handling = self._perform(asked, self._handling)
                ended = yield from handling.block(self._held)
                reply = self._perform(asked, partial(handling.taken_back, ended))
                self.value = handling.value
            except ops.Fault as fault:
                report: ops.Report = self._advance(protocol.throw, fault)
            else:
                report = self._advance(protocol.send, reply)
            return report

    def __enter__(self) -> None:
        """Around all ops of a protocol: nothing is left open at the end."""
        nesting.refuse(self._database.path)
        watchdog.start(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._protocol.close()
        self._leave()
        if isinstance(error, ops.Refused):
            known = public_error(self._database.dialect, error.cause, self._database.where)
            raise (known or error.cause) from (error.cause if known else error.cause.__cause__)
        if isinstance(error, ops.Interrupted):
            raise error.cause from None

    def _advance(self, step: Callable[[Any], ops.Op], said: Any, until: type | None = None) -> Any:
        """Perform ops, from the answer to what was *said*, to the report or an op *until*."""
        protocol = self._protocol
        try:
            op = step(said)
            while type(op) is not until:
                try:
                    reply = self._perform(op)
                except ops.Fault as fault:
                    op = protocol.throw(fault)
                else:
                    op = protocol.send(reply)
            return op
        except StopIteration as done:
            return done.value

    # Performing

    def _perform(self, op: ops.Op, part: Callable[[], Any] | None = None) -> Any:
        """Perform *op*, or one *part* of it where a block stands between the parts."""
        kind, held = type(op), self._held
        is_open = kind in _INTERRUPTIBLE
        try:
            try:
                if is_open:
                    held.open()
                if self._probe is not None:
                    self._probe("before", op, self)
                began = time.monotonic()
                try:
                    if kind not in _UNBOUNDED:
                        bound_s = self._budget.bound_s if kind in WAITING else ANSWER_S
                        self.late_at = began + bound_s
                    reply = self.performs[kind](self, op) if part is None else part()
                finally:
                    self.late_at = inf
                    if kind in SPENDING:
                        self._budget.spend(op, time.monotonic() - began)
                if self._probe is not None:
                    self._probe("after", op, self)
                return reply
            finally:
                if is_open:
                    held.close()
        except ops.Fault:
            raise
        except BaseException as error:
            raise self._fault(op, error) from error

    @property
    def session(self) -> Session:
        """The session of the connection in use; taken from the pool when first needed."""
        if self._lease is None:
            self._lease = self._database.lend()
        return self._lease.session

    def _begin(self, _op: ops.Begin) -> None:
        self.session.begin(self._budget.wait_s)

    def _claim(self, op: ops.Claim) -> ops.Claimed:
        session = self.session
        claimed = session.claim(
            self.account.claim(session), self._budget.wait_s, op.slots, by_key=op.by_key
        )
        if claimed.clock_us:
            self.account.learn_clock(claimed.clock_us)
        return claimed

    def _cover(self, op: ops.Cover) -> None:
        session, request = self.session, self._work.request
        reason = f"covered by {request.occurrence.key}"
        above_us = op.above_us
        times = [us for us in request.cover if above_us is None or us > above_us]
        self._covered = session.cover(self.account.claim(session), times, reason)

    def _handling(self) -> Handling:
        assert self._lease is not None
        self._markers.started(self._work.request.attempt_id, self.account.marker)
        return Handling(
            self._database, self._lending, self._lease, self._work, self._covered, self._held
        )

    def _call_handler(self, _op: ops.CallHandler) -> ops.Returned | ops.Raised:
        session, handling = self.session, self._handling()

        def record(why: BaseException) -> None:
            session.cut()
            with self._database.session() as other:
                self._record(ops.Record(Outcome.FAILED, why, ErrorOrigin.SIGNAL), other)

        answer = handling.call(self._calls, record)
        self.value = handling.value
        return answer

    def _take_turn(self, _op: ops.TakeTurn) -> None:
        turn = cast("Commanding", self._work.handler).take_turn
        turn(self._work.occurrence, self._budget.wait_s)

    def _run_command(self, _op: ops.RunCommand) -> ops.Ran:
        self._markers.started(self._work.request.attempt_id, self.account.marker)
        return cast("Commanding", self._work.handler).ran(run_without_transaction(self._work))

    def _keep(self, op: ops.Hold | ops.Resume | ops.Release) -> bool:
        return self.account.keep(self.session, op)

    def _seal(self, _op: ops.Seal) -> bool:
        return self.session.seal({**self.account.finished(self.session), "result": self.value})

    def _commit(self, _op: ops.Commit) -> bool | None:
        return self.session.commit(SETTLE_S)

    def _lock_guard(self, _op: ops.LockGuard) -> None:
        self.session.lock_guard(self._budget.wait_s, then_read=self._work.occurrence.job)

    def _read_horizon(self, _op: ops.ReadHorizon) -> int | None:
        return self.session.read_horizon(self._work.occurrence.job)

    def _explain(self, _op: ops.Explain) -> ops.Standing | None:
        return self.session.read_standing(self._work.occurrence, is_last=True)

    def _count_duplicate(self, _op: ops.CountDuplicate) -> None:
        work = self._work
        self._evidence.count_duplicate(self.session, work.occurrence, work.started_by)

    def _record(self, op: ops.Record, session: Session | None = None) -> None:
        session = self.session if session is None else session
        row = self.account.ended(session, op.outcome, op.error, op.origin)
        self._evidence.record(session, row)

    def _hold_torn(self, op: ops.HoldTorn) -> None:
        session = self.session
        session.begin(SETTLE_S)
        row = self.account.ended(session, Outcome.TORN, op.error, ErrorOrigin.HANDLER)
        session.hold_torn(row)
        # A first try may have landed although its answer was lost.
        if not session.run("attempt_is_recorded", row):
            session.change("record_attempt", row)
        session.commit(SETTLE_S)

    def _settle_corrected(self, _op: ops.SettleCorrected) -> bool:
        """The predecessor must be settled; a torn one is waived in favour of this one."""
        request = self._work.request
        assert request.order is not None
        mine = request.occurrence
        earlier = Occurrence(mine.job, mine.nominal_time, mine.partition, mine.correction - 1)
        if self.session.read_standing(earlier) is None:
            return False
        order = {"actor": request.order.actor, "reason": request.order.reason}
        self.session.waive(earlier, **order)
        self.session.audit(mine, request.attempt_id, action="correct", **order)
        return True

    def _rollback(self, _op: ops.Rollback) -> None:
        if self._lease is None:
            return
        try:
            self._lease.session.rollback()
        except Exception:
            self._discard()

    def _reconnect(self, _op: ops.Reconnect) -> None:
        self._discard()

    def cut(self) -> None:
        """From the watchdog's thread: let the driver's wait for an answer end."""
        lease = self._lease
        if lease is not None:
            lease.session.cut()

    def _discard(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.discard()

    def _back_off(self, op: ops.Backoff) -> bool:
        if self._budget.pause(op):
            return True
        if not op.settling:
            self._see_holders()
        return False

    def _see_holders(self) -> None:
        """Who holds the key, where it is known: for the message of `busy`."""
        try:
            found = self._evidence.holders(self.session, self._work.occurrence)
            self.holders = [m for m in found if m.attempt_id != self._work.request.attempt_id]
            self.session.rollback()
        except Exception as error:
            log.debug("holders_unknown", extra={"error": str(error)})

    # Faults

    def _fault(self, op: ops.Op, error: BaseException) -> BaseException:
        """What the protocol is told of *error*; classified by code, never guessed."""
        dialect = self._database.dialect
        kind = dialect.classify(error)
        if isinstance(op, ops.Seal | ops.Commit) and not isinstance(error, ops.Fault):
            # From here on only the server's own answer counts (PROTOCOL 6).
            if kind is ErrorKind.CONTENTION:
                return ops.Contention(error)
            self._budget.settling = True
            answered = kind not in {None, ErrorKind.LOST} and code_text(dialect, error) is not None
            return ops.Refused(error) if answered else ops.Unknown(error)
        if not isinstance(error, Exception):
            lease = None if isinstance(op, ops.Backoff) else self._lease
            if lease is not None and not lease.session.keeps_its_place:
                self._discard()  # in the middle of an answer, perhaps: do not talk over it
            return ops.Interrupted(error)
        if kind is ErrorKind.CONTENTION:
            return ops.Contention(error)
        if kind is ErrorKind.LOST or isinstance(error, ConnectionLost):
            self._discard()
            return ops.Lost(error)
        if isinstance(op, ops.Record | ops.CountDuplicate):
            log.warning("evidence_not_kept", extra=warned.not_recorded(self._work.request, error))
        return ops.Refused(error)

    # The way out

    def _leave(self) -> None:
        if os.getpid() != self._pid:
            return
        watchdog.stop(self)
        self._markers.finished(self._work.request.attempt_id)
        if self._lease is None:
            return
        lease, self._lease = self._lease, None
        try:
            if lease.session.in_transaction():
                lease.session.rollback()
        except Exception:
            lease.discard()
        else:
            lease.give_back()

    performs: ClassVar[Mapping[type, Callable[[Any, Any], Any]]] = {
        ops.Begin: _begin,
        ops.LockGuard: _lock_guard,
        ops.ReadHorizon: _read_horizon,
        ops.Claim: _claim,
        ops.Cover: _cover,
        ops.Explain: _explain,
        ops.SettleCorrected: _settle_corrected,
        ops.CallHandler: _call_handler,
        ops.TakeTurn: _take_turn,
        ops.RunCommand: _run_command,
        ops.Hold: _keep,
        ops.Resume: _keep,
        ops.Release: _keep,
        ops.Seal: _seal,
        ops.Commit: _commit,
        ops.Rollback: _rollback,
        ops.Reconnect: _reconnect,
        ops.Backoff: _back_off,
        ops.CountDuplicate: _count_duplicate,
        ops.Record: _record,
        ops.HoldTorn: _hold_torn,
    }


_UNBOUNDED = {ops.CallHandler, ops.TakeTurn, ops.RunCommand, ops.Backoff}
_INTERRUPTIBLE = {ops.Begin, ops.LockGuard, ops.Claim, *_UNBOUNDED}
