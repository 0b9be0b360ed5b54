"""Partitions: each part of an occurrence once, by the set that was fixed when it was planned."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.catch_up import Decision
from duly._sync import partitioning, planning
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.bank import Bank

HOUR = timedelta(hours=1)


def noon() -> datetime:
    """A whole hour of yesterday, so that what is due after it is in the past."""
    return datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) - timedelta(days=1)


@pytest.fixture
def members(bank: Bank) -> Iterator[str]:
    """A table of this test's own, from which a query takes the partitions."""
    name = f"member_{bank.account}"
    bank.run(f"CREATE TABLE {name} (id VARCHAR(20), active INTEGER)")
    bank.run(f"INSERT INTO {name} VALUES ('north', 1), ('south', 1), ('gone', 0)")
    yield name
    bank.run(f"DROP TABLE {name}")


def ticked(app: duly.App, now: datetime) -> list[str]:
    """The partitions that one tick ran, in its order, each with its hour."""
    report = app.tick(now=now)
    return [
        f"{occurrence.nominal_time:%H}:{occurrence.partition}"
        for job in report.jobs
        for ran in job.ran
        for occurrence in [duly.Occurrence.parse(ran.key)]
    ]


def test_each_partition_of_each_occurrence_runs_once(bank: Bank) -> None:
    """A list fans each occurrence out; all parts of one come before the next."""
    start = noon()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=["b", "a"])

    ran = ticked(app, start + HOUR)
    again = ticked(app, start + HOUR)

    assert ran == ["12:a", "12:b", "13:a", "13:b"]
    assert again == []
    assert bank.units == 4 * UNITS


def test_part_that_waits_holds_up_what_is_later_of_every_part(bank: Bank) -> None:
    """With `in_order`, in its tick and in the next; the other parts of its own hour may run."""
    broken = True

    def handler(run: duly.Run) -> None:
        if broken and run.partition == "a":
            raise ValueError("not yet")
        run.execute(bank.credit())

    start = noon()
    app = bank.define(
        bank.app(),
        handler,
        schedule="0 * * * *",
        starts=start,
        partitions=["a", "b"],
        in_order=True,
    )

    assert ticked(app, start + HOUR) == ["12:a"]
    planned = [
        step.occurrence.partition
        for step in app.plan(now=start + HOUR).jobs[0].steps()
        if step.decision is Decision.RUN
    ]
    second = ticked(app, start + HOUR)
    broken = False
    last = ticked(app, datetime.now(UTC) + timedelta(seconds=31))

    assert (planned, second) == (["b"], ["12:b"])
    assert last[:3] == ["12:a", "13:a", "13:b"]


