"""SQLModel's models and its session, in a handler and in a transaction of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlmodel import Field, Session, SQLModel, select

import duly
from tests.contract.bank import OLD, UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank


class Balance(SQLModel, table=True):
    id: int | None = Field(default=None, primary_key=True)
    units: int


def credit(session: Session, account: int) -> None:
    balance = session.exec(select(Balance).where(Balance.id == account)).one()
    balance.units += UNITS
    session.add(balance)


def test_models_in_the_session_of_a_run_are_flushed_and_committed_with_the_key(bank: Bank) -> None:
    """What a handler adds lands once, and what a failing one added does not."""
    app = bank.app()

    def handler(run: duly.Run) -> int:
        balance = run.session.get(Balance, bank.account)
        assert balance is not None
        balance.units += UNITS
        if run.partition == "broken":
            raise ValueError("no luck")
        return balance.units

    bank.define(app, handler)
    first, again = app.run(bank.job, OLD), app.run(bank.job, OLD)
    with pytest.raises(ValueError, match="no luck"):
        app.run(bank.job, OLD, partition="broken")

    assert (first.outcome, again.outcome) == (duly.Outcome.APPLIED, duly.Outcome.DUPLICATE)
    assert (first.value, again.value) == (UNITS, UNITS)
    assert bank.units == UNITS


def test_claim_in_its_session_commits_with_the_models(bank: Bank) -> None:
    """And the same key again changes nothing."""
    for is_new in (True, False):
        with Session(bank.engine()) as session, session.begin():
            claim = duly.claim(session, bank.occurrence())
            assert claim.is_new is is_new
            if claim.is_new:
                credit(session, bank.account)
                session.flush()
            claim.confirm()

    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_claim_after_a_change_of_a_model_is_refused(bank: Bank) -> None:
    with Session(bank.engine()) as session:
        credit(session, bank.account)
        with pytest.raises(duly.UsageError, match="changed: 1"):
            duly.claim(session, bank.occurrence())

    assert (bank.units, bank.settled) == (0, [])
