"""Time, edits, outages and ticks in any order: what no person does to an occurrence."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

import duly
from duly import testing
from tests.model.reference import BEGINNING, DAY, LATEST, NEWER, OLDER, VANCOUVER, Terms
from tests.model.steps import MINUTE, Steps
from tests.model.world import JOBS

HOUR = timedelta(hours=1)
SWING = 8 * HOUR
"""How far a clock strays: twice that is less than what a prune stays away (PROTOCOL 16)."""

SCHEDULES: dict[str, list[str | int]] = {
    "point": ["0 * * * *", "*/20 * * * *", "*/10 * * * *", "30 */2 * * *", "15 1-4 * * *", 25, 45],
    "day": ["15 1 * * *", "15 3 * * *", "30 2 * * *", "0 23 * * *", "30 0 * * *"],
}
ZONES = (VANCOUVER, "Europe/Berlin", "UTC", "Asia/Tokyo")
OPS = (
    "Begin",
    "LockGuard",
    "ReadHorizon",
    "Claim",
    "Cover",
    "Seal",
    "Commit",
    "Rollback",
    "Record",
)

hosts = st.integers(0, 2)
jobs = st.sampled_from(JOBS)
which = st.integers(0, 10_000)
policies = st.one_of(
    st.fixed_dictionaries(
        {
            "catch_up": st.sampled_from(["each", "each", "reconcile", "none"]),
            "max_per_tick": st.sampled_from([1, 3, 100]),
            "in_order": st.booleans(),
            "retry": st.sampled_from(["at once", "at once", "twice", "never"]),
            "skip_after": st.none(),
        }
    ),
    st.fixed_dictionaries(
        {"catch_up": st.just("skip"), "skip_after": st.sampled_from([HOUR, 5 * HOUR, 2 * DAY])}
    ),
)

_POLICIES = ("catch_up", "skip_after", "max_per_tick", "in_order", "retry")


class Definitions(Steps):
    """What the clock, the code and the hosts do."""

    @initialize(
        since=st.sampled_from([None, HOUR, 30 * HOUR, 4 * DAY]),
        zone=st.sampled_from(ZONES),
        point=st.sampled_from(SCHEDULES["point"]),
        day=st.sampled_from(SCHEDULES["day"]),
        terms=policies,
    )
    def begin(
        self,
        since: timedelta | None,
        zone: str,
        point: str | int,
        day: str | int,
        terms: dict[str, Any],
    ) -> None:
        starts = None if since is None else BEGINNING - since
        schedules = {"point": point, "day": day}
        first = {job: Terms(schedules[job], zone, starts=starts, **terms) for job in JOBS}
        for host in self.world.hosts:
            host.deploy(first, OLDER)
        self._tick(0)

    # Time

    @rule(step=st.sampled_from([5 * MINUTE, 35 * MINUTE, 3 * HOUR, 7 * HOUR, DAY, 3 * DAY]))
    def time_passes(self, step: timedelta) -> None:
        self.base = min(self.base + step, LATEST - 10 * DAY)

    @rule(stray=st.sampled_from([timedelta(0), -SWING, -HOUR, 25 * MINUTE, SWING]))
    def clock_jumps(self, stray: timedelta) -> None:
        self.stray = stray

    # Definitions

    @rule(host=hosts, job=jobs, schedule=which, everywhere=st.booleans())
    def schedule_is_edited(self, host: int, job: str, schedule: int, everywhere: bool) -> None:
        choices = SCHEDULES[job]
        self._edit(host, job, everywhere, schedule=choices[schedule % len(choices)])

    @rule(host=hosts, job=jobs, zone=st.sampled_from(ZONES), everywhere=st.booleans())
    def zone_is_edited(self, host: int, job: str, zone: str, everywhere: bool) -> None:
        self._edit(host, job, everywhere, zone=zone)

    @rule(host=hosts, job=jobs, terms=policies, everywhere=st.booleans())
    def policies_are_edited(
        self, host: int, job: str, terms: dict[str, Any], everywhere: bool
    ) -> None:
        before = self.world.hosts[host].terms[job]
        plain = Terms(before.schedule, before.zone, starts=before.starts, ends=before.ends)
        changed = {name: getattr(replace(plain, **terms), name) for name in _POLICIES}
        self._edit(host, job, everywhere, **changed)

    @rule(host=hosts, job=jobs, after=st.sampled_from([None, -HOUR, 6 * HOUR, 2 * DAY]))
    def end_is_edited(self, host: int, job: str, after: timedelta | None) -> None:
        starts = self.world.hosts[host].terms[job].starts
        ends = None if after is None else self.base + after
        if starts is None or ends is None or starts < ends:
            self._edit(host, job, True, ends=ends)

    @rule(host=hosts, release=st.sampled_from([NEWER, NEWER, OLDER]), everywhere=st.booleans())
    def zone_data_is_changed(self, host: int, release: str, everywhere: bool) -> None:
        for each in self._hosts(host, everywhere):
            each.deploy(each.terms, release)

    @rule(host=hosts, other=hosts)
    def host_follows_another(self, host: int, other: int) -> None:
        one = self.world.hosts[other]
        self.world.hosts[host].deploy(one.terms, one.release)

    @rule(host=hosts, job=jobs, revision=which)
    def old_definition_comes_back(self, host: int, job: str, revision: int) -> None:
        one = self.world.hosts[host]
        revisions = self.models[job].revisions
        terms = revisions[revision % len(revisions)].terms
        one.deploy({**one.terms, job: terms}, one.release)

    @rule(host=hosts)
    def definitions_are_adopted(self, host: int) -> None:
        one = self.world.hosts[host]
        refused = self._told(one, adopt=True)
        with one.acting() as app:
            _, found = app.register(adopt=True)
        assert {job: type(error).__name__ for job, error in found.items()} == refused

    @rule(host=hosts, job=jobs, adopt=st.booleans())
    def period_is_edited(self, host: int, job: str, adopt: bool) -> None:
        """It is refused, whatever else the definition says; the other job is as ever."""
        one = self.world.hosts[host]
        (other,) = set(JOBS) - {job}
        self._step()
        refused = self._refusal(one, other, adopt=adopt)
        with one.other_period(job) as app:
            _, found = app.register(adopt=adopt)
        names = {each: type(error).__name__ for each, error in found.items()}
        assert names == {job: "PeriodChanged"} | ({other: refused} if refused else {})

    # Ticks

    @rule(host=hosts)
    def tick(self, host: int) -> None:
        self._tick(host)

    @rule(host=hosts, step=st.sampled_from([20 * MINUTE, 5 * HOUR, DAY]))
    def tick_after_a_while(self, host: int, step: timedelta) -> None:
        self.time_passes(step)
        self._tick(host)

    @rule(host=hosts, step=st.sampled_from([10 * MINUTE, 8 * HOUR, 2 * DAY]))
    def tick_after_longer(self, host: int, step: timedelta) -> None:
        self.tick_after_a_while(host, step)

    @rule(host=hosts, other=hosts)
    def two_tick(self, host: int, other: int) -> None:
        self._tick(host)
        self._tick(other)

    @rule(
        host=hosts,
        op=st.sampled_from(OPS),
        when=st.sampled_from(["before", "after"]),
        kind=st.sampled_from(["raise", "cut", "interrupt"]),
        skip=st.integers(0, 3),
    )
    def tick_in_an_outage(
        self, host: int, op: str, when: testing.When, kind: testing.Kind, skip: int
    ) -> None:
        one = self.world.hosts[host]
        plans = self._planned(one)
        with (
            testing.fault(one.app, op=op, when=when, kind=kind, skip=skip),
            one.acting() as app,
            suppress(KeyboardInterrupt, testing.InjectedError, duly.DulyError),
        ):
            app.tick()
        for job, plan in plans.items():
            self._happened(job, plan)

    @rule(job=jobs)
    def handler_breaks(self, job: str) -> None:
        self.world.broken.add(job)

    @rule()
    def handlers_are_mended(self) -> None:
        self.world.broken.clear()
