"""`duly.claim` in a caller's transaction that fails anywhere: both are there, or neither."""

from __future__ import annotations

import os
import signal
import sqlite3
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import psycopg
import pymysql
import pytest
import sqlalchemy

import duly
from duly import testing
from duly._sync import claim as claim_shell
from tests.faults.scenarios import MOMENTS, OLD, driver_error, young

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from tests.faults.conftest import Ledgers
    from tests.faults.victims import Victims

DATABASES = ("sqlite", "postgresql", "mariadb")
KINDS = ("kill", "cut", "plain", "interrupt")
# The caller's own steps, then the ops of the claim itself, as (scenario, op).
STEPS = ("claim", "effect", "confirm", "commit")
INSIDE = (
    *(("young", op) for op in ("Claim",)),
    *(("old", op) for op in ("LockGuard", "ReadHorizon", "Claim")),
    *(("late", op) for op in ("Unclaim", "LockGuard", "ReadHorizon")),
    ("duplicate", "Explain"),
)


def connect(url: str) -> Any:
    """A connection of the plain driver, with its implicit transactions."""
    parts = sqlalchemy.make_url(url)
    if parts.get_backend_name() == "sqlite":
        return sqlite3.connect(parts.database or "")
    if parts.get_backend_name() == "postgresql":
        return psycopg.connect(
            host=parts.host, port=parts.port, user=parts.username, password=parts.password,
            dbname=parts.database,
        )  # fmt: skip
    return pymysql.connect(
        host=parts.host, port=parts.port or 0, user=parts.username, password=parts.password or "",
        database=parts.database, charset="utf8mb4",
    )  # fmt: skip


def work(
    connection: Any, occurrence: duly.Occurrence, meets: Callable[[str, Any], None]
) -> duly.Claim:
    """What a caller does; *meets* is told before and after each step."""

    def step(name: str, do: Callable[[], Any]) -> Any:
        meets(f"before {name}", connection)
        done = do()
        meets(f"after {name}", connection)
        return done

    claim: duly.Claim = step("claim", lambda: duly.claim(connection, occurrence))
    if not claim.is_new:
        connection.rollback()
        return claim
    values = (occurrence.key, str(claim.attempt_id))
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    insert = f"INSERT INTO effect (occurrence, attempt) VALUES ({mark}, {mark})"
    step("effect", lambda: connection.cursor().execute(insert, values))
    step("confirm", claim.confirm)
    step("commit", connection.commit)
    return claim


def _happen(kind: str, connection: Any, database: str) -> None:
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "cut":
            testing.cut(connection)
        case "interrupt":
            raise KeyboardInterrupt
        case "contention":
            raise driver_error("contention", database)
        case _:
            raise testing.InjectedError


def _play(order: dict[str, Any]) -> None:
    """One caller that meets one fault, at a step of its own or at an op inside the claim."""
    occurrence = duly.Occurrence.parse(order["key"])
    connection = connect(order["url"])
    point, kind = order["point"], order["kind"]
    fired: list[str] = []

    def meets(now: str, _connection: Any) -> None:
        if now == point and not fired:
            fired.append(now)
            _happen(kind, connection, order["database"])

    perform = claim_shell._perform

    def performing(session: Any, op: Any, *details: Any) -> Any:
        meets(f"before op {type(op).__name__}", connection)
        reply = perform(session, op, *details)
        meets(f"after op {type(op).__name__}", connection)
        return reply

    with mock.patch.object(claim_shell, "_perform", performing), _blind(order["is_blind"]):
        try:
            work(connection, occurrence, meets)
        finally:
            assert fired
            with suppress(Exception):
                connection.close()


@contextmanager
def _blind(is_blind: bool) -> Iterator[None]:
    if not is_blind:
        yield
        return
    with mock.patch.object(claim_shell, "looks_old", return_value=False):
        yield


def _parameters() -> list[Any]:
    found = []
    for database in DATABASES:
        points = [("young", f"{moment} {step}") for step in STEPS for moment in MOMENTS]
        points += [(name, f"{moment} op {op}") for name, op in INSIDE for moment in MOMENTS]
        for number, (name, point) in enumerate(points):
            for kind in KINDS:
                is_sharp = " op " not in point or KINDS.index(kind) == number // 2 % len(KINDS)
                label = f"{database}-{name}-{point.replace(' ', '-')}-{kind}"
                marks = [] if is_sharp else [pytest.mark.torture]
                found.append(pytest.param(database, name, point, kind, id=label, marks=marks))
    return found


@pytest.mark.parametrize(("database", "name", "point", "kind"), _parameters())
def test_fault_in_a_callers_transaction_leaves_both_or_neither(
    database: str,
    name: str,
    point: str,
    kind: str,
    ledgers: Ledgers,
    victims: Victims,
    partition: str,
) -> None:
    """Claim and change stand or fall together; the caller's retry makes one effect."""
    ledger = ledgers(database)
    at: datetime = OLD if name in {"old", "late"} else young()
    occurrence = duly.Occurrence("by-hand", at, partition)
    if name == "duplicate":
        first = connect(ledger.url)
        work(first, occurrence, lambda *_: None)
        first.close()
    order = {
        "key": occurrence.key,
        "url": ledger.url,
        "database": database,
        "point": point,
        "kind": kind,
        "is_blind": name == "late",
    }

    if kind == "kill":
        assert victims.kill_one("tests.faults.test_claim:_play", **order) == -9
    else:
        with suppress(Exception, KeyboardInterrupt):
            _play(order)
    ledger.wait_until_quiet()

    facts = ledger.facts(occurrence)
    assert facts.is_sound
    has_landed = name == "duplicate" or point == "after commit"
    assert len(facts.effects) == has_landed
    again = connect(ledger.url)
    claim = work(again, occurrence, lambda *_: None)
    again.close()
    assert claim.is_new is not has_landed
    facts = ledger.facts(occurrence)
    assert facts.is_sound
    assert facts.effects == [str(claim.attempt_id)]
