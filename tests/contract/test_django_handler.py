"""A handler on Django's connection: what it does through Django is in duly's transaction.

What it may not do by SQL, by the driver or by SQLAlchemy is in test_handler.py, for Django's
connections too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.channels import Call
from tests.contract.bank import OLD, UNITS, Bank, execute
from tests.contract.django_project import app_on, atomic, connection_of

if TYPE_CHECKING:
    from collections.abc import Callable

APPS = ("django",)


def start(bank: Bank, handler: Callable[[Any], Any], **options: Any) -> duly.Result:
    """Start the occurrence; the handler gets Django's connection."""
    app = app_on(bank, **options)
    bank.define(app, lambda run: handler(connection_of(bank)))
    return app.run(bank.job, OLD)


def assert_retried(bank: Bank) -> None:
    """Nothing landed, the failure is recorded, and the next start makes the one effect."""
    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])
    again = start(bank, lambda connection: execute(connection, bank.credit()))
    assert again.outcome is duly.Outcome.APPLIED
    assert (bank.units, connection_of(bank).in_atomic_block) == (UNITS, False)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "commit": lambda connection: connection.commit(),
    "rollback": lambda connection: connection.rollback(),
    "close": lambda connection: connection.close(),
    "set_autocommit": lambda connection: connection.set_autocommit(True),
    "driver-commit": lambda connection: connection.connection.commit(),
    "COMMIT": lambda connection: execute(connection, "COMMIT"),
    "ROLLBACK": lambda connection: execute(connection, "ROLLBACK"),
    "BEGIN": lambda connection: execute(connection, "BEGIN"),
}


@pytest.mark.parametrize("end", REFUSED)
def test_end_of_the_transaction_is_refused(bank: Bank, end: str) -> None:
    """Whatever would end it raises, and the attempt fails."""

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        REFUSED[end](connection)

    with pytest.raises(Exception):  # noqa: B017, PT011 - of duly's or the driver's
        start(bank, handler)
    assert_retried(bank)


@pytest.mark.parametrize("end", [end for end in REFUSED if end != "driver-commit"])
def test_refusal_that_the_handler_swallows_ends_nothing(bank: Bank, end: str) -> None:
    """The statement did not run: the effect and its completion are there, once."""

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        with suppress(Exception):
            REFUSED[end](connection)

    assert start(bank, handler).outcome is duly.Outcome.APPLIED
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])
    assert not connection_of(bank).in_atomic_block


def test_durable_block_inside_a_handler_is_refused(bank: Bank) -> None:
    """Nothing in a handler is durable before duly commits."""
    from django.db import transaction

    def handler(connection: Any) -> None:
        with transaction.atomic(using=connection.alias, durable=True):
            execute(connection, bank.credit())

    with pytest.raises(RuntimeError, match="durable"):
        start(bank, handler)
    assert_retried(bank)


def test_inner_block_that_fails_takes_its_part_back(bank: Bank) -> None:
    """An inner atomic block is a savepoint in duly's transaction."""

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        with suppress(ValueError), atomic(bank):
            execute(connection, bank.credit(1_000))
            raise ValueError

    assert start(bank, handler).outcome is duly.Outcome.APPLIED
    assert bank.units == UNITS


def test_rollback_that_django_asks_for_is_a_failure(bank: Bank) -> None:
    """Django alone would roll back without a word, and a commit would keep half of the work."""

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        connection.set_rollback(True)

    with pytest.raises(duly.SwallowedError, match="marked the transaction for rollback"):
        start(bank, handler)
    assert_retried(bank)


def test_error_swallowed_without_a_savepoint_is_a_failure(bank: Bank) -> None:
    """`atomic(savepoint=False)` marks the whole for rollback, on every database."""
    from django.db import IntegrityError, transaction

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        with (
            suppress(IntegrityError),
            transaction.atomic(using=connection.alias, savepoint=False),
        ):
            execute(connection, f"INSERT INTO balance VALUES ({bank.account}, 0)")

    with pytest.raises(duly.SwallowedError):
        start(bank, handler)
    assert_retried(bank)


def test_error_swallowed_on_postgresql_is_a_failure(postgres_bank: Bank) -> None:
    """Django's own atomic would leave without an error, and without the work."""
    from django.db import IntegrityError

    bank = postgres_bank

    def handler(connection: Any) -> None:
        execute(connection, bank.credit())
        with suppress(IntegrityError):
            execute(connection, f"INSERT INTO balance VALUES ({bank.account}, 0)")

    with pytest.raises(duly.SwallowedError):
        start(bank, handler)
    assert_retried(bank)


def test_callback_of_on_commit_runs_after_dulys_commit(bank: Bank) -> None:
    """It sees the effect and its completion, and Django in autocommit again."""
    seen: list[Any] = []

    def handler(connection: Any) -> None:
        connection.on_commit(lambda: seen.append((bank.units, bank.outcomes)))
        connection.on_commit(lambda: seen.append(connection.in_atomic_block))
        execute(connection, bank.credit())
        seen.append("handler")

    start(bank, handler)
    assert seen == ["handler", (UNITS, ["applied"]), False]


def test_callback_of_on_commit_does_not_run_after_a_rollback(bank: Bank) -> None:
    """Nor does the next attempt of the thread run it."""
    called: list[str] = []

    def handler(connection: Any) -> None:
        connection.on_commit(lambda: called.append("first"))
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        start(bank, handler)
    again = start(bank, lambda connection: execute(connection, bank.credit()))
    assert again.outcome is duly.Outcome.APPLIED
    assert called == []


