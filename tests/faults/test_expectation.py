"""A process that dies while it tells the ledger what is expected, skips, or marks complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.races.bank import Bank
from tests.races.beats import BEAT, MINUTE, Beats, outcomes, settled

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duly
    from tests.faults.victims import Victims
    from tests.servers.database import Database

SIGKILLED = -9
PLACES = ("before", "after", "before commit", "after commit")


@pytest.fixture
def bank(database: Database) -> Iterator[Bank]:
    """A database of this test's own."""
    made = Bank.found(database.name, database.url)
    yield made
    made.close()


def _die(victims: Victims, bank: Bank, beats: Beats, **order: Any) -> None:
    order = {"schedule": "* * * * *", **order}
    status = victims.kill_one(
        "tests.faults.victims:act_and_die",
        name=bank.name,
        url=bank.url,
        beats=beats.tell(),
        **order,
    )
    assert status == SIGKILLED


def _told(bank: Bank) -> tuple[list[int], list[int], str | None]:
    """The revisions and slots of the job, and how far it is complete."""
    revisions = bank.rows(f"SELECT revision FROM duly_job_revision WHERE job = '{BEAT}'")
    slots = bank.rows(f"SELECT slot FROM duly_slot WHERE job = '{BEAT}'")
    complete = bank.rows(f"SELECT complete_us FROM duly_job WHERE name = '{BEAT}'")
    found = complete[0][0] if complete else None
    return sorted(row[0] for row in revisions), sorted(row[0] for row in slots), found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "statement",
    [
        "add_revision",
        "add_slot",
        *(pytest.param(each, marks=pytest.mark.torture) for each in ("add_job", "unmark_complete")),
    ],
)
def test_death_while_a_revision_is_written_leaves_all_of_it_or_nothing(
    bank: Bank, victims: Victims, statement: str, place: str
) -> None:
    beats = Beats.of(3)
    beats.app(bank)
    before = _told(bank)
    assert before[:2] == ([1], [1])
    _die(
        victims,
        bank,
        beats,
        act="register",
        schedule="*/2 * * * *",
        max_running=3,
        statement=statement,
        place=place,
    )
    whole = ([1, 2], [1, 2, 3])
    assert _told(bank)[:2] == (whole if place == "after commit" else before[:2])
    edited = beats.app(bank, schedule="*/2 * * * *", max_running=3)
    assert _told(bank)[:2] == whole
    assert edited.register() == ([], {})
    assert outcomes(edited.tick(beats.now)) == ["applied"] * 3


@pytest.mark.parametrize("place", PLACES)
def test_death_while_a_tick_skips_settles_the_batch_or_nothing(
    bank: Bank, victims: Victims, place: str
) -> None:
    beats = Beats.of(8)
    policies = {"catch_up": "skip", "skip_minutes": 3}
    app = beats.app(bank, **Beats.policies(policies))
    _die(victims, bank, beats, act="tick", statement="settle", place=place, **policies)
    old = [key for key, at in zip(beats.keys, beats.times, strict=True) if _is_old(beats, at)]
    landed = dict.fromkeys(old, "skipped") if place == "after commit" else {}
    assert settled(bank) == landed
    report = app.tick(beats.now)
    assert [job.skipped for job in report.jobs] == [0 if landed else len(old)]
    young = [key for key in beats.keys if key not in old]
    assert settled(bank) == dict.fromkeys(old, "skipped") | dict.fromkeys(young, "applied")
    assert bank.effects() == dict.fromkeys(young, 1)


def _is_old(beats: Beats, at: Any) -> bool:
    return bool(beats.now - at > 3 * MINUTE)


@pytest.mark.parametrize("place", PLACES)
def test_death_while_a_job_is_marked_complete_loses_nothing(
    bank: Bank, victims: Victims, place: str
) -> None:
    """What is settled is settled; the mark only saves the next tick from looking."""
    beats = Beats.of(4)
    app = beats.app(bank)
    before = _told(bank)
    _die(victims, bank, beats, act="tick", statement="mark_complete", place=place)
    assert settled(bank) == dict.fromkeys(beats.keys, "applied")
    marked = _told(bank)[2]
    assert (marked == before[2]) is (place != "after commit")
    _nothing_more(bank, beats, app)


def _nothing_more(bank: Bank, beats: Beats, app: duly.App) -> None:
    assert app.tick(beats.now).jobs == []
    assert outcomes(app.tick(beats.now + MINUTE)) == ["applied"]
    newest = app.occurrence(BEAT, beats.times[-1] + MINUTE).key
    assert bank.effects() == dict.fromkeys([*beats.keys, newest], 1)
