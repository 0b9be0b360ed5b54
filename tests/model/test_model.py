"""Schedules, edits, catch-up, outages, pauses, prunes and corrections in any order.

A run of `make test` is derandomized: it is red for what changed in the code alone, and a failure
comes back by running its test again. `make torture` chooses anew each time, and so finds more. Its
report lists the shrunk steps: to replay them, call them in that order on a `Machine(world)`, in a
test of their own beside these (`with world(database, EARLIEST) as made: ...`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import Machine
from tests.model.reference import EARLIEST
from tests.model.steps import STEPS_MAX
from tests.model.world import world

if TYPE_CHECKING:
    from tests.servers.database import Database

EXAMPLES = {"sqlite": 120, "postgresql": 8, "mariadb": 8}


def _drive(database: Database, examples: int, *, anew: bool = False) -> None:
    how = settings(
        max_examples=examples,
        stateful_step_count=STEPS_MAX,
        deadline=None,
        derandomize=not anew,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        # Not `explain`: it traces every line, which takes many times as long.
        phases=(Phase.generate, Phase.shrink),
    )
    with world(database, EARLIEST) as made:

        class Driven(Machine):
            def __init__(self) -> None:
                super().__init__(made)

        run_state_machine_as_test(Driven, settings=how)


@pytest.mark.timeout(1200)
def test_jobs_in_any_order_of_events_are_as_the_model_says(database: Database) -> None:
    """Each expected occurrence is settled or missing, and each effect is there once."""
    _drive(database, EXAMPLES[database.name])


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_jobs_in_very_many_orders_of_events_are_as_the_model_says(database: Database) -> None:
    """The same ten times as long, and by other choices each time."""
    _drive(database, EXAMPLES[database.name] * 10, anew=True)
