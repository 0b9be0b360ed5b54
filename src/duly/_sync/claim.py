"""`duly.claim`: the primitive, for a transaction that the caller owns.

It inserts the key and its attempt and says whether the key was free. It never begins,
commits or rolls back, and sets nothing that outlives the claim (PROTOCOL 10 to 13).
"""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

from duly._core import ops
from duly._core.occurrence import Occurrence
from duly._core.payload import canonical
from duly._core.protocol import claim as claim_protocol
from duly._core.states import Outcome
from duly._db.dialects import MARIADB, POSTGRESQL, SQLITE, Dialect, ErrorKind
from duly._db.sessions.base import Session, host_clock_us, key_params
from duly._db.sessions.choose import comes_from, is_asynchronous, is_djangos, make_session
from duly._db.tables import require_current
from duly._db.translate import first_line, public_error
from duly._db.waiting import in_loop
from duly._sync.process import host_name, new_attempt_id, user_name
from duly._sync.refusals import loaded, refusal
from duly.errors import (
    ConnectionLost,
    KeyInvalid,
    NoTransaction,
    SchemaMissing,
    TransactionEnded,
    TransientError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from duly._db.sessions.sqlite_driver import SqliteSession

_schemas: weakref.WeakKeyDictionary[Any, dict[str | None, str]] = weakref.WeakKeyDictionary()
WAIT_MAX = 604_800
_checked_files: set[tuple[int, int, int]] = set()


@dataclass(frozen=True, slots=True)
class Found:
    """What a claim found.

    Attributes:
        is_new: The key is this transaction's: make the change, then commit both.
        outcome: `applied` if new, else `duplicate`.
        key: The logical key.
        attempt_id: This claim's attempt, or the one that applied the key before.
        value: The stored result of the one before, or None.
    """

    is_new: bool
    outcome: Outcome
    key: str
    attempt_id: UUID
    value: Any = None
    _session: Session = field(repr=False, kw_only=True)
    _occurrence: Occurrence = field(repr=False, kw_only=True)

    def _confirm(self) -> None:
        params = {
            **key_params(self._occurrence),
            "attempt_id": self._session.encode_id(self.attempt_id),
        }
        try:
            swallowed = self._session.swallowed()
            found = swallowed is None and self._session.run("confirm", params)
        except Exception as error:
            if self._session.classify(error) is None:
                raise
            found, swallowed = (), error
        if swallowed is not None:
            raise TransactionEnded(
                f"{self.key}: an earlier error has ended this transaction"
                f" ({first_line(swallowed)}), so a commit would keep nothing: roll back and try the"
                " whole again",
                key=self.key,
            ) from swallowed
        if not found:
            raise TransactionEnded(
                f"{self.key}: the claim is not in this transaction any more (a savepoint was rolled"
                " back, or the transaction ended): roll back and try the whole again",
                key=self.key,
            )


class Claim(Found):
    """What a claim found; see `Found` for its attributes."""

    __slots__ = ()

    def confirm(self) -> None:
        """Prove, just before the commit, that the claim is still in the transaction.

        A savepoint that was rolled back took a claim made inside it along, and left the
        change: claim outside savepoints, or call this.

        Raises:
            TransactionEnded: The claim is gone; roll back.
        """
        self._confirm()


def claim(
    connection: Any,
    occurrence: Occurrence | str,
    *,
    payload: Any = None,
    schema: str | None = None,
    wait: timedelta | float = 10.0,
    early: bool = False,
) -> Claim:
    """Claim an occurrence inside the transaction of *connection*.

    The caller commits the claim and its own change together, or neither. Claim first, then
    change; a rival waits for this transaction to end.

    Args:
        connection: Of sqlite3, psycopg, PyMySQL, SQLAlchemy (a Connection or a Session) or
            Django, with a transaction open or begun by its next statement.
        occurrence: What is done, or its key's text.
        payload: JSON-ready; the same key with another payload is refused.
        schema: Of the ledger, where it is not the connection's default.
        wait: How long to wait for a rival, as a timedelta or in seconds.
        early: The nominal time may lie in the future.

    Raises:
        PayloadConflict, AlreadySettled, Expired: The key is held; nothing was changed.
        NotDue: The nominal time is in the future; nothing was changed.
        TransientError: The database was contended: roll back and try the whole again.
        NoTransaction: The connection would commit claim and change apart.
        PayloadInvalid, KeyInvalid: Refused before any statement.
    """
    occurrence = ordinary(occurrence)
    connection = _synchronous(connection)
    lender = getattr(connection, "lender", None)
    if lender is not None and getattr(lender, "key", None) == occurrence.key:
        raise UsageError(
            f"this handler is the attempt at {occurrence.key}, and holds that key already: leave"
            " duly.claim out, or claim another key"
        )
    fingerprint = canonical(payload).fingerprint
    session = open_session(connection, schema)
    request = ops.Request(
        occurrence,
        fingerprint,
        new_attempt_id(),
        looks_old=looks_old(occurrence),
        due_us=None if early else occurrence.nominal_us,
    )
    report = _drive(session, request, seconds(wait))
    standing = report.standing
    if report.outcome is Outcome.APPLIED:
        return Claim(
            True, Outcome.APPLIED, occurrence.key, request.attempt_id,
            _session=session, _occurrence=occurrence,
        )  # fmt: skip
    if report.outcome is Outcome.DUPLICATE and standing and standing.attempt_id:
        return Claim(
            False, Outcome.DUPLICATE, occurrence.key, standing.attempt_id, loaded(standing.result),
            _session=session, _occurrence=occurrence,
        )  # fmt: skip
    raise refusal(request, report)


def ordinary(named: Occurrence | str) -> Occurrence:
    """The occurrence, or the one whose key was given as text.

    Raises:
        KeyInvalid: It is a correction, or no key.
    """
    if not isinstance(named, Occurrence | str):
        raise KeyInvalid(
            f"a key is a duly.Occurrence or the text of one, such as 'job:2026-09-13T00:00:00Z',"
            f" not {type(named).__name__}"
        )
    occurrence = Occurrence.parse(named) if isinstance(named, str) else named
    if occurrence.correction != 1:
        raise KeyInvalid(
            f"{occurrence.key} is a correction, which a person orders: `duly correct KEY` on the"
            " occurrence before it"
        )
    return occurrence


def looks_old(occurrence: Occurrence) -> bool:
    """Whether a prune may have passed it, by this host's clock, with half a day to spare."""
    return occurrence.nominal_us <= host_clock_us() - ops.FLOOR_US // 2


def seconds(wait: object) -> float:
    """A wait in seconds.

    Raises:
        UsageError: It is negative, longer than a week, or no duration.
    """
    value = wait.total_seconds() if isinstance(wait, timedelta) else wait
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= WAIT_MAX:
        raise UsageError(
            f"{wait!r} is no wait: give a timedelta or seconds, from 0 to {WAIT_MAX} (a week)"
        )
    return float(value)


def _drive(session: Session, request: ops.Request, wait_s: float) -> ops.Report:
    protocol = claim_protocol(request)
    params = {
        **key_params(request.occurrence),
        "fingerprint": request.fingerprint,
        "attempt_id": session.encode_id(request.attempt_id),
        "started_by": f"python:{user_name()}@{host_name()}"[:200],
        "source": "claim",
        "host": host_name(),
        "pid": os.getpid(),
    }
    try:
        session.require_transaction()
        op = next(protocol)
        while True:
            op = protocol.send(_perform(session, op, request, params, wait_s))
    except StopIteration as done:
        report: ops.Report = done.value
        return report
    except ops.Contention as vanished:
        raise _again(request, vanished.cause) from vanished.cause
    except Exception as error:
        raise _translated(session, request, error) from error
    finally:
        protocol.close()
        session.restore()


def _perform(
    session: Session, op: ops.Op, request: ops.Request, params: dict[str, Any], wait_s: float
) -> Any:
    match op:
        case ops.Claim():
            return session.claim_in_caller(params, wait_s)
        case ops.LockGuard():
            return session.lock_guard(wait_s)
        case ops.ReadHorizon():
            return session.read_horizon(request.occurrence.job)
        case ops.Explain():
            return session.read_standing(request.occurrence)
        case ops.Unclaim():
            return session.unclaim(params)
        case _:
            raise AssertionError(f"a claim does not ask for {op}")


def _translated(session: Session, request: ops.Request, error: Exception) -> Exception:
    where = f"the {session.dialect.title} connection"
    match session.classify(error):
        case ErrorKind.CONTENTION:
            return _again(request, error)
        case ErrorKind.LOST:
            return ConnectionLost(
                f"{request.occurrence.key}: the connection was lost ({first_line(error)}): nothing"
                " was committed; connect and try the whole again"
            )
        case _:
            return public_error(session.dialect, error, where) or error


def _again(request: ops.Request, error: BaseException) -> TransientError:
    return TransientError(
        f"{request.occurrence.key}: the database was contended ({first_line(error)}) and this"
        " transaction may be damaged: roll back and try the whole again",
        key=request.occurrence.key,
    )


# From a connection of the user's to a session


def open_session(connection: Any, schema: str | None) -> Session:
    """A session on the driver's connection beneath *connection*, with the ledger checked.

    Raises:
        UsageError: A connection of a kind that duly does not know.
        SchemaMissing, SchemaOutdated, SchemaNewer: The ledger is not this code's.
    """
    if is_djangos(connection):
        from duly._db.sessions.django_wrapper import django_session, wrapper_of

        wrapper = wrapper_of(connection)
        return _with_ledger(partial(django_session, wrapper), schema)
    raw = _driver_connection(connection)
    if is_asynchronous(raw) and not in_loop():
        raise UsageError(
            f"duly.claim cannot wait for a connection of type {type(raw).__module__}."
            f"{type(raw).__qualname__}: write `await duly.aio.claim(…)`"
        )
    kind: Any = type(raw)
    return _with_ledger(partial(make_session, _dialect(kind), raw), schema)


def _with_ledger(make: Callable[[str | None], Session], schema: str | None) -> Session:
    session = make(schema)
    if session.dialect is SQLITE:
        _check_file(session)
        return session
    known = _schemas.setdefault(session.driver, {})
    if schema not in known:
        session.require_transaction()
        known[schema] = _find_ledger(session, schema)
    return make(known[schema])


def _synchronous(connection: Any) -> Any:
    """What SQLAlchemy's AsyncConnection or AsyncSession stands for."""
    kind: Any = type(connection)
    if not comes_from("sqlalchemy", kind):
        return connection
    for name in ("sync_connection", "sync_session"):
        if (found := getattr(connection, name, None)) is not None:
            return found
    return connection


def _driver_connection(connection: Any) -> Any:
    kind: Any = type(connection)
    if not comes_from("sqlalchemy", kind):
        return connection
    from sqlalchemy import Connection
    from sqlalchemy.exc import InvalidRequestError, UnboundExecutionError
    from sqlalchemy.orm import Session as OrmSession
    from sqlalchemy.orm import scoped_session

    if isinstance(connection, scoped_session):
        connection = connection()
    try:
        if isinstance(connection, OrmSession):
            _refuse_changes(connection)
            connection = connection.connection()
        if not isinstance(connection, Connection):
            raise UsageError(
                f"duly.claim takes a connection or a session, not {type(connection).__name__}: use"
                " `with engine.begin() as connection:`"
            )
        if not connection.in_transaction():
            # As its own next statement would have done; without it, SQLAlchemy's commit()
            # would not know of the claim.
            connection.begin()
        return connection.connection.driver_connection
    except (InvalidRequestError, UnboundExecutionError) as error:
        raise NoTransaction(
            f"duly.claim: SQLAlchemy has no usable transaction there ({first_line(error)}): roll"
            " it back, or open a new one, and claim again"
        ) from error


def _refuse_changes(session: Any) -> None:
    """Changes of an effect that come before the claim are committed with a duplicate too."""
    changed = [each for each in session.dirty if session.is_modified(each)]
    if session.new or changed or session.deleted:
        raise UsageError(
            "duly.claim: the session holds changes from before the claim"
            f" (new: {len(session.new)}, changed: {len(changed)}, deleted: {len(session.deleted)}),"
            " which would be committed also where the claim is a duplicate: claim first, then"
            " change; or call session.flush() for what is no part of the effect"
        )


@cache
def _dialect(connection_class: type[Any]) -> Dialect:
    names = {(kind.__module__.split(".")[0], kind.__name__) for kind in connection_class.__mro__}
    if names & {("sqlite3", "Connection"), ("aiosqlite", "Connection")}:
        return SQLITE
    if names & {("psycopg", "Connection"), ("psycopg", "AsyncConnection")}:
        return POSTGRESQL
    if names & {("pymysql", "Connection"), ("asyncmy", "Connection")}:
        return MARIADB
    raise UsageError(
        "duly.claim does not know connections of type"
        f" {connection_class.__module__}.{connection_class.__qualname__}: give one of sqlite3,"
        " psycopg 3, PyMySQL, SQLAlchemy or Django"
    )


def _find_ledger(session: Session, schema: str | None) -> str:
    from duly._db.checks import default_schema

    dialect = session.dialect
    found = default_schema(session, schema)
    checked = make_session(dialect, session.driver, found)
    require_current(checked, f"schema {found!r} of this {dialect.title} connection")
    return found


def _check_file(session: Session) -> None:
    session.require_transaction()
    raw = session.raw
    path = cast("SqliteSession", session).path
    identity: tuple[int, int, int] | None = None
    if path:
        found = os.stat(path)
        identity = (found.st_dev, found.st_ino, os.getpid())
        if identity in _checked_files:
            return
    try:
        require_current(session, f"SQLite file {path}" if path else "this SQLite database")
    except SchemaMissing:
        if not path or raw.in_transaction:
            raise
        # The embedded default: in an existing file the tables are made at first use.
        from duly._db.connect import Database
        from duly._db.migrate import migrate

        migrate(Database(f"sqlite:///{path}"))
    if identity is not None:
        _checked_files.add(identity)
