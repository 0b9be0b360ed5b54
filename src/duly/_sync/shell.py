"""Performs the ops of one attempt on duly's own connection.

It decides nothing about an occurrence: it turns ops into statements, driver errors into
the protocol's faults, and on the way out closes the protocol and rolls back what is open.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from duly._core import ops
from duly._core.occurrence import Occurrence
from duly._core.states import ErrorOrigin, Outcome
from duly._db.dialects import ErrorKind, code_text
from duly._db.translate import public_error
from duly._db.watchdog import watchdog
from duly._sync import nesting, warned
from duly._sync.budget import SETTLE_S, Budget
from duly._sync.handling import Handling, run_without_transaction
from duly._sync.work import Account, Work
from duly.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

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
        value: The handler's result, canonical JSON text, once it returned.
        holders: Attempts that were seen to hold the key, for `busy`.
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
        self._account = Account(work, database.secrets)
        self._covered: list[int] = []
        self.value: str | None = None
        self.holders: list[Marker] = []

    def drive(self, protocol: ops.Ops) -> ops.Report:
        """Run *protocol* to its end.

        Raises:
            DulyError: The database refused a statement of duly's own.
        """
        with self.under_way(protocol):
            return self._to_its_end(protocol, partial(next, protocol))

    def drive_block(self, protocol: ops.Ops) -> Generator[Run, None, ops.Report]:
        """The same where the handler is the block of a `with`, entered at the one yield.

        Nothing is yielded where the protocol asks for no handler.

        Raises:
            DulyError: As `drive`.
        """
        with self.under_way(protocol):
            asked = self._advance(protocol, partial(next, protocol), until=ops.CallHandler)
            if isinstance(asked, ops.Report):
                return asked
            try:
                handling = self._perform(asked, self._handling)
                ended = yield from handling.block(self._held)
                reply = self._perform(asked, partial(handling.taken_back, ended))
                self.value = handling.value
            except ops.Fault as fault:
                return self._to_its_end(protocol, partial(protocol.throw, fault))
            return self._to_its_end(protocol, partial(protocol.send, reply))

    @contextmanager
    def under_way(self, protocol: ops.Ops) -> Iterator[None]:
        """Around all ops of *protocol*: signals wait, and nothing is left open at the end."""
        nesting.refuse(self._database.path)
        with self._held:
            try:
                yield
            except ops.Refused as refused:
                known = public_error(self._database.dialect, refused.cause, self._database.where)
                raise (known or refused.cause) from (
                    refused.cause if known else refused.cause.__cause__
                )
            except ops.Interrupted as interrupted:
                raise interrupted.cause from None
            finally:
                protocol.close()
                self._leave()

    def _to_its_end(self, protocol: ops.Ops, step: Callable[[], ops.Op]) -> ops.Report:
        ended = self._advance(protocol, step)
        assert isinstance(ended, ops.Report)
        return ended

    def _advance(
        self, protocol: ops.Ops, step: Callable[[], ops.Op], *, until: type | tuple[()] = ()
    ) -> ops.Op | ops.Report:
        """Perform ops, from the one that *step* gives, to the end or to one of kind *until*."""
        try:
            op: ops.Op = step()
            while not isinstance(op, until):
                try:
                    reply = self._perform(op)
                except ops.Fault as fault:
                    op = protocol.throw(fault)
                else:
                    op = protocol.send(reply)
            return op
        except StopIteration as done:
            report: ops.Report = done.value
            return report

    @property
    def started_us(self) -> int:
        """When the attempt began, by the database's clock where it was learnt."""
        return self._account.started_us

    @property
    def duration_s(self) -> float:
        """Seconds since the attempt began."""
        return self._account.duration_s

    # Performing

    def _perform(self, op: ops.Op, part: Callable[[], Any] | None = None) -> Any:
        """Perform *op*, or one *part* of it where a block stands between the parts."""
        try:
            if type(op) not in _INTERRUPTIBLE:
                return self._do(op)
            try:
                self._held.open()
                return self._do(op, part)
            finally:
                self._held.close()
        except ops.Fault:
            raise
        except BaseException as error:
            raise self._fault(op, error) from error

    def _do(self, op: ops.Op, part: Callable[[], Any] | None = None) -> Any:
        if self._probe is not None:
            self._probe("before", op, self)
        began = time.monotonic()
        try:
            if type(op) in _UNBOUNDED:
                reply = self._statement(op) if part is None else part()
            else:
                bound = watchdog.start(self._budget.bound_s(op), self._cut)
                try:
                    reply = self._statement(op)
                finally:
                    watchdog.stop(bound)
        finally:
            self._budget.spend(op, time.monotonic() - began)
        if self._probe is not None:
            self._probe("after", op, self)
        return reply

    def _statement(self, op: ops.Op) -> Any:  # noqa: C901, PLR0912 - one case per op
        match op:
            case ops.Begin():
                return self.session.begin(self._budget.wait_s)
            case ops.Claim():
                return self._claim(op)
            case ops.Cover():
                return self._cover(op)
            case ops.CallHandler():
                return self._call_handler()
            case ops.TakeTurn():
                turn = cast("Commanding", self._work.handler).take_turn
                return turn(self._work.occurrence, self._budget.wait_s)
            case ops.RunCommand():
                self._markers.started(self._account.marker())
                return cast("Commanding", self._work.handler).ran(
                    run_without_transaction(self._work)
                )
            case ops.Hold() | ops.Resume() | ops.Release():
                return self._account.keep(self.session, op)
            case ops.Seal():
                return self._seal()
            case ops.Commit():
                return self.session.commit(SETTLE_S)
            case ops.Rollback():
                return self._rollback()
            case ops.LockGuard():
                job = self._work.occurrence.job
                return self.session.lock_guard(self._budget.wait_s, then_read=job)
            case ops.ReadHorizon():
                return self.session.read_horizon(self._work.occurrence.job)
            case ops.Explain():
                return self.session.read_standing(self._work.occurrence)
            case ops.CountDuplicate():
                work = self._work
                return self._evidence.count_duplicate(
                    self.session, work.occurrence, work.started_by
                )
            case ops.Record():
                return self._record(op, self.session)
            case ops.HoldTorn():
                return self._hold_torn(op)
            case ops.SettleCorrected():
                return self._settle_corrected()
            case ops.Reconnect():
                return self._discard()
            case ops.Backoff():
                return self._back_off(op)
            case ops.Unclaim():
                raise AssertionError(f"an attempt does not ask for {op}")

    @property
    def session(self) -> Session:
        """The session of the connection in use; taken from the pool when first needed."""
        if self._lease is None:
            self._lease = self._database.lend()
        return self._lease.session

    def _claim(self, op: ops.Claim) -> ops.Claimed:
        session = self.session
        claimed = session.claim(
            self._account.claim(session), self._budget.wait_s, op.slots, by_key=op.by_key
        )
        if claimed.clock_us:
            self._account.learn_clock(claimed.clock_us)
        return claimed

    def _cover(self, op: ops.Cover) -> None:
        session, request = self.session, self._work.request
        reason = f"covered by {request.occurrence.key}"
        above_us = op.above_us
        times = [us for us in request.cover if above_us is None or us > above_us]
        self._covered = session.cover(self._account.claim(session), times, reason)

    def _handling(self) -> Handling:
        assert self._lease is not None
        self._markers.started(self._account.marker())
        return Handling(
            self._database, self._lending, self._lease, self._work, self._covered, self._held
        )

    def _call_handler(self) -> ops.Returned | ops.Raised:
        session, handling = self.session, self._handling()

        def record(why: BaseException) -> None:
            session.cut()
            with self._database.session() as other:
                self._record(ops.Record(Outcome.FAILED, why, ErrorOrigin.SIGNAL), other)

        answer = handling.call(self._calls, record)
        self.value = handling.value
        return answer

    def _seal(self) -> bool:
        return self.session.seal({**self._account.finished(self.session), "result": self.value})

    def _record(self, op: ops.Record, session: Session) -> None:
        account = self._account
        self._evidence.record(session, account.ended(session, op.outcome, op.error, op.origin))

    def _hold_torn(self, op: ops.HoldTorn) -> None:
        session = self.session
        session.begin(SETTLE_S)
        row = self._account.ended(session, Outcome.TORN, op.error, ErrorOrigin.HANDLER)
        session.hold_torn(row)
        # A first try may have landed although its answer was lost.
        if not session.run("attempt_is_recorded", row):
            session.change("record_attempt", row)
        session.commit(SETTLE_S)

    def _settle_corrected(self) -> bool:
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

    def _rollback(self) -> None:
        if self._lease is None:
            return
        try:
            self._lease.session.rollback()
        except Exception:
            self._discard()

    def _cut(self) -> None:
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


_UNBOUNDED = {ops.CallHandler, ops.TakeTurn, ops.RunCommand, ops.Backoff}
_INTERRUPTIBLE = {ops.Begin, ops.LockGuard, ops.Claim, *_UNBOUNDED}
