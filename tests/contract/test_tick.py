"""One tick: each policy, retries, limits, edits; on each database, with the clock given."""

from __future__ import annotations

import signal
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.catch_up import Decision
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from duly._sync.ticking import JobTick, TickReport
    from tests.contract.bank import Bank

APPS = ("own", "django")

HOUR, DAY, MOMENT = timedelta(hours=1), timedelta(days=1), timedelta(microseconds=1)
DAILY = "0 0 * * *"


def midnight(days_ago: int = 0) -> datetime:
    """A midnight of UTC: what a daily job is due at."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days_ago * DAY


def days(report: TickReport) -> list[tuple[int, str | None]]:
    """What ran, in its order: how many days ago it was due, and how it ended."""
    return [
        ((midnight() - duly.Occurrence.parse(ran.key).nominal_time).days, _word(ran.outcome))
        for job in report.jobs
        for ran in job.ran
    ]


def _word(outcome: duly.Outcome | None) -> str | None:
    return None if outcome is None else outcome.value


def of(report: TickReport) -> JobTick:
    [job] = report.jobs
    return job


def waiting(report: TickReport) -> list[Decision]:
    return [each.decision for plan in of(report).parts.values() for each in plan.waiting]


class Handler:
    """Credits the account, or fails while it is told to."""

    def __init__(self, bank: Bank, *, error: Exception | None = None) -> None:
        self.bank = bank
        self.error = error
        self.payloads: list[Any] = []
        self.runs: list[tuple[list[datetime], duly.Interval]] = []

    def __call__(self, run: duly.Run) -> None:
        run.execute(self.bank.credit())
        self.payloads.append(run.payload)
        self.runs.append(([each.nominal_time for each in run.covers], run.interval))
        if self.error is not None:
            raise self.error


# ---------------------------------------------------------------------------------------- policies


def test_each_runs_oldest_first_and_no_more_than_its_limit(bank: Bank) -> None:
    """What one tick leaves is what the next one starts with."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(4), max_per_tick=2)

    first = app.tick()
    assert days(first) == [(4, "applied"), (3, "applied")]
    assert (of(first).missing, of(first).parts[""].over_limit) == (5, 3)
    assert days(app.tick()) == [(2, "applied"), (1, "applied")]
    assert days(app.tick()) == [(0, "applied")]
    assert app.tick().jobs == []
    assert bank.units == 5 * UNITS


def test_skip_settles_what_is_too_old_with_the_reason(bank: Bank) -> None:
    """Without an attempt; what is young enough runs."""
    now = midnight() + HOUR
    options: dict[str, Any] = {"catch_up": "skip", "skip_after": DAY + HOUR}
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(4), **options)

    report = app.tick(now=now)

    assert days(report) == [(1, "applied"), (0, "applied")]
    assert of(report).skipped == 3
    skipped = [row for row in bank.settled if row.disposition == "skipped"]
    assert [(row.attempt_id, row.reason) for row in skipped] == [
        (None, "due longer ago than skip_after=1 day, 1:00:00")
    ] * 3
    assert app.tick(now=now).jobs == []


def test_reconcile_runs_the_newest_which_covers_the_older(bank: Bank) -> None:
    """One effect; the others are superseded by its attempt, and its interval spans them."""
    handler = Handler(bank)
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(2), catch_up="reconcile")

    report = app.tick(now=midnight() + HOUR)

    assert days(report) == [(0, "applied")]
    assert bank.units == UNITS
    assert [row.disposition for row in bank.settled] == ["superseded", "superseded", "applied"]
    by = bank.occurrence(midnight()).key
    assert all(by in (row.reason or "") for row in bank.settled[:2])
    [(covered, interval)] = handler.runs
    assert sorted(covered) == [midnight(2), midnight(1), midnight()]
    assert (interval.start, interval.end) == (midnight(3), midnight())


def test_reconcile_that_fails_covers_nothing(bank: Bank) -> None:
    """The older ones are settled with its effect or not at all."""
    handler = Handler(bank, error=ValueError("no"))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(2), catch_up="reconcile")

    assert days(app.tick()) == [(0, "failed")]
    assert (bank.settled, bank.units) == ([], 0)
    handler.error = None
    assert days(app.tick(now=midnight() + DAY - MOMENT)) == [(0, "applied")]
    assert len(bank.settled) == 3


