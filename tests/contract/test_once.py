"""`duly.once` does something once for a key, and a block that does not ask does nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy

import duly
from tests.contract.bank import OLD, UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank


class Rejected(Exception):
    """The block's own error."""


def test_block_that_does_not_ask_changes_nothing_on_its_first_start(bank: Bank) -> None:
    """The mistake that would make a second effect is found before it makes a first."""
    with pytest.raises(duly.UsageError, match="is_new"), duly.once(bank.url, _key(bank)) as run:
        run.execute(bank.credit())

    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])


def test_block_that_neither_asks_nor_writes_is_refused_at_its_end(bank: Bank) -> None:
    """A block whose work is elsewhere is told too, new or duplicate."""
    for _ in range(2):
        with pytest.raises(duly.UsageError, match="is_new"), duly.once(bank.url, _key(bank)):
            pass
        _credit(bank)

    assert bank.units == UNITS


@pytest.mark.parametrize("way", ["execute", "connection", "session"])
def test_block_that_ignores_the_answer_makes_no_second_effect(bank: Bank, way: str) -> None:
    """On a duplicate nothing is lent, whatever the block does."""
    _credit(bank)

    def ignore() -> None:
        with _once(bank) as run:
            assert not run.is_new
            if way == "execute":
                run.execute(bank.credit())
            else:
                getattr(run, way).execute(sqlalchemy.text(bank.credit()))

    with pytest.raises(duly.UsageError, match="applied before"):
        ignore()

    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_contention_in_a_block_is_busy_with_nothing_applied(bank: Bank) -> None:
    """A block cannot be entered twice, so it is told, recorded, and free to start again."""
    from tests.faults.scenarios import driver_error

    def contend() -> None:
        with _once(bank) as run:
            if run.is_new:
                run.execute(bank.credit())
                raise driver_error("contention", bank.name)

    with pytest.raises(duly.Busy, match="block"):
        contend()

    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["busy"])
    _credit(bank)
    assert bank.units == UNITS


def test_decorated_function_is_called_again_after_contention(bank: Bank) -> None:
    """Contention is retried, and every later call returns the stored result."""
    from tests.faults.scenarios import driver_error

    calls: list[int] = []

    @duly.once(bank.url, key=lambda partition: bank.occurrence(OLD, partition))
    def credit(run: duly.Run, partition: str) -> Any:
        calls.append(1)
        run.execute(bank.credit())
        if len(calls) == 1:
            raise driver_error("contention", bank.name)
        return {"rows": (1, 2)}

    assert credit("a") == credit(partition="a") == {"rows": [1, 2]}
    assert (bank.units, len(calls)) == (UNITS, 2)


def test_transaction_of_the_orm_session_that_was_ended_keeps_nothing(bank: Bank) -> None:
    """The session lost its work; what the handler did beside it does not land alone."""

    def hide() -> None:
        with _once(bank) as run:
            if run.is_new:
                run.session.execute(sqlalchemy.text(bank.credit()))
                run.session.get_transaction().rollback()
                run.execute(bank.credit())

    with pytest.raises(duly.UsageError):
        hide()

    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])


def _key(bank: Bank) -> str:
    return bank.occurrence().key


def _once(bank: Bank) -> Any:
    return duly.once(bank.url, _key(bank))


def _credit(bank: Bank) -> None:
    with _once(bank) as run:
        if run.is_new:
            run.execute(bank.credit())


@pytest.mark.parametrize("given", [{}, [], None, 5])
def test_what_is_no_database_is_refused_by_name(given: Any) -> None:
    """Whether it could be looked up or not."""
    with pytest.raises(duly.UsageError, match=f"not {type(given).__name__}"):
        duly.once(given, "job:2026-01-01T00:00:00Z").__enter__()
