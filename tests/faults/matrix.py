"""The cells of the fault matrix.

A cell is one op of one scenario on one way in, the moment before or after it, and what happens
then. The whole matrix goes through `App.run`; the protocol and the shell are the same on every
other way, where each op meets each fault at both moments.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from duly._core import ops
from tests.faults.ledger import WAYS
from tests.faults.scenarios import DATABASES, MOMENTS, SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.scenarios import Moment, Scenario

KINDS = ("kill", "cut", "contention", "refused", "plain", "interrupt", "terminate", "sigint")
# A task has no signals of its own: Ctrl-C cancels it, as everybody else does who gives it up.
KINDS_OF_TASKS = ("kill", "cut", "contention", "refused", "plain", "cancel")
STOPS: dict[str, type[BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "sigint": KeyboardInterrupt,
    "terminate": SystemExit,
    "cancel": asyncio.CancelledError,
}
HELD = ("sigint", "cancel")
"""Stops that wait from the seal to the answer of the commit."""

FIRST_WAY = "app-url"
OTHER_WAYS = (
    "app-session",
    "app-django-cursor",
    "once-block",
    "aio-app-url",
    "aio-app-session",
    "aio-once-block",
)
EVERY_WAY = ("applied", "old", "failing", "duplicate", "lost", "torn")
"""Scenarios that have every op which all ways share; earlier ones are chosen first."""


@dataclass(frozen=True)
class Cell:
    """One fault: *kind* happens at the op at *place* of *scenario* on *database*."""

    database: str
    scenario: str
    place: int
    moment: Moment
    kind: str
    way: str = FIRST_WAY

    def __str__(self) -> str:
        where = self.database if self.way == FIRST_WAY else f"{self.database}-{self.way}"
        return f"{where}-{self.scenario}-{self.place}-{self.moment}-{self.op}-{self.kind}"

    @property
    def plan(self) -> Scenario:
        return SCENARIOS[self.scenario]

    @property
    def op(self) -> str:
        return self.plan.ops_on(self.database)[self.place]

    @property
    def is_past_seal(self) -> bool:
        """The seal was sent in the transaction that the fault meets, or the commit was."""
        return self.op == "Commit" or (self.op == "Seal" and self.moment == "after")

    @property
    def is_past_block(self) -> bool:
        """The block of a `with` was entered, which nobody can do again."""
        return "once" in self.way and self.op in {"CallHandler", "Seal", "Commit"}

    @property
    def has_landed(self) -> bool:
        """A COMMIT of the effect was performed before the fault; without a claim it lands none."""
        if "HoldTorn" in self.plan.ops_on(self.database):
            return False
        done = [
            place
            for place, op in enumerate(self.plan.ops_on(self.database)[: self.place + 1])
            if op == "Commit"
            and (place != self.plan.first_place or self.plan.first_moment == "after")
            and (place < self.place or self.moment == "after")
        ]
        return bool(done)

    @property
    def skip(self) -> int:
        """How many ops of this name come before; one that the scenario fails has no `after`."""
        plan = self.plan
        ops = plan.ops_on(self.database)
        return sum(
            1
            for place in range(self.place)
            if ops[place] == self.op
            and not (
                place == plan.first_place
                and plan.first_moment == "before"
                and self.moment == "after"
            )
        )


def cells() -> Iterator[Cell]:
    """The whole matrix."""
    for database in DATABASES:
        for plan in SCENARIOS.values():
            if database in plan.databases:
                yield from _of(database, plan, FIRST_WAY)
        for way in OTHER_WAYS:
            chosen: dict[tuple[str, str, str], Cell] = {}
            for name in EVERY_WAY:
                if name == "torn" and database != "sqlite" and WAYS[way].kind == "session":
                    continue  # its savepoint is gone with the transaction, which says so: no seal
                for cell in _of(database, SCENARIOS[name], way):
                    chosen.setdefault((cell.op, cell.moment, cell.kind), cell)
            yield from chosen.values()


def _of(database: str, plan: Scenario, way: str) -> Iterator[Cell]:
    for place in range(plan.since, len(plan.ops_on(database))):
        for moment in MOMENTS:
            for kind in kinds_of(way):
                yield Cell(database, plan.name, place, moment, kind, way)


def kinds_of(way: str) -> tuple[str, ...]:
    """The faults that can happen on a way."""
    return KINDS if WAYS[way].mode == "sync" else KINDS_OF_TASKS


def sharp() -> set[Cell]:
    """What `make test` runs.

    For each database: each op with each fault once, and the end of the plain attempt in full. On
    every other way: each op with a kill and with one other fault, which take turns.
    """
    chosen: dict[tuple[str, str, str, str], Cell] = {}
    for cell in cells():
        kinds = kinds_of(cell.way)
        number = _ORDER.index(cell.op)
        # One moment each, taken in turn; the other is for the whole matrix.
        turn = number + kinds.index(cell.kind)
        other = kinds[1 + number % (len(kinds) - 1)]
        if cell.moment == MOMENTS[turn % 2] and (
            cell.way == FIRST_WAY or cell.kind in {"kill", other}
        ):
            chosen.setdefault((cell.database, cell.way, cell.op, cell.kind), cell)
    first = [cell for cell in cells() if cell.way == FIRST_WAY]
    plain = (c for c in first if c.scenario == "applied" and c.op in {"Seal", "Commit"})
    covering = (
        c
        for c in first
        if c.scenario == "covering" and c.op in {"Cover", "Commit"} and c.kind in {"kill", "cut"}
    )
    return {*chosen.values(), *plain, *covering}


_ORDER = tuple(op.__name__ for op in get_args(ops.Op))
