"""Chance instead of choice: claimers and pruners at random, and no key with two effects.

The forced interleavings are in `test_prune_against_attempt.py`; this looks for those that
nobody thought of.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

import duly
from tests.races.bank import CALLER_LEVELS, ENGINE_LEVELS, JOB, OLD, Bank, Caller, key_at
from tests.races.steps import start

if TYPE_CHECKING:
    from concurrent.futures import Future

CLAIMERS = 12
PRUNERS = 2
STARTS_A_PERIOD = 8
WINDOW = 8
"""How many periods before the front are started again and again."""
PROVED = ("applied", "duplicate", "expired", "pruned")
"""Without each of these the stress proves nothing."""
STARTS_MIN = 300
PRUNES_MIN = 10
SLOW_S = 60.0
"""On a machine that is busy otherwise, the stress lasts longer, but never longer than this."""


class _Stress:
    """Late attempts and prunes meet behind a front of periods, which every start moves on."""

    def __init__(self, bank: Bank, seconds: float) -> None:
        self.bank = bank
        self.ended: Counter[str] = Counter()
        self._seconds = seconds
        self._counting = threading.Lock()
        self._together = threading.Barrier(CLAIMERS + PRUNERS, action=self._begin)
        self._began = 0.0
        self._starts = 0
        self._apps = [
            bank.kept_app("claimer", level, pool_size=CLAIMERS)
            for level in ENGINE_LEVELS[bank.name]
        ]

    def _begin(self) -> None:
        self._began = time.monotonic()

    @property
    def is_over(self) -> bool:
        lasted = time.monotonic() - self._began
        enough = (
            self._starts > STARTS_MIN
            and self.ended["pruned"] > PRUNES_MIN
            and all(self.ended[outcome] for outcome in PROVED)
        )
        return lasted > SLOW_S or (lasted > self._seconds and enough)

    def period(self, back: int) -> timedelta:
        return timedelta(minutes=max(0, self._starts // STARTS_A_PERIOD - back))

    def count(self, outcome: str) -> None:
        with self._counting:
            self.ended[outcome] += 1

    def claim(self, seed: int) -> None:
        """One claimer: by turns an App's attempts and callers' transactions."""
        chance = random.Random(seed)
        callers = {level: self.bank.caller(level) for level in CALLER_LEVELS[self.bank.name]}
        self._together.wait(60)
        while not self.is_over:
            self._starts += 1
            at = OLD + self.period(chance.randrange(WINDOW))
            if chance.random() < 0.4:
                self.count(_attempt(chance.choice(self._apps), at))
            else:
                caller = callers[chance.choice(list(callers))]
                self.count(self._call(caller, key_at(at), chance))

    def _call(self, caller: Caller, key: str, chance: random.Random) -> str:
        if chance.random() < 0.5:
            return caller.once(key, snapshot=chance.random() < 0.5)
        # A snapshot that has some age before the claim: the other threads go on meanwhile.
        caller.begin(snapshot=True)
        time.sleep(chance.uniform(0, 0.1))
        return caller.finish(key)

    def prune(self, seed: int) -> None:
        """One pruner: by turns just behind the front and far behind it."""
        chance = random.Random(seed)
        app = self.bank.kept_app(f"pruner {seed}")
        self._together.wait(60)
        while not self.is_over:
            # A claimer's transaction lasts some hundredths of a second; so does this pause.
            time.sleep(chance.uniform(0, 0.05))
            try:
                app.prune(older_than=OLD + self.period(chance.randrange(1, WINDOW)))
            except duly.Busy:
                self.count("prune busy")
            else:
                self.count("pruned")


def _attempt(app: duly.App, at: datetime) -> str:
    try:
        return app.run(JOB, at, wait=10).outcome.value
    except (duly.Expired, duly.Busy) as refused:
        return refused.code


def _stress(bank: Bank, seconds: float) -> None:
    if bank.name == "sqlite":
        pytest.skip("SQLite's writers come one after another, so that nothing can interleave")
    bank.app().run(JOB, OLD - timedelta(days=1))
    stress = _Stress(bank, seconds)
    threads: list[Future[None]] = [start(stress.claim, seed) for seed in range(CLAIMERS)]
    threads += [start(stress.prune, 100 + seed) for seed in range(PRUNERS)]
    for thread in threads:
        thread.result(SLOW_S + 60)
    twice = {key: times for key, times in bank.effects().items() if times > 1}
    assert twice == {}, dict(stress.ended)
    for outcome in PROVED:
        assert stress.ended[outcome] > 0, f"no {outcome}: it proves nothing: {stress.ended}"
    assert sum(bank.effects().values()) == stress.ended["applied"] + 1


def test_claimers_and_pruners_at_random_for_a_moment(bank: Bank) -> None:
    _stress(bank, 3)


@pytest.mark.torture
@pytest.mark.parametrize("_again", range(3))
def test_claimers_and_pruners_at_random_for_long(bank: Bank, _again: int) -> None:
    _stress(bank, 15)
