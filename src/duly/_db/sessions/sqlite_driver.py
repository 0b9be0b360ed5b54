"""Sessions on the standard library's sqlite3.

A handler cannot end our transaction here: an authorizer denies it while it runs. What
SQLite itself ends (disk full, INSERT OR ROLLBACK) is seen by `in_transaction`.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec, TypeVar

from duly._core.ops import Claimed, Transaction
from duly._db.dialects import SQLITE, Dialect, ErrorKind
from duly._db.sessions.base import Params, Row, Session, host_clock_us, key_params
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.write_queue import Kept, Place
from duly.errors import ConnectionLost, InvariantBroken, NoTransaction

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly._core.occurrence import Occurrence

# SQLITE_TRANSACTION, SQLITE_ATTACH: a second file does not always commit with the first.
# SAVEPOINT has a code of its own and passes.
_FORBIDDEN = {22, 24}
_ENDS = ("commit", "rollback", "close", "set_authorizer", "set_trace_callback")
_COMMIT_RETRY_S = 0.01
BUSY_SLICE_MS = 100  # SQLite waits in C: between slices Python sees a Ctrl-C


class SqliteConnection(sqlite3.Connection):
    """A connection of duly's own; unlike its base it may carry attributes.

    Attributes:
        asked_by: The session whose authorizer stays set on it.
    """

    asked_by: SqliteSession | None = None


Given = ParamSpec("Given")
Value = TypeVar("Value")


def unless_closed(
    method: Callable[Concatenate[Any, Given], Value],
) -> Callable[Concatenate[Any, Given], Value]:
    """*method* of a session, which tells of a closed connection as a server's would."""

    @wraps(method)
    def called(self: Any, /, *args: Given.args, **named: Given.kwargs) -> Value:
        try:
            return method(self, *args, **named)
        except sqlite3.ProgrammingError as error:
            # It has no code, and so have mistakes in a statement: the connection is asked.
            if not self.is_closed():
                raise
            raise ConnectionLost(
                "the SQLite connection was closed while duly used it, which rolled back: try again"
            ) from error

    return called


