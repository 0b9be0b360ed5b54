"""`duly.claim` in a SQLAlchemy session of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    mapped_column,
    scoped_session,
    sessionmaker,
)

import duly
from tests.contract.bank import UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank


class Base(DeclarativeBase):
    pass


class Balance(Base):
    __tablename__ = "balance"
    id: Mapped[int] = mapped_column(primary_key=True)
    units: Mapped[int]


def test_claim_after_a_change_that_is_not_flushed_is_refused(bank: Bank) -> None:
    """Such a change would be committed with a duplicate too; the caller's session stays usable."""
    with Session(bank.engine()) as session, session.begin():
        session.get_one(Balance, bank.account).units += UNITS
        with pytest.raises(duly.UsageError, match="changed: 1"):
            duly.claim(session, bank.occurrence())
        session.flush()
        assert duly.claim(session, bank.occurrence()).is_new

    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_claim_takes_a_scoped_session(bank: Bank) -> None:
    """What Flask-SQLAlchemy calls `db.session` is a session."""
    scoped = scoped_session(sessionmaker(bank.engine()))
    assert duly.claim(scoped, bank.occurrence()).is_new
    scoped.commit()
    scoped.remove()

    assert bank.outcomes == ["applied"]


def test_claim_takes_a_connection_that_left_its_pool(bank: Bank) -> None:
    """`Connection.detach` keeps the driver's connection, and the pool's record of it is gone."""
    with bank.engine().connect() as connection:
        connection.detach()
        assert duly.claim(connection, bank.occurrence()).is_new
        connection.commit()

    assert bank.outcomes == ["applied"]
