"""Sessions on PyMySQL, for MariaDB.

MariaDB has no deferred constraint, and DDL commits by itself: a savepoint taken before the
handler is the sentinel that tells afterwards whether our transaction is still there.

What needs no answer in between goes in one message, as a block: its first error ends it, and
leaves the transaction open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pymysql.constants import SERVER_STATUS

from duly._core.ops import Claimed, Transaction
from duly._db.dialects import MARIADB, Dialect, ErrorKind, code_text
from duly._db.ending import ending
from duly._db.sessions.base import (
    Params,
    Row,
    Session,
    guard_missing,
    horizon_of,
    key_params,
    shut_down,
)
from duly._db.sessions.claimed import is_in_transaction, note_until_end, noted
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.sessions.pymysql_wire import Answers, block, bound
from duly.errors import NoTransaction, UnsafeStorage, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pymysql

    from duly._core.occurrence import Occurrence

SET_SENTINEL = "SAVEPOINT duly_sentinel"
_RELEASE_SENTINEL = "RELEASE SAVEPOINT duly_sentinel"
_NO_SAVEPOINT = 1305
_NO_SLOT = 30001  # signalled by `take_slot`
_NO_CLAIM = 30002  # signalled by `seal`
_DEADLOCK = 1213
_LOCK_WAIT = 1205
ENDS = ("commit", "rollback", "close", "begin", "autocommit", "select_db", "ping")


class PyMysqlSession(Session):
    """One PyMySQL connection."""

    dialect: ClassVar[Dialect] = MARIADB
    raw: pymysql.connections.Connection[Any]

    def __init__(self, raw: pymysql.connections.Connection[Any], schema: str | None) -> None:
        super().__init__(raw, schema)
        self._cursor = self._new_cursor()
        self._was_autocommit = False
        self._may_be_open = False
        self._has_sentinel = False
        self._seal: Params | None = None
        self._horizon: tuple[str, int | None] | None = None

    def _new_cursor(self) -> Any:
        """A plain one, whatever cursor class the user gave the connection."""
        return Answers(self.raw)

    def _execute(self, text: str, params: Params) -> Any:
        self._cursor.execute(bound(self.raw, text, params))
        return self._cursor

    def _sent(self, statements: Sequence[str], params: Params) -> list[Sequence[Row]]:
        """Send *statements* in one message; the rows of each that returns any."""
        cursor = self._execute(block(tuple(statements)), params)
        found: list[Sequence[Row]] = []
        while True:
            if cursor.description is not None:
                found.append(cursor.fetchall())
            if not cursor.nextset():
                return found

    def change_alone(self, name: str, params: Params) -> None:
        self._sent([self.queries[name], "COMMIT"], params)

    def _run_last(self, name: str, params: Params) -> Sequence[Row]:
        (rows,) = self._sent([self.queries[name], "ROLLBACK"], params)
        self._forget()
        self._may_be_open = False
        return rows

    def begin(self, wait: float) -> None:
        self._forget()
        driver: Any = self.raw
        if driver.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS:
            # Somebody kept the driver's connection and wrote on it: not ours to commit.
            self.raw.rollback()
        self._may_be_open = True
        if self.raw.get_autocommit():
            self.raw.autocommit(False)
            self._was_autocommit = True

    def begin_prune(self, wait: float) -> None:
        # At REPEATABLE READ its gap locks blocked today's claims of other jobs (PROTOCOL 14).
        self._plain("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self.begin(wait)

    def claim(
        self, params: Params, wait: float, slots: int | None = None, *, by_key: bool = False
    ) -> Claimed:
        statements = [self.queries["claim"], SET_SENTINEL]
        if by_key:
            statements.append(self.queries["job_shown_as"])
        if slots is not None:
            statements.insert(0, self.queries["take_slot"])
        try:
            claimed = self._claimed(statements, {**params, **self.bounds(wait), "slots": slots})
        except Exception as error:
            if code_text(self.dialect, error) != _NO_SLOT:
                raise
            return self._no_slot(params["job"])
        self._has_sentinel = claimed.inserted
        return claimed

    def _claimed(self, statements: Sequence[str], params: Params) -> Claimed:
        """Send *statements*, of which the claim returns a row, and the first name perhaps one."""
        try:
            ((clock_us, sql_mode),), *named = self._sent(
                statements, {**params, "shown_name": params["job"]}
            )
        except Exception as error:
            if self.classify(error) is not ErrorKind.DUPLICATE_KEY:
                raise
            return Claimed(inserted=False, clock_us=0)
        self._require_strict(str(sql_mode))
        first_name = named[0][0][0] if named and named[0] else None
        return Claimed(inserted=True, clock_us=int(clock_us), first_name=first_name)

    def claim_row(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        cursor = self._execute(self.queries[names["claim"]], {**params, **self.bounds(wait)})
        if cursor.description is None:
            return Claimed(cursor.rowcount == 1, 0)
        clock_us, sql_mode = cursor.fetchall()[0]
        self._require_strict(str(sql_mode))
        return Claimed(clock_us is not None, int(clock_us or 0))

    def _require_strict(self, sql_mode: str) -> None:
        if "STRICT_TRANS_TABLES" in sql_mode or "STRICT_ALL_TABLES" in sql_mode:
            return
        raise UnsafeStorage(
            f"this session's sql_mode ({sql_mode or 'empty'}) is not strict, so MariaDB would store"
            " truncated values without an error: add STRICT_TRANS_TABLES to sql_mode",
            sql_mode=sql_mode,
        )

    def lock_guard(self, wait: float, *, then_read: str | None = None) -> None:
        if then_read is None:
            super().lock_guard(wait)
            return
        # The horizon is read by a statement of its own, after the one that waited.
        asked = [self.queries["lock_guard"], self.queries["read_horizon"]]
        guard, horizon = self._sent(asked, {"job": then_read, **self.bounds(wait)})
        if not guard:
            raise guard_missing()
        self._horizon = (then_read, horizon_of(horizon))

    def read_horizon(self, job: str) -> int | None:
        read, self._horizon = self._horizon, None
        return super().read_horizon(job) if read is None or read[0] != job else read[1]

    def cover(self, claim: Params, nominal_times: Sequence[int], reason: str) -> list[int]:
        super().cover(claim, nominal_times, reason)
        return [int(row[0]) for row in self.run("covered", claim)]

    def _settle(self, params: Params) -> int:
        clock_us = self.clock_us()
        rows = self.run("settle", {**params, "recorded_us": clock_us})
        return sum(int(row[0]) == clock_us for row in rows)

    def waive(self, occurrence: Occurrence, *, actor: str, reason: str) -> bool:
        # What an implicit commit landed, and nobody lived to hold, covered nothing either.
        self.change("tear_unsealed", key_params(occurrence))
        return super().waive(occurrence, actor=actor, reason=reason)

    def hold_torn(self, params: Params) -> None:
        super().hold_torn(params)
        # What the implicit commit landed with the claim is as torn as the claim (PROTOCOL 9).
        self.change("tear_covered", params)

    def _insert_torn(self, params: Params) -> int:
        try:
            return self.change("hold_torn", params)
        except Exception as error:
            if self.classify(error) is not ErrorKind.DUPLICATE_KEY:
                raise
            return 0

    def insert_messages(self, rows: Sequence[Params]) -> list[bool]:
        return [self._insert_message(row) for row in rows]

    def _insert_message(self, row: Params) -> bool:
        try:
            return self.change("insert_message", row) == 1
        except Exception as error:
            if self.classify(error) is not ErrorKind.DUPLICATE_KEY:
                raise
            return False

    def arm(self) -> None:
        if not self._has_sentinel:
            self._plain(SET_SENTINEL)
        self.contention = None
        refuse_ends(self.raw, ENDS)
        driver: Any = self.raw
        driver.query = self._query

    def _query(self, sql: str | bytes, *args: Any, **named: Any) -> Any:
        """What every statement of a handler passes, its cursors' own ones too."""
        self._refuse_query(sql)
        try:
            return type(self.raw).query(self.raw, sql, *args, **named)
        except Exception as error:
            self._note_deadlock(error)
            raise

    def _refuse_query(self, sql: str | bytes) -> None:
        """Nothing runs after a deadlock, and nothing that commits implicitly."""
        if self.contention is not None:
            raise UsageError(
                "MariaDB rolled this transaction back after a deadlock: let that error out, duly"
                " tries the whole attempt again"
            ) from self.contention
        text = sql if isinstance(sql, str) else bytes(sql).decode("utf-8", "replace")
        if ends := ending(self.dialect, text):
            raise UsageError(
                f"{ends} duly's transaction (MariaDB commits"
                " implicitly) before its completion is recorded: leave it out, duly commits when"
                " the handler returns"
            )

    def _note_deadlock(self, error: BaseException) -> None:
        if code_text(self.dialect, error) == _DEADLOCK:
            self.contention = error

    def disarm(self) -> None:
        allow_ends(self.raw, (*ENDS, "query"))

    def after_handler(self, error: BaseException | None) -> Transaction:
        self.disarm()
        if self._has_sentinel and error is None:
            return Transaction.OPEN  # the seal looks for the sentinel
        try:
            if self.is_ours():
                return Transaction.OPEN
        except Exception:
            if error is None:
                raise  # the connection went away while the handler ran
            return Transaction.ABORTED  # as above, and the handler's own error tells
        # A deadlock took the whole transaction, and everything after it was refused.
        return Transaction.REFUSED if self.contention else Transaction.ENDED

    def is_ours(self) -> bool:
        self._has_sentinel = False
        try:
            self._plain(_RELEASE_SENTINEL)
        except Exception as error:
            if code_text(self.dialect, error) != _NO_SAVEPOINT:
                raise
            return False
        return True

    def _plain(self, text: str) -> None:
        self._cursor.execute(text)

    def in_transaction(self) -> bool:
        return self._may_be_open

    def seal(self, row: Params) -> bool:
        self._seal = row
        return True  # sent with the COMMIT

    def commit(self, wait: float) -> bool | None:
        seal, has_sentinel = self._seal, self._has_sentinel
        self._forget()
        if seal is None:
            self.raw.commit()
        elif not self._sealed(seal, has_sentinel=has_sentinel):
            return None
        self._may_be_open = False
        return True

    def _sealed(self, seal: Params, *, has_sentinel: bool) -> bool:
        """Seal and commit; False where our transaction, or the claim in it, was gone."""
        statements = [self.queries["seal"], "COMMIT"]
        if has_sentinel:
            statements.insert(0, _RELEASE_SENTINEL)
        try:
            self._sent(statements, seal)
        except Exception as error:
            if code_text(self.dialect, error) not in {_NO_SAVEPOINT, _NO_CLAIM}:
                raise
            return False
        return True

    def _forget(self) -> None:
        """Nothing is kept of a transaction that has ended."""
        self._has_sentinel = False
        self._seal = self._horizon = None

    def rollback(self) -> None:
        self._forget()
        self.raw.rollback()
        self._may_be_open = False

    def release(self) -> None:
        if self._was_autocommit and self.raw.open:
            self.raw.autocommit(True)
            self._was_autocommit = False

    def cut(self) -> None:
        driver: Any = self.raw
        shut_down(driver._sock.fileno())  # noqa: SLF001 - the driver shows its socket nowhere

    def kill(self) -> None:
        driver: Any = self.raw
        driver._force_close()  # noqa: SLF001 - close() would send a farewell to a dead socket

    def serve_markers(self) -> None:
        self.raw.autocommit(True)
        self._plain("SET SESSION innodb_lock_wait_timeout = 1")

    def require_transaction(self) -> None:
        if not self.raw.open:
            raise NoTransaction("duly.claim: the PyMySQL connection is closed: open a new one")
        driver: Any = self.raw
        if not driver.server_status & SERVER_STATUS.SERVER_STATUS_AUTOCOMMIT:
            return
        in_transaction, _autocommit, _mode = self.run("in_transaction", {})[0]
        if not in_transaction:
            raise NoTransaction(
                "duly.claim: this PyMySQL connection is in autocommit mode with no transaction"
                " open, so the claim and your change would commit apart: call"
                " connection.begin() first, and connection.commit() after your change"
            )

    def claim_in_caller(self, params: Params, wait: float) -> Claimed:
        # The attempt first: an interruption between the two then leaves evidence of
        # nothing, not a key without its attempt (PROTOCOL 10).
        named = ("claim_attempt", "claim", "job_shown_as")
        statements = [self.queries[name] for name in named]
        try:
            claimed = self._claimed(statements, {**params, **self.bounds(wait)})
        except UnsafeStorage:
            self.unclaim(params)
            raise
        except Exception as error:
            code = code_text(self.dialect, error)
            if code == _LOCK_WAIT or code in self.dialect.stopped:
                # Only the statement was rolled back, and the caller may commit the rest.
                self.change("unclaim_attempt", params)
            raise
        if claimed.inserted:
            note_until_end(self.driver, params)
        else:
            self.change("unclaim_attempt", params)
        return claimed

    def is_claimed_here(self, occurrence: Occurrence) -> bool:
        claim = noted(self.driver, occurrence) if is_in_transaction(self.driver) else None
        return claim is not None and bool(self.run("confirm", claim))
