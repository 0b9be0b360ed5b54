"""`duly.claim` on a connection that cannot carry it: one clear line, and nothing is written."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
import sqlmodel
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import duly
from duly import testing
from tests.contract.bank import UNITS, execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank

WAYS: dict[str, Callable[[Bank], Any]] = {
    "driver": lambda bank: bank.connect(),
    "connection": lambda bank: bank.engine().connect(),
    "session": lambda bank: Session(bank.engine(), close_resets_only=False),
    "scoped": lambda bank: scoped_session(sessionmaker(bank.engine(), close_resets_only=False)),
    "sqlmodel": lambda bank: sqlmodel.Session(bank.engine(), close_resets_only=False),
}


def spoil_closed(given: Any, bank: Bank) -> None:
    """It was at work, and is closed for good."""
    duly.claim(given, bank.occurrence(partition="before"))
    given.rollback()
    # A scoped session makes a new one where it is asked after its own `close`.
    (given() if isinstance(given, scoped_session) else given).close()


def spoil_lost(given: Any, bank: Bank) -> None:
    """The network is gone, and nobody has noticed."""
    duly.claim(given, bank.occurrence(partition="before"))
    testing.cut(driver_of(given))


def spoil_aborted(given: Any, bank: Bank) -> None:
    """A statement failed; PostgreSQL then only rolls back."""
    with suppress(Exception):
        run(given, "SELECT * FROM no_such_table")


def spoil_pending(given: Any, bank: Bank) -> None:
    """A flush failed in a session, which wants a rollback before anything else."""
    table = sqlalchemy.table("balance", sqlalchemy.column("id"), sqlalchemy.column("units"))
    with suppress(Exception):
        given.connection().invalidate()
        given.execute(sqlalchemy.insert(table).values(id=bank.account, units=0))


def driver_of(given: Any) -> Any:
    if isinstance(given, Session | scoped_session):
        given = given.connection()
    return given.connection.driver_connection if isinstance(given, sqlalchemy.Connection) else given


def run(given: Any, statement: str) -> None:
    if isinstance(given, Session | scoped_session):
        given = given.connection()
    if isinstance(given, sqlalchemy.Connection):
        given.exec_driver_sql(statement)
    else:
        execute(given, statement)


SPOILED: dict[str, tuple[Callable[[Any, Bank], None], type[duly.DulyError], str]] = {
    "closed": (spoil_closed, duly.NoTransaction, "closed|open"),
    "lost": (spoil_lost, duly.DulyError, "lost|closed|roll"),
    "aborted": (spoil_aborted, duly.NoTransaction, "roll"),
    "pending": (spoil_pending, duly.NoTransaction, "roll"),
}


@pytest.mark.parametrize("state", SPOILED)
@pytest.mark.parametrize("way", WAYS)
def test_claim_on_a_spoiled_connection_is_refused_in_one_line(
    bank: Bank, way: str, state: str
) -> None:
    """It names what is wrong and the next step, whatever driver or session it is."""
    if state == "aborted" and bank.name != "postgresql":
        return  # the others go on after a statement that failed
    if state == "pending" and way in {"driver", "connection"}:
        return  # only a session waits for a rollback of its own
    spoil, family, step = SPOILED[state]
    given = WAYS[way](bank)
    spoil(given, bank)

    with pytest.raises(family, match=step) as refused:
        duly.claim(given, bank.occurrence())

    said = refused.value.message
    assert said
    assert "\n" not in said
    assert "Traceback" not in said
    with suppress(Exception):
        given.rollback()
    with suppress(Exception):
        given.close()
    assert bank.settled == []


@pytest.mark.parametrize("way", ["session", "scoped", "sqlmodel"])
def test_session_is_usable_again_after_the_rollback_that_a_refusal_names(
    bank: Bank, way: str
) -> None:
    given = WAYS[way](bank)
    spoil_pending(given, bank)
    with pytest.raises(duly.NoTransaction):
        duly.claim(given, bank.occurrence())

    given.rollback()
    claim = duly.claim(given, bank.occurrence())
    run(given, bank.credit())
    claim.confirm()
    given.commit()
    given.close()

    assert claim.is_new
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])
