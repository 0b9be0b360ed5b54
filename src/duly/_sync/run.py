"""The handle a handler gets: one attempt, at work.

It lends the open transaction and refuses whatever would end it. It decides nothing about
the attempt; what slips past it is found by the seal.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import TextClause, text

from duly._core import timing
from duly._db.dialects import ErrorKind
from duly._db.ending import ending
from duly._sync.lending import LentConnection
from duly._sync.messaging import Sender
from duly.errors import UnsafeStorage, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, datetime
    from uuid import UUID

    from sqlalchemy import Connection
    from sqlalchemy.engine import CursorResult, Engine
    from sqlalchemy.orm import Session as OrmSession
    from sqlalchemy.pool import PoolProxiedConnection

    from duly._core.covers import Covers
    from duly._core.occurrence import Occurrence
    from duly._core.outbox import Staged
    from duly._core.schedules import Schedule
    from duly._core.timing import Interval
    from duly._db.dialects import Dialect
    from duly._db.orm import LentSession

Kind = TypeVar("Kind", bound="OrmSession")


class Borrower:
    """Whoever works in an open transaction of duly's."""

    _lender: Lender

    def _lent(self) -> Lender:
        return self._lender


class Attempted(Sender, Borrower):
    """One attempt at one occurrence: what is the same whoever holds the connection.

    Attributes:
        occurrence: What is being done.
        key: Its logical key.
        nominal_time: The instant the schedule says, aware UTC.
        partition: The occurrence's partition, "" if it has none.
        payload: The payload, parsed from its canonical bytes; the handler's own copy.
        attempt: This attempt's id.
    """

    def __init__(
        self,
        occurrence: Occurrence,
        payload: Any,
        attempt: UUID,
        *,
        zone: Any,
        schedule: Schedule | None,
        covers: Covers,
        lender: Lender,
    ) -> None:
        self.occurrence = occurrence
        self.key = occurrence.key
        self.nominal_time = occurrence.nominal_time
        self.partition = occurrence.partition
        self.payload = payload
        self.attempt = attempt
        self._zone = zone
        self._schedule = schedule
        self._covers = covers
        self._lender = lender

    @property
    def due_time(self) -> datetime:
        """When the schedule starts this occurrence: the nominal time, except with `period=`."""
        return timing.due_time(self._schedule, self.nominal_time)

    @property
    def local_time(self) -> datetime:
        """The nominal time in the job's zone."""
        return self.nominal_time.astimezone(self._zone)

    @property
    def local_date(self) -> date:
        """The date on the zone's calendar that the occurrence is named for."""
        return timing.local_date(self._schedule, self._zone, self.nominal_time)

    @property
    def shifted(self) -> bool:
        """Whether the wall time of the schedule does not exist on that day, so it is later."""
        return timing.shifted(self._schedule, self.nominal_time)

    @property
    def interval(self) -> Interval:
        """From the previous nominal time to this one; with `period=`, the period itself.

        A run that covers older occurrences has the interval of all of them.

        Raises:
            UsageError: The job has no schedule, or none fired before.
        """
        if self._schedule is None:
            raise UsageError(f"{self.key}: a job without a schedule has no interval")
        found = timing.interval(self._schedule, self.nominal_time)
        if found is None:
            raise UsageError(f"{self.key}: no nominal time precedes this one")
        if len(self._covers) == 1:
            return found
        oldest = timing.interval(self._schedule, self._covers[0].nominal_time)
        start = self._covers[0].nominal_time if oldest is None else oldest.start
        return timing.Interval(start, found.end)

    @property
    def covers(self) -> Sequence[Occurrence]:
        """The occurrences that this run settles, oldest first; with `reconcile`, many."""
        return self._covers


class Lent(Borrower):
    """The open transaction, as a plain function works in it."""

    @property
    def connection(self) -> Connection:
        """The SQLAlchemy connection in the open transaction; duly commits, nobody else.

        Savepoints (`connection.begin_nested()`) are free to use; commit, rollback and close
        raise UsageError.
        """
        return self._lent().connection()

    @property
    def session(self) -> OrmSession:
        """A SQLAlchemy ORM session in the open transaction, made when first asked for.

        duly flushes it when the handler returns; an error of that flush is the handler's. Its
        commit, rollback and close raise UsageError; `session.begin_nested()` is free to use.
        """
        from sqlalchemy.orm import Session

        return self.session_of(Session)

    def session_of(self, kind: type[Kind]) -> Kind:
        """The same session, of another class: `run.session_of(sqlmodel.Session)`.

        Args:
            kind: A class derived from SQLAlchemy's Session. A run has one session.

        Raises:
            UsageError: Not such a class, or the session is of another one already.
        """
        from duly._db.orm import LentSession

        found: Kind = self._lent().session(kind, LentSession)
        return found

    def execute(self, sql: str, params: Any = None) -> CursorResult[Any]:
        """Run SQL text with named binds (`:units`) in the transaction; SQLAlchemy's result."""
        return self.connection.execute(_text(sql), params)