def test_older_part_is_not_run_by_none_where_not_all_are_looked_at(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs the newest due alone, once its set is fixed, however many lie before it."""
    monkeypatch.setattr("duly._sync.partitioning.SETS_MAX", 2)
    start = noon()
    app = bank.define(
        bank.app(), schedule="0 * * * *", starts=start, partitions=["a", "b"], catch_up="none"
    )

    ran = [ticked(app, start + 3 * HOUR) for _ in range(3)]

    assert ran == [[], ["15:a", "15:b"], []]


def test_query_gives_the_partitions_of_its_moment(bank: Bank, members: str) -> None:
    """A partition that is added later is asked of later occurrences, not of the past."""
    start = noon()
    query = f"SELECT id FROM {members} WHERE active = 1"
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=query)

    first = ticked(app, start)
    bank.run(f"UPDATE {members} SET active = 1 WHERE id = 'gone'")
    bank.run(f"DELETE FROM {members} WHERE id = 'north'")
    second = ticked(app, start + HOUR)

    assert first == ["12:north", "12:south"]
    assert second == ["13:gone", "13:south"]


def test_partition_that_left_is_still_owed_where_it_was_planned(bank: Bank, members: str) -> None:
    """The set is fixed when it is planned: a part that failed is not forgotten with its row."""
    start = noon()
    broken = True

    def handler(run: duly.Run) -> None:
        if broken and run.partition == "north":
            raise ValueError("not yet")
        run.execute(bank.credit())

    query = f"SELECT id FROM {members} WHERE active = 1"
    app = bank.define(bank.app(), handler, schedule="0 * * * *", starts=start, partitions=query)

    ticked(app, start)
    bank.run(f"DELETE FROM {members}")
    broken = False
    later = [duly.Occurrence.parse(s.key) for s in _ran(app, datetime.now(UTC) + 2 * HOUR)]

    assert "north" in {o.partition for o in later if o.nominal_time == start}


def test_reconcile_covers_each_partition_by_itself(bank: Bank) -> None:
    """One run of the newest for each partition, which covers its older ones and no other's."""
    start = noon()
    covered = []

    def handler(run: duly.Run) -> None:
        covered.append((run.partition, len(run.covers)))
        run.execute(bank.credit())

    app = bank.define(
        bank.app(),
        handler,
        schedule="0 * * * *",
        starts=start,
        partitions=["a", "b"],
        catch_up="reconcile",
    )

    ticked(app, start + 3 * HOUR)

    assert covered == [("a", 4), ("b", 4)]
    settled = [s.disposition for s in bank.settled]
    # Three of each partition, and the whole of each hour.
    assert (settled.count("applied"), settled.count("superseded")) == (2, 6 + 4)


def test_limit_of_a_tick_counts_every_partition(bank: Bank) -> None:
    """One tick starts no more than `max_per_tick`, however many parts an occurrence has."""
    start = noon()
    app = bank.define(
        bank.app(),
        schedule="0 * * * *",
        starts=start,
        partitions=["a", "b", "c"],
        max_per_tick=2,
    )

    assert ticked(app, start) == ["12:a", "12:b"]
    assert ticked(app, start) == ["12:c"]


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("SELECT id FROM no_such_table", "fails"),
        ("SELECT NULL", "gives a NULL"),
        ("SELECT 'a' UNION ALL SELECT 'a'", "gives 'a' twice; write SELECT DISTINCT"),
        ("SELECT 'a', 'b'", "gives 2 columns"),
        ("SELECT ''", "gives an empty text"),
        ("SELECT CAST('a' AS {binary})", "gives bytes"),
        ("SELECT 'a'; SELECT 'b'", "is more than one statement"),
        ("SELECT 'a; SELECT 'b'", "cannot be read"),
    ],
)
def test_query_that_cannot_name_partitions_is_told_and_nothing_runs(
    bank: Bank, select: str, words: str
) -> None:
    """The job is refused by name with the next step; other jobs go on."""
    start = noon()
    binary = {"sqlite": "BLOB", "postgresql": "BYTEA", "mariadb": "BINARY(1)"}[bank.name]
    query = select.format(binary=binary)
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=query)

    report = app.tick(now=start)

    (refused,) = [job.refused for job in report.jobs if job.refused]
    assert isinstance(refused, duly.PartitionsInvalid)
    assert words in refused.message
    assert "\n" not in refused.message
    assert (bank.units, bank.settled) == (0, [])


def hours(app: duly.App, job: str) -> list[str]:
    """What is missing: each with its hour and partition."""
    found = app.missing(job).occurrences
    return [f"{each.occurrence.nominal_time:%H}:{each.occurrence.partition}" for each in found]


def test_occurrence_that_was_settled_whole_is_not_fanned_out_later(bank: Bank) -> None:
    """Partitions that a job gets later are not demanded of what took effect without them."""
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start}
    bank.define(bank.app(), **options).run(bank.job, start)
    app = bank.define(bank.app(), partitions=["a", "b"], **options)

    assert hours(app, bank.job)[:2] == ["13:a", "13:b"]
    assert ticked(app, start + HOUR) == ["13:a", "13:b"]
    assert bank.units == 3 * UNITS


