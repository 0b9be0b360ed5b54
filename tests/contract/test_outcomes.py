"""What every start of an occurrence says and leaves, through every way in."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.payload import canonical
from tests.contract.bank import OLD, UNITS, Bank, execute, recent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.doors import Door, Execute


class EffectFailed(Exception):
    """The effect's own error."""


@contextmanager
def held(bank: Bank) -> Iterator[Any]:
    """A rival's transaction that has claimed the key, made its effect, and not ended."""
    connection = bank.connect()
    if bank.name == "sqlite":
        execute(connection, "BEGIN IMMEDIATE")
    assert duly.claim(connection, bank.occurrence()).is_new
    execute(connection, bank.credit())
    yield connection
    connection.rollback()


@pytest.mark.parametrize("age", ["old", "recent"])
def test_first_start_leaves_effect_and_completion(door: Door, age: str) -> None:
    """An applied occurrence has its effect, its row and the attempt that made it."""
    answer = door.start(at=OLD if age == "old" else recent())

    bank = door.bank
    assert answer.outcome is duly.Outcome.APPLIED
    assert bank.units == UNITS
    assert [(s.disposition, s.attempt_id) for s in bank.settled] == [("applied", answer.attempt_id)]
    assert [(a.outcome, a.id) for a in bank.attempts] == [("applied", answer.attempt_id)]


def test_second_start_is_a_duplicate_that_names_the_first(door: Door) -> None:
    """A duplicate changes nothing and says which attempt applied the key."""
    first = door.start()

    again = door.start()

    assert again.outcome is duly.Outcome.DUPLICATE
    assert (again.key, again.attempt_id) == (first.key, first.attempt_id)
    assert door.bank.units == UNITS
    assert door.bank.outcomes == ["applied"]


def test_e01_start_with_another_payload_is_a_conflict_that_names_both_fingerprints(
    door: Door,
) -> None:
    """The same key with other arguments is refused, never answered with the first result."""
    first = door.start(payload={"units": 10})

    with pytest.raises(duly.PayloadConflict) as caught:
        door.start(payload={"units": 999})

    stored = caught.value.details["stored_fingerprint"]
    given = caught.value.details["given_fingerprint"]
    assert len(stored) == len(given) == 64
    assert stored != given
    assert stored[:16] in str(caught.value)
    assert given[:16] in str(caught.value)
    assert caught.value.details["attempt_id"] == str(first.attempt_id)
    assert door.bank.units == UNITS
    assert len(door.bank.settled) == 1


def test_payload_of_null_takes_no_room_in_the_ledger_and_is_compared_as_any_other(
    door: Door,
) -> None:
    """Its row holds no hash, and one that an earlier version wrote in full means the same."""
    door.start(payload=None)

    in_full = canonical(None).fingerprint.hex()
    of_the_job = f"WHERE job = '{door.bank.job}'"
    ((kept,),) = door.bank.run(f"SELECT fingerprint FROM duly_occurrence {of_the_job}")
    assert not any(bytes(kept))
    with pytest.raises(duly.PayloadConflict) as caught:
        door.start(payload={"units": 10})
    assert caught.value.details["stored_fingerprint"] == in_full
    assert door.start(payload=None).outcome is duly.Outcome.DUPLICATE
    written = f"'\\x{in_full}'" if door.bank.name == "postgresql" else f"x'{in_full}'"
    door.bank.run(f"UPDATE duly_occurrence SET fingerprint = {written} {of_the_job}")
    assert door.start(payload=None).outcome is duly.Outcome.DUPLICATE
    assert door.bank.units == UNITS


@pytest.mark.parametrize("disposition", ["skipped", "superseded", "waived", "torn"])
def test_start_of_key_settled_otherwise_is_refused_with_the_command(
    door: Door, disposition: str
) -> None:
    """Only `applied` makes a duplicate; another disposition is named, with what to do."""
    door.bank.settle(disposition)

    with pytest.raises(duly.AlreadySettled) as caught:
        door.start()

    assert caught.value.details["disposition"] == disposition
    assert disposition in str(caught.value)
    assert f"correct '{door.bank.occurrence().key}' --reason" in str(caught.value)
    assert door.bank.units == 0
    assert [s.disposition for s in door.bank.settled] == [disposition]


def test_start_below_the_horizon_is_expired(door: Door) -> None:
    """A key whose record was pruned never runs again."""
    door.start()
    app = door.bank.app()
    app.prune(older_than=OLD)
    assert door.bank.settled == []

    with pytest.raises(duly.Expired) as caught:
        door.start()

    assert "2024-02-29" in str(caught.value)
    assert door.bank.units == UNITS
    assert door.bank.settled == []