class Run(Attempted, Lent):
    """One attempt at one occurrence, inside its transaction."""


@lru_cache(maxsize=500)
def _text(sql: str) -> TextClause:
    """SQL text as SQLAlchemy wants it; a handler says the same each time."""
    return text(sql)


class Lender:
    """Lends the transaction's connection to one handler, and takes it back."""

    def __init__(
        self,
        engine: Engine,
        fairy: PoolProxiedConnection,
        dialect: Dialect,
        nontransactional: frozenset[str],
        *,
        key: str,
        on_lost: Callable[[], None],
        keeps_its_place: bool = False,
    ) -> None:
        self._engine = engine
        self._fairy = fairy
        self._nontransactional = nontransactional
        self._connection: Connection | None = None
        self._session: LentSession | None = None
        self._over, self._pid = False, os.getpid()
        self.staged: Staged | None = None
        self._on_lost, self._keeps_its_place = on_lost, keeps_its_place
        self.key = key
        self.dialect = dialect

    def connection(self) -> Connection:
        """The connection, made when first asked for: a raw claim needs none."""
        self.refuse_late()
        if self._connection is None:
            # After a loss SQLAlchemy would go on with another one, whose end nobody decides.
            self._connection = LentConnection(
                self._engine, connection=self._fairy, _allow_revalidate=False
            )
            self._connection.lender = self
            # Begun here, so that a Session bound to it joins and does not commit.
            self._connection.begin()
        return self._connection

    def session(self, kind: type[Any], lent: type[LentSession]) -> Any:
        """The ORM session on the connection, made when first asked for."""
        self.refuse_late()
        if self._session is None:
            self._session = lent(kind, self.connection())
        return self._session.as_a(kind)

    def flush(self) -> None:
        """Send what the ORM session still holds back.

        Raises:
            SwallowedError: The handler hid an error that undid the session's work.
            Exception: The flush's own.
        """
        if self._session is not None:
            self._session.finish()

    def take_back(self) -> None:
        """From now on the handler's connection refuses everything."""
        self._over = True

    def refuse_late(self) -> None:
        """Raise once the handler has returned, and in a child that it forked."""
        if self._over:
            raise UsageError("the run is over: its connection cannot be used any more")
        if os.getpid() != self._pid:
            # Its answers would go to either process, and SQLite's locks are lost in it.
            raise UsageError(
                "the handler forked, and its connection is of the parent's process: let the child"
                " open one of its own, or give back what it found for the parent to write"
            )

    def refuse_statement(self, statement: str) -> None:
        """Raise for a statement that would end the transaction, or escape it."""
        self.refuse_late()
        if ends := ending(self.dialect, statement):
            raise UsageError(
                f"{ends} duly's transaction before its completion is"
                " recorded: leave it out, duly commits when the handler returns"
                + (" (here it commits implicitly)" if self.dialect.name == "mariadb" else "")
            )
        if self._nontransactional and _WRITES.match(statement):
            words = {word.lower() for word in re.findall(r"\w+", statement)}
            if tables := sorted(words & self._nontransactional):
                raise UnsafeStorage(
                    f"the table {tables[0]} has an engine without transactions, so its rows stay"
                    f" when the attempt rolls back: ALTER TABLE {tables[0]} ENGINE=InnoDB",
                    table=tables[0],
                )

    def saw_statement(self, statement: str) -> None:
        """Let the messages follow a statement that was executed."""
        if self.staged is not None:
            self.staged.follow(statement)

    def survives(self, error: BaseException) -> bool:
        """Whether the connection is as good as before, although *error* left a statement."""
        return self._keeps_its_place and not isinstance(error, Exception)

    def saw_error(self, error: BaseException) -> None:
        """Word an error of duly's own making, and prepare for a lost connection.

        Raises:
            UsageError: The error names duly's own deferred constraint (PROTOCOL 13).
        """
        kind = self.dialect.classify(error)
        if kind is ErrorKind.SEAL_MISSING:
            raise UsageError(
                "the completion is recorded after the handler, so duly's own constraint cannot"
                " hold yet: name your constraints in SET CONSTRAINTS instead of ALL, and leave"
                " COMMIT out"
            ) from error
        if kind is ErrorKind.LOST:
            self._on_lost()  # SQLAlchemy is about to close the driver's connection


_WRITES = re.compile(r"\s*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH)\b", re.IGNORECASE)
