"""A handler that ends duly's transaction while it covers older periods."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.ops import HoldTorn
from tests.races.beats import BEAT, Beats, outcomes, problems, settled

if TYPE_CHECKING:
    from tests.races.bank import Bank

RECONCILE: dict[str, Any] = {
    "catch_up": "reconcile",
    "retry": duly.Retry(first=timedelta(0)),
}
WHY: dict[str, Any] = {"reason": "looked at the data", "actor": "ann"}


class Ending:
    """A handler that makes its effect and ends the transaction, but only once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.covers: list[str] = []

    def __call__(self, run: duly.Run) -> None:
        run.execute("INSERT INTO effect (occurrence) VALUES (:key)", {"key": run.key})
        self.covers = [each.key for each in run.covers]
        if self._text:
            text, self._text = self._text, ""
            driver: Any = run.connection.connection.driver_connection
            driver.cursor().execute(text)


def test_commit_by_a_covering_run_lands_nothing(bank: Bank) -> None:
    """PostgreSQL's deferred key and SQLite's authorizer refuse it; the next tick does it all."""
    if bank.name == "mariadb":
        pytest.skip("MariaDB obeys")
    beats, handler = Beats.of(5), Ending("COMMIT")
    app = beats.app(bank, handler, **RECONCILE)
    report = app.tick(beats.now)
    assert outcomes(report) == ["failed"]
    assert (bank.effects(), settled(bank)) == ({}, {})
    later = Beats(beats.first, 8)  # the failure was now, and is tried again after it
    assert outcomes(app.tick(later.now)) == ["applied"]
    assert handler.covers == later.keys
    assert bank.effects() == {later.keys[-1]: 1}
    assert set(settled(bank)) == set(later.keys)


def test_ddl_of_a_covering_run_tears_what_it_covered(bank: Bank) -> None:
    """MariaDB commits before DDL: the whole of it is held until a person looked at each."""
    if bank.name != "mariadb":
        pytest.skip("elsewhere DDL is part of the transaction")
    beats = Beats.of(5)
    app = _torn_by_ddl(bank, beats)
    report = app.tick(beats.now)
    assert outcomes(report) == ["torn"]
    assert [type(each) for each in problems(report)] == [duly.TransactionEnded]
    assert settled(bank) == dict.fromkeys(beats.keys, "torn")
    _settle_by_hand(bank, beats, app)


def test_covering_run_that_died_after_its_ddl_is_torn_with_what_it_covered(bank: Bank) -> None:
    """Nobody lived to hold the keys: a decision about the newest tears the older ones."""
    if bank.name != "mariadb":
        pytest.skip("elsewhere DDL is part of the transaction")
    beats = Beats.of(5)
    app = _torn_by_ddl(bank, beats)

    def die(when: str, op: Any, _shell: Any) -> None:
        if (when, type(op)) == ("before", HoldTorn):
            raise Died

    app._probe = die
    with pytest.raises((Died, duly.TransactionEnded)):
        app.tick(beats.now)
    bank.change("UPDATE duly_occurrence SET disposition = 'superseded' WHERE disposition = 'torn'")
    newest = duly.Occurrence.parse(beats.keys[-1])
    bank.change(
        f"UPDATE duly_occurrence SET disposition = 'applied' WHERE nominal_us = {newest.nominal_us}"
    )
    app._probe = None
    with pytest.raises(duly.AlreadySettled, match="torn"):
        app.run(BEAT, newest.nominal_time)
    app.waive(beats.keys[-1], **WHY)
    assert settled(bank) == dict.fromkeys(beats.keys, "torn") | {beats.keys[-1]: "waived"}


class Died(BaseException):
    """The process is gone, as far as the attempt can tell."""


def _torn_by_ddl(bank: Bank, beats: Beats) -> duly.App:
    handler = Ending("BEGIN NOT ATOMIC CREATE TABLE late (id INTEGER); END")
    return beats.app(bank, handler, **RECONCILE)


def _settle_by_hand(bank: Bank, beats: Beats, app: duly.App) -> None:
    landed = bank.effects()
    assert landed == {beats.keys[-1]: 1}
    for key in beats.keys:
        with pytest.raises(duly.AlreadySettled, match="torn"):
            app.run(BEAT, duly.Occurrence.parse(key).nominal_time)
    assert app.tick(beats.now).jobs == []
    for key in beats.keys[:-1]:
        app.waive(key, **WHY)
    app.correct(beats.keys[-1], **WHY)
    ways = settled(bank)
    assert {ways[key] for key in beats.keys} == {"waived"}
    assert bank.effects() == landed | {f"{beats.keys[-1]}#2": 1}
