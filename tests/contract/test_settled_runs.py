"""What is settled, as runs of one step: on each database exactly the rows that are there."""

from __future__ import annotations

import random
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import pytest

from duly._core.instants import US_MAX, to_us
from duly._sync import planning
from tests.contract.bank import OLD

if TYPE_CHECKING:
    from tests.contract.bank import Bank

STEP = 60_000_000
START = to_us(OLD)
LAST = (US_MAX - START) // STEP
"""How many steps there are to the end of the calendar."""


def shuffled(seed: int) -> set[float]:
    """Full stretches, holes, and rows off the schedule, anywhere."""
    chance = random.Random(seed)
    found: set[float] = {*range(chance.randint(0, 5), 400)}
    found -= {chance.randrange(400) for _ in range(chance.choice([1, 5, 60]))}
    found |= {chance.randrange(400) + 0.5 for _ in range(chance.choice([0, 1, 30]))}
    return found | {chance.randrange(10**6) for _ in range(3)}


SETS: dict[str, set[float]] = {
    "none": set(),
    "one": {7},
    "the last of the calendar": {LAST - 1, LAST},
    "before the first that is asked for": set(range(-40, 0)),
    "across the first that is asked for": set(range(-40, 40)),
    "all": set(range(100)),
    "all but the ends": set(range(1, 99)),
    "as many as one block": set(range(32)),
    "every other": set(range(0, 200, 2)),
    "off the schedule throughout": {each + 0.5 for each in range(100)},
    "one off the schedule among many": {*range(100), 50.5},
    "one off the schedule for one that is not there": {*range(100), 16.25} - {16},
    "another time of day from some time on": {
        *range(70),
        *(each + 0.25 for each in range(70, 140)),
    },
    "a gap of years": {*range(70), *range(3_000_000, 3_000_070)},
    "one far ahead": {*range(70), LAST},
    **{f"shuffled {seed}": shuffled(seed) for seed in range(4)},
}


@pytest.mark.parametrize("page", [3, 20_000])
@pytest.mark.parametrize("about", SETS)
def test_settled_runs_are_the_settled_rows_from_a_time_on(
    bank: Bank, about: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is in one run, and each run is as long as it can be, however they are read."""
    monkeypatch.setattr(planning, "PAGE", page)
    times = sorted(START + int(each * STEP) for each in SETS[about])
    rows = [f"('{bank.job}', {us}, '', 1, 'waived', 1)" for us in times]
    # Another partition, a correction and another job are no part of it.
    rows += [
        f"('{bank.job}', {START + 5 * STEP}, 'p', 1, 'waived', 1)",
        f"('{bank.job}', {START + 6 * STEP}, '', 2, 'waived', 1)",
        f"('{bank.job}-other', {START + 9 * STEP}, '', 1, 'waived', 1)",
    ]
    bank.run(
        "INSERT INTO duly_occurrence (job, nominal_us, partition_key, correction, disposition,"
        f" recorded_us) VALUES {', '.join(rows)}"
    )
    series = {"job": bank.job, "partition_key": ""}
    app = bank.define(bank.app(), schedule="* * * * *")

    with app.database.session() as session:
        runs = list(planning.settled_runs(session, series, since_us=START, step_us=STEP))

    assert [*chain.from_iterable(runs)] == [us for us in times if us >= START]
    assert all(later[0] - run[-1] != STEP for run, later in pairwise(runs))
