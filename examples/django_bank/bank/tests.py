"""Jobs commit, so their tests let them; what duly recorded goes when a test has ended."""

from __future__ import annotations

from io import StringIO

from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import TestCase

import duly
from bank.models import Account
from duly.contrib.django import app
from duly.contrib.django.testing import TransactionTestCase

DAY = "2026-09-13T00:00:00Z"


class DailyCredit(TransactionTestCase):
    def setUp(self) -> None:
        Account.objects.create(owner="Ada")

    def units(self) -> int:
        return Account.objects.get(owner="Ada").units

    def test_credits_once(self) -> None:
        assert app.run("daily-credit", at=DAY).outcome is duly.Outcome.APPLIED
        assert app.run("daily-credit", at=DAY).outcome is duly.Outcome.DUPLICATE
        assert self.units() == 10

    def test_finds_an_empty_ledger(self) -> None:
        assert app.run("daily-credit", at=DAY).outcome is duly.Outcome.APPLIED

    def test_is_started_by_the_command(self) -> None:
        call_command("duly", "run", "daily-credit", "--at", DAY)
        assert self.units() == 10
        with self.assertRaises(CommandError) as raised:
            call_command("duly", "run", "daily-credit", "--at", DAY, "--payload", "{}")
        assert raised.exception.returncode == 3  # a conflict, for a person

    def test_migrations_are_complete_and_may_be_run_again(self) -> None:
        call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())
        call_command("migrate", stdout=StringIO())
        app.init()


class Claim(TestCase):
    """A claim is part of the caller's transaction, which TestCase rolls back."""

    def test_is_new_once(self) -> None:
        with transaction.atomic():
            assert duly.claim(connection, f"by-hand:{DAY}").is_new
        assert not duly.claim(connection, f"by-hand:{DAY}").is_new

    def test_job_cannot_be_started_here(self) -> None:
        with self.assertRaisesRegex(duly.NoTransaction, "TransactionTestCase"):
            app.run("daily-credit", at=DAY)
