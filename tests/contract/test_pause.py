"""A person pauses a job, resumes it, or retires it; each decision is kept, with who and why."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.instants import to_us
from tests.contract.bank import UNITS
from tests.races.steps import start

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank

ORDER: Any = {"reason": "the source is being moved", "actor": "ann"}
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def now() -> datetime:
    return datetime.now(UTC)


def days_ago(days: int) -> datetime:
    """A midnight."""
    return now().replace(hour=0, minute=0, second=0, microsecond=0) - days * DAY


def move_pause(bank: Bank, start: datetime) -> None:
    """As if the open pause had begun at *start*."""
    bank.run(
        f"UPDATE duly_pause SET paused_us = {to_us(start)}"
        f" WHERE job = '{bank.job}' AND resumed_us IS NULL"
    )


def end_pause(bank: Bank, end: datetime) -> None:
    """As if the pause had ended at *end*."""
    bank.run(f"UPDATE duly_pause SET resumed_us = {to_us(end)} WHERE job = '{bank.job}'")


def ran(app: duly.App, at: datetime | None = None) -> int:
    """How many occurrences one tick ran."""
    return sum(len(job.ran) for job in app.tick(at).jobs)


def audit(bank: Bank) -> list[tuple[str, str, str]]:
    rows = bank.run(
        "SELECT action, actor, reason, partition_key, correction, at_us - nominal_us"
        f" FROM duly_audit WHERE job = '{bank.job}' ORDER BY at_us, id"
    )
    for row in rows:
        assert tuple(row[3:5]) == ("", 1)
        assert 0 <= row[5] < 60_000_000, "its key is the job at the instant of the decision"
    return [tuple(row[:3]) for row in rows]


def paused_for_three_days(bank: Bank, **policies: Any) -> tuple[duly.App, datetime]:
    """S05: every ten minutes, all settled until three days ago, paused since."""
    since = now().replace(second=0, microsecond=0) - 3 * DAY
    app = bank.define(
        bank.app(), schedule="*/10 * * * *", starts=since - HOUR, max_per_tick=1000, **policies
    )
    assert ran(app, since) in {1, 2, 6, 7}
    app.pause(bank.job, **ORDER)
    move_pause(bank, since)
    assert ran(app) == 0, "a tick leaves a paused job alone"
    return app, since


def test_pause_is_not_missing_after_it(bank: Bank) -> None:
    """S05, S07, S55: nothing of three days is run, and the next slot is."""
    app, _since = paused_for_three_days(bank)
    before = len(bank.settled)

    app.resume(bank.job, **ORDER)

    assert ran(app) == 0
    assert ran(app, now() + timedelta(minutes=11)) in {1, 2}
    assert len(bank.settled) in {before + 1, before + 2}
    assert [row[:2] for row in audit(bank)] == [("pause", "ann"), ("resume", "ann")]


def test_pause_that_is_caught_up_with_each_runs_every_slot(sqlite_bank: Bank) -> None:
    """S05: three days of ten minutes are 432."""
    app, since = paused_for_three_days(sqlite_bank)

    assert app.resume(sqlite_bank.job, catch_up=True, **ORDER) == since

    assert ran(app) in {432, 433}
    assert ran(app, now() + timedelta(minutes=11)) in {1, 2}


def test_pause_that_is_caught_up_with_skip_runs_the_newest(bank: Bank) -> None:
    """S05: the others are settled as skipped, with the reason; the next slot runs."""
    app, _since = paused_for_three_days(bank, catch_up="skip", skip_after=timedelta(minutes=15))
    before = bank.units

    app.resume(bank.job, catch_up=True, **ORDER)

    assert ran(app) in {1, 2}
    assert sum(s.disposition == "skipped" for s in bank.settled) > 400
    assert ran(app, now() + timedelta(minutes=11)) in {1, 2}
    assert bank.units - before in {2 * UNITS, 3 * UNITS, 4 * UNITS}


def test_pause_that_is_caught_up_with_reconcile_runs_once(bank: Bank) -> None:
    """S05: one run covers the 432; the next slot runs."""
    app, _since = paused_for_three_days(bank, catch_up="reconcile")
    before = len(bank.settled)

    app.resume(bank.job, catch_up=True, **ORDER)

    assert ran(app) == 1
    assert len(bank.settled) - before in {432, 433}
    assert sum(s.disposition == "superseded" for s in bank.settled[before:]) in {431, 432}
    assert ran(app, now() + timedelta(minutes=11)) == 1


@pytest.mark.parametrize("catch_up", [False, True])
def test_short_pause_of_an_hourly_job(bank: Bank, catch_up: bool) -> None:
    """S16: paused from 03:30 to 06:45, 4, 5 and 6 o'clock run only if the person says so."""
    day = days_ago(2)
    app = bank.define(bank.app(), schedule="0 * * * *", starts=day + 3 * HOUR)
    app.register()
    assert ran(app, day + 3 * HOUR) == 1
    app.pause(bank.job, **ORDER)
    move_pause(bank, day + 3.5 * HOUR)
    app.resume(bank.job, catch_up=catch_up, **ORDER)
    end_pause(bank, day + 6.75 * HOUR)

    app.tick(day + 6.75 * HOUR)
    app.tick(day + 7.5 * HOUR)

    hours = {3, 4, 5, 6, 7} if catch_up else {3, 7}
    held = {to_us(day + hour * HOUR) for hour in hours}
    rows = bank.run(f"SELECT nominal_us FROM duly_occurrence WHERE job = '{bank.job}'")
    assert {row[0] for row in rows} == held