def test_none_runs_the_newest_due_and_leaves_the_older(bank: Bank) -> None:
    """They stay missing, for a person."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(3), catch_up="none")

    report = app.tick()

    assert days(report) == [(0, "applied")]
    assert of(report).parts[""].left == 3
    assert days(app.tick()) == []
    assert app.missing(bank.job).total == 3


def test_first_registration_expects_nothing_of_the_past(bank: Bank) -> None:
    """Only what falls due afterwards."""
    app = bank.define(bank.app(), schedule=DAILY)

    assert app.tick().jobs == []
    assert days(app.tick(now=midnight() + DAY)) == [(-1, "applied")]


# ----------------------------------------------------------------------------------------- failures


def test_failed_occurrence_waits_for_its_retry(bank: Bank) -> None:
    """It is not tried again before the delay, and is after it."""
    handler = Handler(bank, error=ValueError("no"))
    retry = duly.Retry(first=timedelta(minutes=2), factor=1)
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(), retry=retry)

    assert days(app.tick()) == [(0, "failed")]
    second = app.tick()
    assert (days(second), waiting(second)) == ([], [Decision.RETRY_LATER])
    [plan] = of(second).parts.values()
    [each] = plan.waiting
    assert each.until is not None
    assert not app.tick(now=each.until - timedelta(seconds=1)).jobs[0].ran
    handler.error = None
    assert days(app.tick(now=each.until)) == [(0, "applied")]
    assert bank.units == UNITS


def test_last_attempt_that_fails_gives_the_occurrence_up(bank: Bank) -> None:
    """It stays missing, and is never started again by a tick."""
    handler = Handler(bank, error=ValueError("no"))
    retry = duly.Retry(attempts=2, first=timedelta(0))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(), retry=retry)

    assert days(app.tick()) == [(0, "failed")]
    assert days(app.tick()) == [(0, "failed")]
    third = app.tick(now=midnight() + DAY - MOMENT)

    assert (days(third), waiting(third)) == ([], [Decision.GIVEN_UP])
    assert bank.outcomes == ["failed", "failed"]


def test_error_that_is_not_worth_a_retry_gives_up_at_once(bank: Bank) -> None:
    """By the classes that the job names."""
    handler = Handler(bank, error=ValueError("no"))
    retry = duly.Retry(first=timedelta(0), on=(ConnectionError,))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(), retry=retry)

    app.tick()

    assert waiting(app.tick()) == [Decision.GIVEN_UP]


def test_failure_does_not_hold_up_the_next_one(bank: Bank) -> None:
    """Unless the job says so: the others run."""

    def handler(run: duly.Run) -> None:
        if run.nominal_time == midnight(2):
            raise ValueError("no")
        run.execute(bank.credit())

    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(2))

    assert days(app.tick()) == [(2, "failed"), (1, "applied"), (0, "applied")]


def test_in_order_stops_at_the_first_that_is_not_applied(bank: Bank) -> None:
    """In that tick, and in the next while it waits."""
    handler = Handler(bank, error=ValueError("no"))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(2), in_order=True)

    assert days(app.tick()) == [(2, "failed")]
    second = app.tick()
    assert (days(second), of(second).parts[""].held) == ([], 2)
    handler.error = None
    last = app.tick(now=midnight() + DAY - MOMENT)
    assert days(last) == [(2, "applied"), (1, "applied"), (0, "applied")]


def test_error_of_the_handlers_own_is_a_failure_whatever_its_class(bank: Bank) -> None:
    """A `Busy` that the handler raises does not stop the tick as the database's would."""
    handler = Handler(bank, error=duly.Busy("mine"))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(1))

    assert days(app.tick()) == [(1, "failed"), (0, "failed")]


def test_exit_of_a_handlers_own_is_a_failure_of_that_occurrence_alone(bank: Bank) -> None:
    """A `sys.exit()` in one job keeps no other of a tick, or of a backfill, from running."""

    def leaves(run: duly.Run) -> None:
        run.execute(bank.credit())
        sys.exit(0)

    app = bank.app()
    app.job(f"{bank.job}-a", schedule=DAILY, starts=midnight(1))(leaves)
    bank.define(app, schedule=DAILY, starts=midnight(1))

    assert days(app.tick()) == [(1, "failed"), (0, "failed"), (1, "applied"), (0, "applied")]
    for workers in (1, 2):
        counts = app.backfill(
            f"{bank.job}-a", since=midnight(1), until=midnight() + HOUR, workers=workers
        ).counts
        assert counts == {"failed": 2}
    assert bank.units == 2 * UNITS


def test_exit_by_which_a_program_answers_a_signal_ends_the_tick(bank: Bank) -> None:
    """It is no failure of the handler that was at work: whoever ticks is to stop."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        signal.raise_signal(signal.SIGTERM)

    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(1))
    try:
        with pytest.raises(SystemExit):
            app.tick()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert (bank.units, bank.outcomes) == (0, ["failed"])


# ------------------------------------------------------------------------------------------- holes


def test_hole_behind_the_newest_is_found_and_run(bank: Bank) -> None:
    """What was run by name does not hide what came before it."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(4))
    for days_ago in (4, 2, 0):
        app.run(bank.job, midnight(days_ago))

    assert [each.occurrence.nominal_time for each in app.missing(bank.job).occurrences] == [
        midnight(3),
        midnight(1),
    ]
    assert days(app.tick()) == [(3, "applied"), (1, "applied")]
    assert bank.units == 5 * UNITS


