"""A person orders a second effect for a settled occurrence: it has its own key."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import OLD, UNITS, execute, recent

if TYPE_CHECKING:
    from tests.contract.bank import Bank

ORDER: Any = {"reason": "looked at the statement", "actor": "ann"}


def tear(bank: Bank) -> duly.App:
    """An App whose job has torn its occurrence, with its effect landed, and now behaves."""

    def torn(run: duly.Run) -> None:
        raw: Any = run.connection.connection.driver_connection
        if bank.name == "sqlite":
            # Its own close is what SQLite cannot deny; it takes the effect along.
            raw.close()
            return
        execute(raw, "ROLLBACK")
        execute(raw, bank.credit())
        execute(raw, "COMMIT")

    app = bank.define(bank.app(), torn)
    with suppress(duly.DulyError):
        app.run(bank.job, OLD)
    if not bank.settled:  # SQLite found it in time: hold it all the same
        bank.settle("torn")
    assert [s.disposition for s in bank.settled] == ["torn"]
    app.jobs.clear()
    return bank.define(app)


def test_torn_occurrence_may_be_corrected(bank: Bank) -> None:
    """The effect is made under KEY#2, and the torn key is waived in its favour."""
    app = tear(bank)
    before = bank.units
    key = bank.occurrence().key

    result = app.correct(key, **ORDER)

    assert (result.outcome, result.key) == (duly.Outcome.APPLIED, f"{key}#2")
    assert bank.units == before + UNITS
    assert [(s.correction, s.disposition) for s in bank.settled] == [(1, "waived"), (2, "applied")]
    assert (bank.settled[0].actor, bank.settled[0].reason) == ("ann", "looked at the statement")
    (entry,) = app.explain(f"{key}#2").audit
    assert (entry.action, entry.actor) == ("correct", "ann")


def test_correction_by_a_definition_that_was_edited_meanwhile_is_refused(bank: Bank) -> None:
    """Also by a process that ran the job a moment ago, and remembers what it was told then."""
    old = bank.define(bank.app(), schedule="0 0 * * *")
    old.run(bank.job, OLD, off_schedule=True)
    new = bank.define(bank.app(), schedule="0 1 * * *")
    new.register()

    with pytest.raises(duly.DefinitionStale):
        old.correct(bank.occurrence().key, **ORDER)

    assert bank.units == UNITS


def test_correction_ordered_again_is_a_duplicate(bank: Bank) -> None:
    """Its key is fixed by what it corrects: saying it twice makes one effect."""
    app = tear(bank)
    before = bank.units
    key = bank.occurrence().key
    first = app.correct(key, **ORDER)

    again = app.correct(key, **ORDER)

    assert again.outcome is duly.Outcome.DUPLICATE
    assert again.attempt_id == first.attempt_id
    assert bank.units == before + UNITS
    assert len(app.explain(f"{key}#2").audit) == 1


def test_correction_that_fails_changes_nothing(bank: Bank) -> None:
    """The waiver of the torn key and the second effect commit together, or neither does."""
    app = tear(bank)
    before = bank.units
    app.jobs.clear()

    def fail(run: duly.Run) -> None:
        run.execute(bank.credit())
        raise ValueError("not today")

    bank.define(app, fail)
    with pytest.raises(ValueError, match="not today"):
        app.correct(bank.occurrence().key, **ORDER)

    assert [s.disposition for s in bank.settled] == ["torn"]
    assert bank.units == before
    assert app.explain(f"{bank.occurrence().key}#2").audit == ()


@pytest.mark.parametrize("disposition", ["applied", "skipped", "superseded", "waived"])
def test_settled_occurrence_may_be_corrected(bank: Bank, disposition: str) -> None:
    """A second effect for a settled key is deliberate, has its own key, and keeps the first."""
    app = bank.define(bank.app())
    if disposition == "applied":
        app.run(bank.job, OLD)
    else:
        bank.settle(disposition)
    first, before = bank.settled, bank.units

    result = app.correct(bank.occurrence().key, **ORDER)

    assert result.key == f"{bank.occurrence().key}#2"
    assert bank.units == before + UNITS
    assert bank.settled[:1] == first
    assert bank.settled[1][1:3] == (2, "applied")


def test_third_effect_is_ordered_by_naming_the_second(bank: Bank) -> None:
    """`KEY#2` is corrected as `KEY#3`, never by saying KEY again."""
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    key = bank.occurrence().key
    app.correct(key, **ORDER)

    third = app.correct(f"{key}#2", **ORDER)

    assert (third.key, third.outcome) == (f"{key}#3", duly.Outcome.APPLIED)
    assert bank.units == 3 * UNITS


def test_correction_of_what_is_not_settled_is_refused(bank: Bank) -> None:
    """An open key is run, not corrected; nor can a correction skip one."""
    app = bank.define(bank.app())
    key = bank.occurrence().key
    for named in (key, f"{key}#2"):
        with pytest.raises(duly.UsageError, match="not settled"):
            app.correct(named, **ORDER)
    assert (bank.units, bank.settled) == (0, [])


def test_correction_of_a_pruned_occurrence_is_refused(bank: Bank) -> None:
    """Nobody knows any more how it was settled."""
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    app.run(bank.job, recent())
    app.prune(older_than=OLD)

    with pytest.raises(duly.Expired, match="horizon"):
        app.correct(bank.occurrence().key, **ORDER)

    assert bank.units == 2 * UNITS


@pytest.mark.parametrize("change", [{"reason": ""}, {"reason": "  "}, {"actor": ""}])
def test_order_without_who_or_why_is_refused(bank: Bank, change: dict[str, str]) -> None:
    """A person who overrides says who and why."""
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    with pytest.raises(duly.UsageError, match="in a few words"):
        app.correct(bank.occurrence().key, **{**ORDER, **change})
    assert bank.units == UNITS


@pytest.mark.parametrize("named", ["now", "once", "first"])
def test_key_may_bear_any_name_that_the_job_has_or_had(bank: Bank, named: str) -> None:
    """The ledger keeps the first name, and each of the others means it."""
    app = bank.app(name=bank.job)
    names = {"now": f"{bank.job}-now", "once": f"{bank.job}-once", "first": bank.job}

    @app.job(names["now"], formerly=[names["first"], names["once"]])
    def credit(run: duly.Run) -> None:
        run.execute(bank.credit())

    app.run(names["now"], OLD)

    result = app.correct(duly.Occurrence(names[named], OLD).key, **ORDER)

    assert result.key == f"{bank.occurrence().key}#2"
    assert bank.units == 2 * UNITS
