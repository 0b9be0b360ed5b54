"""Partitions: each occurrence in parts, each part exactly once.

Decides nothing about a part; it fixes the set of an occurrence's partitions when the occurrence
is first planned, and reads which of them are missing. A partition that is added later is not
demanded of the past.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from sqlalchemy import text

from duly._core.instants import US_MAX, format_instant
from duly._core.occurrence import Occurrence, check_partition
from duly._core.states import IN_PARTS, Disposition
from duly._core.wording import shown
from duly._db.dialects import ErrorKind
from duly._db.translate import first_line
from duly._sync import planning
from duly._sync.deciding import decided
from duly._sync.planning import MICROSECOND, Missing, start_of
from duly.errors import KeyInvalid, PartitionsInvalid, ScriptInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from sqlalchemy import Connection

    from duly._core.job import Job
    from duly._db.connect import Database
    from duly._db.sessions.base import Session
    from duly._sync.registry import Known

FIXED_AT_ONCE = 1_000
"""Partitions that are sent to a server before it is waited for."""
SETS_MAX = 1_000
"""Occurrences whose sets are fixed in one tick at most."""
READ_ONLY = {
    "mariadb": ("SELECT @@SESSION.tx_read_only", "SET SESSION tx_read_only = {}"),
    "sqlite": ("PRAGMA query_only", "PRAGMA query_only = {}"),
}
"""What says whether a connection may change anything, and what sets it."""
PARTITIONS_MAX = 100_000
"""Partitions of one occurrence at most, and missing ones that are looked at in one tick."""


def missing(
    database: Database, session: Session, job: Job, known: Known, *, now: datetime
) -> dict[str, Missing]:
    """What is missing of each partition, after the sets of what is due were fixed.

    Of a job that has no partitions any more: of "", and of those that were fixed before.

    Raises:
        PartitionsInvalid: The query fails, or gives what cannot name partitions.
    """
    if job.partitions is None and not has_sets(session, known, now):
        return {"": planning.missing(session, known, now=now)}
    due = due_times(known, start_of(known), now)
    if not due:
        return {}
    planned = planned_sets(session, known.job, due)
    whole = settled_whole(session, known.job, due)
    unplanned = [us for us in due if us not in planned and us not in whole]
    newest_us = due[-1]
    session.rollback()
    if job.partitions is not None and len(unplanned) > SETS_MAX:
        # What this tick leaves is not looked at, so it stays missing.
        unplanned = unplanned[:SETS_MAX]
        due = due[: bisect_right(due, unplanned[-1])]
    if job.partitions is not None and unplanned:
        names = partitions_of(database, job)
        for us in unplanned:
            fix(database, known.job, us, names)
    found, until_us = missing_parts(session, known.job, due)
    if job.partitions is None and (left := [us for us in unplanned if us <= until_us]):
        found[""] = array("q", left)
    left_from_us = None if until_us == newest_us else until_us
    found = found or {"": array("q")}
    return {
        partition: Missing(times, len(due), newest_us, left_from_us)
        for partition, times in sorted(found.items())
    }


def has_sets(session: Session, known: Known, now: datetime) -> bool:
    """Whether the partitions of any occurrence that is looked at are fixed."""
    due = next(known.expected.stretches(start_of(known), now + MICROSECOND), None)
    if due is None:
        return False
    bounds = {"job": known.job, "since_us": due[0], "until_us": US_MAX + 1}
    return bool(session.run("planned_sets", bounds))


def due_times(known: Known, since: datetime, now: datetime) -> array[int]:
    """The nominal times of all that fell due from *since* to *now*."""
    due = array("q")
    for stretch in known.expected.stretches(since, now + MICROSECOND):
        due.extend(stretch)
    return due


def planned_sets(session: Session, job: str, due: Sequence[int]) -> set[int]:
    """Those of *due*, which is not empty, whose partitions are fixed."""
    bounds = {"job": job, "since_us": due[0], "until_us": due[-1] + 1}
    return {int(row[0]) for row in session.run("planned_sets", bounds)}


def settled_whole(session: Session, job: str, due: Sequence[int]) -> set[int]:
    """Those of *due* that were settled while the job had no partitions: no part is owed."""
    series = {"job": job, "partition_key": "", "since_us": due[0], "until_us": due[-1]}
    return {int(row[0]) for row in session.run("settled_times", series)}


def missing_parts(
    session: Session, job: str, due: Sequence[int]
) -> tuple[dict[str, array[int]], int]:
    """The missing parts of those of *due* whose partitions are fixed, by partition.

    Returns:
        Them, and the last of *due* that was looked at: more than `PARTITIONS_MAX` are too many.
    """
    bounds = {"job": job, "since_us": due[0], "until_us": due[-1] + 1}
    rows = session.run("missing_partitions", {**bounds, "limit": PARTITIONS_MAX + 1})
    until_us = due[-1]
    if len(rows) > PARTITIONS_MAX:  # the last occurrence may not be whole
        until_us = max(us for us in due if us < int(rows[-1][0]))
    asked = {us for us in due if us <= until_us}
    found: dict[str, array[int]] = {}
    for us, partition in rows:
        if int(us) in asked:
            found.setdefault(partition, array("q")).append(int(us))
    return found, until_us


def partitions_of(database: Database, job: Job) -> tuple[str, ...]:
    """The partitions that a job declares now: its list, or what its query gives.

    Raises:
        PartitionsInvalid: The query fails, or gives NULLs, duplicates, or no column of its own.
    """
    if not isinstance(job.partitions, str):
        return job.partitions or ()
    _refuse_several(database, job)
    try:
        with _reading(database) as connection:
            rows = connection.execute(text(job.partitions)).fetchmany(PARTITIONS_MAX + 1)
    except Exception as error:
        if database.dialect.classify(error) in {ErrorKind.LOST, ErrorKind.CONTENTION}:
            raise
        raise _invalid(job, f"fails: {first_line(error)}; correct it") from error
    if len(rows) > PARTITIONS_MAX:
        raise _invalid(job, f"gives more than {PARTITIONS_MAX} rows; split the job")
    if any(len(row) != 1 for row in rows):
        raise _invalid(job, f"gives {len(rows[0])} columns; select the partition alone")
    if any(row[0] is None for row in rows):
        raise _invalid(job, "gives a NULL; leave those rows out (WHERE … IS NOT NULL)")
    if any(isinstance(row[0], bytes | memoryview) for row in rows):
        raise _invalid(job, "gives bytes, which are no name; select them as text, such as hex")
    names = [str(row[0]) for row in rows]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _invalid(job, f"gives {shown(twice)} twice; write SELECT DISTINCT")
    for name in names:
        try:
            if check_partition(name) == "":
                raise _invalid(job, "gives an empty text, which names no partition; leave it out")
        except KeyInvalid as error:
            raise _invalid(job, f"gives a name that cannot be one: {error}") from error
    return tuple(names)


def _refuse_several(database: Database, job: Job) -> None:
    """Of several statements the first could end the transaction in which nothing can be changed.

    Raises:
        PartitionsInvalid: The query is not one statement.
    """
    query = str(job.partitions)
    if ";" not in query.rstrip().removesuffix(";"):
        return
    from duly._db import script

    try:
        several = script.count(query, database.dialect) > 1
    except ScriptInvalid as error:
        raise _invalid(job, f"cannot be read: {error}") from error
    if several:
        raise _invalid(job, "is more than one statement; give one SELECT")


def require_part(
    database: Database, job: Job, occurrence: Occurrence, *, is_recorded: bool = True
) -> None:
    """Refuse a partition that an occurrence of a job with partitions does not have.

    Its set is the one that was fixed; a time that was settled while the job had no partitions has
    none. Where neither is known, it is what the job declares now.

    Raises:
        PartitionsInvalid: It names those that there are, or the query for them fails.
    """
    if job.partitions is None:
        return
    names: tuple[str, ...] | None = None
    if is_recorded:
        with database.session() as session:
            names = fixed(session, occurrence)
    if names is None:
        names = partitions_of(database, job)
    if occurrence.partition in names:
        return
    at = format_instant(occurrence.nominal_time)
    given = shown(occurrence.partition) if occurrence.partition else "the whole occurrence"
    if names == ("",):
        step = "was settled as a whole, before the job had partitions: leave --partition out"
    elif not names:
        step = "has no partitions, because its query gave none: nothing of it is owed"
    else:
        listed = ", ".join(map(shown, names[:5])) + (", …" if len(names) > 5 else "")
        step = (
            f"has the partitions {listed}: name one"
            f" (--partition), or run all that are missing (`duly backfill {job.name} --since …"
            " --until …`)"
        )
    raise PartitionsInvalid(
        f"job {job.name}: {given} cannot be run, because {at} {step}", job=job.name
    )


def fix_for(database: Database, job: Job, occurrence: Occurrence) -> None:
    """Fix the set of what a part is started of by name, so that nobody runs the whole beside it.

    Raises:
        PartitionsInvalid: It was made as a whole meanwhile, or its set has no such part.
        Busy: Somebody runs the whole.
    """
    with database.session() as session:
        if fixed(session, occurrence):
            return
    fix(database, job.ledger_name, occurrence.nominal_us, partitions_of(database, job))
    require_part(database, job, occurrence)


def fixed(session: Session, occurrence: Occurrence) -> tuple[str, ...] | None:
    """The partitions of one occurrence as they were fixed; None if they were not."""
    job, us = occurrence.job, occurrence.nominal_us
    rows = session.run("fixed_partitions", {"job": job, "nominal_us": us})
    if rows:
        return tuple(str(row[0]) for row in rows)
    if planned_sets(session, job, [us]):
        return ()
    return ("",) if settled_whole(session, job, [us]) else None


def fix(database: Database, job: str, nominal_us: int, names: tuple[str, ...]) -> None:
    """Fix the set of one occurrence, unless another host just did, or made it as a whole.

    The key of the whole is settled with it: a process that knows of no partitions, or is at work
    by a plan of before, would make the effect once more.

    Raises:
        Busy: The database was contended for all of the wait, or somebody runs the whole; nothing
            was fixed.
    """
    key = {"job": job, "nominal_us": nominal_us}

    def work(session: Session, left: float) -> None:
        # What was made as a whole and pruned since the plan is not fanned out (PROTOCOL 15).
        session.lock_guard(left)
        horizon_us = session.read_horizon(job)
        is_pruned = horizon_us is not None and nominal_us <= horizon_us
        if is_pruned or not session.add_partition_set({**key, "size": len(names)}):
            return
        whole, how = {"job": job, "partition_key": ""}, Disposition.SUPERSEDED
        if not session.settle(whole, [nominal_us], wait=left, disposition=how, reason=IN_PARTS):
            raise _MadeWhole
        for start in range(0, len(names), FIXED_AT_ONCE):
            rows = names[start : start + FIXED_AT_ONCE]
            session.change_each("add_partition", [{**key, "partition_key": n} for n in rows])

    with suppress(_MadeWhole):
        decided(database, work, about=Occurrence.from_us(job, nominal_us).key)


class _MadeWhole(Exception):
    """The occurrence was settled as a whole meanwhile: it has no parts."""


@contextmanager
def _reading(database: Database) -> Iterator[Connection]:
    """A connection on which a query can change nothing: plans and checks ask it too."""
    with database.engine.connect() as connection:
        if database.dialect.name == "postgresql":
            bounds = {"isolation_level": "READ COMMITTED", "postgresql_readonly": True}
            yield connection.execution_options(**bounds)
            return
        # On MariaDB of the session: a DDL statement ends a transaction that is read-only.
        read, write = READ_ONLY[database.dialect.name]
        before = int(connection.exec_driver_sql(read).scalar() or 0)
        connection.exec_driver_sql(write.format(1))
        try:
            yield connection
        finally:
            try:
                connection.exec_driver_sql(write.format(before))
            except Exception:  # it serves nobody any more
                connection.invalidate()


def _invalid(job: Job, why: str) -> PartitionsInvalid:
    return PartitionsInvalid(f"job {job.name}: its query for partitions {why}", job=job.name)
