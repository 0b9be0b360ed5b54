"""A backfill runs each nominal time of a span that is due and not settled, once, oldest first."""

from __future__ import annotations

import threading
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._sync import backfill as backfill_module
from tests.contract.bank import UNITS
from tests.races.steps import start

if TYPE_CHECKING:
    from tests.contract.bank import Bank

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def days_ago(days: int) -> datetime:
    """A midnight."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days * DAY


def day() -> datetime:
    """A midnight that a prune may not pass."""
    return days_ago(1)


def fill(bank: Bank, app: duly.App, hours: int = 10, **more: Any) -> Any:
    return app.backfill(bank.job, since=day(), until=day() + hours * HOUR, **more)


def nominal_hours(bank: Bank) -> list[int]:
    """The hours of `day()` that ran, in the order of their attempts."""
    first = bank.occurrence(day()).nominal_us
    return [(each.nominal_us - first) // 3_600_000_000 for each in bank.attempts]


def test_span_before_the_start_of_a_job_is_run_oldest_first(bank: Bank) -> None:
    """Nothing expects it, and a person may want it; what is settled is left out."""
    app = bank.define(bank.app(), schedule="0 * * * *", payload={"n": 1})
    app.run(bank.job, day() + 3 * HOUR)
    told: list[str] = []

    report = fill(bank, app, on_done=lambda one: told.append(one.key))

    assert (report.total, report.counts, report.stopped) == (9, {"applied": 9}, False)
    assert report.oldest == bank.occurrence(day()).key
    assert report.newest == bank.occurrence(day() + 9 * HOUR).key
    assert nominal_hours(bank) == [3, 0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert told[0] == report.oldest
    assert (told[-1], len(told)) == (report.newest, 9)
    assert {each.source for each in bank.attempts} == {"explicit", "backfill"}
    assert bank.units == 10 * UNITS
    assert fill(bank, app).total == 0


def test_dry_run_runs_nothing(bank: Bank) -> None:
    app = bank.define(bank.app(), schedule="0 * * * *")
    report = fill(bank, app, dry_run=True)
    assert (report.total, report.done) == (10, 0)
    assert bank.settled == []


def test_what_is_settled_otherwise_is_left_out(bank: Bank) -> None:
    """A person waived it, or a policy skipped it: only a correction runs it."""
    app = bank.define(bank.app(), schedule="0 * * * *")
    bank.settle("waived", at=day() + HOUR)
    bank.settle("skipped", at=day() + 2 * HOUR)

    assert fill(bank, app, 4).counts == {"applied": 2}
    assert bank.units == 2 * UNITS


def test_what_is_not_due_is_left_out(bank: Bank) -> None:
    """A span may reach into the future; a start that comes too soon would use up a key."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    report = app.backfill(bank.job, since=days_ago(2), until=days_ago(-30))
    assert report.counts == {"applied": 3}


def test_period_that_is_not_due_is_left_out(bank: Bank) -> None:
    """With `period=` it is due after its nominal time."""
    app = bank.define(bank.app(), schedule="0 0 * * *", period="day", period_offset=-1)
    report = app.backfill(bank.job, since=days_ago(3), until=days_ago(-30))
    assert report.newest == bank.occurrence(days_ago(1)).key
    assert report.counts == {"applied": 3}


def test_dates_are_midnights_of_the_zone_of_the_job(bank: Bank) -> None:
    """A date is the first instant of that day where the job counts."""
    app = bank.define(bank.app(), schedule="0 * * * *", timezone="Asia/Tokyo")

    report = app.backfill(bank.job, since=date(2026, 2, 1), until="2026-02-02", dry_run=True)

    assert report.total == 24
    assert report.oldest == f"{bank.job}:2026-01-31T15:00:00Z"


@pytest.mark.parametrize("stop", [False, True])
def test_failed_one_is_recorded_and_the_rest_goes_on(bank: Bank, stop: bool) -> None:
    """Unless the person wants to stop there."""

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        if run.nominal_time == day() + 2 * HOUR:
            raise ValueError("no luck")

    app = bank.define(bank.app(), handler, schedule="0 * * * *")

    report = fill(bank, app, 5, stop_on_failure=stop)

    assert report.counts == {"applied": 2 if stop else 4, "failed": 1}
    assert report.stopped is stop
    (failed,) = report.failures
    assert (failed.key, str(failed.error)) == (bank.occurrence(day() + 2 * HOUR).key, "no luck")
    assert bank.outcomes.count("failed") == 1
    assert bank.units == (2 if stop else 4) * UNITS
    bank.define(again := bank.app(), schedule="0 * * * *")
    assert fill(bank, again, 5).counts == {"applied": 3 if stop else 1}


def test_error_of_dulys_that_a_handler_raises_is_the_handlers(bank: Bank) -> None:
    """It is not taken for the database's."""

    def handler(run: duly.Run) -> None:
        raise duly.ConnectionLost("of the handler's own")

    app = bank.define(bank.app(), handler, schedule="0 * * * *")
    assert fill(bank, app, 3).counts == {"failed": 3}


