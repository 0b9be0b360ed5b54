"""Who and why, as a person says them: one rule for every decision, on every database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import duly
from tests.contract.bank import OLD

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank

WHY: Any = {"reason": "the source is down", "actor": "ann"}
MESSAGE = str(uuid4())
DECISIONS: dict[str, Callable[[duly.App, Bank, Any], Any]] = {
    "waive": lambda app, bank, said: app.waive(bank.occurrence().key, **said),
    "waive_missing": lambda app, bank, said: app.waive_missing(
        bank.job, since="2024-01-01", until="2024-03-01", **said
    ),
    "correct": lambda app, bank, said: app.correct(bank.occurrence().key, **said),
    "pause": lambda app, bank, said: app.pause(bank.job, **said),
    "resume": lambda app, bank, said: app.resume(bank.job, **said),
    "retire": lambda app, bank, said: app.retire(bank.job, **said),
    "backfill": lambda app, bank, said: app.backfill(
        bank.job, since="2024-01-01", until="2024-01-02", **said
    ),
    "redrive": lambda app, _bank, said: app.outbox.redrive(MESSAGE, **said),
    "resend": lambda app, _bank, said: app.outbox.resend(MESSAGE, **said),
    "confirm": lambda app, _bank, said: app.outbox.confirm(MESSAGE, **said),
    "abandon": lambda app, _bank, said: app.outbox.abandon(MESSAGE, **said),
    "release_parked": lambda app, _bank, said: app.release_parked("billing", "shop", "1", **said),
    "discard_parked": lambda app, _bank, said: app.discard_parked("billing", "shop", "1", **said),
}
WRONG = {
    "": "is empty",
    " \n ": "is empty",
    "a\x00b": r"control character U\+0000",
    "a\x1b[31mb": r"control character U\+001B",
    "a\nb": "line break",
    "a\u2028b": "line break",
    "a\ud800b": "surrogate",
    None: "is None",
    b"bytes": "a value of type bytes",
    7: "is 7",
}


@pytest.mark.parametrize("decision", DECISIONS)
def test_decision_whose_words_no_record_can_hold_is_refused(bank: Bank, decision: str) -> None:
    """Each is told what is wrong, in one line, before anything is looked at or done."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.register()
    too_long = {"reason": "x" * 2001, "actor": "x" * 201}
    for name in ("reason", "actor"):
        for wrong, why in {**WRONG, too_long[name]: "characters, and at most"}.items():
            if decision == "backfill" and wrong is None:
                continue  # none is needed there
            with pytest.raises(duly.UsageError, match=f"^the {name} .*{why}") as caught:
                DECISIONS[decision](app, bank, {**WHY, name: wrong})
            assert len(str(caught.value).splitlines()) == 1
            str(caught.value).encode()
    assert bank.settled == []
    assert bank.run(f"SELECT 1 FROM duly_audit WHERE job = '{bank.job}'") == []


def test_longest_words_of_any_script_are_kept_as_they_were_said(bank: Bank) -> None:
    """At the bounds, beyond the basic plane, with a no-break space and joiners within words."""
    reason, actor = "raison\xa0: ab\u200ccd " + "💸" * 1985, "👩\u200d💻" + "💸" * 197
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.register()

    app.waive(bank.occurrence().key, reason=f" {reason} ", actor=actor)
    app.pause(bank.job, reason=reason, actor=actor)

    assert len(reason) == 2000
    assert len(actor) == 200
    assert [(s.reason, s.actor) for s in bank.settled] == [(reason, actor)]
    found = bank.run(f"SELECT reason, actor FROM duly_audit WHERE job = '{bank.job}'")
    assert [tuple(row) for row in found] == [(reason, actor)] * 2


@pytest.mark.parametrize("wrong", ["", "a\x00b", "a\ud800b", "a\nb", "x" * 201])
def test_starter_that_no_record_can_hold_is_refused_before_it_starts_anything(
    bank: Bank, wrong: str
) -> None:
    """Where it is said; not by every start, in a driver's words."""
    with pytest.raises(duly.UsageError, match=r"^the started_by "):
        bank.app(started_by=wrong)
    app = bank.define(bank.app())
    with pytest.raises(duly.UsageError, match=r"^the started_by "):
        app.started_by = wrong
    assert app.run(bank.job, OLD).outcome is duly.Outcome.APPLIED
