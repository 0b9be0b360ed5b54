"""What `App.run` adds to a start: the schedule, payloads, results, and records of failures."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import OLD, UNITS, Bank, execute, recent, wait_until

if TYPE_CHECKING:
    from tests.contract.doors import AppDoor, Execute


# ---------------------------------------------------------------------------------- when


def test_start_before_its_time_is_not_due_and_keeps_the_key(bank: Bank) -> None:
    """A start that comes too soon does not use up the key; `early=True` does it on purpose."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    tomorrow = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(2)

    with pytest.raises(duly.NotDue) as caught:
        app.run(bank.job, tomorrow)

    assert caught.value.details["due_at"] == f"{tomorrow:%Y-%m-%dT%H:%M:%SZ}"
    assert (bank.units, bank.settled) == (0, [])
    assert app.run(bank.job, tomorrow, early=True).outcome is duly.Outcome.APPLIED
    assert bank.units == UNITS


def test_start_off_the_schedule_is_refused_unless_wanted(bank: Bank) -> None:
    """An instant that the schedule does not name is no occurrence, but by `off_schedule=True`."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    between = OLD + timedelta(hours=1)

    with pytest.raises(duly.OffSchedule):
        app.run(bank.job, between)

    assert (bank.units, bank.settled) == (0, [])
    assert app.run(bank.job, between, off_schedule=True).outcome is duly.Outcome.APPLIED


def test_start_without_a_time_means_the_newest_due(bank: Bank) -> None:
    """Without `at`, an hourly job runs the last full hour, and once."""
    app = bank.define(bank.app(), schedule="0 * * * *")
    before = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)

    first = app.run(bank.job)
    named = app.run(bank.job, duly.Occurrence.parse(first.key).nominal_time)

    assert duly.Occurrence.parse(first.key).nominal_time - before in {
        timedelta(0),
        timedelta(hours=1),  # the hour turned meanwhile
    }
    assert named.outcome is duly.Outcome.DUPLICATE
    assert [a.source for a in bank.attempts] == ["schedule"]


def test_equal_instants_in_other_zones_are_one_occurrence(bank: Bank) -> None:
    """Text, a date and an aware datetime that mean one instant start one occurrence."""
    app = bank.define(bank.app(), schedule="0 0 * * *", timezone="UTC")

    outcomes = [
        app.run(bank.job, at).outcome
        for at in ("2024-02-29", "2024-02-29T01:00:00+01:00", OLD, OLD.date())
    ]

    assert outcomes == ["applied", "duplicate", "duplicate", "duplicate"]
    assert bank.units == UNITS


def test_source_of_a_nominal_time_and_the_starter_are_recorded(bank: Bank) -> None:
    """An attempt says who started it, where from, and in which process."""
    app = bank.define(bank.app(started_by="cron:night"))

    app.run(bank.job, OLD)

    (attempt,) = bank.attempts
    assert (attempt.started_by, attempt.source) == ("cron:night", "explicit")
    assert attempt.host
    assert attempt.pid


# ------------------------------------------------------------------------------ payloads


def test_payload_not_given_is_the_jobs_own(bank: Bank) -> None:
    """The default payload is what an attempt gets and what its key is compared by."""
    seen: list[Any] = []
    app = bank.define(bank.app(), lambda run: seen.append(run.payload), payload={"units": 10})

    app.run(bank.job, OLD)

    assert seen == [{"units": 10}]
    assert app.run(bank.job, OLD, payload={"units": 10.0}).outcome is duly.Outcome.DUPLICATE
    with pytest.raises(duly.PayloadConflict):
        app.run(bank.job, OLD, payload=None)


def test_payload_given_replaces_the_jobs_own(bank: Bank) -> None:
    """A given payload, also null, is the one that counts."""
    seen: list[Any] = []
    app = bank.define(bank.app(), lambda run: seen.append(run.payload), payload={"units": 10})

    app.run(bank.job, OLD, payload={"units": 5})
    app.run(bank.job, recent(), payload=None)

    assert seen == [{"units": 5}, None]
    with pytest.raises(duly.PayloadConflict):
        app.run(bank.job, OLD)


def test_handler_gets_the_payload_as_its_canonical_text_says(bank: Bank) -> None:
    """The first attempt sees what a retry would: 10 for 10.0, a list for a tuple."""
    seen: list[Any] = []
    app = bank.define(bank.app(), lambda run: seen.append(run.payload))

    app.run(bank.job, OLD, payload={"b": (1, 2), "a": 10.0, "text": "Ä\u2028💰"})

    assert seen == [{"a": 10, "b": [1, 2], "text": "Ä\u2028💰"}]
    assert isinstance(seen[0]["a"], int)


def test_null_payload_is_the_same_in_a_run_and_in_a_claim(bank: Bank) -> None:
    """Either order: a run without payload and a claim without payload are one start."""
    app = bank.define(bank.app())
    later = OLD + timedelta(days=1)
    connection = bank.connect()

    app.run(bank.job, OLD)
    first = duly.claim(connection, bank.occurrence(OLD))
    second = duly.claim(connection, bank.occurrence(later), payload=None)
    connection.commit()

    assert first.outcome is duly.Outcome.DUPLICATE
    assert second.is_new
    assert app.run(bank.job, later).outcome is duly.Outcome.DUPLICATE


# ------------------------------------------------------------------------------- results


def test_value_of_a_duplicate_is_the_stored_result(own_door: AppDoor) -> None:
    """A second start returns what the first one made, as JSON keeps it."""
    first = own_door.start(lambda execute: {"rows": (1, 2.0), "name": "Ä💰"})

    again = own_door.start(lambda execute: "something else")

    expected = {"rows": [1, 2], "name": "Ä💰"}
    assert (first.value, again.value) == (expected, expected)
    connection = own_door.bank.connect()
    assert duly.claim(connection, own_door.bank.occurrence()).value == expected


def test_result_that_is_no_json_undoes_the_effect(own_door: AppDoor) -> None:
    """A result that cannot be kept fails the attempt before its effect is."""

    def effect(execute: Execute) -> object:
        execute(own_door.bank.credit())
        return object()

    with pytest.raises(duly.ResultInvalid):
        own_door.start(effect)

    bank = own_door.bank
    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])


# ------------------------------------------------------------------------------ failures


class TransferRejected(Exception):
    """A handler's own error."""


