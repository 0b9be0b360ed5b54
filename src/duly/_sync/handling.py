"""Calls the handler inside the open transaction, and tells what came back.

Decides whose error an error is, and nothing else about the attempt. It never ends the
transaction: the connection is lent for the call, and taken back before anybody looks at it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duly._core import ops
from duly._core.covers import Covers
from duly._core.payload import result_json
from duly._core.states import ErrorOrigin
from duly._db.dialects import ErrorKind
from duly._db.sessions.cancelling import cancel
from duly._sync import nesting
from duly._sync.deadline import Call, lost
from duly._sync.run import Lender, Run
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy.engine import Engine

    from duly._db.connect import Database, Lease
    from duly._sync.deadline import Calls
    from duly._sync.work import Work


class Handling:
    """One call of a handler.

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
    ) -> None:
        self._database = database
        self._session = lease.session
        self._work = work
        self._covered = covered
        self._pid = os.getpid()
        self._lender = Lender(
            lending,
            lease.fairy,
            lease.session.dialect,
            database.nontransactional,
            key=work.occurrence.key,
            on_lost=lease.session.disarm,
        )
        self.value: str | None = None

    def call(
        self, calls: Calls, record: Callable[[BaseException], None]
    ) -> ops.Returned | ops.Raised:
        """Let the handler make its effect.

        Args:
            calls: Those at work, through which another thread may end this one.
            record: Writes the failed attempt where the handler's thread cannot be had.
        """
        session, lender, work = self._session, self._lender, self._work
        run = Run(
            work.occurrence,
            work.payload.value,
            work.request.attempt_id,
            zone=work.zone,
            schedule=work.schedule,
            covers=Covers(work.occurrence, self._covered),
            lender=lender,
        )
        call = Call(lender.key, timeout=work.timeout, cancel=self._stop, record=record)
        session.arm()
        try:
            with nesting.inside(self._database.path), calls.under_way(call):
                self.value = call.made(lambda: result_json(work.handler(run)))
        except BaseException as error:
            self._refuse_child()
            lender.take_back()
            return lost(call, self._raised(error, session.after_handler(error)))
        self._refuse_child()
        lender.take_back()
        if (swallowed := session.swallowed()) is not None:
            return self._raised(swallowed, session.after_handler(swallowed))
        return ops.Returned(session.after_handler(None))

    def _stop(self) -> None:
        self._lender.take_back()  # no further statement of the handler's
        cancel(self._session, self._database.engine)

    def _refuse_child(self) -> None:
        """The connection is the parent's: a statement of a child's could commit its work."""
        if os.getpid() != self._pid:
            raise UsageError(
                "the handler forked, and the child went on into duly: end the child with os._exit,"
                " or start it with subprocess"
            )

    def _raised(self, error: BaseException, transaction: ops.Transaction) -> ops.Raised:
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
