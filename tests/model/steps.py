"""Two jobs on three hosts, on a real ledger and in the reference: how one step is made.

Decides how the reference follows what a host did, and what must hold after each step. The rules
that choose steps are in `definitions.py` and `machine.py`. Must never repair what it compares.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition

import duly
from tests.model.reference import BEGINNING, NEWER, Plan, Reference, RefusedError
from tests.model.world import EPOCH, JOBS, MICROSECOND, Audited, BrokenError

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from tests.model.world import Host, World

MINUTE = timedelta(minutes=1)
A_STEP = timedelta(seconds=2)
STEPS_MAX = 50
"""Of two ticks at most: all of them lie between two due times, which are five minutes apart."""
SAID = {"reason": "as the test says", "actor": "model"}


class Steps(RuleBasedStateMachine):
    """Two jobs on three hosts.

    Attributes:
        base: Where the clock would stand if it were right.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        world.clear()
        world.watcher.deploy({}, NEWER)
        self.models = {job: Reference(by_day=job == "day") for job in JOBS}
        self.base = BEGINNING
        self.stray = timedelta(0)
        self.steps = 0
        self.serials = 0
        self.audited: list[Audited] = []
        self.now = BEGINNING

    # What holds after each

    @invariant()
    def ledger_is_as_the_model_says(self) -> None:
        self.world.counted["comparisons"] += 1
        for job, model in self.models.items():
            rows = self.world.settled(job)
            ordinary = {row.nominal: row.disposition for row in rows if row.correction == 1}
            assert ordinary == model.settled
            assert {(row.nominal, row.correction) for row in rows} == set(model.recorded)
            decided = {"skipped", "superseded", "waived"}
            assert all(row.reason for row in rows if row.disposition in decided)

    @invariant()
    def each_effect_is_there_once(self) -> None:
        for job, model in self.models.items():
            found = self.world.effects(job)
            twice = [key for key, n in Counter(each[:2] for each in found).items() if n > 1]
            assert not twice
            serials = {(at, number): serial for at, number, serial in found}
            assert serials == model.effects, set(serials.items()) ^ set(model.effects.items())

    @invariant()
    def each_decision_and_revision_has_its_row(self) -> None:
        for job, model in self.models.items():
            count = f"SELECT COUNT(*) FROM duly_job_revision WHERE job = '{job}'"
            assert self.world.run(count)[0][0] == len(model.revisions)
        found, wanted = (sorted(rows) for rows in (self.world.audited(), self.audited))
        assert [row.decision for row in found] == [row.decision for row in wanted]
        for row, said in zip(found, wanted, strict=True):
            assert timedelta(0) <= row.at - said.at < A_STEP

    @invariant()
    @precondition(lambda self: self.models["day"].revisions)
    def what_is_missing_is_told(self) -> None:
        self._step(moves=False)
        with self.world.watcher.acting() as app:
            for job, model in self.models.items():
                report = app.missing(job, limit=100_000)
                found = [each.occurrence.nominal_time for each in report.occurrences]
                wanted = model.missing(self.now)
                assert found == wanted, told_apart(job, found, wanted)

    # Steps

    def _decided(self, action: str, job: str, nominal: datetime | None, number: int = 1) -> None:
        """A person decided something now: the row that says who, what and why."""
        what = (SAID["actor"], SAID["reason"], action, job)
        self.audited.append(Audited((*what, str(nominal), number), self.now))

    def _step(self, *, moves: bool = True) -> None:
        """The clock shows the instant of this step."""
        self.steps += moves
        assert self.steps * A_STEP < 5 * MINUTE
        self.now = self.base + self.stray + self.steps * A_STEP
        self.world.set_clock(self.now)

    def _edit(self, host: int, job: str, everywhere: bool, **changes: Any) -> None:
        self.serials += 1
        one = self.world.hosts[host]
        terms = replace(one.terms[job], serial=self.serials, **changes)
        for each in self._hosts(host, everywhere):
            each.deploy({**each.terms, job: terms}, each.release)

    def _hosts(self, host: int, everywhere: bool) -> list[Host]:
        return self.world.hosts if everywhere else [self.world.hosts[host]]

    def _told(self, host: Host, *, adopt: bool = False, step: bool = True) -> dict[str, str]:
        """Tell the model of a host's definitions; returns the refused ones."""
        if step:
            self._step()
        return {
            job: refused
            for job in JOBS
            if (refused := self._refusal(host, job, adopt=adopt)) is not None
        }

    def _refusal(self, host: Host, job: str, *, adopt: bool = False) -> str | None:
        model = self.models[job]
        before = model.expected(self.now)
        try:
            model.told(host.terms[job], host.release, self.now, adopt=adopt)
        except RefusedError as error:
            return str(error)
        after = model.expected(self.now)
        # Invariant 6, of the reference itself: an edit takes nothing back.
        assert before.items() <= after.items()
        return None

    def _is_refused(self, host: Host, job: str, *, step: bool = True) -> bool:
        """Tell the model of one definition, as a start by name does."""
        if step:
            self._step()
        return self._refusal(host, job) is not None

    def _planned(self, host: Host) -> dict[str, Plan]:
        """What the model says that a tick of *host* does with each job that it may run."""
        refused = self._told(host)
        self._refused = refused
        return {job: m.plan(self.now) for job, m in self.models.items() if job not in refused}

    def _tick(self, index: int) -> None:
        host = self.world.hosts[index]
        plans = self._planned(host)
        refused = self._refused
        untouched = {job: self.world.everything(job) for job in refused}
        with host.acting() as app:
            asked = app.plan()
            report = app.tick()
        for told in asked.jobs:
            assert (type(told.refused).__name__ if told.refused else None) == refused.get(told.job)
            if told.job in plans:
                parts = told.parts.get("")
                found = ([], [], []) if parts is None else (parts.run, parts.skip, parts.cover)
                for each, wanted in zip(found, plans[told.job], strict=True):
                    times = _instants(each)
                    assert times == sorted(wanted), told_apart(told.job, times, wanted)
        found_refused = {
            told.job: type(told.refused).__name__ for told in report.jobs if told.refused
        }
        assert found_refused == refused
        for job, rows in untouched.items():
            assert self.world.everything(job) == rows
        for job, plan in plans.items():
            self._carried_out(job, plan, host)

    def _carried_out(self, job: str, plan: Plan, host: Host) -> None:
        """Take over what a tick did; what another host settled since its plan stays as it is."""
        model = self.models[job]
        dues = model.dues(self.now)
        for nominal in filter(model.is_free, plan.skip):
            model.settle(nominal, "skipped", self.now)
        for nominal in plan.run:
            if model.is_pruned(nominal):
                model.refused.add(nominal)
                if model.latest.in_order:
                    return
                continue
            if nominal in model.settled:
                continue
            if job in self.world.broken:
                model.fail(nominal, self.now)
                if model.latest.in_order:
                    return
                continue
            model.apply(nominal, model.serial_of(dues[nominal], host.terms[job]), self.now)
            for each in filter(model.is_free, plan.cover):
                model.settle(each, "superseded", self.now)

    def _happened(self, job: str, plan: Plan, *, lasted: timedelta = timedelta(0)) -> None:
        """Take over what a tick did that did not come to its end: nothing but what it planned.

        What failed was finished as much later than it began as the tick really lasted.
        """
        model = self.models[job]
        dues = model.dues(self.now)
        allowed = {"applied": plan.run, "skipped": plan.skip, "superseded": plan.cover}
        new = [row for row in self.world.settled(job) if (row.nominal, 1) not in model.recorded]
        for row in new:
            assert row.nominal in allowed[row.disposition]
            if row.disposition == "applied":
                serial = model.serial_of(dues[row.nominal], model.latest)
                model.apply(row.nominal, serial, self.now)
            else:
                model.settle(row.nominal, row.disposition, self.now)
        covered = [row for row in new if row.disposition == "superseded"]
        applied = [row for row in new if row.disposition == "applied"]
        assert len(covered) == (len(plan.cover) if applied else 0)
        for nominal, (count, last_at) in self.world.failed(job).items():
            if nominal not in model.failed or model.failed[nominal].count != count:
                assert nominal in plan.run
                model.fail(nominal, self.now)
                model.failed[nominal].count = count
            assert last_at - model.failed[nominal].last_at < A_STEP + lasted
            if lasted:
                model.failed[nominal].last_at = last_at

    def _any(self, model: Reference, chosen: int) -> datetime | None:
        choices = sorted(model.dues(self.now))
        return choices[chosen % len(choices)] if choices else None

    def _raises(self, host: Host, names: str, act: Callable[[duly.App], object]) -> None:
        """It is refused, and the invariants will find that nothing changed."""
        with host.acting() as app:
            try:
                act(app)
            except (duly.DulyError, BrokenError) as error:
                raised = error
            else:
                raise AssertionError(f"it was expected to raise {names}")
        kinds = {kind.__name__ for kind in type(raised).__mro__}
        assert kinds & set(names.split()), raised


def told_apart(job: str, found: list[datetime], wanted: list[datetime]) -> str:
    more, less = (sorted(map(str, a)) for a in (set(found) - set(wanted), set(wanted) - set(found)))
    return f"{job}: the ledger has {more} and lacks {less}"


def _instants(times: Any) -> list[datetime]:
    return sorted(EPOCH + us * MICROSECOND for us in times)