def test_failure_is_recorded_with_its_end_and_raised_unchanged(own_door: AppDoor) -> None:
    """A failed attempt leaves who failed, why and where; the exception is the very same."""
    error = TransferRejected("account 7 \u2028 is \0 closed")

    def effect(execute: Execute) -> None:
        execute(own_door.bank.credit())
        raise error

    with pytest.raises(TransferRejected) as caught:
        own_door.start(effect)

    assert caught.value is error
    (attempt,) = own_door.bank.attempts
    assert (attempt.outcome, attempt.error_origin) == ("failed", "handler")
    assert attempt.error_type == "TransferRejected"
    assert attempt.error_message == "account 7 \u2028 is \\0 closed"
    assert attempt.error_traceback is not None
    assert "in effect" in attempt.error_traceback
    assert attempt.error_traceback.rstrip().endswith("is \\0 closed")
    assert attempt.result is None


def test_failure_with_an_endless_traceback_is_recorded_bounded(bank: Bank) -> None:
    """Evidence stays small: the end of the traceback is kept, which names the error."""

    def handler(run: duly.Run) -> None:
        def deeper(depth: int) -> None:
            if depth == 0:
                raise TransferRejected("x" * 100_000 + "\udcff the end")
            (deeper if depth % 2 else other)(depth - 1)

        def other(depth: int) -> None:
            deeper(depth)

        deeper(200)

    app = bank.define(bank.app(), handler)

    with pytest.raises(TransferRejected):
        app.run(bank.job, OLD)

    (attempt,) = bank.attempts
    assert attempt.error_message is not None
    assert attempt.error_traceback is not None
    assert len(attempt.error_message) <= 2_000
    assert len(attempt.error_traceback) <= 8_000
    assert attempt.error_traceback.rstrip().endswith("the end")


def test_failure_of_the_database_is_told_from_one_of_the_handler(own_door: AppDoor) -> None:
    """An error of the database inside a handler is recorded as the database's."""
    with pytest.raises(Exception, match="no_such_table"):
        own_door.start(lambda execute: execute("UPDATE no_such_table SET x = 1"))

    (attempt,) = own_door.bank.attempts
    assert (attempt.outcome, attempt.error_origin) == ("failed", "database")
    assert "Background on this error" not in (attempt.error_message or "")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_interruption_of_the_handler_is_recorded_as_a_signal(
    own_door: AppDoor, error: BaseException
) -> None:
    """A Ctrl-C in the handler rolls back, is recorded, and goes on its way unchanged."""

    def effect(execute: Execute) -> None:
        execute(own_door.bank.credit())
        raise error

    with pytest.raises(type(error)) as caught:
        own_door.start(effect)

    assert caught.value is error
    (attempt,) = own_door.bank.attempts
    assert (attempt.outcome, attempt.error_origin) == ("failed", "signal")
    assert (own_door.bank.units, own_door.bank.settled) == (0, [])
    assert own_door.start().outcome is duly.Outcome.APPLIED


def test_duration_of_an_attempt_is_recorded(bank: Bank) -> None:
    """The time between start and end is the handler's, by one clock."""
    arrived, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        arrived.set()
        assert go_on.wait(20)

    app = bank.define(bank.app(), handler)
    results: list[duly.Result] = []
    thread = threading.Thread(target=lambda: results.append(app.run(bank.job, OLD)))
    thread.start()
    assert arrived.wait(20)
    clock = {
        "sqlite": "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
        "postgresql": "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint",
        "mariadb": "SELECT CAST(UNIX_TIMESTAMP(SYSDATE(3)) * 1000 AS SIGNED)",
    }[bank.name]
    started_ms = bank.run(clock)[0][0]
    wait_until(lambda: bank.run(clock)[0][0] >= started_ms + 50, "50 ms passed")
    go_on.set()
    thread.join()

    (attempt,) = bank.attempts
    assert 50_000 <= attempt.finished_us - attempt.started_us < 20_000_000
    assert results[0].duration >= timedelta(milliseconds=50)
    assert attempt.started_us // 1000 <= started_ms + 1


