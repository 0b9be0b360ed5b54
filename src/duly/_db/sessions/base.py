"""What every kind of connection can do for a shell.

A session wraps one open driver connection. It runs named queries, begins and ends duly's
own transactions, and tells what became of one that a handler had. It decides nothing
about occurrences, and it never commits or rolls back a transaction that a caller owns.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from duly._core.ops import Claimed, Standing, Transaction
from duly._core.payload import of_stored
from duly._core.states import Disposition
from duly._db.dialects import Dialect, ErrorKind
from duly._db.queries import queries
from duly.errors import InvariantBroken

if TYPE_CHECKING:
    from duly._core.occurrence import Occurrence
    from duly._db.write_queue import WriteQueue

HANDLER_WAIT_S = 10.0
"""The longest wait for a lock of one statement of a handler's, in seconds."""

_COVER_BATCH = 5_000
"""Rows of one INSERT."""

Row = tuple[Any, ...]
Params = Mapping[str, Any]


def key_params(occurrence: Occurrence) -> dict[str, Any]:
    """The four columns of a key, as binds."""
    return {
        "job": occurrence.job,
        "nominal_us": occurrence.nominal_us,
        "partition_key": occurrence.partition,
        "correction": occurrence.correction,
    }


class Session(ABC):
    """One driver connection, at duly's service.

    Attributes:
        raw: The driver's connection, as the statements here speak to it.
        driver: The driver's connection itself; for an asynchronous driver not the same.
        schema: The ledger's schema; every statement is qualified by it.
        line: Where transactions of duly's own on a SQLite file wait for their turn.
        contention: The error by which the server took the whole transaction away while the
            handler had it; every further statement of the handler is refused (PROTOCOL 4).
    """

    dialect: ClassVar[Dialect]
    keeps_its_place: ClassVar[bool] = False
    """An interruption leaves the connection between two answers, so that it can be used."""

    def __init__(self, raw: Any, schema: str | None) -> None:
        self.raw = self.driver = raw
        self.schema = schema
        self.line: WriteQueue | None = None
        self.queries = queries(self.dialect, schema)
        self.contention: BaseException | None = None

    # Statements

    def run(self, name: str, params: Params) -> Sequence[Row]:
        """Run a named query and return its rows; none for one that returns none."""
        cursor = self._execute(self.queries[name], params)
        return cursor.fetchall() if cursor.description is not None else ()

    def change(self, name: str, params: Params) -> int:
        """Run a named statement and return how many rows it changed."""
        return int(self._execute(self.queries[name], params).rowcount)

    def change_alone(self, name: str, params: Params) -> None:
        """Run a named statement in a transaction of its own; none is open."""
        self.change(name, params)
        self.commit(1.0)

    def _run_last(self, name: str, params: Params) -> Sequence[Row]:
        """Run a named query as the last statement of our transaction, and roll that back."""
        rows = self.run(name, params)
        self.rollback()
        return rows

    def change_each(self, name: str, rows: Sequence[Params]) -> list[int]:
        """Run a named statement for each of *rows*; how many rows each changed."""
        return [self.change(name, row) for row in rows]

    def insert_messages(self, rows: Sequence[Params]) -> list[bool]:
        """Insert messages; False for each that is there already."""
        return [count == 1 for count in self.change_each("insert_message", rows)]

    @abstractmethod
    def _execute(self, text: str, params: Params) -> Any:
        """The cursor that executed it, good until the next statement."""

    def has_table(self, name: str) -> bool:
        """Whether the ledger's schema holds a table of that name."""
        return bool(self.run("has_table", {"schema": self.schema, "name": name}))

    def clock_us(self) -> int:
        """The database's clock."""
        return int(self.run("clock", {})[0][0])

    def encode_id(self, attempt_id: UUID) -> Any:
        """An attempt's id as this driver binds it."""
        return attempt_id.bytes

    def decode_id(self, value: Any) -> UUID | None:
        """An attempt's id as this driver returns it."""
        if value is None:
            return None
        return value if isinstance(value, UUID) else UUID(bytes=bytes(value))

    # duly's own transaction

    @abstractmethod
    def begin(self, wait: float) -> None:
        """Open a transaction; *wait* is in seconds."""

    def begin_prune(self, wait: float) -> None:
        """Open a transaction at READ COMMITTED, whatever the connection's default."""
        self.begin(wait)

    @abstractmethod
    def claim(
        self, params: Params, wait: float, slots: int | None = None, *, by_key: bool = False
    ) -> Claimed:
        """Insert the occurrence's row, waiting at most about *wait* seconds for a rival.

        One of *slots* slots of the job is locked first; None where nobody counts. *by_key*: the
        job's first name is asked for too, after the wait, by a read that locks nothing.
        """

    @abstractmethod
    def claim_row(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        """Insert or take the row of a key of another kind, by the queries that *names* names."""

    def lock_guard(self, wait: float, *, then_read: str | None = None) -> None:
        """Take the guard row in shared mode (PROTOCOL 15).

        A driver may send the next statement, which reads the horizon of *then_read*, with it.
        """
        rows = self.run("lock_guard", self.bounds(wait))
        if not rows:
            raise guard_missing()

    def read_horizon(self, job: str) -> int | None:
        """The job's horizon, in a statement after the guard."""
        return horizon_of(self.run("read_horizon", {"job": job}))

    def read_standing(self, occurrence: Occurrence, *, is_last: bool = False) -> Standing | None:
        """The row that holds the key, and whether its attempt proves it.

        *is_last*: our transaction, in which there is nothing to keep, is rolled back with it.
        """
        read = self._run_last if is_last else self.run
        rows = read("read_standing", key_params(occurrence))
        if not rows:
            return None
        disposition, fingerprint, attempt_id, sealed, recorded_us, result, reason = rows[0]
        return Standing(
            Disposition(disposition),
            of_stored(fingerprint),
            self.decode_id(attempt_id),
            sealed is not None,
            int(recorded_us),
            result,
            reason,
        )

    def seal(self, row: Params) -> bool:
        """Insert the applied attempt, at once or with the COMMIT; False if the claim is gone."""
        return self.change("seal", row) == 1

    def _no_slot(self, job: str) -> Claimed:
        """What a claim is answered where none of the job's slots is free."""
        if not self.run("list_slots", {"job": job}):
            raise InvariantBroken(f"duly_slot has no row of {job}: run `duly init` again")
        return Claimed(inserted=False, clock_us=0, no_slot=True)

    def cover(self, claim: Params, nominal_times: Sequence[int], reason: str) -> list[int]:
        """Insert *nominal_times*, newest first, as superseded; returns those that became ours."""
        ours: list[int] = []
        for start in range(0, len(nominal_times), _COVER_BATCH):
            batch = list(nominal_times[start : start + _COVER_BATCH])
            params = {**claim, "nominal_times": json.dumps(batch), "reason": reason}
            ours += [int(row[0]) for row in self.run("cover", params)]
        return sorted(ours, reverse=True)

    def settle(
        self,
        series: Params,
        nominal_times: Sequence[int],
        *,
        wait: float,
        disposition: str,
        reason: str,
        actor: str | None = None,
    ) -> int:
        """Settle *nominal_times*, newest first, without an attempt; returns how many were free."""
        said = {"disposition": disposition, "reason": reason, "actor": actor}
        params = {**series, **said, **self.bounds(wait)}
        count = 0
        for start in range(0, len(nominal_times), _COVER_BATCH):
            batch = json.dumps(list(nominal_times[start : start + _COVER_BATCH]))
            count += self._settle({**params, "nominal_times": batch})
        return count

    def _settle(self, params: Params) -> int:
        return self.change("settle", params)

    def hold_torn(self, params: Params) -> None:
        """Settle a key as torn: a new row, or the claim that an implicit commit landed."""
        if self._insert_torn(params) == 0:
            self.change("turn_torn", params)

    def _insert_torn(self, params: Params) -> int:
        return self.change("hold_torn", params)

    def waive(self, occurrence: Occurrence, *, actor: str, reason: str) -> bool:
        """Turn a torn row into a waived one; False if the row is not torn."""
        params = {**key_params(occurrence), "actor": actor, "reason": reason}
        return bool(self.change("waive_torn", params) or self.change("waive_unsealed", params))

    def waive_free(self, occurrence: Occurrence, wait: float, *, actor: str, reason: str) -> bool:
        """Settle a free key as waived, waiting for a rival; False if it is settled."""
        params = {**key_params(occurrence), **self.bounds(wait), "actor": actor, "reason": reason}
        try:
            return self.change("waive_free", params) == 1
        except Exception as error:
            if self.classify(error) is not ErrorKind.DUPLICATE_KEY:
                raise
            return False

    def add_partition_set(self, params: Params) -> bool:
        """Add the set of an occurrence's partitions; False if it is there."""
        try:
            return self.change("add_partition_set", params) == 1
        except Exception as error:
            if self.classify(error) is not ErrorKind.DUPLICATE_KEY:
                raise
            return False

    def lock_job(self, job: str, wait: float) -> None:
        """Take the job's row, so that two decisions about the job come one after the other."""
        self.change("lock_job", {"job": job, **self.bounds(wait)})

    def audit(
        self, occurrence: Occurrence, audit_id: UUID, *, action: str, actor: str, reason: str
    ) -> None:
        """Record what a person did, in the same transaction."""
        said = {"action": action, "actor": actor, "reason": reason}
        row = {**key_params(occurrence), "id": self.encode_id(audit_id), **said}
        self.change("audit", row)

    @abstractmethod
    def arm(self) -> None:
        """Before the handler: prevent, or make findable, an end of our transaction."""

    def disarm(self) -> None:
        """Give back what `arm` took from the driver's connection; twice does no harm."""
        return

    @abstractmethod
    def after_handler(self, error: BaseException | None) -> Transaction:
        """After the handler: undo `arm` and tell what became of our transaction."""

    def is_ours(self) -> bool:
        """After a handler that returned: whether our transaction is the one that is open."""
        return self.in_transaction()

    def swallowed(self) -> BaseException | None:
        """The error that no handler may go on after, although this one did; None if none."""
        return self.contention

    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether a transaction of ours may still be open."""

    def check_deferred(self) -> None:
        """Check now what a commit would check, where anything is deferred to it."""
        return

    @abstractmethod
    def commit(self, wait: float) -> bool | None:
        """Commit; whether the database says so, None if a seal sent with it found no claim."""

    def rollback(self) -> None:
        """Roll our transaction back, if there is one."""
        self.raw.rollback()

    def release(self) -> None:
        """Undo what `begin` changed on the connection beyond the transaction."""
        return

    def cut(self) -> None:
        """From another thread: end the driver's wait for an answer. A file has none."""
        return

    @abstractmethod
    def kill(self) -> None:
        """Close the driver's connection without any farewell that could wait."""

    def serve_markers(self) -> None:
        """Set a connection of the markers' own up: autocommit, a lock bound of about 100 ms."""
        return

    def key_is_released(self, occurrence: Occurrence) -> bool:
        """Whether no open transaction holds the key now; leaves nothing behind (PROTOCOL 20)."""
        self.begin(1.0)
        try:
            self.run("probe_key", key_params(occurrence))
            return True
        except Exception as error:
            if self.classify(error) is ErrorKind.CONTENTION:
                return False
            raise
        finally:
            self.rollback()

    # A caller's transaction

    @abstractmethod
    def require_transaction(self) -> None:
        """Refuse a connection whose transaction could not carry a claim (PROTOCOL 11).

        Raises:
            NoTransaction: In autocommit with no transaction open, closed, or aborted.
        """

    @abstractmethod
    def claim_in_caller(self, params: Params, wait: float) -> Claimed:
        """Insert occurrence and attempt in the caller's transaction; asks as *by_key* does."""

    def claim_row_in_caller(self, names: Mapping[str, str], params: Params, wait: float) -> Claimed:
        """As `claim_row`, in the caller's transaction."""
        return self.claim_row(names, params, wait)

    @abstractmethod
    def is_claimed_here(self, occurrence: Occurrence) -> bool:
        """Whether `claim_in_caller` inserted it in the caller's transaction that is open now."""

    def unclaim(self, params: Params) -> None:
        """Delete what `claim_in_caller` inserted, and nothing else."""
        self.change("unclaim", params)
        self.change("unclaim_attempt", params)

    def restore(self) -> None:
        """Undo what a claim set for itself in the caller's transaction (PROTOCOL 12)."""
        return

    # Errors

    def classify(self, error: BaseException) -> ErrorKind | None:
        """What a driver's error means; None for an error that is not the driver's."""
        return self.dialect.classify(error)

    @staticmethod
    def bounds(wait: float) -> dict[str, Any]:
        """A wait as the binds `wait_ms` (never 0, which means no limit) and `wait_s`."""
        return {
            "wait_ms": str(max(1, math.ceil(wait * 1000))),
            "wait_s": math.floor(wait) if wait >= 1 else (1 if wait > 0.5 else 0),
        }


def host_clock_us() -> int:
    """This host's clock in microseconds; SQLite's own clock is the same one."""
    return time.time_ns() // 1000


def shut_down(descriptor: int) -> None:
    """Let whoever reads from a socket find its end; the descriptor stays its owner's."""
    with socket.socket(fileno=os.dup(descriptor)) as copy:
        copy.shutdown(socket.SHUT_RDWR)


def horizon_of(rows: Sequence[Row]) -> int | None:
    """The horizon in the rows of `read_horizon`."""
    return None if not rows or rows[0][0] is None else int(rows[0][0])


def guard_missing() -> InvariantBroken:
    """Without its row a lock on the guard locks nothing, and a pruned key could run again."""
    return InvariantBroken(
        "duly_guard has no row, so no prune can be kept from an attempt: restore the table from a"
        " backup"
    )
