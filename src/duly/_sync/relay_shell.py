"""Performs the ops of a relay on a connection of its own; decides nothing.

It keeps what is to be sent of each message that it took until the send has ended.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from duly._core import delivery, ops
from duly._db import messages
from duly._db.dialects import ErrorKind, code_text
from duly._db.waiting import pause
from duly.errors import ConnectionLost

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from uuid import UUID

    from duly._core.sending import Row
    from duly._db.connect import Database, Lease
    from duly._db.messages import Stored
    from duly._db.sessions.base import Session

WAIT_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.02

Result = TypeVar("Result")
Probe = "Callable[[str, Any, Any], None]"


class RelayShell:
    """One relay's connection.

    Attributes:
        taken: What was read of each message, by its id, until `forget`.
        clock_s: `time.monotonic()`, just before the database's clock was read last.
    """

    def __init__(self, database: Database, relay: str, probe: Callable[..., None] | None) -> None:
        self._database, self._relay, self._probe = database, relay[:200], probe
        self._lease: Lease | None = None
        self._until_s = 0.0
        self.taken: dict[UUID, Stored] = {}
        self.clock_s = 0.0

    def drive(
        self,
        protocol: Generator[delivery.DeliveryOp, Any, Result],
        token: UUID | None = None,
        *,
        wait_s: float = WAIT_S,
    ) -> Result:
        """Run *protocol* to its end.

        Raises:
            Contention, Lost, Refused: As the protocol.
        """
        self._until_s = time.monotonic() + wait_s
        try:
            op = next(protocol)
            while True:
                try:
                    reply = self._perform(op, token)
                except ops.Fault as fault:
                    op = protocol.throw(fault)
                else:
                    op = protocol.send(reply)
        except StopIteration as done:
            result: Result = done.value
            return result
        except BaseException as error:
            if not isinstance(error, Exception):
                self._discard()  # its statement was left in the midst of its answer
            raise
        finally:
            protocol.close()
            self._leave()

    def next_due(self, destination: str) -> tuple[int | None, int]:
        """When the destination has to be looked at next, and the database's clock."""
        with self._database.session() as session:
            found = messages.next_due(session, destination)
            return found, session.clock_us()

    def close(self) -> None:
        """Let go of the connection."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.give_back()

    def _perform(self, op: delivery.DeliveryOp, token: UUID | None) -> Any:
        try:
            if self._probe is not None:
                self._probe("before", op, self)
            reply = self._do(op, token)
            if self._probe is not None:
                self._probe("after", op, self)
        except ops.Fault:
            raise
        except Exception as error:
            raise self._fault(op, error) from error
        return reply

    def _do(self, op: delivery.DeliveryOp, token: UUID | None) -> Any:
        match op:
            case ops.Begin():
                # At MariaDB's REPEATABLE READ a look at the queue would lock its gaps too.
                return self.session.begin_prune(max(0.1, self._until_s - time.monotonic()))
            case delivery.ReadClock():
                self.clock_s = time.monotonic()
                return self.session.clock_us()
            case delivery.TakeDue():
                return self._take(op)
            case delivery.WriteAhead():
                assert token is not None
                return messages.write_ahead(
                    self.session,
                    op.steps,
                    clock_us=op.clock_us,
                    lease_us=op.lease_us,
                    token=token,
                    relay=self._relay,
                )
            case delivery.AreMine():
                assert token is not None
                return messages.are_mine(self.session, op.ids, token)
            case delivery.Finish():
                return messages.finish(self.session, op.ended, op.clock_us)
            case ops.Commit():
                return self.session.commit(WAIT_S)
            case ops.Rollback():
                return self._rollback()
            case ops.Reconnect():
                return self._discard()
            case ops.Backoff():
                return self._back_off(op)
            case _:
                raise AssertionError(f"a relay does not ask for {op}")

    @property
    def session(self) -> Session:
        """The session of the connection in use; taken from the pool when first needed."""
        if self._lease is None:
            self._lease = self._database.connect()
        return self._lease.session

    def _take(self, op: delivery.TakeDue) -> list[Row]:
        found = messages.due(self.session, op.to, op.clock_us, op.limit)
        for each in found:
            self.taken[each.row.id] = each
        return [each.row for each in found]

    def _back_off(self, op: ops.Backoff) -> bool:
        if time.monotonic() >= self._until_s:
            return False
        pause(FIRST_PAUSE_S * 2.0 ** min(op.tries, 5))
        return True

    def _rollback(self) -> None:
        if self._lease is not None:
            try:
                self._lease.session.rollback()
            except Exception:
                self._discard()

    def _discard(self) -> None:
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.discard()

    def _fault(self, op: delivery.DeliveryOp, error: Exception) -> ops.Fault:
        dialect = self._database.dialect
        kind = dialect.classify(error)
        if kind is ErrorKind.CONTENTION:
            return ops.Contention(error)
        if isinstance(op, ops.Commit):
            answered = kind not in {None, ErrorKind.LOST} and code_text(dialect, error) is not None
            return ops.Refused(error) if answered else ops.Unknown(error)
        if kind is ErrorKind.LOST or isinstance(error, ConnectionLost):
            self._discard()
            return ops.Lost(error)
        return ops.Refused(error)

    def _leave(self) -> None:
        """Nothing is left open between two transactions: the connection goes back."""
        lease = self._lease
        if lease is None:
            return
        try:
            if lease.session.in_transaction():
                lease.session.rollback()
        except Exception:
            self._discard()