def test_start_just_above_the_horizon_is_applied(door: Door) -> None:
    """The horizon refuses what lies at or below it, and nothing more."""
    door.start()
    door.bank.app().prune(older_than=OLD)

    answer = door.start(at=OLD + timedelta(microseconds=1))

    assert answer.outcome is duly.Outcome.APPLIED
    assert door.bank.units == 2 * UNITS


def test_start_while_a_rival_holds_the_key_is_busy_after_its_wait(door: Door) -> None:
    """A wait ends; nothing was done, and the same start succeeds once the rival is gone."""
    with held(door.bank):
        with pytest.raises(duly.TransientError) as caught:
            door.start(wait=0.3)

        assert door.bank.occurrence().key in str(caught.value)
        assert door.bank.settled == []
    assert door.start().outcome is duly.Outcome.APPLIED
    assert door.bank.units == UNITS


def test_start_that_waited_for_a_rival_is_a_duplicate_of_it(door: Door) -> None:
    """Whoever waited for a commit finds it: no second effect, no driver's error."""
    answers: list[Any] = []

    def start() -> None:
        for _ in range(100):  # SQLite's caller owns its wait
            try:
                answers.append(door.start())
            except duly.TransientError:
                continue
            return

    with held(door.bank) as rival:
        waiter = Thread(target=start)
        if door.bank.name == "sqlite" and "Claim" in type(door).__name__:
            # The driver allows its connection in one thread only.
            rival.commit()
            start()
        else:
            waiter.start()
            door.bank.wait_until_blocked()
            rival.commit()
            waiter.join()

    assert [answer.outcome for answer in answers] == [duly.Outcome.DUPLICATE]
    assert answers[0].attempt_id == door.bank.attempts[0].id
    assert door.bank.units == UNITS


def test_start_that_waited_for_a_rival_that_gave_up_is_applied(door: Door) -> None:
    """A rolled back rival leaves the key to whoever waits for it."""
    answers: list[Any] = []
    with held(door.bank) as rival:
        waiter = Thread(target=lambda: answers.append(door.start()))
        if door.bank.name == "sqlite" and "Claim" in type(door).__name__:
            rival.rollback()
            answers.append(door.start())
        else:
            waiter.start()
            door.bank.wait_until_blocked()
            rival.rollback()
            waiter.join()

    assert [answer.outcome for answer in answers] == [duly.Outcome.APPLIED]
    assert door.bank.units == UNITS


def test_effect_that_fails_leaves_nothing_and_the_key_free(door: Door) -> None:
    """An error comes out unchanged, its effect is undone, and a retry does the work once."""
    error = EffectFailed("no such account")

    def effect(execute: Execute) -> None:
        execute(door.bank.credit())
        raise error

    with pytest.raises(EffectFailed) as caught:
        door.start(effect)

    assert caught.value is error
    assert door.bank.units == 0
    assert door.bank.settled == []
    assert door.start().outcome is duly.Outcome.APPLIED
    assert door.bank.units == UNITS


def test_no_payload_is_the_same_as_null(door: Door) -> None:
    """A start without a payload and one with None are one payload."""
    door.start()
    assert door.start(payload=None).outcome is duly.Outcome.DUPLICATE


def test_e16_partitions_that_look_alike_are_different_keys(door: Door) -> None:
    """Case, accents and trailing spaces make another key on every database."""
    partitions = ["Ä", "ä", "a", "a ", "A", "a\u0308", ""]

    answers = [door.start(partition=partition) for partition in partitions]

    assert {answer.outcome for answer in answers} == {duly.Outcome.APPLIED}
    assert len({answer.key for answer in answers}) == len(partitions)
    assert door.bank.units == UNITS * len(partitions)
    assert sorted(s.partition for s in door.bank.settled) == sorted(partitions)
    for partition in partitions:
        assert door.start(partition=partition).outcome is duly.Outcome.DUPLICATE


def test_e17_key_longer_than_its_column_is_refused(door: Door) -> None:
    """A key that would be cut off is refused, and the longest that fits is kept whole."""
    with pytest.raises(duly.KeyInvalid):
        door.start(partition="ü" * 201)
    assert door.bank.settled == []

    door.start(partition="\U0001f4b0" * 200)
    assert [s.partition for s in door.bank.settled] == ["\U0001f4b0" * 200]


def test_e08_start_long_after_the_first_is_a_duplicate(door: Door) -> None:
    """How much later another host starts the same occurrence makes no difference."""
    door.start()
    # As if it had been applied a year before it was started again.
    for table in ("duly_occurrence SET recorded_us = 1", "duly_attempt SET finished_us = 1"):
        door.bank.run(f"UPDATE {table} WHERE job = '{door.bank.job}'")
    assert door.start().outcome is duly.Outcome.DUPLICATE
    assert door.bank.units == UNITS
