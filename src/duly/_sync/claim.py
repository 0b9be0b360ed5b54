"""`duly.claim`: the primitive, for a transaction that the caller owns.

It inserts the key and its attempt and says whether the key was free. It never begins,
commits or rolls back, and sets nothing that outlives the claim (PROTOCOL 10 to 13).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._core import ops
from duly._core.occurrence import Occurrence
from duly._core.payload import canonical, stored
from duly._core.protocol import claim as claim_protocol
from duly._core.states import Outcome
from duly._db.sessions.base import Session, host_clock_us, key_params
from duly._db.translate import first_line
from duly._sync.caller_errors import told_of
from duly._sync.callers import open_session, synchronous
from duly._sync.process import host_name, new_attempt_id, user_name
from duly._sync.refusals import loaded, refusal
from duly.errors import KeyInvalid, TransactionEnded, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

WAIT_MAX = 604_800


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
    connection = synchronous(connection)
    lender = getattr(connection, "lender", None)
    if lender is not None and getattr(lender, "key", None) == occurrence.key:
        raise UsageError(
            f"this handler is the attempt at {occurrence.key}, and holds that key already: leave"
            " duly.claim out, or claim another key"
        )
    fingerprint = canonical(payload).fingerprint
    request = ops.Request(
        occurrence,
        fingerprint,
        new_attempt_id(),
        looks_old=looks_old(occurrence),
        due_us=None if early else occurrence.nominal_us,
        by_key=True,
    )
    wait_s = seconds(wait)
    with told_of(occurrence.key):
        session = open_session(connection, schema)
        report = _drive(session, request, wait_s)
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
    params = {
        **key_params(request.occurrence),
        "fingerprint": stored(request.fingerprint),
        "attempt_id": session.encode_id(request.attempt_id),
        "started_by": f"python:{user_name()}@{host_name()}"[:200],
        "source": "claim",
        "host": host_name(),
        "pid": os.getpid(),
    }
    return in_caller(
        session, claim_protocol(request),
        lambda op: _perform(session, op, request, params, wait_s),
    )  # fmt: skip


def in_caller(session: Session, protocol: ops.Ops, perform: Callable[[ops.Op], Any]) -> ops.Report:
    """Run *protocol* to its end in a caller's transaction.

    Raises:
        NoTransaction: There is none that could carry a claim.
    """
    try:
        session.require_transaction()
        op = next(protocol)
        while True:
            op = protocol.send(perform(op))
    except StopIteration as done:
        report: ops.Report = done.value
        return report
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
            return session.lock_guard(wait_s, then_read=request.occurrence.job)
        case ops.ReadHorizon():
            return session.read_horizon(request.occurrence.job)
        case ops.Explain():
            return session.read_standing(request.occurrence)
        case ops.Unclaim():
            return session.unclaim(params)
        case _:
            raise AssertionError(f"a claim does not ask for {op}")
