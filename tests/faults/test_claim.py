"""`duly.claim` in a caller's transaction that fails anywhere: both are there, or neither."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

import duly
from duly import testing
from duly._sync import claim as claim_shell
from tests.contract.asynchronous import AioConnection
from tests.contract.callers import ClaimDoor
from tests.faults.ledger import WAYS, Site, effect
from tests.faults.scenarios import MOMENTS, OLD, young

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from tests.contract.doors import Answer
    from tests.faults.conftest import Ledgers
    from tests.faults.victims import Victims

DATABASES = ("sqlite", "postgresql", "mariadb")
FIRST_WAY = "claim-driver"
# Of each kind of connection one; the others differ only in who says BEGIN.
OTHER_WAYS = (
    "claim-sqlalchemy-session",
    "claim-django",
    "claim-aio-driver",
    "claim-aio-sqlalchemy-session",
)
KINDS = ("kill", "cut", "plain", "interrupt")
KINDS_OF_TASKS = ("kill", "cut", "plain", "cancel")
# The caller's own steps, then the ops of the claim itself, as (scenario, op).
STEPS = ("claim", "effect", "confirm", "commit")
INSIDE = (
    *(("young", op) for op in ("Claim",)),
    *(("old", op) for op in ("LockGuard", "ReadHorizon", "Claim")),
    *(("late", op) for op in ("Unclaim", "LockGuard", "ReadHorizon")),
    ("duplicate", "Explain"),
)


def work(
    url: str,
    way: str,
    occurrence: duly.Occurrence,
    meets: Callable[[Site, str, Any], None] = lambda *_: None,
) -> Answer:
    """What a caller does; *meets* is told before and after each step."""
    site = Site(url)
    try:
        door = site.open(way)
        assert isinstance(door, ClaimDoor)
        door.meets = lambda place, connection: meets(site, place, connection)
        return door.start(
            lambda run: run(effect(occurrence.key, door.found.attempt_id)),
            at=occurrence.nominal_time,
            partition=occurrence.partition,
        )
    finally:
        with suppress(Exception):  # its connection may be gone
            site.close()


def driver_of(connection: Any) -> Any:
    """The driver's own connection under a caller's."""
    match connection:
        case AioConnection(awaited=AsyncSession() as session):
            made = connection.loop.result(session.connection())
            return driver_of(made.sync_connection)
        case AioConnection(awaited=AsyncConnection() as inner):
            return driver_of(inner.sync_connection)
        case AioConnection():
            return connection.awaited
        case Session():
            return driver_of(connection.connection())
        case sqlalchemy.Connection():
            return connection.connection.driver_connection
        case _:
            return getattr(connection, "connection", connection)  # Django's


def _happen(kind: str, site: Site, driver: Any, *, is_inside: bool) -> None:
    match kind:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "cut":
            testing.cut(driver)
        case "interrupt":
            raise KeyboardInterrupt
        case "cancel" if is_inside:
            site.loop.cancel()
        case "cancel":
            raise asyncio.CancelledError
        case _:
            raise testing.InjectedError


def _play(order: dict[str, Any]) -> None:
    """One caller that meets one fault, at a step of its own or at an op inside the claim."""
    occurrence = duly.Occurrence.parse(order["key"])
    point, kind = order["point"], order["kind"]
    fired: list[str] = []
    known: list[tuple[Site, Any]] = []

    def meets(site: Site, now: str, connection: Any) -> None:
        if not known:
            known.append((site, driver_of(connection)))
        at(now)

    def at(now: str) -> None:
        if now == point and not fired:
            fired.append(now)
            _happen(kind, *known[0], is_inside=" op " in now)

    perform = claim_shell._perform

    def performing(session: Any, op: Any, *details: Any) -> Any:
        at(f"before op {type(op).__name__}")
        reply = perform(session, op, *details)
        at(f"after op {type(op).__name__}")
        return reply

    with mock.patch.object(claim_shell, "_perform", performing), _blind(order["is_blind"]):
        try:
            work(order["url"], order["way"], occurrence, meets)
        finally:
            assert fired


@contextmanager
def _blind(is_blind: bool) -> Iterator[None]:
    if not is_blind:
        yield
        return
    with mock.patch.object(claim_shell, "looks_old", return_value=False):
        yield


def _parameters() -> list[Any]:
    found = []
    points = [("young", f"{moment} {step}") for step in STEPS for moment in MOMENTS]
    points += [(name, f"{moment} op {op}") for name, op in INSIDE for moment in MOMENTS]
    for database in DATABASES:
        for way in (FIRST_WAY, *OTHER_WAYS):
            for number, (name, point) in enumerate(points):
                for kind in _kinds_of(way):
                    label = f"{database}-{way}-{name}-{point.replace(' ', '-')}-{kind}"
                    sharp = _is_sharp(way, number, point, kind)
                    marks = [] if sharp else [pytest.mark.torture]
                    found.append(
                        pytest.param(database, way, name, point, kind, id=label, marks=marks)
                    )
    return found


def _kinds_of(way: str) -> tuple[str, ...]:
    return KINDS if WAYS[way].mode == "sync" else KINDS_OF_TASKS


def _is_sharp(way: str, number: int, point: str, kind: str) -> bool:
    """Each step with a kill and one other fault, each op with one; on a driver's, with more."""
    turn = _kinds_of(way).index(kind)
    if " op " in point:
        is_turn = turn == number // 2 % len(KINDS)
        return is_turn and (way == FIRST_WAY or number % 2 == number // 2 % 2)
    return way == FIRST_WAY or turn in {0, 1 + number % 3}


@pytest.mark.parametrize(("database", "way", "name", "point", "kind"), _parameters())
def test_fault_in_a_callers_transaction_leaves_both_or_neither(
    database: str,
    way: str,
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
    occurrence = duly.Occurrence("work", at, partition)
    if name == "duplicate":
        work(ledger.url, way, occurrence)
    order = {
        "key": occurrence.key,
        "url": ledger.url,
        "way": way,
        "point": point,
        "kind": kind,
        "is_blind": name == "late",
    }

    if kind == "kill":
        assert victims.kill_one("tests.faults.test_claim:_play", **order) == -9
    else:
        with suppress(Exception, KeyboardInterrupt, asyncio.CancelledError):
            _play(order)
    ledger.wait_until_quiet()

    facts = ledger.facts(occurrence)
    assert facts.is_sound
    has_landed = name == "duplicate" or point == "after commit"
    assert len(facts.effects) == has_landed
    again = work(ledger.url, way, occurrence)
    assert again.outcome == ("duplicate" if has_landed else "applied")
    facts = ledger.facts(occurrence)
    assert facts.is_sound
    assert facts.effects == [str(again.attempt_id)]
