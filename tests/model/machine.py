"""Whatever can be done to two jobs, in any order, on a real ledger and on the reference.

After every step the two are compared: what is settled and how, every effect, what is missing.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

import duly
from duly._sync import planning
from tests.model.definitions import HOUR, Definitions, hosts, jobs
from tests.model.reference import DAY, FLOOR, Pause
from tests.model.steps import SAID
from tests.model.world import EPOCH, MICROSECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

which = st.integers(0, 10_000)


class Machine(Definitions):
    """And what a person does by hand."""

    @rule(host=hosts, job=jobs, chosen=which, newest=st.booleans())
    def run_by_name(self, host: int, job: str, chosen: int, newest: bool) -> None:
        one, model = self.world.hosts[host], self.models[job]
        known = len(model.revisions)
        if self._is_refused(one, job):
            nominal = self._any(model, chosen) or self.now
            self._raises(one, "DefinitionStale ZoneDataOutdated", lambda app: app.run(job, nominal))
            return
        dues = model.dues(self.now)
        if not dues:
            # Nobody starts it, so the ledger is not told of an edit either.
            del model.revisions[known:]
            return
        nominal = max(dues) if newest else sorted(dues)[chosen % len(dues)]
        serial = model.serial_of(dues[nominal], one.terms[job])

        def start(app: duly.App) -> duly.Result:
            return app.run(job, nominal)

        if model.horizon is not None and nominal <= model.horizon:
            model.refused.add(nominal)
            self._raises(one, "Expired", start)
        elif (how := model.settled.get(nominal)) is not None and how != "applied":
            self._raises(one, "AlreadySettled", start)
        elif how is not None and model.effects[nominal, 1] != serial:
            self._raises(one, "PayloadConflict", start)
        elif how is None and job in self.world.broken:
            model.fail(nominal, self.now)
            self._raises(one, "BrokenError", start)
        else:
            with one.acting() as app:
                result = start(app)
            assert result.outcome == ("applied" if how is None else "duplicate")
            if how is None:
                model.apply(nominal, serial, self.now)

    @rule(host=hosts, job=jobs)
    def run_too_early(self, host: int, job: str) -> None:
        one, model = self.world.hosts[host], self.models[job]
        known = len(model.revisions)
        if self._is_refused(one, job):
            return
        to_come = set(model.dues(self.now + 2 * DAY)) - set(model.dues(self.now))
        to_come -= set(model.settled)  # while the clock was ahead
        if model.by_day and model.revisions:
            # One that an edit owes from its own instant on, which a clock that went back has yet
            # to reach, may be run by name: the schedule that it is run by has started it.
            to_come -= {day.start for day in model.revisions[-1].days if day.due <= self.now}
        if not to_come:
            del model.revisions[known:]
        else:
            self._raises(one, "NotDue", lambda app: app.run(job, min(to_come)))
            self._raises(one, "NotDue", lambda app: app.waive(_key(job, max(to_come)), **SAID))

    @rule(host=hosts, job=jobs, chosen=which, only_missing=st.booleans())
    def waive(self, host: int, job: str, chosen: int, only_missing: bool) -> None:
        self._step()
        one, model = self.world.hosts[host], self.models[job]
        choices = model.missing(self.now) if only_missing else sorted(model.dues(self.now))
        if not choices:
            return
        nominal = choices[chosen % len(choices)]

        def order(app: duly.App) -> None:
            app.waive(_key(job, nominal), **SAID)

        if model.horizon is not None and nominal <= model.horizon:
            self._raises(one, "Expired", order)
        elif (how := model.settled.get(nominal)) not in {None, "torn"}:
            self._raises(one, "AlreadySettled", order)
        else:
            with one.acting() as app:
                order(app)
            self._decided("waive", job, nominal)
            if how == "torn":
                model.settled[nominal] = "waived"
            else:
                model.settle(nominal, "waived", self.now)

    @rule(host=hosts, job=jobs, chosen=which, again=st.booleans())
    def correct(self, host: int, job: str, chosen: int, again: bool) -> None:
        self._step()
        one, model = self.world.hosts[host], self.models[job]
        dues = model.dues(self.now)
        # What was settled while the clock was ahead has yet to be expected: an edit may still give
        # it another payload, or an end before it.
        choices = sorted(dues.keys() & model.settled.keys()) or sorted(dues)
        if not choices:
            return
        nominal = choices[chosen % len(choices)]
        numbers = [number for when, number in model.recorded if when == nominal]
        number = max(numbers, default=1)
        if again and number > 1:
            number -= 1
        key = duly.Occurrence(job, nominal, "", number).key

        def order(app: duly.App) -> duly.Result:
            return app.correct(key, **SAID)

        if nominal not in model.settled:
            is_old = model.horizon is not None and nominal <= model.horizon
            self._raises(one, "Expired" if is_old else "UsageError", order)
        elif self._is_refused(one, job, step=False):
            self._raises(one, "DefinitionStale ZoneDataOutdated", order)
        elif number < max(numbers):
            serial = model.serial_of(dues[nominal], one.terms[job])
            if serial != model.effects[nominal, number + 1]:
                # Edited while the clock, which was ahead, had gone back behind it.
                self._raises(one, "PayloadConflict", order)
                return
            with one.acting() as app:
                assert order(app).outcome == "duplicate"
        elif job in self.world.broken:
            self._raises(one, "BrokenError", order)
        else:
            with one.acting() as app:
                assert order(app).outcome == "applied"
            self._decided("correct", job, nominal, number + 1)
            serial = model.serial_of(dues[nominal], one.terms[job])
            model.correct(nominal, serial, self.now)

    @rule(job=jobs, chosen=which)
    def handler_ends_the_transaction(self, job: str, chosen: int) -> None:
        self._step()
        model = self.models[job]
        if missing := model.missing(self.now):
            nominal = missing[chosen % len(missing)]
            us = (nominal - EPOCH) // MICROSECOND
            recorded = (self.now - EPOCH) // MICROSECOND
            self.world.run(
                "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction,"
                f" disposition, recorded_us) VALUES ('{job}', {us}, '', 1, 'torn', {recorded})"
            )
            model.settle(nominal, "torn", self.now)

    @rule(host=hosts, job=jobs)
    def pause(self, host: int, job: str) -> None:
        self._step()
        one, model = self.world.hosts[host], self.models[job]
        if model.is_paused:
            self._raises(one, "OperatorError", lambda app: app.pause(job, **SAID))
            return
        with one.acting() as app:
            app.pause(job, **SAID)
        self._decided("pause", job, None)
        model.pauses.append(Pause(self.now))

    @rule(host=hosts, job=jobs, catch_up=st.booleans())
    def resume(self, host: int, job: str, catch_up: bool) -> None:
        self._step()
        one, model = self.world.hosts[host], self.models[job]
        if not model.is_paused:
            self._raises(
                one,
                "OperatorError",
                lambda app: app.resume(job, reason=SAID["reason"], actor=SAID["actor"]),
            )
            return
        with one.acting() as app:
            app.resume(job, catch_up=catch_up, reason=SAID["reason"], actor=SAID["actor"])
        self._decided("resume with its pause" if catch_up else "resume", job, None)
        pause = next(each for each in model.pauses if each.end is None)
        pause.end, pause.is_included = max(self.now, pause.start), catch_up

    @rule(
        host=hosts,
        days=st.sampled_from([1, 2, 3, 5, 9]),
        hours=st.sampled_from([0, 9]),
        sure=st.booleans(),
    )
    def prune(self, host: int, days: int, hours: int, sure: bool) -> None:
        self._step()
        one = self.world.hosts[host]
        bound = self.base + self.stray - days * DAY - hours * HOUR
        recorded = [at for model in self.models.values() for at in model.recorded.values()]

        def order(app: duly.App) -> None:
            app.prune(older_than=bound, clock_is_right=sure)

        newest = max(recorded, default=None)
        if newest is not None and (
            (self.now - newest > FLOOR and not sure) or bound > min(self.now, newest) - 2 * FLOOR
        ):
            self._raises(one, "PruneRefused", order)
        else:
            with one.acting() as app:
                order(app)
            for model in self.models.values():
                if recorded:
                    model.prune(bound, self.now)

    @rule(
        host=hosts,
        other=hosts,
        job=jobs,
        count=st.sampled_from([1, 1, 2, 4]),
        late=st.booleans(),
    )
    def others_run_and_prune_after_the_plan(
        self, host: int, other: int, job: str, count: int, late: bool
    ) -> None:
        """The oldest that a tick planned are run elsewhere, and pruned, before it starts."""
        one, two = self.world.hosts[host], self.world.hosts[other]
        if late:  # so that one run is to cover what they were
            self.time_passes(4 * DAY)
            self.world.broken.discard(job)
            self._edit(host, job, True, catch_up="reconcile", skip_after=None)
        if host != other:
            two.deploy(one.terms, one.release)
        plans = self._planned(one)
        model = self.models[job]
        later: list[str] = []  # planned after the prune, by a horizon read before it

        def meanwhile() -> None:
            for each in one.app.jobs:  # in their order, and so done when this one is planned
                if each == job:
                    break
                if each in plans:
                    self._carried_out(each, plans.pop(each), one)
            old = [each for each in model.missing(self.now) if each < self.now - 2 * FLOOR]
            if job in self.world.broken or not old[:count]:
                return
            dues = model.dues(self.now)
            with two.acting() as app:
                for nominal in old[:count]:
                    assert app.run(job, nominal).outcome == "applied"
                    serial = model.serial_of(dues[nominal], two.terms[job])
                    model.apply(nominal, serial, self.now)
                app.prune(older_than=nominal)
            for pruned in self.models.values():
                pruned.prune(nominal, self.now)
            later.extend(each for each in plans if each != job)

        with one.acting() as app, after_the_plan(job, meanwhile):
            app.tick()
        for each, plan in plans.items():
            if each in later:  # it may have tried what is expired now, and left the rest
                self._happened(each, plan)
            else:
                self._carried_out(each, plan, one)


@contextmanager
def after_the_plan(job: str, meanwhile: Callable[[], None]) -> Iterator[None]:
    """Do something once, when a tick has planned a job and started nothing of it yet."""
    plan = planning.plan

    def outer(session: Any, known: Any, *args: Any, **named: Any) -> Any:
        found = plan(session, known, *args, **named)
        if known.job == job:
            meanwhile()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "plan", outer)
        yield


def _key(job: str, nominal: datetime) -> str:
    return duly.Occurrence(job, nominal).key
