"""`timeout=`: a handler that takes too long is ended where it can be, and never committed."""

from __future__ import annotations

import signal
import sys
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._sync.deadline import Call
from tests.contract.bank import OLD, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank

APPS = ("own", "django")

BRIEF = timedelta(seconds=0.4)
LONG_S = 60
"""Far longer than the tests' patience: a handler that is not interrupted hangs the test."""
LONG_STATEMENT = {
    "postgresql": f"SELECT pg_sleep({LONG_S})",
    "mariadb": f"SELECT SLEEP({LONG_S})",
    "sqlite": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000000000)"
        " SELECT count(*) FROM n"
    ),
}


def in_sleep(bank: Bank, run: duly.Run) -> None:
    time.sleep(LONG_S)


def in_statement(bank: Bank, run: duly.Run) -> None:
    run.execute(LONG_STATEMENT[bank.name]).fetchall()


def in_loop(bank: Bank, run: duly.Run) -> None:
    while True:
        try:
            for _ in range(10_000):
                pass
        except Exception:  # noqa: S112 - what a careless handler does
            continue


def defined(bank: Bank, app: duly.App, handler: Callable[[duly.Run], Any]) -> None:
    @app.job(bank.job, timeout=BRIEF, payload={"units": 10})
    def job(run: duly.Run) -> Any:
        run.execute(bank.credit())
        return handler(run)


def run_in_thread(app: duly.App, job: str) -> BaseException | None:
    raised: list[BaseException | None] = [None]

    def start() -> None:
        try:
            app.run(job, OLD)
        except BaseException as error:
            raised[0] = error

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(LONG_S / 2)
    assert not thread.is_alive()
    return raised[0]


def assert_timed_out(bank: Bank, error: BaseException | None) -> None:
    assert isinstance(error, duly.HandlerTimeout)
    assert error.code == "timeout"
    assert f"{bank.occurrence().key} took longer than its timeout= of 0.4 s" in str(error)
    assert bank.units == 0
    assert bank.settled == []
    (attempt,) = bank.attempts
    assert attempt.outcome == "failed"
    assert attempt.error_origin == "handler"


@pytest.mark.parametrize("busy", [in_sleep, in_statement, in_loop])
def test_handler_in_the_main_thread_that_takes_too_long_is_interrupted(
    bank: Bank, busy: Callable[[Bank, duly.Run], None]
) -> None:
    """Whatever it is at: nothing is kept, the failure is recorded, the key is free."""
    app = bank.app()
    defined(bank, app, lambda run: busy(bank, run))
    before = signal.getsignal(signal.SIGALRM)

    with pytest.raises(duly.HandlerTimeout) as raised:
        app.run(bank.job, OLD)

    assert_timed_out(bank, raised.value)
    assert signal.getsignal(signal.SIGALRM) is before
    assert_retry_applies(bank)


def test_statement_of_a_handler_in_another_thread_is_cancelled_on_the_server(bank: Bank) -> None:
    """No lock stays behind: a retry does the work at once."""
    app = bank.app()
    lent: list[Any] = []

    def handler(run: duly.Run) -> None:
        lent.append(run.connection.connection.driver_connection)
        in_statement(bank, run)

    defined(bank, app, handler)

    assert_timed_out(bank, run_in_thread(app, bank.job))

    # A second cancel may still be on its way: that connection serves nobody any more.
    with pytest.raises(Exception, match=r"closed|^\(0, ''\)$"):
        lent[0].cursor().execute("SELECT 1")
    assert_retry_applies(bank)


def test_handler_in_another_thread_that_returns_too_late_is_rolled_back(bank: Bank) -> None:
    app = bank.app()
    defined(bank, app, lambda run: time.sleep(3 * BRIEF.total_seconds()))

    assert_timed_out(bank, run_in_thread(app, bank.job))


def test_handler_whose_time_is_up_gets_no_further_statement(bank: Bank) -> None:
    """One that sends one short statement after the other ends too."""
    app = bank.app()

    def talk(run: duly.Run) -> None:
        while True:
            run.execute("SELECT 1")
            time.sleep(0.01)

    defined(bank, app, talk)

    assert_timed_out(bank, run_in_thread(app, bank.job))