def test_occurrence_that_was_fanned_out_is_not_run_whole_later(bank: Bank) -> None:
    """A job that loses its partitions owes the parts of what was planned, and no more."""
    start = noon()
    broken = True

    def handler(run: duly.Run) -> None:
        if broken and run.partition == "b":
            raise ValueError("not yet")
        run.execute(bank.credit())

    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start}
    options["retry"] = duly.Retry(first=timedelta(0))
    ticked(bank.define(bank.app(), handler, partitions=["a", "b"], **options), start)
    broken = False
    app = bank.define(bank.app(), handler, **options)

    assert hours(app, bank.job)[:2] == ["12:b", "13:"]
    late = datetime.now(UTC) + timedelta(seconds=1)
    ran = ticked(app, late)
    assert ran[:2] == ["12:b", "13:"]
    assert hours(app, bank.job) == []
    assert ticked(app, late) == []
    assert bank.units == (1 + len(ran)) * UNITS


def test_backfill_makes_neither_the_whole_nor_the_parts_twice(bank: Bank) -> None:
    """Whatever the job declared when each was settled; a part that failed is still owed."""
    start = noon()
    broken = True

    def handler(run: duly.Run) -> None:
        if broken and run.partition == "b":
            raise ValueError("not yet")
        run.execute(bank.credit())

    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start}
    plain = bank.define(bank.app(), handler, **options)
    parts = bank.define(bank.app(), handler, partitions=["a", "b"], **options)
    plain.run(bank.job, start)
    ticked(parts, start + HOUR)
    assert bank.units == 2 * UNITS
    broken = False

    plain.backfill(bank.job, since=start, until=start + 3 * HOUR)
    assert bank.units == 4 * UNITS
    parts.backfill(bank.job, since=start, until=start + 3 * HOUR)

    assert bank.units == 4 * UNITS
    applied = [row.partition for row in bank.settled if row.disposition == "applied"]
    assert applied == ["", "a", "b", ""]


def test_whole_of_what_was_fanned_out_is_refused(bank: Bank) -> None:
    """By name, by a process that knows of no partitions; a correction of it would be a second one.

    What is asked of the whole is answered by its parts.
    """
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start, "max_per_tick": 1}
    parts = bank.define(bank.app(), **options, partitions=["a", "b"])
    plain = bank.define(bank.app(), **options)
    assert ticked(parts, start) == ["12:a"]
    key = bank.occurrence(start).key

    with pytest.raises(duly.AlreadySettled, match=r"run instead.*duly missing"):
        plain.run(bank.job, start)
    with pytest.raises(duly.AlreadySettled, match="run instead"):
        plain.correct(key, reason="to see", actor="test")
    with pytest.raises(duly.AlreadySettled, match="run instead, so waive those"):
        plain.waive(key, reason="to see", actor="test")
    before = plain.explain(key)
    assert ticked(parts, start) == ["12:b"]
    after = plain.explain(key)

    assert (before.completed, before.parts_missing, after.completed) == (False, 1, True)
    assert "in parts" in before.verdict
    assert "1 of them missing" in before.verdict
    assert bank.units == 2 * UNITS


@pytest.mark.parametrize("by_name", [False, True])
def test_plan_of_the_whole_makes_no_effect_beside_the_parts(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, by_name: bool
) -> None:
    """A host that knows of no partitions planned them; another fanned them out before it began."""
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start, "max_running": 9}
    parts = bank.define(bank.app(), **options, partitions=["a", "b"])
    plain = bank.define(bank.app(), **options)
    plan = planning.plan
    planned: list[int] = []

    def outrun(session: Any, known: Any, *args: Any, **named: Any) -> Any:
        found = plan(session, known, *args, **named)
        if known.job == bank.job and not planned:
            planned.append(found.missing)
            if by_name:
                parts.run(bank.job, start + HOUR, partition="a")
            else:
                ticked(parts, start + HOUR)
        return found

    monkeypatch.setattr(planning, "plan", outrun)
    ran = ticked(plain, start + HOUR)

    assert planned == [2]
    assert ran == ["12:", "13:"]
    assert bank.units == (2 if by_name else 4) * UNITS
    assert ticked(parts, start + HOUR) == (["13:b"] if by_name else [])


