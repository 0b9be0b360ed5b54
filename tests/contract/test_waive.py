"""A person settles an occurrence without its effect: a torn one, or a missing one."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._core.instants import to_us
from duly._core.ops import Order
from duly._sync import waiving
from tests.contract.bank import OLD, UNITS, recent
from tests.contract.test_correct import ORDER, tear
from tests.races.steps import start

if TYPE_CHECKING:
    from tests.contract.bank import Bank

HOUR = timedelta(hours=1)


def test_torn_occurrence_may_be_waived(bank: Bank) -> None:
    """A person who saw the effect settles the key, with who and why; nothing runs again."""
    app = tear(bank)
    before = bank.units
    key = bank.occurrence().key

    app.waive(key, **ORDER)

    (settled,) = bank.settled
    assert (settled.disposition, settled.actor, settled.reason) == (
        "waived", "ann", "looked at the statement",
    )  # fmt: skip
    (entry,) = app.explain(key).audit
    assert (entry.action, entry.actor, entry.reason) == ("waive", "ann", "looked at the statement")
    with pytest.raises(duly.AlreadySettled, match="waived"):
        app.run(bank.job, OLD)
    assert bank.units == before


def test_missing_occurrence_may_be_waived(bank: Bank) -> None:
    """It is settled with who and why, is missing no more, and does not run."""
    at = recent()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=at)
    app.register()
    key = bank.occurrence(at).key

    app.waive(key, **ORDER)

    (settled,) = bank.settled
    assert settled[2:] == ("waived", None, ORDER["reason"], "ann")
    assert [(e.action, e.actor) for e in app.explain(key).audit] == [("waive", "ann")]
    with pytest.raises(duly.AlreadySettled, match="duly correct"):
        app.run(bank.job, at)
    app.tick()
    assert bank.units in {0, UNITS}, "only what fell due meanwhile"
    assert bank.settled[0] == settled


def test_occurrence_before_the_start_of_a_job_may_be_waived_from_the_ledger_alone(
    bank: Bank,
) -> None:
    """Any nominal time that has passed, of a job that the ledger knows; no code is needed."""
    bank.define(bank.app(), schedule="0 * * * *").register()
    app = bank.app()

    app.waive(bank.occurrence(partition="north").key, **ORDER)

    assert [(s.partition, s.disposition) for s in bank.settled] == [("north", "waived")]


def test_waiver_of_a_failed_occurrence_ends_its_retries(bank: Bank) -> None:
    """A person gives up what cannot be made to work."""
    at = recent()

    def fail(run: duly.Run) -> None:
        raise ValueError("no")

    app = bank.define(bank.app(), fail, schedule="0 * * * *", starts=at)
    app.register()
    with pytest.raises(ValueError, match="no"):
        app.run(bank.job, at)

    app.waive(bank.occurrence(at).key, **ORDER)

    later = at + timedelta(minutes=59, days=0)
    assert [r.key for j in app.tick(later).jobs for r in j.ran] == []
    assert bank.outcomes == ["failed"]


@pytest.mark.parametrize("disposition", ["applied", "skipped", "superseded", "waived"])
def test_waiver_of_what_is_settled_is_refused(bank: Bank, disposition: str) -> None:
    """An effect is not undone by a word, and a decision stands."""
    app = bank.define(bank.app())
    if disposition == "applied":
        app.run(bank.job, OLD)
    else:
        bank.settle(disposition)
    before = bank.settled

    with pytest.raises(duly.AlreadySettled, match=f"settled as {disposition}") as caught:
        app.waive(bank.occurrence().key, **ORDER)

    assert caught.value.details["disposition"] == disposition
    assert bank.settled == before
    assert app.explain(bank.occurrence().key).audit == ()


def test_waiver_of_what_is_to_come_is_refused(bank: Bank) -> None:
    """It would use up a key that nobody misses yet."""
    app = bank.define(bank.app(), schedule="0 0 * * *")
    app.register()
    soon = (datetime.now(UTC) + timedelta(days=2)).replace(
        hour=0, minute=0, second=0, microsecond=0
    )

    with pytest.raises(duly.NotDue, match="only what was due can be waived"):
        app.waive(bank.occurrence(soon).key, **ORDER)

    assert bank.settled == []


def test_waiver_of_a_period_that_is_not_due_yet_is_refused(bank: Bank) -> None:
    """With `period=` the nominal time has passed long before the occurrence is due."""
    app = bank.define(bank.app(), schedule="0 0 1 1 *", period="year", period_offset=-1)
    app.register()
    year = datetime.now(UTC).replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)

    with pytest.raises(duly.NotDue, match=f"due at {year.year + 1}-01-01"):
        app.waive(bank.occurrence(year).key, **ORDER)

    app.waive(bank.occurrence(year.replace(year=year.year - 1)).key, **ORDER)
    assert len(bank.settled) == 1


def test_waiver_below_the_horizon_is_refused(bank: Bank) -> None:
    """What was pruned was settled once; nobody knows how."""
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    app.run(bank.job, recent())
    app.prune(older_than=OLD + HOUR)

    for at in (OLD, OLD + HOUR):
        with pytest.raises(duly.Expired, match="horizon"):
            app.waive(bank.occurrence(at).key, **ORDER)
    app.waive(bank.occurrence(OLD + 2 * HOUR).key, **ORDER)

    assert [s.disposition for s in bank.settled] == ["waived", "applied"]


@pytest.mark.parametrize("settled", [False, True])
def test_waiver_of_a_correction_that_is_not_there_is_refused(bank: Bank, settled: bool) -> None:
    """Nothing expects a correction, so none is missing; nor does it mean what it corrects."""
    app = bank.define(bank.app())
    if settled:
        app.run(bank.job, OLD)
    else:
        app.run(bank.job, recent())
    before = bank.settled
    with pytest.raises(duly.UsageError, match="nothing expects a correction"):
        app.waive(f"{bank.occurrence().key}#2", **ORDER)
    assert bank.settled == before


def test_missing_partitions_are_waived_by_a_span(bank: Bank) -> None:
    """Each part of an occurrence that was not settled; also where no tick planned it yet."""
    first = recent() - 3 * HOUR
    app = bank.define(bank.app(), schedule="0 * * * *", starts=first, partitions=["north", "south"])
    app.register()
    app.run(bank.job, first, partition="north")

    assert app.waive_missing(bank.job, since=first, until=first + 2 * HOUR, **ORDER) == 3

    assert [(s.partition, s.disposition) for s in bank.settled if s.partition] == [
        ("north", "applied"), ("south", "waived"), ("north", "waived"), ("south", "waived"),
    ]  # fmt: skip


def test_waiver_of_an_unknown_job_is_refused_with_the_nearest_names(bank: Bank) -> None:
    """A typing error would settle what nobody asks for."""
    bank.define(bank.app(), schedule="0 * * * *").register()
    with pytest.raises(duly.UnknownJob, match=f"'{bank.job}'"):
        bank.app().waive(duly.Occurrence(f"{bank.job}x", OLD).key, **ORDER)


@pytest.mark.parametrize("change", [{"reason": ""}, {"reason": " \n"}, {"actor": ""}])
def test_waiver_without_who_or_why_is_refused(bank: Bank, change: dict[str, str]) -> None:
    app = bank.define(bank.app())
    with pytest.raises(duly.UsageError, match="in a few words"):
        app.waive(bank.occurrence().key, **{**ORDER, **change})
    assert bank.settled == []


@pytest.mark.parametrize("ending", ["applied", "failed"])
def test_waiver_waits_for_an_attempt_under_way(bank: Bank, ending: str) -> None:
    """The attempt decides: its effect is never waived away, its failure is."""
    inside, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        inside.set()
        assert go_on.wait(30)
        if ending == "failed":
            raise ValueError("no")

    app = bank.define(bank.app(), handler)
    running = start(app.run, bank.job, OLD)
    assert inside.wait(30)
    waiver = start(bank.define(bank.app()).waive, bank.occurrence().key, **ORDER)
    bank.wait_until_blocked()
    assert not waiver.done()
    go_on.set()

    if ending == "applied":
        assert running.result(30).outcome is duly.Outcome.APPLIED
        with pytest.raises(duly.AlreadySettled, match="applied"):
            waiver.result(30)
        assert bank.units == UNITS
    else:
        with pytest.raises(ValueError, match="no"):
            running.result(30)
        waiver.result(30)
        assert bank.units == 0
    assert [s.disposition for s in bank.settled] == ["applied" if ending == "applied" else "waived"]


def test_waiver_of_what_stays_under_way_is_busy(bank: Bank) -> None:
    """Its wait is bounded, and nothing is decided."""
    inside, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        inside.set()
        assert go_on.wait(30)

    app = bank.define(bank.app(), handler)
    running = start(app.run, bank.job, OLD)
    assert inside.wait(30)

    with pytest.raises(duly.Busy, match="stayed busy"):
        waiving.waive(app.database, None, bank.occurrence(), Order("ann", "why"), wait_s=0.1)

    go_on.set()
    assert running.result(30).outcome is duly.Outcome.APPLIED


def test_many_missing_are_waived_by_a_span(bank: Bank) -> None:
    """Each gets its row and its audit; what is settled stays, what lies outside is missing."""
    first = recent() - 10 * HOUR
    app = bank.define(bank.app(), schedule="0 * * * *", starts=first)
    app.register()
    app.run(bank.job, first + 3 * HOUR)
    span: Any = {"since": first + HOUR, "until": first + 6 * HOUR}

    assert app.waive_missing(bank.job, **span, **ORDER, dry_run=True) == 4
    assert len(bank.settled) == 1
    assert app.waive_missing(bank.job, **span, **ORDER) == 4
    assert app.waive_missing(bank.job, **span, **ORDER) == 0

    assert [s.disposition for s in bank.settled] == [
        "waived", "waived", "applied", "waived", "waived",
    ]  # fmt: skip
    key = bank.occurrence(first + 5 * HOUR).key
    assert [e.action for e in app.explain(key).audit] == ["waive"]
    assert app.explain(bank.occurrence(first + 6 * HOUR).key).settled is None


def test_span_that_ends_before_it_begins_is_refused(bank: Bank) -> None:
    app = bank.define(bank.app(), schedule="0 * * * *")
    app.register()
    with pytest.raises(duly.NominalTimeInvalid, match="is after until"):
        app.waive_missing(bank.job, since="2026-02-02", until="2026-02-01", **ORDER)


def test_waiver_of_what_the_schedule_does_not_name_is_refused(bank: Bank) -> None:
    """A slip in the key settles nothing, and the message has the keys next to it."""
    app = bank.define(bank.app(), schedule="0 * * * *", starts=recent() - HOUR)
    app.register()
    slip = recent() - timedelta(minutes=55)
    near = [bank.occurrence(at).key for at in (recent() - HOUR, recent())]

    with pytest.raises(duly.errors.OffSchedule, match=" and ".join(near)):
        app.waive(bank.occurrence(slip).key, **ORDER)

    assert bank.settled == []
    assert app.explain(bank.occurrence(slip).key).audit == ()


def test_occurrence_that_was_started_off_schedule_may_be_waived(bank: Bank) -> None:
    """A person who started it by name, and saw it fail, may give it up."""

    def fail(run: duly.Run) -> None:
        raise ValueError("no")

    app = bank.define(bank.app(), fail, schedule="0 * * * *", starts=recent())
    at = recent() - timedelta(minutes=55)
    with pytest.raises(ValueError, match="no"):
        app.run(bank.job, at, off_schedule=True)

    app.waive(bank.occurrence(at).key, **ORDER)

    assert [s.disposition for s in bank.settled] == ["waived"]


@pytest.mark.parametrize("from_ledger", [False, True], ids=["with code", "from the ledger"])
@pytest.mark.parametrize("slip", ["starts", "ends", "retired"])
def test_waiver_outside_a_jobs_time_is_refused(bank: Bank, slip: str, from_ledger: bool) -> None:
    """Nothing was ever to run there, so a waiver there is a slip; what was missing stays so."""
    starts = recent() - 9 * HOUR
    ends: dict[str, Any] = {"ends": starts + 3 * HOUR} if slip == "ends" else {}
    app = bank.define(bank.app(), schedule="0 * * * *", starts=starts, **ends)
    app.register()
    at = {"starts": starts - HOUR, "ends": starts + 3 * HOUR, "retired": recent()}[slip]
    if slip == "retired":
        app.retire(bank.job, **ORDER)
        bank.run(
            f"UPDATE duly_job_revision SET effective_us = {to_us(at)}"
            f" WHERE job = '{bank.job}' AND revision = 2"
        )
    said = "was retired at" if slip == "retired" else f"has {slip}="

    with pytest.raises(duly.OffSchedule, match=rf"nothing expects .* {said}.*duly missing"):
        (bank.app() if from_ledger else app).waive(bank.occurrence(at).key, **ORDER)

    assert bank.settled == []
    inside = starts + 2 * HOUR
    bank.app().waive(bank.occurrence(inside).key, **ORDER)
    assert [s.disposition for s in bank.settled] == ["waived"]


def test_waiver_names_no_time_outside_as_the_nearest(bank: Bank) -> None:
    """A next step that would be refused is none."""
    starts = recent() - timedelta(minutes=58)
    app = bank.define(bank.app(), schedule="0 * * * *", starts=starts)
    app.register()
    slip = bank.occurrence(recent() - timedelta(minutes=55)).key

    with pytest.raises(duly.OffSchedule) as caught:
        app.waive(slip, **ORDER)

    assert str(caught.value).endswith(f"the nearest are {bank.occurrence(recent()).key}")


def test_occurrence_outside_a_jobs_time_that_was_started_may_be_waived(bank: Bank) -> None:
    """A backfill goes back before `starts=`; what failed there may be given up."""

    def fail(run: duly.Run) -> None:
        raise ValueError("no")

    app = bank.define(bank.app(), fail, schedule="0 * * * *", starts=recent())
    with pytest.raises(ValueError, match="no"):
        app.run(bank.job, recent() - HOUR)

    app.waive(bank.occurrence(recent() - HOUR).key, **ORDER)

    assert [s.disposition for s in bank.settled] == ["waived"]


@pytest.mark.parametrize(
    ("declared", "given", "step"),
    [
        (["north", "south"], "nroth", "'north', 'south', so name one"),
        (["north", "south"], "", "the whole occurrence is none of its partitions"),
        ("SELECT 'north'", "south", "'north', so name one"),
        ("SELECT 'north' WHERE 1 = 0", "north", "gave none"),
        ("SELECT nothing FROM nowhere", "north", "its query for partitions fails"),
        (None, "north", "declares none, so leave"),
    ],
    ids=["slip", "whole", "query", "empty", "broken", "none declared"],
)
@pytest.mark.parametrize("fixed", [False, True], ids=["not planned", "planned"])
def test_waiver_of_a_part_that_a_job_does_not_have_is_refused(
    bank: Bank, declared: Any, given: str, step: str, fixed: bool
) -> None:
    """A slip in the partition settles nothing, and the message has those that there are."""
    at = recent()
    app = bank.define(bank.app(), schedule="0 * * * *", starts=at, partitions=declared)
    app.register()
    if fixed and isinstance(declared, list):
        app.tick()
        bank.run(f"DELETE FROM duly_occurrence WHERE job = '{bank.job}'")
        bank.run(f"DELETE FROM duly_attempt WHERE job = '{bank.job}'")
        app = bank.app()  # the ledger knows its parts now

    with pytest.raises(duly.PartitionsInvalid, match=step):
        app.waive(bank.occurrence(at, partition=given).key, **ORDER)

    assert bank.settled == []


def test_torn_part_may_be_waived_whatever_its_job_declares_by_now(bank: Bank) -> None:
    """A query that fails must not keep a key held."""
    app = bank.define(
        bank.app(), schedule="0 * * * *", starts=recent(), partitions="SELECT nothing FROM nowhere"
    )
    app.register()
    bank.settle("torn", at=recent(), partition="north")

    app.waive(bank.occurrence(recent(), partition="north").key, **ORDER)

    assert [s.disposition for s in bank.settled] == ["waived"]
