"""Random SIGKILLs over a long run: as many effects as occurrences, to the last one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.torture import marathon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.faults.victims import Victims
    from tests.servers.database import Database

CONTROL_KILLS_MAX = 120


def _size(pieces: int, kills: int, *marks: Any) -> Any:
    return pytest.param(pieces, kills, id=f"{pieces}-{kills}", marks=marks)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("pieces", "kills"), [_size(300, 6), _size(2000, 20, pytest.mark.torture)])
def test_killed_again_and_again_each_occurrence_has_one_effect(
    database: Database,
    pieces: int,
    kills: int,
    victims: Victims,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Not one less, not one more, wherever the kills fell; each resend said what it met."""
    marathon.prepare(database.url)
    seed = random.randrange(2**32)

    race = marathon.run(
        database.url,
        victims,
        tmp_path / "answers",
        pieces=pieces,
        kills=kills,
        seed=seed,
        has_key=True,
    )

    record_property("kills", race.kills)
    record_property("kills between commit and acknowledgement", race.unanswered)
    assert race.kills == kills, f"seed {seed}"
    units = marathon.ask(database.url, "SELECT units FROM balance WHERE id = 1")
    settled = marathon.ask(
        database.url,
        "SELECT count(*) FROM duly_occurrence AS o JOIN duly_attempt AS a ON a.job = o.job"
        " AND a.nominal_us = o.nominal_us AND a.id = o.attempt_id AND a.outcome = o.disposition"
        " WHERE o.disposition = 'applied'",
    )
    applied = marathon.ask(
        database.url, "SELECT count(*) FROM duly_attempt WHERE outcome = 'applied'"
    )
    assert (units, settled, applied) == (pieces, pieces, pieces), f"seed {seed}"


@pytest.mark.timeout(600)
def test_killed_again_and_again_without_a_key_the_effect_is_doubled(
    database: Database,
    victims: Victims,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """The control: the same kills, the same resends, no key. The kills do bite."""
    marathon.prepare(database.url)
    pieces = kills = 0
    units = 0
    while units <= pieces:
        assert kills < CONTROL_KILLS_MAX, "no kill fell between a commit and its acknowledgement"
        race = marathon.run(
            database.url,
            victims,
            tmp_path / "answers",
            pieces=60,
            kills=6,
            seed=random.randrange(2**32),
            has_key=False,
        )
        pieces += 60
        kills += race.kills
        units = marathon.ask(database.url, "SELECT units FROM balance WHERE id = 1")

    record_property("kills", kills)
    record_property("doubled effects", units - pieces)
    assert units > pieces
