"""Calls the handler inside the open transaction, and tells what came back.

Decides whose error an error is, and nothing else about the attempt. It never ends the
transaction: the connection is lent for the call, and taken back before anybody looks at it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from duly._core import ops
from duly._core.covers import Covers
from duly._core.payload import result_json
from duly._core.states import ErrorOrigin
from duly._db.dialects import ErrorKind
from duly._sync import nesting
from duly._sync.deadline import Call, lost
from duly._sync.run import Lender, Run
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from sqlalchemy.engine import Engine

    from duly._core.outbox import Staged
    from duly._db.connect import Database, Lease
    from duly._sync.deadline import Calls
    from duly._sync.manner import Held
    from duly._sync.work import Work


def run_without_transaction(work: Work) -> Run:
    """What a command outside the transaction may know of its occurrence; it can run no SQL."""
    return Run(
        work.occurrence,
        work.payload.value,
        work.request.attempt_id,
        zone=work.zone,
        schedule=work.schedule,
        covers=Covers(work.occurrence, ()),
        lender=cast("Lender", None),
    )


class Handling:
    """One handler, or block of a `with`, to which duly's transaction is lent.

    Attributes:
        value: What the handler returned, canonical JSON text, once it has.
    """

    def __init__(
        self,
        database: Database,
        lending: Engine,
        lease: Lease,
        work: Work,
        covered: Sequence[int],
        held: Held,
    ) -> None:
        self._database = database
        self._session = lease.session
        self._work = work
        self._held = held
        self._pid = os.getpid()
        self._lender = Lender(
            lending,
            lease.fairy,
            lease.session.dialect,
            database.nontransactional,
            key=work.occurrence.key,
            on_lost=lease.session.disarm,
            keeps_its_place=lease.session.keeps_its_place,
        )
        lease.lent_by(self._lender)
        self.value: str | None = None
        self._run = work.run_class(
            work.occurrence,
            work.payload.value,
            work.request.attempt_id,
            zone=work.zone,
            schedule=work.schedule,
            covers=Covers(work.occurrence, covered),
            lender=self._lender,
        )
        self._run._destinations = work.destinations  # noqa: SLF001 - a part of the run
        lease.session.arm()

    def call(
        self, calls: Calls, record: Callable[[BaseException], None]
    ) -> ops.Returned | ops.Raised:
        """Let the handler make its effect.

        Args:
            calls: Those at work, through which another thread may end this one.
            record: Writes the failed attempt where the handler's thread cannot be had.
        """
        timeout = self._work.timeout
        call = Call(self._lender.key, timeout=timeout, cancel=self._stop, record=record)
        self._stop_work = self._held.stopper(self._session, self._database, lambda: call.is_over)
        try:
            with nesting.inside(self._database.path):
                calls.made(call, self._made)
        except BaseException as error:
            return lost(call, self._raised(error))
        return self._returned()

    def block(self, signals: Held) -> Generator[Run, None, BaseException | None]:
        """Yield the run to the block of a `with`; the error that ended the block, if one did."""
        try:
            signals.open()
            with nesting.inside(self._database.path):
                yield self._run
                self._made()
        except GeneratorExit:
            raise  # nobody waits for the end any more: rolled back on the way out
        except BaseException as error:
            return error
        finally:
            signals.close()
        return None

    def taken_back(self, error: BaseException | None) -> ops.Returned | ops.Raised:
        """What the block left."""
        return self._returned() if error is None else self._raised(error)

    def _made(self) -> None:
        """All that the handler has to do, to the last statement of its ORM session."""
        value = self._work.handler(self._run)
        self._lender.flush()
        if (staged := self._run._staged) is not None:  # noqa: SLF001 - a part of the run
            self._enqueue(staged)
        self.value = result_json(value)

    def _enqueue(self, staged: Staged) -> None:
        """The last statements of the work: what they meet is met as the handler's (PROTOCOL 23)."""
        from duly._db.messages import enqueue

        enqueue(self._session, staged.in_order())
        self._database.bell.is_used = True

    def _returned(self) -> ops.Returned | ops.Raised:
        if (swallowed := self._session.swallowed()) is not None:
            return self._raised(swallowed)
        self._take_back()
        return ops.Returned(self._session.after_handler(None))

    def _take_back(self) -> None:
        self._refuse_child()
        self._lender.take_back()

    def _stop(self) -> None:
        self._lender.take_back()  # no further statement of the handler's
        self._stop_work()

    def _refuse_child(self) -> None:
        """The connection is the parent's: a statement of a child's could commit its work."""
        if os.getpid() != self._pid:
            raise UsageError(
                "the handler forked, and the child went on into duly: end the child with os._exit,"
                " or start it with subprocess"
            )

    def _raised(self, error: BaseException) -> ops.Raised:
        self._take_back()
        if isinstance(error, Exception):
            # Whatever came out of the handler after a deadlock, the deadlock ended the attempt.
            error = self._session.contention or error
        transaction = self._session.after_handler(error)
        kind = self._database.dialect.classify(error)
        if not isinstance(error, Exception):
            origin = ErrorOrigin.SIGNAL
        else:
            origin = ErrorOrigin.HANDLER if kind is None else ErrorOrigin.DATABASE
        return ops.Raised(
            error,
            transaction,
            contention=kind is ErrorKind.CONTENTION,
            lost=kind is ErrorKind.LOST,
            origin=origin,
        )
