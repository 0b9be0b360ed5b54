"""Tests of a Django project that start jobs.

Decides that each test finds an empty ledger. It must never empty one that is not a test's.
"""

from __future__ import annotations

from typing import Any

from django.db import connections
from django.test import TransactionTestCase as DjangoTestCase

from duly.contrib.django.app import App
from duly.contrib.django.conf import options
from duly.contrib.django.database import is_of_tests
from duly.errors import UsageError

_TABLES = (
    "duly_occurrence",
    "duly_attempt",
    "duly_duplicate",
    "duly_audit",
    "duly_outbox",
    "duly_outbox_order",
    "duly_delivery",
)


class TransactionTestCase(DjangoTestCase):
    """Django's, which lets transactions commit; what duly recorded goes when a test has ended.

    Django's `TestCase` keeps a transaction open, in which no job can be started (`duly.claim`
    can be called). Only the database of the setting DULY is emptied.
    """

    def _fixture_teardown(self) -> None:
        App.close_all()  # no connection of duly's may hold up the end of the database
        super()._fixture_teardown()
        empty_ledger(options().using)


def empty_ledger(using: str = "default") -> None:
    """Forget what was done in a test's database; definitions and pauses stay.

    Raises:
        UsageError: The database is not one that Django made for tests.
    """
    wrapper: Any = connections[using]
    if not is_of_tests(wrapper):
        raise UsageError(
            f"{using!r} is not a database that Django made for tests, so its ledger stays"
        )
    with wrapper.cursor() as cursor:
        for table in _TABLES:
            cursor.execute(f"DELETE FROM {wrapper.ops.quote_name(table)}")  # noqa: S608