# ----------------------------------------------------------------------------------------- overlap


class Held:
    """A handler that stays inside until it is let go."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.inside = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, run: duly.Run) -> None:
        run.execute(self.bank.credit())
        self.inside.set()
        assert self.go_on.wait(30)


def overlapping(bank: Bank, held: Held, most: int) -> tuple[duly.App, threading.Thread]:
    """Two hosts: the first is inside its oldest occurrence; the second, to tick now."""
    options: dict[str, Any] = {"schedule": DAILY, "starts": midnight(1), "max_running": most}
    one, two = bank.define(bank.app(), held, **options), bank.define(bank.app(), **options)
    one.register()
    thread = threading.Thread(target=one.tick)
    thread.start()
    assert held.inside.wait(20)
    return two, thread


def test_no_occurrence_runs_beside_another_by_default(server_bank: Bank) -> None:
    """On another host neither: the tick says so and leaves them for later."""
    held = Held(server_bank)
    two, thread = overlapping(server_bank, held, 1)
    try:
        report = two.tick()
    finally:
        held.go_on.set()
        thread.join(30)

    assert (days(report), of(report).full) == ([], True)
    assert server_bank.units == 2 * UNITS


def test_as_many_run_at_once_as_the_job_allows(server_bank: Bank) -> None:
    """The second host waits for the key that the first holds, not for a slot."""
    bank, reports = server_bank, []
    held = Held(bank)
    two, thread = overlapping(bank, held, 2)
    other = threading.Thread(target=lambda: reports.append(two.tick()))
    other.start()
    try:
        bank.wait_until_blocked()
    finally:
        held.go_on.set()
        thread.join(30)
        other.join(30)

    [report] = reports
    assert days(report)[0] == (1, "duplicate")
    assert not of(report).full
    assert bank.units == 2 * UNITS


# ------------------------------------------------------------------------------------- definitions


def test_edit_leaves_what_was_expected_before(bank: Bank) -> None:
    """What was missing is run by the old schedule and payload; what comes, by the new one."""
    old, new = Handler(bank), Handler(bank)
    bank.define(bank.app(), old, schedule=DAILY, starts=midnight(1), payload="old").register()
    app = bank.define(bank.app(), new, schedule="30 * * * *", starts=midnight(1), payload="new")

    first = app.tick()
    assert days(first) == [(1, "applied"), (0, "applied")]
    assert new.payloads == ["old", "old"]
    [hour] = list(app.plan(now=datetime.now(UTC) + HOUR).jobs[0].steps())
    assert hour.occurrence.nominal_time.minute == 30
    app.tick(now=datetime.now(UTC) + HOUR)
    assert new.payloads == ["old", "old", "new"]
    assert app.missing(bank.job).total == 0


def test_stale_definition_is_refused_and_told_until_it_is_adopted(bank: Bank) -> None:
    """An old process does not bring its schedule back by itself."""
    before = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))
    before.register()
    bank.define(bank.app(), schedule="0 * * * *", starts=midnight(1)).register()

    report = before.tick()
    assert days(report) == []
    assert isinstance(of(report).refused, duly.DefinitionStale)
    assert isinstance(before.plan().jobs[0].refused, duly.DefinitionStale)

    written, refused = before.register(adopt=True)
    assert ([each.why for each in written], refused) == (["adopted"], {})
    assert days(before.tick()) == [(1, "applied"), (0, "applied")]


def test_renamed_job_keeps_its_keys(bank: Bank) -> None:
    """What was done under the first name is done."""
    bank.define(bank.app(), schedule=DAILY, starts=midnight(1)).run(bank.job, midnight(1))
    app = bank.app()
    app.job(f"{bank.job}-new", schedule=DAILY, starts=midnight(1), formerly=bank.job)(Handler(bank))

    report = app.tick()

    assert days(report) == [(0, "applied")]
    assert of(report).ran[0].key.startswith(f"{bank.job}:")
    assert of(report).job == f"{bank.job}-new"
    assert bank.units == 2 * UNITS


def test_job_that_its_app_no_longer_defines_is_retired(bank: Bank) -> None:
    """With a name, an App speaks for all of its jobs; nothing more is expected of this one."""
    bank.define(bank.app(name=bank.job), schedule=DAILY, starts=midnight(1)).tick()
    other = bank.app(name=bank.job)
    other.job(f"{bank.job}-other", schedule=DAILY)(Handler(bank))

    foreseen = {plan.job: plan.pending for plan in other.plan().jobs}
    assert foreseen == {bank.job: "retired", f"{bank.job}-other": "first"}
    other.tick()

    [status] = bank.app().status(bank.job, now=midnight() + 2 * DAY).jobs
    assert (status.state.value, status.missing) == ("retired", 0)


def test_job_of_an_app_without_a_name_is_not_retired(bank: Bank) -> None:
    """Two modules may share a ledger."""
    bank.define(bank.app(), schedule=DAILY, starts=midnight(1)).tick()
    bank.app().tick()

    [status] = bank.app().status(bank.job).jobs
    assert status.state.value == "ok"


# ------------------------------------------------------------------------------------ what is told


def test_paused_job_is_told_and_not_run(bank: Bank) -> None:
    """A tick that does nothing says why."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))
    app.register()
    since = duly.Occurrence(bank.job, midnight()).nominal_us
    bank.run(
        f"INSERT INTO duly_pause (job, paused_us, included) VALUES ('{bank.job}', {since}, FALSE)"
    )

    report = app.tick()

    assert (days(report), of(report).paused_since) == ([], midnight())
    assert bank.units == 0


