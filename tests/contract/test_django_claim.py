"""`duly.claim` reads what Django keeps account of: no claim where it could not be committed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import UNITS, execute
from tests.contract.django_project import atomic, connection_of

if TYPE_CHECKING:
    from tests.contract.bank import Bank


class Abandoned(Exception):
    """The caller changes its mind."""


def test_claim_outside_atomic_is_refused(bank: Bank) -> None:
    """In autocommit the claim and the change would commit apart."""
    connection = connection_of(bank)
    with pytest.raises(duly.NoTransaction, match=r"transaction\.atomic\(using="):
        duly.claim(connection, bank.occurrence())
    assert bank.settled == []


def test_claim_where_django_waits_for_a_rollback_is_refused(bank: Bank) -> None:
    """What an inner atomic block left broken carries no claim."""
    with atomic(bank) as connection:
        connection.set_rollback(True)
        with pytest.raises(duly.NoTransaction, match="marked"):
            duly.claim(connection, bank.occurrence())
    assert bank.settled == []


def test_claim_on_a_connection_closed_inside_atomic_is_refused(bank: Bank) -> None:
    """Django opens no other one before the block is left."""
    with atomic(bank) as connection:
        connection.close()
        with pytest.raises(duly.NoTransaction, match="closed inside"):
            duly.claim(connection, bank.occurrence())
    assert bank.settled == []


def test_claim_takes_the_proxy_of_the_default_connection(bank: Bank) -> None:
    """`django.db.connection` is not the connection itself, and is as good."""
    from django.utils.connection import ConnectionProxy

    with atomic(bank) as wrapper:
        from django.db import connections

        proxy = ConnectionProxy(connections, wrapper.alias)
        assert duly.claim(proxy, bank.occurrence()).is_new
        execute(wrapper, bank.credit())
    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])


def test_claim_takes_no_cursor_of_djangos(bank: Bank) -> None:
    """What is no connection is refused by name."""
    with (
        atomic(bank) as connection,
        connection.cursor() as cursor,
        pytest.raises(duly.UsageError, match="CursorWrapper is no database connection"),
    ):
        duly.claim(cursor, bank.occurrence())


def test_claim_in_an_inner_block_that_fails_goes_with_it(bank: Bank) -> None:
    """The inner block is a savepoint, which takes claim and change along."""

    def inner(connection: Any) -> None:
        with atomic(bank):
            assert duly.claim(connection, bank.occurrence()).is_new
            execute(connection, bank.credit())
            raise Abandoned

    with atomic(bank) as connection, suppress(Abandoned):
        inner(connection)
    assert (bank.units, bank.settled) == (0, [])


def test_confirm_finds_a_claim_that_an_inner_block_took_along(bank: Bank) -> None:
    """A claim inside the block, and the change outside of it, are parted by its failure."""

    def outer() -> None:
        with atomic(bank) as connection:
            with suppress(Abandoned), atomic(bank):
                claim = duly.claim(connection, bank.occurrence())
                raise Abandoned
            execute(connection, bank.credit())
            claim.confirm()

    with pytest.raises(duly.TransactionEnded):
        outer()
    assert (bank.units, bank.settled) == (0, [])


def test_confirm_finds_that_django_will_roll_back(bank: Bank) -> None:
    """Django leaves the block without a word; confirm says it."""

    def marked() -> None:
        with atomic(bank) as connection:
            claim = duly.claim(connection, bank.occurrence())
            execute(connection, bank.credit())
            connection.set_rollback(True)
            claim.confirm()

    with pytest.raises(duly.TransactionEnded, match="roll back and try"):
        marked()
    assert (bank.units, bank.settled) == (0, [])


def test_confirm_finds_an_error_that_was_swallowed_on_postgresql(postgres_bank: Bank) -> None:
    """PostgreSQL answers the COMMIT with ROLLBACK, and Django says nothing of it."""
    from django.db import IntegrityError

    bank = postgres_bank

    def swallowed(*, confirm: bool) -> None:
        with atomic(bank) as connection:
            claim = duly.claim(connection, bank.occurrence())
            with suppress(IntegrityError):
                execute(connection, f"INSERT INTO balance VALUES ({bank.account}, 0)")
            if confirm:
                claim.confirm()

    swallowed(confirm=False)
    assert bank.settled == []  # the trap itself
    with pytest.raises(duly.TransactionEnded, match="aborted"):
        swallowed(confirm=True)
    assert bank.settled == []
