"""How a job is, and what is missing of it: with its code and from the database alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.status import State
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from duly._core.status import JobStatus
    from tests.contract.bank import Bank

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DAILY = "0 0 * * *"


def midnight(days_ago: int = 0) -> datetime:
    """A midnight of UTC: what a daily job is due at."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days_ago * DAY


def status(bank: Bank, app: duly.App | None = None, now: datetime | None = None) -> JobStatus:
    """Of the bank's job; without an App, from the database alone."""
    [found] = (app or bank.app()).status(bank.job, now=now).jobs
    return found


def failing(run: duly.Run) -> None:
    raise ValueError("no luck")


def missed(bank: Bank, app: duly.App | None = None, **span: Any) -> list[int]:
    """How many days ago each missing occurrence was due."""
    report = (app or bank.app()).missing(bank.job, **span)
    return [(midnight() - each.occurrence.nominal_time).days for each in report.occurrences]


# ------------------------------------------------------------------------------------------ states


def test_job_that_is_complete_is_ok(bank: Bank) -> None:
    """With what it completed last, how long ago, and what comes next."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(2))
    app.tick()

    for found in (status(bank, app, midnight() + HOUR), status(bank, None, midnight() + HOUR)):
        assert (found.state, found.missing, found.pending) == (State.OK, 0, None)
        assert (found.last_completed, found.lag) == (midnight(), HOUR)
        assert found.next_due_at == midnight() + DAY
        assert not found.needs_a_person


def test_newest_alone_is_due_and_an_older_one_is_missing(bank: Bank) -> None:
    """What a tick is about to run is no cause for alarm."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))
    app.tick()

    due = status(bank, app, midnight() + DAY)
    late = status(bank, app, midnight() + 2 * DAY)

    assert (due.state, due.missing) == (State.DUE, 1)
    assert (late.state, late.missing) == (State.MISSING, 2)
    assert late.oldest_missing == midnight() + DAY


def test_hole_behind_the_newest_is_missing(bank: Bank) -> None:
    """Whatever was completed after it."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(2))
    app.register()
    app.run(bank.job, midnight())
    app.run(bank.job, midnight(2))

    found = status(bank, None, midnight() + HOUR)

    assert (found.state, found.missing, found.oldest_missing) == (State.MISSING, 1, midnight(1))
    assert found.last_completed == midnight()


def test_missing_one_is_overdue_at_its_deadline_and_not_before(bank: Bank) -> None:
    """By its due time."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1), deadline=HOUR)
    app.tick()

    just = midnight() + DAY + HOUR
    before, at = (status(bank, None, just - timedelta(seconds=1)), status(bank, None, just))

    assert (before.state, before.needs_a_person) == (State.DUE, False)
    assert (at.state, at.overdue_since, at.needs_a_person) == (State.OVERDUE, just, True)


def test_due_time_of_a_period_counts_for_deadline_and_lag(bank: Bank) -> None:
    """The period of yesterday is due today."""
    options: dict[str, Any] = {"period": "day", "period_offset": -1, "deadline": 2 * HOUR}
    app = bank.define(bank.app(), schedule="0 1 * * *", starts=midnight(1), **options)
    app.tick(now=midnight() + HOUR)

    done = status(bank, None, midnight() + 2 * HOUR)
    assert (done.last_completed, done.lag) == (midnight(1), HOUR)
    assert done.next_due_at == midnight() + DAY + HOUR
    late = status(bank, None, midnight() + DAY + 3 * HOUR)
    assert (late.oldest_missing, late.overdue_since) == (midnight(), midnight() + DAY + 3 * HOUR)


