"""What a person asks of an inbox, and orders: reads, release, discard, prune.

It decides nothing about a delivery: the key and the parked row do.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duly._core import ops, retention
from duly._core.inbox import Parked, ParkedState
from duly._core.inbox_view import InboxEntry, InboxMessage, InboxSummary, ParkedMessage
from duly._core.instants import from_us
from duly._sync import deciding
from duly._sync.prune import touch_guard
from duly.errors import OperatorError, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.message import Message
    from duly._db.connect import Database
    from duly._db.sessions.base import Row, Session

LIMIT_MAX = 10_000
FORGET_BATCH = 500

# What a person may settle, from which states.
_FROM = {
    ParkedState.RELEASED: (ParkedState.HELD, ParkedState.DISCARDED),
    ParkedState.DISCARDED: (ParkedState.HELD, ParkedState.RELEASED),
}

_DECIDED = {
    ParkedState.RELEASED: "is released already: its next delivery is handled as new",
    ParkedState.DISCARDED: "is discarded already: its deliveries are acknowledged unhandled",
    ParkedState.TAKEN: "was released, and the delivery that came then is handled already",
}


def messages(database: Database, consumer: str, limit: int) -> list[InboxMessage]:
    """The messages of a consumer, newest first."""
    with database.session() as session:
        rows = session.run("inbox_list", {"consumer": consumer, "limit": _limit(limit)})
        return [_message(session, row) for row in rows]


def parked(
    database: Database, consumer: str | None, *, held_only: bool, limit: int
) -> list[ParkedMessage]:
    """What is parked, newest first."""
    binds = {"consumer": consumer or "", "is_open": int(held_only), "limit": _limit(limit)}
    with database.session() as session:
        return [_parked(row) for row in session.run("parked_list", binds)]


def entry(database: Database, message: Message) -> InboxEntry:
    """All that is known of one message."""
    with database.session() as session:
        rows = session.run("inbox_show", message.columns)
        held = session.run("parked_show", message.columns)
        return InboxEntry(
            _message(session, rows[0]) if rows else None, tuple(_parked(row) for row in held)
        )


def summary(database: Database) -> list[InboxSummary]:
    """Every consumer that has taken a message."""
    with database.session() as session:
        rows = session.run("inbox_summary", {"limit": LIMIT_MAX})
    return [
        InboxSummary(row[0], int(row[1]), int(row[2] or 0), int(row[5]), _at(row[3]), _at(row[4]))
        for row in rows
    ]


def settle(
    database: Database,
    message: Message,
    fingerprint: str | None,
    state: ParkedState,
    order: ops.Order,
) -> ParkedMessage:
    """Release or discard what is parked under a message's id.

    Args:
        fingerprint: The beginning of the one that is meant, in hexadecimal; None if only one
            can be.

    Raises:
        UsageError: Nothing, or more than one, is meant.
        OperatorError: It was taken since.
        Busy: A delivery of it is being handled.
    """

    def work(session: Session, wait: float) -> ParkedMessage:
        found = _meant(session, message, fingerprint, state)
        binds = {
            **message.columns,
            "fingerprint": bytes.fromhex(found.fingerprint),
            "state": state.value,
            "before": found.state.value,
            "actor": order.actor,
            "reason": order.reason,
            **session.bounds(wait),
        }
        if session.change("parked_settle", binds) != 1:
            if found.state is ParkedState.TAKEN:
                raise _decided_already(message, found)
            raise OperatorError(
                f"{message.key} changed meanwhile: look at it again with `duly inbox show`"
            )
        return found

    return deciding.decided(database, work, about=message.key)


def forget_answers(database: Database) -> int:
    """Delete the stored answers of HTTP keys that have expired; the keys stay refused."""
    count = 0
    while True:

        def work(session: Session, _wait: float) -> int:
            binds = {"clock_us": session.clock_us(), "limit": FORGET_BATCH}
            return session.change("http_forget", binds)

        done = deciding.decided(database, work, about="the HTTP keys")
        count += done
        if done < FORGET_BATCH:
            return count


def perform_prune(session: Session, op: retention.PruneOp) -> Any:
    """Perform one op of a prune on the inbox: a consumer stands for the job."""
    match op:
        case ops.Begin():
            return session.begin_prune(10.0)
        case ops.Commit():
            return session.commit(10.0)
        case ops.Rollback():
            return session.rollback()
        case retention.ReadFacts():
            newest = session.run("inbox_newest", {})[0][0]
            return retention.Facts(session.clock_us(), None if newest is None else int(newest))
        case retention.ListJobs():
            return list(session.run("inbox_consumers", {"bound_us": op.bound_us, "limit": 100_000}))
        case retention.OldestHeld():
            return _oldest_torn(session, op)
        case retention.TouchGuard():
            return touch_guard(session)
        case retention.RaiseHorizon():
            binds = {"consumer": op.job, "horizon_us": op.horizon_us}
            return session.change("inbox_raise_horizon", binds)
        case retention.DeleteBatch():
            binds = {"consumer": op.job, "horizon_us": op.horizon_us, "limit": op.rows}
            return retention.Deleted(
                session.change("inbox_prune", binds), session.change("parked_prune", binds), 0
            )
        case _:
            raise AssertionError(f"a prune does not ask for {op}")


def _oldest_torn(session: Session, op: retention.OldestHeld) -> retention.Held | None:
    binds = {"consumer": op.job, "bound_us": op.bound_us}
    rows = session.run("inbox_oldest_torn", binds)
    if not rows:
        return None
    sent_us, source, message_id = rows[0]
    return retention.Held(int(sent_us), f"message {message_id!r} of {source!r}", "torn")


def _meant(
    session: Session, message: Message, fingerprint: str | None, state: ParkedState
) -> ParkedMessage:
    rows = [_parked(row) for row in session.run("parked_show", message.columns)]
    if not rows:
        raise UsageError(f"{message.key} has nothing parked: look with `duly inbox parked`")
    wanted = [row for row in rows if row.fingerprint.startswith((fingerprint or "").lower())]
    free = [row for row in wanted if row.state in _FROM[state] or row.state is ParkedState.TAKEN]
    if fingerprint is None and len(free) > 1:
        free = [row for row in free if row.state is ParkedState.HELD] or free
    if len(free) > 1:
        names = ", ".join(row.fingerprint[:16] for row in free)
        raise UsageError(
            f"{message.key} has {len(free)} bodies parked ({names}): name one with --fingerprint"
        )
    if wanted and all(row.state is state for row in wanted):
        raise _decided_already(message, wanted[0])
    if not free:
        states = ", ".join(sorted({row.state.value for row in wanted})) or "none of that body"
        raise OperatorError(
            f"{message.key} cannot become {state.value}: what is parked there is {states}"
        )
    return free[0]


def _decided_already(message: Message, found: ParkedMessage) -> OperatorError:
    return OperatorError(
        f"{message.key} {_DECIDED[found.state]} (by {found.actor}: {found.reason}); nothing was"
        " changed now"
    )


def _message(session: Session, row: Row) -> InboxMessage:
    consumer, source, message_id, fingerprint, receipt_id, sent, received, handled = row[:8]
    return InboxMessage(
        consumer,
        source,
        message_id,
        bytes(fingerprint).hex(),
        session.decode_id(receipt_id),
        _at(sent),
        from_us(int(received)),
        _at(handled),
        None if row[8] is None else json.loads(row[8]),
        int(row[9]),
        _at(row[10]),
    )


def _parked(row: Row) -> ParkedMessage:
    consumer, source, message_id, fingerprint, why, state, stored, sent, parked_us = row[:9]
    return ParkedMessage(
        consumer,
        source,
        message_id,
        bytes(fingerprint).hex(),
        Parked(why),
        ParkedState(state),
        None if stored is None else bytes(stored).hex(),
        _at(sent),
        from_us(int(parked_us)),
        int(row[9]),
        from_us(int(row[10])),
        row[11],
        row[12],
    )


def _at(us: int | None) -> datetime | None:
    return None if us is None else from_us(int(us))


def _limit(limit: int) -> int:
    if not 1 <= limit <= LIMIT_MAX:
        raise UsageError(f"limit={limit} is not allowed; give 1 to {LIMIT_MAX}")
    return limit
