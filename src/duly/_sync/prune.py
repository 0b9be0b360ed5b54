"""Performs the ops of a prune; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._core import ops, retention
from duly._core.expected import Expected
from duly._core.instants import from_us, to_us
from duly._core.occurrence import Occurrence
from duly._db.dialects import ErrorKind
from duly._sync import outstanding, planning, registry
from duly._sync.sweep import is_under_way

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from duly._db.connect import Database
    from duly._db.sessions.base import Session
    from duly._sync.evidence import Evidence


def drive(
    database: Database,
    evidence: Evidence,
    protocol: Generator[retention.PruneOp, Any, list[retention.PrunedJob]],
    probe: Any = None,
) -> list[retention.PrunedJob]:
    """Run a prune to its end on one connection.

    Raises:
        PruneRefused, Busy, DulyError: As the protocol; the batch under way is rolled back.
    """
    return driven(database, protocol, lambda session, op: _perform(evidence, session, op), probe)


def driven(
    database: Database,
    protocol: Generator[retention.PruneOp, Any, list[retention.PrunedJob]],
    perform: Callable[[Session, retention.PruneOp], Any],
    probe: Any = None,
) -> list[retention.PrunedJob]:
    """The same by any performer of the ops.

    Raises:
        PruneRefused, Busy, DulyError: As `drive`.
    """
    with database.session() as session:
        try:
            op = next(protocol)
            while True:
                try:
                    if probe is not None:
                        probe("before", op, session)
                    reply = perform(session, op)
                    if probe is not None:
                        probe("after", op, session)
                except Exception as error:
                    if session.classify(error) is not ErrorKind.CONTENTION:
                        raise
                    op = protocol.throw(ops.Contention(error))
                else:
                    op = protocol.send(reply)
        except StopIteration as done:
            result: list[retention.PrunedJob] = done.value
            return result
        finally:
            protocol.close()


def touch_guard(session: Session) -> None:
    """Wait for every attempt that looked at the guard, and let none look before the commit."""
    if session.change("touch_guard", session.bounds(10.0)) != 1:
        # MariaDB counts a row whose value did not change as 0; the lock is held.
        session.lock_guard(10.0)


def _perform(evidence: Evidence, session: Session, op: retention.PruneOp) -> Any:
    match op:
        case ops.Begin():
            return session.begin_prune(10.0)
        case ops.Commit():
            return session.commit(10.0)
        case ops.Rollback():
            return session.rollback()
        case retention.ReadFacts():
            newest = session.run("newest_recorded", {})[0][0]
            return retention.Facts(session.clock_us(), None if newest is None else int(newest))
        case retention.ListJobs():
            return list(session.run("prune_jobs", {"bound_us": op.bound_us, "limit": 100_000}))
        case retention.OldestHeld():
            return _oldest_held(evidence, session, op)
        case retention.TouchGuard():
            return touch_guard(session)
        case retention.RaiseHorizon():
            return session.change("raise_horizon", {"job": op.job, "horizon_us": op.horizon_us})
        case retention.DeleteBatch():
            params = {"job": op.job, "horizon_us": op.horizon_us, "limit": op.rows}
            session.change("prune_deliveries", params)  # of the messages that go next
            return retention.Deleted(
                session.change("prune_occurrences", params),
                session.change("prune_attempts", params),
                session.change("prune_duplicates", params),
                session.change("prune_messages", params),
            )
        case _:
            raise AssertionError(f"a prune does not ask for {op}")


def _oldest_held(
    evidence: Evidence, session: Session, op: retention.OldestHeld
) -> retention.Held | None:
    found = [
        *_torn(session, op),
        *_running(evidence, session, op),
        *_missing(session, op),
        *_undelivered(session, op),
    ]
    return min(found, key=lambda held: held.nominal_us, default=None)


def _torn(session: Session, op: retention.OldestHeld) -> Iterator[retention.Held]:
    us = session.run("oldest_torn", {"job": op.job, "bound_us": op.bound_us})[0][0]
    if us is not None:
        yield _held(op.job, int(us), "torn")


def _running(
    evidence: Evidence, session: Session, op: retention.OldestHeld
) -> Iterator[retention.Held]:
    for marker in evidence.running(session):
        below = marker.job == op.job and marker.nominal_us <= op.bound_us
        if below and is_under_way(session, marker):
            yield _held(op.job, marker.nominal_us, "running", marker.partition_key)


def _missing(session: Session, op: retention.OldestHeld) -> Iterator[retention.Held]:
    """What is missing of each partition; looked for from where all was found settled."""
    known = registry.read(session, op.job)
    if known is None:
        return
    # With a period, an occurrence is due somewhat later than its nominal time.
    bound_at = from_us(op.bound_us)
    latest_due = bound_at + (bound_at - planning.earliest_due(known, bound_at))
    now = min(from_us(session.clock_us()), latest_due)
    for partition, part in outstanding.missing(session, known, now=now).items():
        if part.nominal_us[0] <= op.bound_us:
            yield _held(op.job, part.nominal_us[0], "missing", partition)
    # A month is due when it is over, weeks after its nominal time; a pause may end before.
    unpaused = Expected(registry.spans(known.revisions))
    to_come = next(unpaused.due_between(now + planning.MICROSECOND, latest_due), None)
    if to_come is not None and to_us(to_come) <= op.bound_us:
        yield _held(op.job, to_us(to_come), "not due yet")


def _undelivered(session: Session, op: retention.OldestHeld) -> Iterator[retention.Held]:
    """What a person, a lookup or a relay still has to decide about a message."""
    for nominal_us, partition, correction in session.run(
        "oldest_open_message", {"job": op.job, "bound_us": op.bound_us}
    ):
        occurrence = Occurrence.from_us(op.job, int(nominal_us), partition, int(correction))
        yield retention.Held(occurrence.nominal_us, occurrence.key, "undelivered")


def _held(job: str, nominal_us: int, why: str, partition: str = "") -> retention.Held:
    return retention.Held(nominal_us, Occurrence.from_us(job, nominal_us, partition).key, why)