def test_callback_of_an_inner_block_that_failed_does_not_run(bank: Bank) -> None:
    called: list[str] = []

    def handler(connection: Any) -> None:
        with suppress(ValueError), atomic(bank):
            connection.on_commit(lambda: called.append("inner"))
            raise ValueError
        connection.on_commit(lambda: called.append("outer"))

    start(bank, handler)
    assert called == ["outer"]


def test_message_of_an_inner_block_that_failed_is_not_kept(bank: Bank) -> None:
    """It is of the work that the block took back."""
    from django.db import transaction

    app = app_on(bank)
    app.destination("there", Call(lambda message: None))

    def handler(run: duly.Run) -> None:
        for body, error in ((1, ValueError), (2, None)):
            with suppress(ValueError), transaction.atomic(using=connection_of(bank).alias):
                run.send("there", body, name=str(body))
                if error is not None:
                    raise error

    bank.define(app, handler)
    app.run(bank.job, OLD)
    assert bank.run(f"SELECT name FROM duly_outbox WHERE job = '{bank.job}'") == [("2",)]


def test_callback_that_fails_is_logged_and_changes_no_outcome(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    """The effect is there; the callbacks after it run too."""
    called: list[str] = []

    def handler(connection: Any) -> None:
        connection.on_commit(lambda: 1 / 0)
        connection.on_commit(lambda: called.append("second"))
        execute(connection, bank.credit())

    assert start(bank, handler).outcome is duly.Outcome.APPLIED
    assert (bank.units, called) == (UNITS, ["second"])
    assert "on_commit_failed" in caplog.text


def test_callback_runs_where_the_answer_to_the_commit_was_lost(bank: Bank) -> None:
    """The key says that it committed, so what waited for that happens."""
    import duly.testing

    called: list[int] = []
    app = app_on(bank)

    def handler(run: duly.Run) -> None:
        connection_of(bank).on_commit(lambda: called.append(bank.units))
        run.execute(bank.credit())

    bank.define(app, handler)
    with duly.testing.fault(app, op="Commit", when="after", kind="cut"):
        assert app.run(bank.job, OLD).outcome is duly.Outcome.APPLIED
    assert called == [UNITS]


# ------------------------------------------------------------------ where an attempt may begin


def test_start_inside_atomic_is_refused(bank: Bank) -> None:
    """The end of the outer block would decide what duly commits."""
    with atomic(bank), pytest.raises(duly.NoTransaction, match="ATOMIC_REQUESTS"):
        start(bank, lambda connection: execute(connection, bank.credit()))
    assert (bank.units, bank.settled) == (0, [])


def test_start_while_autocommit_is_off_is_refused(bank: Bank) -> None:
    """What the caller has not committed yet is left as it is."""
    connection = connection_of(bank)
    connection.set_autocommit(False)
    execute(connection, bank.credit(1))
    with pytest.raises(duly.NoTransaction, match="autocommit is off"):
        start(bank, lambda connection: execute(connection, bank.credit()))
    connection.commit()
    connection.set_autocommit(True)
    assert (bank.units, bank.settled) == (1, [])


def test_start_inside_a_handler_is_refused_on_the_same_connection(bank: Bank) -> None:
    """Django has one connection a thread, and that is in duly's transaction."""

    def handler(connection: Any) -> None:
        other = app_on(bank)
        other.job("other")(lambda run: None)
        other.run("other", OLD)

    with pytest.raises(duly.UsageError, match="inside a handler on"):
        start(bank, handler)
    assert bank.outcomes == ["failed"]


def test_start_leaves_a_connection_that_was_open_as_it_was(bank: Bank) -> None:
    """Open, in autocommit, outside of every block; and one that was not is closed again."""
    connection = connection_of(bank)
    start(bank, lambda connection: execute(connection, bank.credit()))
    assert connection.connection is None

    connection.ensure_connection()
    raw = connection.connection
    assert start(bank, lambda connection: None).outcome is duly.Outcome.DUPLICATE
    assert connection.connection is raw
    assert connection.get_autocommit()
    assert not connection.in_atomic_block
    execute(connection, bank.credit(1))
    assert bank.units == UNITS + 1


def test_claim_of_another_key_in_a_handler_commits_with_it(bank: Bank) -> None:
    """A handler may claim what it covers by itself; its own key it holds already."""

    def handler(connection: Any) -> None:
        assert duly.claim(connection, bank.occurrence(OLD, "other")).is_new
        with pytest.raises(duly.UsageError, match="holds that key already"):
            duly.claim(connection, bank.occurrence())

    start(bank, handler)
    assert [s.partition for s in bank.settled] == ["", "other"]


def test_table_without_transactions_is_refused_through_django(mariadb_bank: Bank) -> None:
    """Its rows would stay where the attempt rolls back."""
    bank = mariadb_bank
    table = f"memo_{bank.account}"
    bank.run(f"CREATE TABLE {table} (id INT) ENGINE=MyISAM")
    try:
        with pytest.raises(duly.UnsafeStorage, match=table):
            start(bank, lambda connection: execute(connection, f"INSERT INTO {table} VALUES (1)"))
        assert bank.run(f"SELECT * FROM {table}") == []
    finally:
        bank.run(f"DROP TABLE {table}")