def test_pause_that_is_caught_up_is_looked_at_behind_what_was_found_complete(bank: Bank) -> None:
    """Ticks remember how far all is settled; the pause was no part of that."""
    app, since = paused_for_three_days(bank)
    complete = to_us(now())
    bank.run(f"UPDATE duly_job SET complete_us = {complete} WHERE name = '{bank.job}'")

    app.resume(bank.job, catch_up=True, **ORDER)

    (row,) = bank.run(f"SELECT complete_us FROM duly_job WHERE name = '{bank.job}'")
    assert row[0] == to_us(since) - 1


def test_paused_job_runs_by_name(bank: Bank) -> None:
    """A person may still start what they ask for."""
    app, since = paused_for_three_days(bank)
    before = bank.units
    at = (since + DAY).replace(minute=0)

    assert app.run(bank.job, at).outcome is duly.Outcome.APPLIED

    assert bank.units == before + UNITS


def test_pause_leaves_an_attempt_under_way_alone(bank: Bank) -> None:
    """A tick ends what it began; the next one finds the job paused."""
    inside, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        inside.set()
        assert go_on.wait(30)
        run.execute(bank.credit())

    app = bank.define(
        bank.app(), handler, schedule="*/10 * * * *", starts=now() - HOUR, max_per_tick=1
    )
    tick = start(app.tick)
    assert inside.wait(30)
    pause = start(bank.define(bank.app(), schedule="*/10 * * * *").pause, bank.job, **ORDER)
    if bank.name != "sqlite":  # it has one writer, so the pause waits for the attempt
        pause.result(30)
    go_on.set()

    assert sum(len(job.ran) for job in tick.result(30).jobs) == 1
    pause.result(30)
    assert ran(app) == 0
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_two_pauses_at_once_make_one(bank: Bank) -> None:
    """Two persons decide the same; the second is told, and one resume ends it."""
    app = bank.define(bank.app(), schedule="0 * * * *")
    app.register()
    apps = [bank.app() for _ in range(4)]
    together = threading.Barrier(len(apps))

    def pause(mine: duly.App) -> str:
        together.wait(30)
        try:
            mine.pause(bank.job, **ORDER)
        except duly.OperatorError as error:
            return str(error)
        return "paused"

    ends = [future.result(30) for future in [start(pause, each) for each in apps]]

    assert ends.count("paused") == 1, ends
    assert sum("is paused since" in end for end in ends) == 3
    app.resume(bank.job, **ORDER)
    with pytest.raises(duly.OperatorError, match="is not paused"):
        app.resume(bank.job, **ORDER)
    assert [row[0] for row in audit(bank)] == ["pause", "resume"]


def test_job_may_be_paused_and_resumed_from_the_ledger_alone(bank: Bank) -> None:
    """By the name that people see, too."""
    app = bank.app(name=bank.job)

    @app.job(f"{bank.job}-now", formerly=bank.job, schedule="0 * * * *")
    def credit(run: duly.Run) -> None:
        run.execute(bank.credit())

    app.register()
    alone = bank.app()

    alone.pause(f"{bank.job}-now", **ORDER)
    alone.resume(bank.job, **ORDER)
    alone.pause(bank.job, **ORDER)

    assert [row[0] for row in audit(bank)] == ["pause", "resume", "pause"]


def test_job_may_be_paused_before_its_first_tick(bank: Bank) -> None:
    """Its definition is told to the ledger first."""
    app = bank.define(bank.app(), schedule="* * * * *")
    app.pause(bank.job, **ORDER)
    assert ran(app, now() + HOUR) == 0


@pytest.mark.parametrize("act", ["pause", "resume", "retire"])
def test_decision_about_an_unknown_job_is_refused(bank: Bank, act: str) -> None:
    app = bank.define(bank.app(), schedule="0 * * * *")
    with pytest.raises(duly.UnknownJob, match="did you mean"):
        getattr(app, act)(f"{bank.job}x", **ORDER)


@pytest.mark.parametrize("act", ["pause", "retire"])
def test_decision_about_a_job_without_a_schedule_is_refused(bank: Bank, act: str) -> None:
    """No tick starts it, so a pause would say what it cannot hold."""
    app = bank.define(bank.app())
    with pytest.raises(duly.UsageError, match="has no schedule"):
        getattr(app, act)(bank.job, **ORDER)


@pytest.mark.parametrize("act", ["pause", "resume", "retire"])
@pytest.mark.parametrize("change", [{"reason": " "}, {"actor": ""}])
def test_decision_without_who_or_why_is_refused(
    bank: Bank, act: str, change: dict[str, str]
) -> None:
    app = bank.define(bank.app(), schedule="0 * * * *")
    with pytest.raises(duly.UsageError, match="in a few words"):
        getattr(app, act)(bank.job, **{**ORDER, **change})
    assert audit(bank) == []


def test_retired_job_is_expected_no_more(bank: Bank) -> None:
    """What was missing stays missing; its code is told, and a second retirement is refused."""
    app = bank.define(bank.app(), schedule="0 * * * *", starts=now() - 3 * HOUR)
    app.register()

    app.retire(bank.job, **ORDER)

    again: list[Callable[..., Any]] = [app.retire, app.pause]
    for act in again:
        with pytest.raises(duly.OperatorError, match="is retired since"):
            act(bank.job, **ORDER)
    (job,) = [j for j in app.tick(now() + DAY).jobs if j.job == bank.job]
    assert isinstance(job.refused, duly.DefinitionStale)
    assert bank.settled == []
    assert app.waive_missing(
        bank.job, since=now() - DAY, until=now() + DAY, **ORDER, dry_run=True
    ) in {2, 3}
    assert audit(bank) == [("retire", "ann", ORDER["reason"])]