def test_whole_that_is_under_way_is_not_fanned_out(bank: Bank) -> None:
    """Its host began before the job got partitions: who would fix them waits for its end."""
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start, "max_running": 9}
    parts = bank.define(bank.app(), **options, partitions=["a", "b"])
    found: list[str] = []
    other = threading.Thread(target=lambda: found.extend(ticked(parts, start)))

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        other.start()
        other.join(0.5)  # as long as it has, to make the effect beside this one

    plain = bank.define(bank.app(), handler, **options)
    assert plain.run(bank.job, start).outcome is duly.Outcome.APPLIED
    other.join()

    assert found == []
    assert bank.units == UNITS
    assert [row.partition for row in bank.settled] == [""]


def test_hour_that_was_pruned_after_the_plan_is_not_fanned_out(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made as a whole, and no row says so any more; its parts would be owed for ever."""
    start = noon()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=["a", "b"])
    partitions_of = partitioning.partitions_of

    def pruned(*args: Any) -> tuple[str, ...]:
        horizon_us = int(start.timestamp()) * 1_000_000
        bank.run(f"UPDATE duly_job SET horizon_us = {horizon_us} WHERE name = '{bank.job}'")
        return partitions_of(*args)

    monkeypatch.setattr(partitioning, "partitions_of", pruned)

    assert ticked(app, start) == []
    sets = bank.run(f"SELECT COUNT(*) FROM duly_partition_set WHERE job = '{bank.job}'")
    assert [int(row[0]) for row in sets] == [0]
    assert bank.settled == []


def test_sets_that_one_tick_does_not_fix_stay_missing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However far the ledger says the job is complete."""
    monkeypatch.setattr("duly._sync.partitioning.SETS_MAX", 2)
    monkeypatch.setattr("duly._sync.ticking.COMPLETE_EVERY", 1)
    start = noon()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=["a"])

    ran = [ticked(app, start + 4 * HOUR) for _ in range(4)]

    assert ran == [["12:a", "13:a"], ["14:a", "15:a"], ["16:a"], []]


