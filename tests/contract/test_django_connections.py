"""Django's connections themselves: of a pool, in threads, after a fork, through other drivers."""

from __future__ import annotations

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from duly._db.sessions.django_wrapper import dialect_of
from tests.contract.bank import OLD, UNITS, execute
from tests.contract.django_project import app_on, atomic, connection_of, settings_of
from tests.races.steps import wait_for
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.bank import Bank

APPS = ("django",)


@pytest.mark.parametrize(
    ("vendor", "module", "remedy"),
    [
        ("mysql", "MySQLdb", "pymysql.install_as_MySQLdb()"),
        ("postgresql", "psycopg2", "install psycopg 3"),
        ("oracle", "oracledb", "it serves SQLite, PostgreSQL and MariaDB"),
    ],
)
def test_driver_that_is_not_served_is_refused_with_what_to_install(
    vendor: str, module: str, remedy: str
) -> None:
    """How mysqlclient and psycopg2 count rows, and answer a COMMIT, nobody tried here."""
    driver = SimpleNamespace(__name__=module)
    wrapper = SimpleNamespace(vendor=vendor, alias="default", Database=driver)

    with pytest.raises(duly.UsageError) as refused:
        dialect_of(wrapper)

    said = str(refused.value)
    assert remedy in said
    assert "\n" not in said


# ------------------------------------------------------------------------------ psycopg's own pool


@pytest.fixture
def pooled(postgres_bank: Bank) -> Iterator[Bank]:
    """A bank on whose alias Django keeps a pool of three connections."""
    from django.db import connections

    wrapper = connection_of(postgres_bank)
    settings = connections.settings[wrapper.alias]
    plain = settings["OPTIONS"]
    settings["OPTIONS"] = {**plain, "pool": {"min_size": 1, "max_size": 3}}
    wrapper.close()
    del connections[wrapper.alias]
    yield postgres_bank
    connection_of(postgres_bank).close()
    connection_of(postgres_bank).close_pool()
    del connections[wrapper.alias]  # other tests have the same alias, and cut its connections
    settings["OPTIONS"] = plain


def settled_pool(bank: Bank) -> dict[str, int]:
    """Its numbers, once the pool's own thread has taken back what was given back."""
    pool: Any = connection_of(bank).pool
    pool.wait(10)

    def is_settled() -> bool:
        found = pool.get_stats()
        return bool(found["pool_available"] == found["pool_size"])

    wait_for(is_settled, "every connection given back")
    stats: dict[str, int] = pool.get_stats()
    return stats


def in_threads(count: int, work: Callable[[int], object]) -> list[BaseException]:
    raised: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=one, args=[number]) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return raised


def test_attempts_of_many_threads_take_turns_at_a_pool_and_give_each_connection_back(
    pooled: Bank,
) -> None:
    """Six threads, three connections; none is kept, and none is given back inside a transaction."""
    app = app_on(pooled)
    pooled.define(app, lambda run: execute(connection_of(pooled), pooled.credit()))

    raised = in_threads(6, lambda n: app.run(pooled.job, OLD, partition=str(n)))

    assert raised == []
    assert pooled.units == 6 * UNITS
    stats = settled_pool(pooled)
    assert stats["pool_available"] == stats["pool_size"] <= 3
    assert stats.get("connections_lost", 0) == 0


def test_connection_of_a_pool_that_is_lost_in_an_attempt_is_replaced(pooled: Bank) -> None:
    app = app_on(pooled)
    pooled.define(app, lambda run: execute(connection_of(pooled), pooled.credit()))

    with testing.fault(app, op="Claim", when="before", kind="cut"):
        assert app.run(pooled.job, OLD).outcome is duly.Outcome.APPLIED
    with atomic(pooled) as connection:
        assert not duly.claim(connection, pooled.occurrence()).is_new
    connection.close()

    assert pooled.units == UNITS
    stats = settled_pool(pooled)
    assert stats["pool_available"] == stats["pool_size"] >= 1


# ---------------------------------------------------------------------------------- forks, workers

FORKED = """
import os, sys
from datetime import datetime, UTC
import pymysql; pymysql.install_as_MySQLdb()
import django
from django.conf import settings
settings.configure(DATABASES={"default": __SETTINGS__}, INSTALLED_APPS=[], USE_TZ=True)
django.setup()
from django.db import connection, transaction
import duly
from duly.contrib.django import App
job, account = sys.argv[1:]
app, at = App(), datetime(2020, 1, 1, tzinfo=UTC)

@app.job(job)
def credit(run):
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE balance SET units = units + 10 WHERE id = {account}")

connection.ensure_connection()
app.run(job, at, partition="before")
raw = connection.connection
connection.cursor().execute("SELECT 1")
pid = os.fork()
if pid == 0:
    try:
        app.run(job, at, partition="child")
        own = connection.connection is not raw
    except BaseException as error:
        print(error, file=sys.stderr, flush=True)
        os._exit(9)
    os._exit(0 if own else 8)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
kept = connection.connection is raw
with transaction.atomic():
    claimed = duly.claim(connection, duly.Occurrence(job, at, "after")).is_new
    credit(None)
app.run(job, at, partition="last")
print(code, kept, claimed)
"""


def test_child_of_a_fork_takes_a_connection_of_its_own_and_leaves_the_parents_alone(
    bank: Bank,
) -> None:
    """A shared socket let a child commit what its parent rolled back."""
    script = FORKED.replace("__SETTINGS__", repr(settings_of(bank.database)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, bank.job, str(bank.account)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "True", "True"], done.stderr
    assert [s.partition for s in bank.settled] == ["after", "before", "child", "last"]
    assert bank.units == 4 * UNITS