def test_payload_is_that_of_the_revision_in_force(bank: Bank) -> None:
    """An edit of the payload changes what is due from then on."""
    seen: list[Any] = []

    def handler(run: duly.Run) -> None:
        seen.append(run.payload)

    bank.define(
        bank.app(), handler, schedule="0 * * * *", starts=days_ago(3), payload={"n": 1}
    ).register()
    app = bank.define(bank.app(), handler, schedule="0 * * * *", payload={"n": 2})

    fill(bank, app, 2)

    assert seen == [{"n": 1}, {"n": 1}]


def test_pages_are_read_one_after_the_other(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each nominal time once, on the edges of a page too."""
    monkeypatch.setattr(backfill_module, "PAGE", 3)
    app = bank.define(bank.app(), schedule="0 * * * *")
    app.run(bank.job, day() + 2 * HOUR)
    app.run(bank.job, day() + 3 * HOUR)
    report = fill(bank, app)
    assert (report.total, report.counts) == (8, {"applied": 8})
    assert sorted(nominal_hours(bank)) == list(range(10))


def test_partitions_are_run_each(bank: Bank) -> None:
    """An occurrence whose set is not fixed gets the one of today."""
    app = bank.define(bank.app(), schedule="0 * * * *", partitions=["north", "south"])
    app.run(bank.job, day() + HOUR, partition="north")

    assert fill(bank, app, 2).counts == {"applied": 3}

    applied = [s.partition for s in bank.settled if s.disposition == "applied"]
    assert sorted(applied) == ["north", "north", "south", "south"]
    assert fill(bank, app, 2).total == 0


@pytest.mark.parametrize("workers", [2, 5])
def test_several_workers_run_each_once(bank: Bank, workers: int) -> None:
    """They overlap, as the person asks for, whatever `max_running` says."""
    together = threading.Barrier(2)

    def handler(run: duly.Run) -> None:
        if bank.name != "sqlite" and run.nominal_time < day() + 2 * HOUR:
            together.wait(30)
        run.execute(bank.credit())

    app = bank.define(bank.app(), handler, schedule="0 * * * *", max_running=1)
    assert fill(bank, app, workers=workers).counts == {"applied": 10}
    assert bank.units == 10 * UNITS


@pytest.mark.parametrize("workers", [1, 3])
def test_two_backfills_of_one_span_make_each_effect_once(bank: Bank, workers: int) -> None:
    """Two persons, two hosts: the key decides."""
    apps = [bank.define(bank.app(), schedule="0 * * * *") for _ in range(2)]
    apps[0].register()
    both = threading.Barrier(2)

    ends = [
        start(fill, bank, app, workers=workers, on_counted=lambda _: both.wait(30)) for app in apps
    ]
    reports = [end.result(60) for end in ends]

    assert sum(report.counts.get("applied", 0) for report in reports) == 10
    assert not any(report.failures for report in reports)
    assert bank.units == 10 * UNITS
    assert bank.outcomes == ["applied"] * 10


def test_one_worker_waits_for_a_slot(bank: Bank, monkeypatch: pytest.MonkeyPatch) -> None:
    """`max_running` is kept with whatever else runs the job; the wait for it is bounded."""
    if bank.name == "sqlite":
        pytest.skip("its one writer is the slot")
    monkeypatch.setattr(backfill_module, "WAIT_S", 0.2)
    inside, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        inside.set()
        assert go_on.wait(30)

    other = bank.define(bank.app(), handler, schedule="0 * * * *", starts=day())
    tick = start(other.tick, day())
    assert inside.wait(30)
    app = bank.define(bank.app(), schedule="0 * * * *", starts=day())

    with pytest.raises(duly.Busy, match="as may run at once"):
        app.backfill(bank.job, since=day() + HOUR, until=day() + 3 * HOUR)

    assert bank.settled == []
    go_on.set()
    tick.result(30)
    assert fill(bank, app, 3).counts == {"applied": 2}


def test_torn_occurrence_stops_a_backfill(bank: Bank) -> None:
    """A handler that ends duly's transaction would tear each one."""
    if bank.name == "sqlite":
        pytest.skip("its authorizer denies a handler's COMMIT")

    def handler(run: duly.Run) -> None:
        raw: Any = run.connection.connection.driver_connection
        mariadb = bank.name == "mariadb"
        raw.cursor().execute("BEGIN NOT ATOMIC COMMIT; END" if mariadb else "ROLLBACK")

    app = bank.define(bank.app(), handler, schedule="0 * * * *")
    with pytest.raises(duly.TransactionEnded):
        fill(bank, app, 4)
    assert [s.disposition for s in bank.settled] == ["torn"]


def test_signal_rolls_the_one_under_way_back_and_the_rest_can_be_run(bank: Bank) -> None:
    """What is done stays; repeating it runs the rest."""

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        if run.nominal_time == day() + 2 * HOUR:
            raise KeyboardInterrupt

    app = bank.define(bank.app(), handler, schedule="0 * * * *")
    with pytest.raises(KeyboardInterrupt):
        fill(bank, app, 5)
    assert bank.units == 2 * UNITS
    assert fill(bank, bank.define(bank.app(), schedule="0 * * * *"), 5).counts == {"applied": 3}


def test_interrupted_workers_end_what_is_under_way(bank: Bank) -> None:
    """Nothing is begun any more, and what ends is told of."""
    told: list[str] = []

    def stop(one: Any) -> None:
        told.append(one.word)
        if len(told) == 1:
            raise KeyboardInterrupt

    app = bank.define(bank.app(), schedule="0 * * * *")
    with pytest.raises(KeyboardInterrupt):
        fill(bank, app, workers=2, on_done=stop)
    assert 1 <= len(told) <= 2
    assert bank.units == len(told) * UNITS
    assert fill(bank, app).total == 10 - len(told)


def test_reason_is_kept_with_the_span(bank: Bank) -> None:
    """Who ordered it, why, and for which span."""
    app = bank.define(bank.app(), schedule="0 * * * *")
    fill(bank, app, 2, reason="the source was late", actor="ann")
    ((action, actor, reason),) = bank.run(
        f"SELECT action, actor, reason FROM duly_audit WHERE job = '{bank.job}'"
    )
    assert (action, actor) == ("backfill", "ann")
    assert reason.startswith(f"the source was late ({day():%Y-%m-%d}T00:00:00Z to ")


@pytest.mark.parametrize(
    ("span", "error", "said"),
    [
        ({"since": "2026-02-02", "until": "2026-02-01"}, duly.NominalTimeInvalid, "is after"),
        ({"since": "9000-02-02", "until": "9000-03-01"}, duly.NominalTimeInvalid, "in the future"),
        ({"since": "soon", "until": "2026-02-01"}, duly.NominalTimeInvalid, "soon"),
        ({"since": "2026-02-01", "until": "2026-02-02", "workers": 0}, duly.UsageError, "from 1"),
        ({"since": "2026-02-01", "until": "2026-02-02", "reason": " "}, duly.UsageError, "words"),
    ],
)
def test_order_that_makes_no_sense_is_refused(
    bank: Bank, span: dict[str, Any], error: type[Exception], said: str
) -> None:
    app = bank.define(bank.app(), schedule="0 0 * * *")
    with pytest.raises(error, match=said):
        app.backfill(bank.job, **span)
    assert bank.attempts == []


def test_job_without_a_schedule_is_refused(bank: Bank) -> None:
    app = bank.define(bank.app())
    with pytest.raises(duly.UsageError, match="has no schedule"):
        fill(bank, app)
    with pytest.raises(duly.UnknownJob):
        app.backfill(f"{bank.job}x", since="2026-02-01", until="2026-02-02")


def test_span_at_or_below_the_horizon_is_refused(bank: Bank) -> None:
    """What was pruned is never run again; it is told before anything is run."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.run(bank.job, days_ago(10))
    app.run(bank.job, days_ago(0))
    app.prune(older_than=days_ago(10), clock_is_right=True)

    with pytest.raises(duly.Expired, match="give a later since"):
        app.backfill(bank.job, since=days_ago(10), until=days_ago(8))

    assert app.backfill(bank.job, since=days_ago(9), until=days_ago(7)).counts == {"applied": 2}


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "run"])
def test_span_without_an_end_is_refused_before_the_ledger_is_asked_about_it(
    bank: Bank, dry_run: bool
) -> None:
    """A slip in the year says where the first part ends; taken so, that part is not too long."""
    app = bank.define(bank.app(), schedule="* * * * *")
    with pytest.raises(duly.NominalTimeInvalid, match="more than 1000000 nominal times") as caught:
        app.backfill(bank.job, since="0001-01-01", until="9999-01-01", dry_run=dry_run)

    assert "until 0002-11-26T10:40:00Z first" in str(caught.value)
    assert bank.attempts == []


@pytest.mark.parametrize("partitions", [None, ["a", "b"]], ids=["times", "partitions"])
def test_part_that_a_refusal_names_is_the_longest_that_is_taken(
    bank: Bank, partitions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more is refused, of nominal times and of occurrences; what is not due does not count."""
    monkeypatch.setattr(backfill_module, "SPAN_MAX", 6)
    app = bank.define(bank.app(), schedule="0 * * * *", partitions=partitions)
    hours = 6 if partitions is None else 3

    assert fill(bank, app, hours, dry_run=True).total == 6
    with pytest.raises(duly.NominalTimeInvalid) as caught:
        fill(bank, app, hours + 1, dry_run=True)

    at = (day() + hours * HOUR).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert f"until {at} first" in str(caught.value)
    assert ("6 nominal times" if partitions is None else "6 occurrences") in str(caught.value)
    future = datetime.now(UTC) + 10 * DAY
    recent = datetime.now(UTC) - 2 * HOUR
    assert app.backfill(bank.job, since=recent, until=future, dry_run=True).total <= 6