def test_failing_job_says_since_when_how_often_and_why(bank: Bank) -> None:
    """And when it is tried again."""
    retry = duly.Retry(first=timedelta(0))
    app = bank.define(bank.app(), failing, schedule=DAILY, starts=midnight(), retry=retry)
    before = datetime.now(UTC) - timedelta(seconds=5)
    app.tick()
    app.tick()

    found = status(bank)

    assert (found.state, found.missing, found.given_up) == (State.FAILING, 1, 0)
    assert found.failing is not None
    assert (found.failing.attempts, found.failing.error) == (2, "ValueError: no luck")
    assert found.failing.key == bank.occurrence(midnight()).key
    assert before < found.failing.since < before + timedelta(minutes=2)
    assert not found.needs_a_person


def test_retry_that_waits_is_told(bank: Bank) -> None:
    """To the instant."""
    retry = duly.Retry(first=HOUR, factor=1)
    app = bank.define(bank.app(), failing, schedule=DAILY, starts=midnight(), retry=retry)
    app.tick()

    found, [missing] = status(bank), bank.app().missing(bank.job).occurrences

    assert found.retry_at is not None
    assert timedelta(0) < found.retry_at - datetime.now(UTC) <= HOUR
    assert (missing.retry_at, missing.failures, missing.given_up) == (found.retry_at, 1, False)


def test_given_up_occurrence_needs_a_person(bank: Bank) -> None:
    """Even behind others that are only missing."""
    app = bank.define(
        bank.app(), failing, schedule=DAILY, starts=midnight(3), retry=duly.Retry(attempts=1)
    )
    with pytest.raises(ValueError, match="no luck"):
        app.run(bank.job, midnight(1))

    found = status(bank)

    assert (found.state, found.given_up, found.missing) == (State.GIVEN_UP, 1, 4)
    assert found.needs_a_person
    given_up = [each.given_up for each in bank.app().missing(bank.job).occurrences]
    assert given_up == [False, False, True, False]


def test_failure_of_what_was_settled_since_is_forgotten(bank: Bank) -> None:
    """A job whose retry succeeded is not failing."""
    luck: list[str] = []

    def handler(run: duly.Run) -> None:
        if not luck:
            raise ValueError("no luck")

    retry = duly.Retry(first=timedelta(0))
    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(), retry=retry)
    app.tick()
    luck.append("now")
    app.tick()

    assert (status(bank).state, status(bank).failing) == (State.OK, None)


def test_failures_are_counted_of_what_is_still_missing(bank: Bank) -> None:
    """Not those of an occurrence between them that was applied in the end."""
    bad = [midnight(2), midnight(1)]

    def handler(run: duly.Run) -> None:
        if run.nominal_time in bad:
            raise ValueError(f"day {run.nominal_time.day}")

    app = bank.define(bank.app(), handler, schedule=DAILY, starts=midnight(2))
    app.register()
    for days_ago in (2, 1):
        with pytest.raises(ValueError, match="day"):
            app.run(bank.job, midnight(days_ago))
    bad.remove(midnight(1))
    app.run(bank.job, midnight(1))

    found = status(bank)

    assert (found.missing, found.oldest_missing) == (2, midnight(2))
    assert found.failing is not None
    assert found.failing.attempts == 1
    assert found.failing.error == f"ValueError: day {midnight(2).day}"


def test_paused_job_is_paused_whatever_else_it_is(bank: Bank) -> None:
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))
    app.register()
    since = bank.occurrence(midnight()).nominal_us
    bank.run(
        f"INSERT INTO duly_pause (job, paused_us, included) VALUES ('{bank.job}', {since}, FALSE)"
    )

    found = status(bank)

    assert (found.state, found.paused_since, found.missing) == (State.PAUSED, midnight(), 1)
    assert missed(bank) == [1], "what falls due in a pause is not expected"


def test_refused_definition_is_told_to_its_process_alone(bank: Bank) -> None:
    """The ledger's own revision is in order."""
    old = bank.define(bank.app(), schedule=DAILY)
    old.register()
    new = bank.define(bank.app(), schedule="0 * * * *")
    new.register()

    assert status(bank, old).state is State.REFUSED
    assert isinstance(status(bank, old).refused, duly.DefinitionStale)
    assert status(bank, new).state is State.OK
    assert (status(bank).state, status(bank).revision) == (State.OK, 2)