def test_clock_behind_what_is_settled_is_told(bank: Bank) -> None:
    """After a clock was ahead, or went back; nothing is run twice."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))

    assert app.tick(now=midnight() + 3 * DAY).clock_behind == []
    report = app.tick()

    assert (days(report), report.clock_behind) == ([], [bank.job])


def test_definition_that_was_recorded_by_a_clock_ahead_is_told(bank: Bank) -> None:
    """Nothing is expected by it for so long: a tick that finds nothing says why."""
    app = bank.define(bank.app(), schedule=DAILY)
    app.register()
    bank.run(
        "UPDATE duly_job_revision SET effective_us = effective_us + 31536000000000"
        f" WHERE job = '{bank.job}'"
    )

    report = app.tick()

    assert (report.jobs, report.clock_behind) == ([], [bank.job])
    assert app.run(bank.job).outcome is duly.Outcome.APPLIED


def test_clock_behind_what_is_settled_is_told_by_a_worker_once(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on, as a tick does, and its log says for which job."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))
    app.tick(now=midnight() + 3 * DAY)
    stop = threading.Event()
    worker = threading.Thread(target=app.work, kwargs={"stop": stop, "poll": 1.0})

    with caplog.at_level("WARNING", logger="duly.worker"):
        worker.start()
        until = time.monotonic() + 30
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(1.5)  # one look more
        stop.set()
        worker.join()

    told = [(record.getMessage(), record.__dict__["job"]) for record in caplog.records]
    assert told == [("clock_behind", bank.job)]
    assert f"`duly history {bank.job}`" in caplog.records[0].__dict__["error"]


def test_occurrence_that_a_person_ran_early_is_no_clock_behind(bank: Bank) -> None:
    """It was wanted."""
    app = bank.define(bank.app(), schedule=DAILY)
    app.run(bank.job, midnight() + 3 * DAY, early=True)

    assert app.tick().clock_behind == []


def test_plan_says_what_a_tick_does_and_writes_nothing(bank: Bank) -> None:
    """Not even the definition."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(2), max_per_tick=2)

    [planned] = app.plan().jobs
    assert planned.pending == "first"
    assert bank.run(f"SELECT 1 FROM duly_job_revision WHERE job = '{bank.job}'") == []
    keys = [step.occurrence.key for step in planned.steps()]

    report = app.tick()

    assert [ran.key for ran in of(report).ran] == keys
    assert (planned.over_limit, of(report).parts[""].over_limit) == (1, 1)
    [after] = app.plan().jobs
    assert after.pending is None


def test_plan_gives_each_occurrence_its_decision_and_reason(bank: Bank) -> None:
    """Skipped, run, given up, in the words of the policy."""
    handler = Handler(bank, error=ValueError("no"))
    options: dict[str, Any] = {"catch_up": "skip", "skip_after": 3 * DAY}
    retry = duly.Retry(attempts=1)
    app = bank.define(
        bank.app(), handler, schedule=DAILY, starts=midnight(4), retry=retry, **options
    )
    with pytest.raises(ValueError, match="no"):
        app.run(bank.job, midnight(1))

    [planned] = app.plan(now=midnight() + HOUR).jobs

    assert [
        ((midnight() - step.occurrence.nominal_time).days, step.decision.value, step.why)
        for step in planned.steps()
    ] == [
        (4, "skip", "due longer ago than skip_after=3 days, 0:00:00"),
        (3, "skip", "due longer ago than skip_after=3 days, 0:00:00"),
        (2, "run", "due and missing"),
        (0, "run", "due and missing"),
        (1, "given up", "failed once; no attempt is left"),
    ]
