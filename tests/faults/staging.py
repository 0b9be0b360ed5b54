"""One start of one scenario, with the fault of one cell."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import duly
from duly import testing
from duly._core import ops
from duly._core.payload import canonical
from duly._core.resolve import Nominal
from duly._sync.claim import looks_old
from duly._sync.process import new_attempt_id
from tests.faults.scenarios import MINUTE, WAIT_S, driver_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from tests.faults.ledger import Bank
    from tests.faults.matrix import Cell
    from tests.faults.scenarios import Moment, Scenario


@dataclass(frozen=True)
class Stage:
    """One start of one scenario: on which database, under which key.

    Attributes:
        partition: Nobody else's.
        at: The nominal time.
    """

    database: str
    bank: Bank
    plan: Scenario
    partition: str
    at: datetime

    @property
    def occurrence(self) -> duly.Occurrence:
        correction = 2 if self.plan.corrects else 1
        return duly.Occurrence(self.plan.job, self.at, self.partition, correction)

    @property
    def older(self) -> list[duly.Occurrence]:
        """The missing occurrences that a tick found with this one, newest first."""
        times = (self.at - number * MINUTE for number in range(1, self.plan.covers + 1))
        return [duly.Occurrence(self.plan.job, at, self.partition) for at in times]

    @property
    def by_hand(self) -> duly.Occurrence | None:
        """The one of them that a person runs before the start; it stands in their midst."""
        return self.older[self.plan.covers // 2] if self.plan.covers else None

    def prepare(self) -> None:
        """What happened before."""
        if self.by_hand is not None:
            self.bank.app.run(self.plan.job, self.by_hand.nominal_time, partition=self.partition)
        if self.plan.is_applied:
            self.bank.app.run(self.plan.job, self.at, partition=self.partition, payload=1)

    def start(self) -> duly.Result:
        """The start, with the scenario's own fault but no other."""
        if self.plan.does is not None:
            self.bank.doing[self.partition] = self.plan.does
        with ExitStack() as stack:
            if self.plan.is_blind:
                stack.enter_context(mock.patch("duly._sync.starting.looks_old", return_value=False))
            for context in self._first():
                stack.enter_context(context)
            return self._start(self.plan.wait_s)

    @contextmanager
    def faulted(self, cell: Cell) -> Iterator[testing.Injected]:
        """The start within meets the cell's fault as well."""
        with self._fault(cell) as injected:
            yield injected

    def retry(self) -> duly.Result:
        """An ordinary start, later."""
        self.bank.doing.pop(self.partition, None)
        return self._start(WAIT_S, slots=1)

    def _start(self, wait_s: float, *, slots: int | None = None) -> duly.Result:
        app = self.bank.app
        if self.plan.by_tick:
            return self._start_by_tick(wait_s, self.plan.slots if slots is None else slots)
        if self.plan.corrects:
            key = duly.Occurrence(self.plan.job, self.at, self.partition).key
            return app.correct(key, reason="wrong rate", actor="ann")
        return app.run(
            self.plan.job,
            self.at,
            partition=self.partition,
            payload=self.plan.payload,
            wait=wait_s,
        )

    def _start_by_tick(self, wait_s: float, slots: int | None) -> duly.Result:
        """As a tick starts the one that covers the others, but in a partition of its own."""
        app = self.bank.app
        app._readiness.ensure()
        payload = canonical(self.plan.payload)
        request = ops.Request(
            self.occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(self.occurrence),
            slots=slots,
            cover=[each.nominal_us for each in self.older],
        )
        nominal = Nominal(self.at, "schedule", self.at)
        job = app.jobs[self.plan.job]
        return app._attempts.make(job, request, payload, nominal, schedule=None, wait_s=wait_s)

    def _first(self) -> list[Any]:
        plan = self.plan
        if plan.first is None:
            return []
        where: dict[str, Any] = {
            "op": plan.ops_on(self.database)[plan.first_place],
            "when": plan.first_moment,
        }
        app = self.bank.app
        if plan.first == "contention":
            error: Exception = driver_error("contention", self.database)
            return [testing.fault(app, **where, kind="raise", error=error)]
        if plan.first == "lost":
            error = driver_error("lost", self.database)
        else:
            error = ConnectionResetError("no answer")
        raised = testing.fault(app, **where, kind="raise", error=error)
        if self.database == "sqlite":
            return [raised]
        return [testing.fault(app, **where, kind="cut"), raised]

    def _fault(self, cell: Cell) -> Any:
        app = self.bank.app
        where: dict[str, Any] = {"op": cell.op, "when": cell.moment, "skip": cell.skip}
        match cell.kind:
            case "plain":
                return testing.fault(app, **where, kind="raise")
            case "contention" | "refused":
                error = driver_error(cell.kind, self.database)
                return testing.fault(app, **where, kind="raise", error=error)
            case "sigint":
                return at_op(app, partial(os.kill, os.getpid(), signal.SIGINT), **where)
            case "cancel":
                return at_op(app, self.bank.site.loop.cancel, **where)
            case _:
                return testing.fault(app, **where, kind=cell.kind)  # type: ignore[arg-type]


@contextmanager
def at_op(
    app: duly.App, act: Callable[[], None], *, op: str, when: Moment, skip: int = 0
) -> Iterator[testing.Injected]:
    """Do *act* at an op, once: a real signal, or a real cancellation."""
    injected = testing.Injected()
    chances = 0
    outer = app._probe

    def probe(moment: str, current: Any, target: Any) -> None:
        nonlocal chances
        if outer is not None:
            outer(moment, current, target)
        if type(current).__name__ == op and moment == when:
            chances += 1
            if chances == skip + 1:
                injected.fired += 1
                act()

    app._probe = probe
    try:
        yield injected
    finally:
        app._probe = outer