def test_definition_that_is_not_recorded_yet_is_shown_as_such(bank: Bank) -> None:
    """Asking records nothing."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(1))

    found = status(bank, app)

    assert (found.pending, found.revision, found.missing) == ("first", None, 2)
    assert bank.run(f"SELECT 1 FROM duly_job_revision WHERE job = '{bank.job}'") == []
    app.register()
    edited = bank.define(bank.app(), schedule="0 1 * * *", starts=midnight(1))
    assert status(bank, edited).pending == "edit"


def test_job_without_a_schedule_is_unscheduled_and_may_fail(bank: Bank) -> None:
    """Also one that nobody defined: it was only claimed."""
    app = bank.define(bank.app(), failing, schedule=None)
    with pytest.raises(ValueError, match="no luck"):
        app.run(bank.job, midnight())

    found = status(bank)
    assert (found.state, found.missing) == (State.UNSCHEDULED, 0)
    assert found.failing is not None
    assert (found.failing.attempts, found.failing.error) == (1, "ValueError: no luck")


def test_claimed_job_that_nobody_defined_is_listed(bank: Bank) -> None:
    app = bank.app()
    with app.database.engine.begin() as connection:
        duly.claim(connection, bank.occurrence(midnight(1)))

    found = status(bank)
    assert (found.state, found.last_completed) == (State.UNSCHEDULED, midnight(1))
    assert bank.job in {each.job for each in app.status().jobs}
    assert app.missing(bank.job).total == 0


def test_unknown_name_suggests_the_nearest(bank: Bank) -> None:
    app = bank.define(bank.app(), schedule=DAILY)
    app.register()
    for ask in (app.status, app.missing):
        with pytest.raises(duly.UnknownJob, match=bank.job):
            ask(f"{bank.job}x")


# ---------------------------------------------------------------------------------- what is missing


def test_missing_ones_are_listed_oldest_first_up_to_the_limit(bank: Bank) -> None:
    """All are counted."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(5))
    app.register()
    app.run(bank.job, midnight(3))

    assert missed(bank) == [5, 4, 2, 1, 0]
    report = bank.app().missing(bank.job, limit=2)
    assert (len(report.occurrences), report.total) == (2, 5)
    assert report.occurrences[0].due_at == midnight(5)