def test_parts_that_are_not_looked_at_stay_missing(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick looks at whole occurrences, as many as it may; a backfill goes on."""
    monkeypatch.setattr("duly._sync.partitioning.PARTITIONS_MAX", 3)
    monkeypatch.setattr("duly._sync.ticking.COMPLETE_EVERY", 1)
    start = noon()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=["a", "b"])

    ran = [ticked(app, start + 2 * HOUR) for _ in range(4)]

    assert ran == [["12:a", "12:b"], ["13:a", "13:b"], ["14:a", "14:b"], []]
    app.backfill(bank.job, since=start, until=start + 6 * HOUR)
    assert bank.units == 12 * UNITS


@pytest.mark.parametrize(
    ("partitions", "message"),
    [
        ([], "is an empty list"),
        (["a", "a"], "names 'a' twice"),
        (["a\0"], "NUL"),
        (["x" * 201], "longer than 200"),
    ],
)
def test_list_of_partitions_that_cannot_be_is_refused_when_it_is_defined(
    partitions: Any, message: str
) -> None:
    """A list is checked before anything is planned."""
    app = duly.App("sqlite:///nowhere.db")

    with pytest.raises(duly.UsageError, match=message):
        app.job("work", schedule="@daily", partitions=partitions)


def _ran(app: duly.App, now: datetime) -> list[Any]:
    return [ran for job in app.tick(now=now).jobs for ran in job.ran]


@pytest.mark.parametrize("partition", ["", "zz"])
def test_start_by_name_of_a_part_that_the_job_does_not_have_is_refused(
    bank: Bank, partition: str
) -> None:
    """Nothing is claimed, so that the parts of that hour are still owed."""
    start = noon()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=["a", "b"])

    with pytest.raises(duly.errors.PartitionsInvalid, match=r"'a', 'b'.*--partition.*backfill"):
        app.run(bank.job, start, partition=partition)

    assert (bank.units, bank.settled) == (0, [])
    assert app.run(bank.job, start, partition="a").outcome is duly.Outcome.APPLIED
    assert ticked(app, start) == ["12:b"]


def test_start_by_name_goes_by_the_parts_that_were_fixed(bank: Bank) -> None:
    """A part that left is still run, and one that came later is not asked of the past."""
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start}

    def fails(run: duly.Run) -> None:
        raise ValueError("not yet")

    bank.define(bank.app(), fails, **options, partitions=["a", "b"]).tick(now=start)
    app = bank.define(bank.app(), **options, partitions=["b", "c"])

    with pytest.raises(duly.errors.PartitionsInvalid, match="'a', 'b'"):
        app.run(bank.job, start, partition="c")
    assert app.run(bank.job, start, partition="a").outcome is duly.Outcome.APPLIED
    assert app.run(bank.job, start + HOUR, partition="c").outcome is duly.Outcome.APPLIED


def test_part_of_an_hour_that_was_settled_as_a_whole_is_refused(bank: Bank) -> None:
    """The whole did its work; told of the whole again, the start is a duplicate."""
    start = noon()
    options: dict[str, Any] = {"schedule": "0 * * * *", "starts": start}
    bank.define(bank.app(), **options).run(bank.job, start)
    app = bank.define(bank.app(), **options, partitions=["a", "b"])

    with pytest.raises(duly.errors.PartitionsInvalid, match="as a whole"):
        app.run(bank.job, start, partition="a")

    assert app.run(bank.job, start).outcome is duly.Outcome.DUPLICATE
    assert bank.units == UNITS


def test_part_of_an_hour_that_had_none_is_refused(bank: Bank, members: str) -> None:
    """Its set was fixed as empty: neither a part nor the whole is owed, and neither is told so."""
    start, query = noon(), f"SELECT id FROM {members} WHERE active = 2"
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=query)
    assert ticked(app, start) == []
    bank.run(f"UPDATE {members} SET active = 2")

    for part in ("north", ""):
        with pytest.raises(duly.errors.PartitionsInvalid, match=r"query gave none.*owed"):
            app.run(bank.job, start, partition=part)

    assert app.explain(bank.occurrence(start).key).completed
    assert bank.units == 0


def test_partitions_that_are_no_list_are_refused(bank: Bank) -> None:
    """In one line, with what is allowed."""
    options: dict[str, Any] = {"partitions": 5}
    with pytest.raises(duly.errors.ScheduleInvalid, match="partitions=5 is neither"):
        bank.app().job(bank.job, schedule="0 * * * *", **options)


@pytest.mark.parametrize(
    "query",
    [
        "UPDATE {members} SET active = 7",
        "CREATE TABLE {members}_2 (a INTEGER)",
        "DROP TABLE {members}",
        "ROLLBACK; UPDATE {members} SET active = 7; SELECT 'a'",
        "COMMIT; BEGIN; UPDATE {members} SET active = 7; COMMIT; SELECT 'a' -- ;",
        "SELECT 'a'; COMMIT; UPDATE {members} SET active = 7",
    ],
    ids=["update", "create", "drop", "after a rollback", "after a commit", "at last"],
)
def test_query_for_partitions_that_would_change_something_is_refused(
    bank: Bank, members: str, query: str
) -> None:
    """A plan asks it too, and changes nothing; the connection serves the handlers after it."""
    start = noon()
    query = query.format(members=members)
    app = bank.define(bank.app(), schedule="0 * * * *", starts=start, partitions=query)

    [job] = app.tick(now=start).jobs

    assert isinstance(job.refused, duly.errors.PartitionsInvalid)
    app.plan(now=start)
    assert bank.run(f"SELECT SUM(active) FROM {members}") == [(2,)]
    with pytest.raises(Exception, match=r"no such table|does not exist|doesn't exist"):
        bank.run(f"SELECT a FROM {members}_2")

    @app.job(f"{bank.job}-next")
    def credit(run: duly.Run) -> None:
        run.execute(bank.credit())

    assert app.run(f"{bank.job}-next", start, off_schedule=True).outcome is duly.Outcome.APPLIED