def test_e02_failed_run_never_consumes_its_key(own_door: AppDoor) -> None:
    """A handler that fails once and is retried by two starters at once makes one effect."""
    bank = own_door.bank
    calls: list[int] = []

    def effect(execute: Execute) -> None:
        calls.append(1)
        execute(bank.credit())
        if len(calls) == 1:
            raise TransferRejected("once")

    with pytest.raises(TransferRejected):
        own_door.start(effect)
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(own_door.app.run(bank.job, OLD)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answer.outcome for answer in answers) == ["applied", "duplicate"]
    assert bank.units == UNITS
    assert bank.outcomes == ["failed", "applied"]


def test_e03_applied_occurrence_is_a_duplicate_under_every_flag(bank: Bank) -> None:
    """No flag of a run applies a settled key again; only a correction does."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.run(bank.job, OLD)

    for flags in ({"off_schedule": True}, {"early": True}, {"wait": 0}, {"wait": 0.5}):
        given: dict[str, Any] = flags
        assert app.run(bank.job, OLD, **given).outcome is duly.Outcome.DUPLICATE

    assert bank.units == UNITS


def test_e13_job_that_is_defined_anew_stays_settled(bank: Bank) -> None:
    """The key is the job's name and time: another App, schedule or handler changes nothing."""
    bank.define(bank.app(), schedule="0 0 * * *").run(bank.job, OLD)

    anew = bank.define(bank.app(), schedule="*/5 * * * *", timezone="Europe/Berlin")

    assert anew.run(bank.job, OLD).outcome is duly.Outcome.DUPLICATE
    assert bank.units == UNITS


def test_rows_of_attempts_never_change(own_door: AppDoor) -> None:
    """Whatever comes after an attempt, its row stays as it was written."""

    def fail(execute: Execute) -> None:
        raise TransferRejected("first")

    bank = own_door.bank
    with pytest.raises(TransferRejected):
        own_door.start(fail)
    failed = bank.attempts
    own_door.start()
    applied = bank.attempts
    assert applied[:1] == failed

    own_door.start()
    with pytest.raises(duly.PayloadConflict):
        own_door.start(payload=1)
    own_door.app.sweep()
    own_door.app.explain(bank.occurrence())

    assert bank.attempts[:2] == applied
    assert bank.outcomes == ["failed", "applied", "conflict"]


def test_refused_starts_are_recorded(own_door: AppDoor) -> None:
    """A conflict, an expiry and a busy key each leave an attempt's row, and no effect."""
    bank = own_door.bank
    own_door.start()
    with pytest.raises(duly.PayloadConflict):
        own_door.start(payload="other")
    own_door.app.prune(older_than=OLD)
    with pytest.raises(duly.Expired):
        own_door.start()
    later = OLD + timedelta(days=1)
    if bank.name != "sqlite":  # nobody can write to a SQLite file that another holds
        rival = bank.connect()
        duly.claim(rival, bank.occurrence(later))
        with pytest.raises(duly.Busy):
            own_door.start(at=later, wait=0.2)
        rival.rollback()

    expected = ["expired"] if bank.name == "sqlite" else ["expired", "busy"]
    assert bank.outcomes == expected  # the prune took the first two
    assert bank.units == UNITS


def test_busy_names_the_attempt_that_holds_the_key(bank: Bank) -> None:
    """Whoever is refused learns who is at work: attempt, starter, host and process."""
    arrived, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        seen.append(run.attempt)
        arrived.set()
        assert go_on.wait(20)

    seen: list[Any] = []
    app = bank.define(bank.app(evidence_after=0.0, started_by="first"), handler)
    other = bank.define(bank.app(started_by="second"))
    thread = threading.Thread(target=app.run, args=[bank.job, OLD])
    thread.start()
    try:
        assert arrived.wait(20)
        wait_until(lambda: bool(other.explain(bank.occurrence()).running), "the marker is there")
        with pytest.raises(duly.Busy) as caught:
            other.run(bank.job, OLD, wait=0.1)
    finally:
        go_on.set()
        thread.join()

    assert caught.value.details["holder"] == str(seen[0])
    assert "started by first on" in str(caught.value)


def test_applied_effect_and_the_users_rows_are_read_by_any_client(bank: Bank) -> None:
    """The readable views show what was done, for people and other tools."""
    bank.define(bank.app()).run(bank.job, OLD)
    rows = execute(
        bank.connect(),
        "SELECT o.nominal_time, o.disposition, a.outcome FROM duly_occurrence_view AS o"
        f" JOIN duly_attempt_view AS a ON a.job = o.job WHERE o.job = '{bank.job}'",
    )
    assert [row[1:] for row in rows] == [("applied", "applied")]
    assert str(rows[0][0]).startswith("2024-02-29")