def test_handler_that_hides_the_end_of_its_time_is_rolled_back(bank: Bank) -> None:
    app = bank.app()

    def hide(run: duly.Run) -> str:
        try:
            time.sleep(LONG_S)
        except BaseException:
            return "done"
        raise AssertionError

    defined(bank, app, hide)

    with pytest.raises(duly.HandlerTimeout) as raised:
        app.run(bank.job, OLD)

    assert_timed_out(bank, raised.value)


def test_timeout_that_meets_the_return_of_the_handler_keeps_all_or_nothing(bank: Bank) -> None:
    """Wherever the end of its time falls: applied with its effect, or failed without."""
    app = bank.app()
    pause = 0.0

    @app.job(bank.job, timeout=timedelta(seconds=0.02), payload={"units": 10})
    def job(run: duly.Run) -> None:
        run.execute(bank.credit())
        until = began[0] + pause
        while time.monotonic() < until:
            pass

    began = [0.0]

    def probe(when: str, op: Any, shell: Any) -> None:
        if when == "before" and type(op).__name__ == "CallHandler":
            began[0] = time.monotonic()

    app._probe = probe
    applied = late = 0
    for number in range(40):
        # Around the bound, in steps of 50 microseconds: before, at and after it.
        pause = 0.02 + (number - 20) * 0.00005
        at = OLD + timedelta(minutes=number)
        try:
            app.run(bank.job, at)
            applied += 1
        except duly.HandlerTimeout:
            late += 1
        assert bank.units == applied * 10, number
    assert late > 0
    assert len(bank.settled) == applied
    assert bank.outcomes.count("failed") == late


def test_handler_that_keeps_the_interpreter_to_itself_is_late_all_the_same(
    sqlite_bank: Bank,
) -> None:
    """No other thread gets a turn to end it; the clock decides when it returns."""
    app = sqlite_bank.app()

    def keep(run: duly.Run) -> None:
        sys.setswitchinterval(LONG_S)
        until = time.monotonic() + 1.5 * BRIEF.total_seconds()
        while time.monotonic() < until:
            pass

    defined(sqlite_bank, app, keep)
    interval = sys.getswitchinterval()
    try:
        with pytest.raises(duly.HandlerTimeout) as raised:
            app.run(sqlite_bank.job, OLD)
    finally:
        sys.setswitchinterval(interval)

    assert_timed_out(sqlite_bank, raised.value)


def test_alarm_of_the_users_own_still_rings(sqlite_bank: Bank) -> None:
    """SIGALRM is lent while the handler runs; another's alarm is passed on."""
    rung: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, frame: rung.append(number))
    try:
        app = sqlite_bank.app()

        def ring(run: duly.Run) -> None:
            signal.raise_signal(signal.SIGALRM)

        defined(sqlite_bank, app, ring)
        app.run(sqlite_bank.job, OLD)
    finally:
        signal.signal(signal.SIGALRM, before)

    assert rung == [signal.SIGALRM]
    assert sqlite_bank.units == 10


def test_handler_within_its_time_is_applied(bank: Bank) -> None:
    app = bank.app()
    defined(bank, app, lambda run: None)

    assert app.run(bank.job, OLD).outcome is duly.Outcome.APPLIED

    assert bank.units == 10
    wait_until(
        lambda: not any(t.name == "duly-deadline" for t in threading.enumerate()), "watcher gone"
    )


def assert_retry_applies(bank: Bank) -> None:
    app = bank.app()

    @app.job(bank.job, payload={"units": 10})
    def job(run: duly.Run) -> None:
        run.execute(bank.credit())

    assert app.run(bank.job, OLD, wait=5.0).outcome is duly.Outcome.APPLIED
    assert bank.units == 10


def test_handler_that_returns_while_it_is_being_cancelled_is_not_interrupted_after_it() -> None:
    """The alarm that is sent then meets duly's own code, where nothing may be raised."""
    cancelling, returning = threading.Event(), threading.Event()

    def cancel() -> None:
        cancelling.set()
        assert returning.wait(LONG_S)
        time.sleep(0.1)  # so that the handler is back for certain

    def handler() -> str:
        assert cancelling.wait(LONG_S)
        returning.set()
        return "done"

    call = Call("key", timeout=timedelta(seconds=0.01), cancel=cancel, record=lambda _why: None)
    with pytest.raises(duly.HandlerTimeout) as raised:
        call.made(handler)

    assert raised.value.__cause__ is None  # nothing was raised in between
    assert not call.end(AssertionError())