def test_span_of_the_missing_is_half_open_and_takes_dates(bank: Bank) -> None:
    """Of nominal times."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(5))
    app.register()

    assert missed(bank, since=midnight(4), until=midnight(2)) == [4, 3]
    assert missed(bank, since=f"{midnight(1):%Y-%m-%d}") == [1, 0]
    assert missed(bank, since=midnight(4) + HOUR, until=midnight(3)) == []
    with pytest.raises(duly.NominalTimeInvalid):
        missed(bank, since="yesterday")
    with pytest.raises(duly.UsageError, match="limit=0"):
        missed(bank, limit=0)


def test_span_of_a_period_that_is_due_later_finds_it(bank: Bank) -> None:
    """A month's run is due after its month, and another's before it."""
    for offset in (-1, 1):
        app = bank.app()
        name = f"{bank.job}-{offset + 1}"
        app.job(name, schedule=DAILY, period="day", period_offset=offset, starts=midnight(3))(
            failing
        )
        app.register()
        every = [each.occurrence.nominal_time for each in app.missing(name).occurrences]
        assert len(every) == 4
        for at in every:
            [found] = app.missing(name, since=at, until=at + HOUR).occurrences
            assert found.occurrence.nominal_time == at


def test_edit_forgets_nothing_that_was_missing(bank: Bank) -> None:
    """By the revision that was in force."""
    bank.define(bank.app(), schedule=DAILY, starts=midnight(2)).register()
    app = bank.define(bank.app(), schedule="0 12 1 1 *", starts=midnight(2))
    app.register()

    assert missed(bank) == missed(bank, app) == [2, 1, 0]


def test_pruned_records_are_not_missing(bank: Bank) -> None:
    """They are refused; nobody could run them."""
    app = bank.define(bank.app(), schedule=DAILY, starts=midnight(9), max_per_tick=4)
    app.tick()
    horizon = bank.occurrence(midnight(7)).nominal_us
    bank.run(f"DELETE FROM duly_occurrence WHERE job = '{bank.job}' AND nominal_us <= {horizon}")
    bank.run(f"UPDATE duly_job SET horizon_us = {horizon} WHERE name = '{bank.job}'")

    assert missed(bank) == missed(bank, since=midnight(30)) == [5, 4, 3, 2, 1, 0]
    assert status(bank).missing == 6


def test_partitions_of_an_occurrence_are_missing_one_by_one(bank: Bank) -> None:
    """By the set that was fixed; before that, by the list of the code."""

    def handler(run: duly.Run) -> None:
        if run.partition == "b":
            raise ValueError("no luck")

    app = bank.define(
        bank.app(), handler, schedule=DAILY, starts=midnight(1), partitions=["a", "b"]
    )
    before = [each.key for each in app.missing(bank.job).occurrences]
    planned = [step.occurrence.key for step in app.plan().jobs[0].steps()]
    assert before == planned
    assert [key.rpartition(":")[2] for key in before] == ["a", "b", "a", "b"]

    slow = bank.define(
        bank.app(), schedule=DAILY, starts=midnight(1), partitions=["a", "b"], max_per_tick=1
    )
    [limited] = slow.plan().jobs
    assert [step.occurrence.key for step in limited.steps()] == before[:1]
    assert limited.over_limit == 3

    app.tick()

    after = bank.app().missing(bank.job)
    assert [each.occurrence.partition for each in after.occurrences] == ["b", "b"]
    assert [each.failures for each in after.occurrences] == [1, 1]
    assert status(bank).state is State.FAILING


# -------------------------------------------------------------------------------------- either name


def test_renamed_job_answers_to_either_name(bank: Bank) -> None:
    """With the code, and from the database alone."""
    new = f"{bank.job}-new"
    app = bank.app(name=bank.job)
    names = [bank.job, f"{bank.job}-then"]
    app.job(new, schedule=DAILY, starts=midnight(1), formerly=names)(lambda run: None)
    app.register()
    app.run(new, midnight(1))
    key = bank.occurrence(midnight(1)).key

    for asked in (app, bank.app()):
        for name in (bank.job, new):
            assert [each.job for each in asked.status(name).jobs] == [new]
            assert asked.missing(name).total == 1
            assert [each.occurrence.key for each in asked.history(name).attempts] == [key]
            assert asked.explain(duly.Occurrence(name, midnight(1))).applied
            assert asked.occurrence(name, midnight(1)).key == key
    assert app.explain(duly.Occurrence(names[1], midnight(1))).applied
    assert app.missing(names[1]).total == 1


def test_newest_due_of_an_edited_job_is_named_by_its_revisions(bank: Bank) -> None:
    """A schedule that was edited names what it expected before; asking writes nothing."""
    bank.define(bank.app(), schedule=DAILY, starts=midnight(1)).register()
    app = bank.define(bank.app(), schedule="0 12 1 1 *", starts=midnight(1))

    assert app.occurrence(bank.job).nominal_time == midnight()
    assert len(bank.run(f"SELECT 1 FROM duly_job_revision WHERE job = '{bank.job}'")) == 1
    app.register()
    assert app.occurrence(bank.job).nominal_time == midnight()
    assert bank.app().occurrence(bank.job).nominal_time == midnight()
    assert app.run(bank.job).key == bank.occurrence(midnight()).key
    assert bank.units == UNITS
