"""Sessions on psycopg 3.

COMMIT before the seal is refused by a deferred foreign key, and what a ROLLBACK by the
handler hides is found by the seal. In a transaction that an error aborted nothing can be
asked any more: a handler that replaced ours as SQL text, and then failed, stays outside.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
from psycopg.pq import DiagnosticField, PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from duly._core.ops import Claimed, Transaction
from duly._db.dialects import POSTGRESQL, Dialect, ErrorKind
from duly._db.sessions.base import HANDLER_WAIT_S, Params, Row, Session, guard_missing, shut_down
from duly._db.sessions.claimed import note, noted
from duly._db.sessions.ends import allow_ends, refuse_ends
from duly._db.sessions.psycopg_wire import (
    COMMIT,
    ROLLBACK,
    Statement,
    Wire,
    rows_of,
    value_of,
    wire_of,
)
from duly.errors import NoTransaction, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from uuid import UUID

    from psycopg.pq.abc import PGresult

    from duly._core.occurrence import Occurrence

_NO_CLAIM = b"22P02"
"""What the seal is answered where it finds no claim: see its query."""
_OPEN = TransactionStatus.INTRANS
_HANDLER_WAIT = {"handler_wait_ms": str(int(HANDLER_WAIT_S * 1000))}
ENDS = ("commit", "rollback", "close")
# What is said of many messages in one statement.
_AT_ONCE = {
    "insert_message": "insert_message_all",
    "start_send": "start_send_all",
    "write_ahead": "write_ahead_all",
    "finish_send": "finish_send_all",
    "finish_delivery": "finish_delivery_all",
}


class PsycopgSession(Session):
    """One psycopg connection."""

    dialect: ClassVar[Dialect] = POSTGRESQL
    raw: psycopg.Connection[Any]

    def __init__(self, raw: psycopg.Connection[Any], schema: str | None) -> None:
        super().__init__(raw, schema)
        self._claimed: tuple[str, Params] | None = None
        self._horizon: tuple[str | None, str | None] | None = None
        self._seal: Params | None = None
        self._was_autocommit = False
        self._wait_before: str | None = None

    def run(self, name: str, params: Params) -> Sequence[Row]:
        cursor = self._execute(self.queries[name], params)
        # Asked of libpq: `description` makes an object of each column.
        return cursor.fetchall() if cursor.pgresult.nfields else ()

    def change_each(self, name: str, rows: Sequence[Params]) -> list[int]:
        if len(rows) < 2:
            return super().change_each(name, rows)
        if name in _AT_ONCE:
            arrays = {column: [row[column] for row in rows] for column in rows[0]}
            changed = {found for (found,) in self.run(_AT_ONCE[name], arrays)}
            return [int(row["id"] in changed) for row in rows]
        return self._one_by_one(name, rows)

    def _one_by_one(self, name: str, rows: Sequence[Params]) -> list[int]:
        """One after the other, but nobody waits for an answer before the last is sent."""
        text = self.queries[name]
        cursors = [psycopg.Cursor(self.raw, row_factory=tuple_row) for _ in rows]
        with self.raw.pipeline():
            for cursor, row in zip(cursors, rows, strict=True):
                cursor.execute(text, row)
        return [cursor.rowcount for cursor in cursors]

    @cached_property
    def _cursor(self) -> psycopg.Cursor[Row]:
        """The plain one, whatever row factory the user gave the connection."""
        return psycopg.Cursor(self.raw, row_factory=tuple_row)

    def _execute(self, text: str, params: Params) -> Any:
        return self._cursor.execute(text, params)

    @cached_property
    def _wire(self) -> Wire:
        return wire_of(self.raw)

    def _sent(self, *asked: tuple[str, Params]) -> list[PGresult]:
        """Send named statements in one message, after a BEGIN if need be; their results."""
        statements = [Statement(self.queries[name], params) for name, params in asked]
        if begins := self.raw.pgconn.transaction_status == TransactionStatus.IDLE:
            statements.insert(0, self._wire.begin())
        return self._answers(*statements)[begins:]

    def _answers(self, *statements: Statement) -> list[PGresult]:
        return self._wire.checked(self._waited(self._wire.sent(*statements)))

    def change_alone(self, name: str, params: Params) -> None:
        # Without a BEGIN its message is its transaction.
        self._answers(Statement(self.queries[name], params))

    def _run_last(self, name: str, params: Params) -> Sequence[Row]:
        found, _ended = self._answers(Statement(self.queries[name], params), ROLLBACK)
        return rows_of(self.driver, found)

    def _waited(self, generator: Any) -> Any:
        return self.raw.wait(generator)

    def encode_id(self, attempt_id: UUID) -> UUID:
        return attempt_id

    def begin(self, wait: float) -> None:
        if self.raw.pgconn.transaction_status != TransactionStatus.IDLE:
            self.raw.rollback()
        if self.raw.autocommit:
            self.raw.autocommit = False
            self._was_autocommit = True
        self._claimed = self._seal = self._horizon = None

    def begin_prune(self, wait: float) -> None:
        self.begin(wait)
        begin = self._wire.begin(psycopg.IsolationLevel.READ_COMMITTED)
        self._answers(begin)

    def claim(
        self, params: Params, wait: float, slots: int | None = None, *, by_key: bool = False
    ) -> Claimed:
        asked: list[tuple[str, Params]] = []
        if slots is not None:
            asked.append(("take_slot", {"job": params["job"], "slots": slots}))
        name = "claim_by_key" if by_key else "claim"
        asked.append((name, {**params, **self.bounds(wait), **_HANDLER_WAIT}))
        try:
            claimed = self._sent(*asked)[-1]
        except psycopg.errors.InvalidTextRepresentation:
            if slots is None:
                raise
            self.raw.rollback()
            return self._no_slot(params["job"])
        self._claimed = ("confirm", params)
        return _claimed(claimed)

    def claim_row(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        asked = {**params, **self.bounds(wait), **_HANDLER_WAIT}
        (claimed,) = self._sent((names["claim"], asked))
        self._claimed = (names["confirm"], params)
        return _claimed(claimed)

    def arm(self) -> None:
        refuse_ends(self.raw, ENDS)
        driver: Any = self.raw
        driver.wait = self._wait

    def _wait(self, generator: Any, *args: Any, **named: Any) -> Any:
        """What every statement of a handler passes."""
        self._refuse_ended(generator)
        return type(self.raw).wait(self.raw, generator, *args, **named)

    def _refuse_ended(self, generator: Any) -> None:
        """None of a handler's statements runs once our transaction ended."""
        if self.raw.pgconn.transaction_status == TransactionStatus.IDLE:
            generator.close()
            raise UsageError(
                "duly's transaction has ended (by a COMMIT or ROLLBACK of the handler's own), so"
                " nothing more may run in it: leave that out, duly commits when the handler returns"
            )

    def disarm(self) -> None:
        allow_ends(self.raw, (*ENDS, "wait"))

    def after_handler(self, error: BaseException | None) -> Transaction:
        self.disarm()
        refused = error is not None and self.classify(error) is ErrorKind.SEAL_MISSING
        match self.raw.pgconn.transaction_status:
            case TransactionStatus.INTRANS if error is None or self.is_ours():
                return Transaction.OPEN  # where it returned, the seal decides
            case TransactionStatus.IDLE | TransactionStatus.INTRANS:
                return Transaction.REFUSED if refused else Transaction.ENDED
            case TransactionStatus.UNKNOWN if error is None:
                raise psycopg.OperationalError("the connection was lost while the handler ran")
            case _:
                return Transaction.ABORTED

    def is_ours(self) -> bool:
        try:
            return self._claimed is not None and bool(self.run(*self._claimed))
        except psycopg.Error:
            return True  # the connection went away just now; nothing of ours was committed

    def in_transaction(self) -> bool:
        return self.raw.pgconn.transaction_status != TransactionStatus.IDLE

    def check_deferred(self) -> None:
        self.raw.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def commit(self, wait: float) -> bool | None:
        seal, self._seal = self._seal, None
        status = self.raw.pgconn.transaction_status
        if status == TransactionStatus.IDLE and seal is not None:
            return None
        if status != TransactionStatus.INTRANS:
            return False
        statements = [COMMIT]
        if seal is not None:
            # Where it finds no claim it is an error, after which the server skips the COMMIT.
            statements.insert(0, Statement(self.queries["seal"], seal))
        answers = self._waited(self._wire.sent(*statements))
        if seal is not None and answers[0].error_field(DiagnosticField.SQLSTATE) == _NO_CLAIM:
            return None
        # COMMIT of an aborted transaction is answered by ROLLBACK, without an error.
        return self._wire.checked(answers)[-1].command_status == b"COMMIT"

    def rollback(self) -> None:
        self._seal = self._horizon = None
        self.raw.rollback()

    def release(self) -> None:
        if self._was_autocommit and not self.raw.closed:
            self.raw.autocommit = True
            self._was_autocommit = False

    def cut(self) -> None:
        shut_down(self.raw.pgconn.socket)

    def kill(self) -> None:
        self.raw.close()

    def serve_markers(self) -> None:
        self.raw.rollback()
        self.raw.autocommit = True

    def require_transaction(self) -> None:
        if self.raw.closed:
            raise NoTransaction("duly.claim: the psycopg connection is closed: open a new one")
        status = self.raw.pgconn.transaction_status
        if status == TransactionStatus.ACTIVE:
            raise NoTransaction(
                "duly.claim: a statement or COPY is still under way on this psycopg connection:"
                " claim before it, or after its block has ended"
            )
        if self.raw.autocommit and status == TransactionStatus.IDLE:
            raise NoTransaction(
                "duly.claim: this psycopg connection is in autocommit mode with no transaction"
                " open, so the claim and your change would commit apart: use"
                " `with connection.transaction():`, or autocommit=False"
            )
        if self.raw.pgconn.pipeline_status != PipelineStatus.OFF:
            raise NoTransaction(
                "duly.claim: the connection is in pipeline mode, in which no answer comes before"
                " the next statement: claim before `with connection.pipeline():`"
            )
        if status == TransactionStatus.INERROR:
            raise NoTransaction(
                "duly.claim: the transaction is already aborted by an earlier error: roll it"
                " back and begin again"
            )

    def claim_in_caller(self, params: Params, wait: float) -> Claimed:
        claimed = self._claim_and_restore("claim_in_caller", params, wait)
        if (transaction := value_of(claimed, 3)) is not None:
            note(self.driver, params, transaction)
        return _claimed(claimed)

    def is_claimed_here(self, occurrence: Occurrence) -> bool:
        claim = noted(self.driver, occurrence)
        return claim is not None and bool(self.run("is_claimed_here", claim))

    def claim_row_in_caller(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        return _claimed(self._claim_and_restore(names["claim_in_caller"], params, wait))

    def _claim_and_restore(self, query: str, params: Params, wait: float) -> PGresult:
        restore = self._wait_before
        (claimed,) = self._sent((query, {**params, **self.bounds(wait), "restore": restore}))
        self._wait_before = None
        return claimed

    def lock_guard(self, wait: float, *, then_read: str | None = None) -> None:
        asked: list[tuple[str, Params]] = [("lock_guard", self.bounds(wait))]
        if then_read is not None:
            # A later statement than the one that waited, so its snapshot is later too.
            asked.append(("read_horizon", {"job": then_read}))
        guard, *horizon = self._sent(*asked)
        if not guard.ntuples:
            raise guard_missing()
        if self._wait_before is None:
            self._wait_before = value_of(guard)
        self._horizon = (then_read, value_of(horizon[0])) if horizon else None

    def read_horizon(self, job: str) -> int | None:
        read, self._horizon = self._horizon, None
        if read is None or read[0] != job:
            return super().read_horizon(job)
        return None if read[1] is None else int(read[1])

    def seal(self, row: Params) -> bool:
        self._seal = row
        return True  # sent with the COMMIT

    def restore(self) -> None:
        # An aborted transaction takes the setting along when it is rolled back.
        if self._wait_before is not None and self.raw.pgconn.transaction_status == _OPEN:
            self.run("restore_wait", {"restore": self._wait_before})
        self._wait_before = None


def _claimed(answer: PGresult) -> Claimed:
    """What a claim's statement was answered: the clock, if it inserted, and the first name."""
    clock_us = value_of(answer)
    first_name = value_of(answer, 2) if answer.nfields > 2 else None
    return Claimed(clock_us is not None, int(clock_us or 0), first_name=first_name)
