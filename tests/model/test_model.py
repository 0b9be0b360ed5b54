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
from tests.model.outages import IN_A_TICK, Outages
from tests.model.reference import EARLIEST
from tests.model.steps import STEPS_MAX
from tests.model.world import world
from tests.servers.database import Database, DatabaseName

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from tests.servers.server import Server

EXAMPLES = {"sqlite": 120, "postgresql": 8, "mariadb": 8}
EXAMPLES_WITH_RESTARTS = 3


def _drive(
    database: Database,
    examples: int,
    *,
    anew: bool = False,
    machine: type[Machine] = Machine,
) -> Counter[str]:
    """Returns what was done, and how often."""
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

        class Driven(machine):  # type: ignore[misc, valid-type]  # whichever it is
            def __init__(self) -> None:
                super().__init__(made)

        run_state_machine_as_test(Driven, settings=how)
    return made.counted


@pytest.mark.timeout(1200)
def test_jobs_in_any_order_of_events_are_as_the_model_says(database: Database) -> None:
    """Each expected occurrence is settled or missing, and each effect is there once."""
    _drive(database, EXAMPLES[database.name])


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_jobs_in_very_many_orders_of_events_are_as_the_model_says(
    database: Database, record_property: Callable[[str, object], None]
) -> None:
    """The same ten times as long, and by other choices each time."""
    counted = _drive(database, EXAMPLES[database.name] * 10, anew=True)
    for what, times in counted.items():
        record_property(what, times)


@pytest.fixture(params=["postgres_private", "mariadb_private"], ids=["postgresql", "mariadb"])
def restarted(request: pytest.FixtureRequest) -> Database:
    """An empty database on a server of its own."""
    server: Server = request.getfixturevalue(request.param)
    name: DatabaseName = "postgresql" if server.name == "postgresql" else "mariadb"
    return Database(name, server.create_database(), server)


@pytest.mark.timeout(1200)
def test_jobs_on_a_server_that_is_restarted_are_as_the_model_says(restarted: Database) -> None:
    """Whatever a server was doing when it was killed, it comes back with all or nothing of it."""
    counted = _drive(restarted, EXAMPLES_WITH_RESTARTS, machine=Outages)
    assert counted[IN_A_TICK]


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_jobs_on_a_server_that_is_restarted_very_often_are_as_the_model_says(
    restarted: Database, record_property: Callable[[str, object], None]
) -> None:
    """The same ten times as long, and by other choices each time."""
    counted = _drive(restarted, EXAMPLES_WITH_RESTARTS * 10, anew=True, machine=Outages)
    for what, times in counted.items():
        record_property(what, times)