class SqliteSession(Session):
    """One sqlite3 connection."""

    dialect: ClassVar[Dialect] = SQLITE
    raw: sqlite3.Connection

    def __init__(self, raw: sqlite3.Connection, schema: str | None) -> None:
        super().__init__(raw, schema or "main")
        self._place: Place | None = None
        self._lock_files: Kept = []
        self._was_autocommit = False
        self._denied = self._escaped = False
        self._is_lent = False
        self._may_keep_an_end = False
        self._busy_timeout_ms: int | None = None
        self._files: list[tuple[str, str]] | None = None
        self.is_hurried = False  # set from another thread: wait for the write lock no longer
        self._wait_until_s = 0.0

    def run(self, name: str, params: Params) -> Sequence[Row]:
        text_factory = self.raw.text_factory
        if text_factory is str:
            return super().run(name, params)
        self.raw.text_factory = str
        try:
            return super().run(name, params)
        finally:
            self.raw.text_factory = text_factory

    def is_closed(self) -> bool:
        """Whether the connection was closed, by whomever."""
        try:
            return self.raw.total_changes < 0
        except sqlite3.ProgrammingError:
            return True

    @unless_closed
    def _execute(self, text: str, params: Params) -> Any:
        return self._plain(text, {"now_us": host_clock_us(), **params})

    def _plain(self, text: str, params: Params | tuple[()] = ()) -> Any:
        cursor = self.raw.cursor()
        cursor.row_factory = None  # whatever the user set on the connection
        return cursor.execute(text, params)

    def files(self) -> list[tuple[str, str]]:
        """Name and path of each open database file; temporary ones left out."""
        rows = self._plain("PRAGMA database_list").fetchall()
        return [(row[1], row[2]) for row in rows if row[1] != "temp"]

    @property
    def path(self) -> str:
        """The path of the caller's file, once a transaction was required; "" in memory."""
        assert self._files is not None
        return self._files[0][1]

    def clock_us(self) -> int:
        return host_clock_us()

    @unless_closed
    def begin(self, wait: float) -> None:
        self.rollback()
        if self.raw.isolation_level is None:
            # In autocommit, whatever follows a lost transaction would commit by itself
            # (PROTOCOL 2); so the driver's implicit transactions are on while we are here.
            self.raw.isolation_level = "IMMEDIATE"
            self._was_autocommit = True
        if self._busy_timeout_ms is None:
            self._busy_timeout_ms = self._plain("PRAGMA busy_timeout").fetchone()[0]
        self.raw.execute(f"PRAGMA busy_timeout = {BUSY_SLICE_MS}")
        self._wait_until_s = time.monotonic() + wait
        try:
            if self.line is not None:
                # Always before BEGIN: two that each hold one would wait for each other.
                self._place = Place(self.line, self._lock_files)
                if self.is_hurried:
                    self._place.hurry()
                self._place.enter(wait / 2)
            self._begin_immediate()
        except BaseException:
            self._leave_line()
            raise

    def _begin_immediate(self) -> None:
        while True:
            try:
                # Deferred, a transaction that reads first fails at its first write, whatever
                # the timeout.
                self.raw.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                is_over = self.is_hurried or time.monotonic() > self._wait_until_s
                if self.classify(error) is not ErrorKind.CONTENTION or is_over:
                    raise

    def claim(
        self, params: Params, wait: float, slots: int | None = None, *, by_key: bool = False
    ) -> Claimed:
        # No slot is locked: there is one writer at most, and that is us.
        if by_key:
            return self._claim_by_key(params)
        return Claimed(self.change("claim", params) == 1, host_clock_us())

    def _claim_by_key(self, params: Params) -> Claimed:
        rows = self.run("claim_by_key", params)
        return Claimed(bool(rows), host_clock_us(), first_name=rows[0][0] if rows else None)

    def claim_row(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        rows = self.run(names["claim"], params)
        return Claimed(bool(rows) and rows[0][0] is not None, host_clock_us())

    @unless_closed
    def lock_guard(self, wait: float, *, then_read: str | None = None) -> None:
        # The write lock keeps every prune out; our own transaction holds it already. A
        # caller's may not: a SELECT begins none there, and a prune between the horizon's
        # reading and the insert applied a key twice. Touching no row costs no sync.
        if not self.raw.in_transaction:
            self._bound_caller(wait)
        self.change("lock_guard", {})

    def arm(self) -> None:
        self._denied = self._escaped = False
        self._is_lent = True
        if self._may_keep_an_end or self._asked_by() is not self:
            # Setting it makes SQLite prepare every statement anew, and so ask of those too that
            # the driver has kept: needed only where one of them could end a transaction.
            self.raw.set_authorizer(self._authorize)
            self._may_keep_an_end = False
            if isinstance(self.raw, SqliteConnection):
                self.raw.asked_by = self
        self.raw.set_trace_callback(self._trace)
        refuse_ends(self.raw, _ENDS)

    def _asked_by(self) -> SqliteSession | None:
        """Whose authorizer stays set; nobody's where the connection is the user's own."""
        return self.raw.asked_by if isinstance(self.raw, SqliteConnection) else None

    def disarm(self) -> None:
        allow_ends(self.raw, _ENDS)
        self.raw.set_trace_callback(None)
        if self._asked_by() is None:
            self.raw.set_authorizer(None)
        self._is_lent = False

    def _trace(self, _statement: str) -> None:
        # The authorizer is asked when a statement is prepared; one from the driver's cache
        # may start after SQLite rolled our transaction back, and commit by itself.
        if not self.raw.in_transaction:
            self._escaped = True

    def _authorize(self, action: int, what: str | None, *_details: Any) -> int:
        if not self._is_lent:
            # Of a BEGIN that was kept, `_trace` tells: our transaction had ended before it.
            self._may_keep_an_end |= action in _FORBIDDEN and what != "BEGIN"
        elif action in _FORBIDDEN or not self.raw.in_transaction:
            self._denied = True
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def after_handler(self, error: BaseException | None) -> Transaction:
        try:
            self.disarm()
        except sqlite3.ProgrammingError:
            return Transaction.ABORTED  # closed, which rolled it back
        if self._denied and error is not None and self.classify(error) is not None:
            error.add_note(
                "duly denied a statement that would end or begin a transaction, or attach another"
                " file: leave it out, duly commits when the handler returns"
            )
        if self.raw.in_transaction:
            return Transaction.OPEN
        if self._escaped:
            return Transaction.ENDED
        # SQLite rolled back by itself (disk full, OR ROLLBACK), and nothing ran after it.
        return Transaction.ABORTED if error is None else Transaction.REFUSED

    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    @unless_closed
    def commit(self, wait: float) -> bool:
        if not self.raw.in_transaction:
            return False
        deadline = time.monotonic() + wait
        while True:
            try:
                self._end("COMMIT")
                self._leave_line()
                return not self.raw.in_transaction
            except sqlite3.OperationalError as error:
                # A long reader can make COMMIT busy; the transaction stays open, so only
                # the COMMIT is tried again.
                busy = self.classify(error) is ErrorKind.CONTENTION
                if not busy or time.monotonic() > deadline:
                    if busy:
                        self.rollback()
                    raise
                time.sleep(_COMMIT_RETRY_S)

    def rollback(self) -> None:
        try:
            if self.raw.in_transaction:
                self._end("ROLLBACK")
        finally:
            self._leave_line()

    def _end(self, statement: str) -> None:
        """End the transaction by a text that no handler sends, so that it may stay prepared."""
        may_keep_an_end = self._may_keep_an_end
        self.raw.execute(f"{statement} /* by duly itself */")
        self._may_keep_an_end = may_keep_an_end

    def _leave_line(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            place.leave()

    def release(self) -> None:
        self._leave_line()
        if self._is_lent:
            # A task was cancelled while it was armed, or before it was disarmed: whoever got it
            # next could do nothing with it.
            raise InvariantBroken("a connection that is lent cannot go back to its pool")
        if self._was_autocommit:
            self.raw.isolation_level = None
            self._was_autocommit = False
        if self._busy_timeout_ms is not None:
            self.raw.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
            self._busy_timeout_ms = None

    def kill(self) -> None:
        try:
            self.raw.close()
        finally:
            self._leave_line()

    def _bound_caller(self, wait: float) -> None:
        """Bound the caller's wait for the write lock; `restore` gives its own bound back."""
        if self._busy_timeout_ms is None:
            self._busy_timeout_ms = self._plain("PRAGMA busy_timeout").fetchone()[0]
        self._plain(f"PRAGMA busy_timeout = {int(wait * 1000)}")

    def restore(self) -> None:
        if self._busy_timeout_ms is not None:
            self._plain(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
            self._busy_timeout_ms = None

    def require_transaction(self) -> None:
        try:
            in_transaction = self.raw.in_transaction
            explicit = self.raw.isolation_level is None
            if self._files is None:  # a claim asks twice, and none can be attached in between
                self._files = self.files()
        except sqlite3.ProgrammingError as error:
            raise NoTransaction(f"duly.claim: the connection cannot be used: {error}") from error
        # Python 3.12 and later: `autocommit=True` does not begin a transaction either.
        explicit = explicit or getattr(self.raw, "autocommit", -1) is True
        if explicit and not in_transaction:
            raise NoTransaction(
                "duly.claim: this sqlite3 connection is in autocommit mode with no transaction"
                ' open, so the claim and your change would commit apart: execute("BEGIN IMMEDIATE")'
                " first, and COMMIT after your change"
            )
        files = self._files
        if len(files) > 1:
            raise NoTransaction(
                f"duly.claim: this connection has another file attached ({files[1][0]!r}), and"
                " SQLite does not commit two files together in every mode: DETACH it, or keep"
                " the ledger and the business tables in one file"
            )

    def claim_in_caller(self, params: Params, wait: float) -> Claimed:
        # The attempt first: an interruption between the two then leaves evidence of
        # nothing, not a key without its attempt (PROTOCOL 10). It is inserted only where the
        # key is free: the statement takes the write lock before it looks, so nobody comes in
        # between, and a refused claim leaves no page to write and to sync.
        self._bound_caller(wait)
        if self.change("claim_attempt", params) == 0:
            return Claimed(inserted=False, clock_us=host_clock_us())
        return self._claim_by_key(params)

    def claim_row_in_caller(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        self._bound_caller(wait)
        return self.claim_row(names, params, wait)

    def is_claimed_here(self, occurrence: Occurrence) -> bool:
        key = key_params(occurrence)
        if not self.raw.in_transaction or not self.run("is_claimed_here", key):
            return False
        return not self._is_committed(key)

    def _is_committed(self, key: Params) -> bool:
        """Whether another connection sees it, as nobody sees what our open transaction wrote."""
        if not self.path:
            return False  # in memory, where there is no other
        uri = f"{Path(self.path).as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=0)) as other:
                return other.execute(self.queries["is_claimed_here"], key).fetchone() is not None
        except sqlite3.DatabaseError:
            # Without a write-ahead log, a transaction larger than the cache locks readers out.
            return False
