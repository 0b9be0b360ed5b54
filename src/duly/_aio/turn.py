"""Runs the synchronous shell for one call of a task's, and lets cancellation in where it may.

It is the twin of `_sync/signals.py`: a cancellation is raised inside an op that may be
interrupted, or when the attempt is over; from the seal on it waits for the commit's answer,
within a bound. It never swallows one, and it decides nothing about an occurrence.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy.util import greenlet_spawn

from duly._aio.run import Incoming, Run
from duly._db.sessions.cancelling import CANCEL_S
from duly._sync.manner import Manner
from duly._sync.refusals import Result
from duly.errors import MissingExtra

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from duly._db.connect import Database
    from duly._db.sessions.base import Session

Value = TypeVar("Value")

HOLD_S: Final = 10.0
"""How long a held cancellation waits for an op that may not be interrupted."""

_turn: ContextVar[Turn | None] = ContextVar("duly_turn", default=None)


async def performed(work: Callable[[], Value]) -> Value:
    """What the synchronous *work* returns, its waits awaited.

    Raises:
        CancelledError: The caller was cancelled. What was not yet being committed is rolled
            back; a note says what was.
        Exception: As *work*.
    """
    value: Value = await Turn().begin(work).ended()
    return value


async def in_greenlet(work: Callable[[], Value]) -> Value:
    """What *work* returns, its waits awaited by this task.

    Raises:
        MissingExtra: greenlet is not installed.
    """
    try:
        import greenlet  # noqa: F401 - SQLAlchemy imports it in the midst of the work
    except ImportError as error:
        raise MissingExtra(
            "duly.aio needs greenlet, which is not installed: pip install 'duly[asyncio]'",
            extra="asyncio",
        ) from error
    return await greenlet_spawn(work)


def held() -> Turn:
    """What holds cancellations back from an attempt that this task makes."""
    task = asyncio.current_task()
    turn = _turn.get()
    if turn is None or turn.task is not task:
        leader, turn = turn, Turn()
        turn.task = task
        turn.beside(leader)
    return turn


class Turn:
    """One task that makes attempts, and when it may be cancelled.

    Attributes:
        task: The task; nobody else's, so that only `arrived` cancels it.
    """

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self._value: Any = None
        self._raised: BaseException | None = None
        self._cancelled: asyncio.CancelledError | None = None
        self._is_open = True
        self._is_pending = False
        self._timer: asyncio.TimerHandle | None = None
        self._sent_s = -inf
        self._beside: set[Turn] = set()
        self._leader: Turn | None = None

    def begin(self, work: Callable[[], Any]) -> Turn:
        """Do *work* in a greenlet of a task of its own."""
        self.task = asyncio.create_task(self._do(work))
        return self

    @property
    def is_over(self) -> bool:
        """Whether the work has come to its end."""
        assert self.task is not None
        return self.task.done()

    async def reached(self, point: asyncio.Future[Any]) -> None:
        """Wait for *point*, or for the end of the work; once cancelled, for the end alone."""
        while not self.is_over and (self._cancelled is not None or not point.done()):
            await self._wait(*([] if self._cancelled else [point]))

    async def ended(self) -> Any:
        """What the work returned, at its end.

        Raises:
            CancelledError: The caller was cancelled; see `performed`.
            BaseException: As the work.
        """
        while not self.is_over:
            await self._wait()
        raised, self._raised = self._raised, None
        try:
            if self._cancelled is not None:
                if raised is None and isinstance(self._value, Result):
                    self._cancelled.add_note(
                        f"{self._value.key}: the commit was under way and is settled: it is"
                        f" {self._value.outcome}"
                    )
                cause = None if isinstance(raised, asyncio.CancelledError) else raised
                raise self._cancelled from cause
            if raised is not None:
                raise raised
            return self._value
        finally:
            del raised  # its traceback holds this frame

    async def _wait(self, *points: asyncio.Future[Any]) -> None:
        assert self.task is not None
        try:
            await asyncio.wait([self.task, *points], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:
            self._cancelled = error
            self.arrived()

    async def _do(self, work: Callable[[], Any]) -> None:
        _turn.set(self)
        try:
            self._value = await in_greenlet(work)
        except BaseException as error:
            # Raised where it is waited for: a task that raises a SystemExit ends the loop.
            self._raised = error

    def beside(self, leader: Turn | None) -> None:
        """One attempt of a task that works for *leader*'s caller, and is cancelled with it."""
        self._leader = leader

    def arrived(self) -> None:
        """The caller was cancelled."""
        for turn in tuple(self._beside):
            turn.arrived()
        if self._is_open or self._is_pending:
            # A second one insists: the caller, or the bound, will not wait any longer.
            self._deliver()
            return
        self._is_pending = True
        self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._deliver)

    def _deliver(self) -> None:
        """Cancel the task; not again while what it was in is being stopped.

        A driver that is cancelled while it waits for the end of its statement gives the connection
        up, and leaves the statement on the server.
        """
        self._forget()
        assert self.task is not None
        loop = asyncio.get_running_loop()
        early_s = self._sent_s + CANCEL_S - loop.time()
        if early_s > 0:
            self._timer = loop.call_later(early_s, self._deliver)
            return
        self._sent_s = loop.time()
        self.task.cancel()

    def _forget(self) -> None:
        self._is_pending = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Around an attempt

    def __enter__(self) -> Turn:
        self._is_open = False
        if self._leader is not None:
            self._leader._beside.add(self)  # noqa: SLF001 - of this class
            if self._leader._cancelled is not None:  # noqa: SLF001 - as above
                self.arrived()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_open = True
        if self._leader is not None:
            self._leader._beside.discard(self)  # noqa: SLF001 - of this class
        if self._is_pending:
            # It is raised where the task next waits: the attempt's own end is not lost.
            self._deliver()

    def open(self) -> None:
        """From now until `close` a cancellation is raised at once; one that was held, here."""
        self._is_open = True
        if self._is_pending:
            self._forget()
            raise asyncio.CancelledError

    def close(self) -> None:
        """From now on cancellations are held; one that was raised was heard."""
        self._is_open = False
        self._sent_s = -inf
        self._forget()
        assert self.task is not None
        while self.task.cancelling():
            self.task.uncancel()

    def stopper(
        self, session: Session, database: Database, is_over: Callable[[], bool]
    ) -> Callable[[], None]:
        """What cancels, from another thread, the handler, unless *is_over*."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            if not is_over():
                self._deliver()

        def stop_there() -> None:
            loop.call_soon_threadsafe(stop)

        return stop_there


AWAITED: Final = Manner(held, Run, Incoming, is_async=True)
