"""Hosts that tell the ledger of their jobs at the same moment."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._db import expectation
from duly._sync import planning, registry, ticking
from tests.races.bank import OLD, credit, key_at, recent
from tests.races.beats import BEAT, MINUTE, Beats, held, outcomes, problems, settled
from tests.races.steps import BOUND_S, LockWatch, Stops, start, wait_for, wait_until_reached

if TYPE_CHECKING:
    from duly._core.revision import Revision
    from tests.races.bank import Bank

HOSTS = 4
SECOND = timedelta(seconds=1)


def _defining(bank: Bank, beats: Beats, **policies: Any) -> duly.App:
    app = bank.app()
    settings: dict[str, Any] = {"schedule": "* * * * *", "starts": beats.first, **policies}
    app.job(BEAT, **settings)(credit)
    return app


def _together(apps: list[duly.App], monkeypatch: pytest.MonkeyPatch) -> list[list[Revision]]:
    """Let each read the ledger before any of them writes; what each wrote of the job."""
    decided = threading.Barrier(len(apps))
    inner = expectation.add_revision
    waited: set[int] = set()

    def add(session: Any, revision: Revision, by: str) -> None:
        if revision.job == BEAT and threading.get_ident() not in waited:
            waited.add(threading.get_ident())
            decided.wait(BOUND_S)
        inner(session, revision, by)

    # On SQLite the one writer is already inside when it comes here.
    if apps[0].database.path is None:
        monkeypatch.setattr(expectation, "add_revision", add)
    futures = [start(app.register) for app in apps]
    found = []
    for future in futures:
        written, refused = future.result(BOUND_S)
        assert refused == {}
        found.append([each for each in written if each.job == BEAT])
    return found


def _revisions(bank: Bank) -> list[tuple[Any, ...]]:
    return list(
        bank.rows(
            "SELECT revision, effective_us, digest FROM duly_job_revision"
            f" WHERE job = '{BEAT}' ORDER BY revision"
        )
    )


@pytest.mark.parametrize("known", [False, True], ids=["first", "edit"])
def test_equal_definitions_make_one_revision(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    beats = Beats.of(2)
    if known:
        _defining(bank, beats).register()
    apps = [_defining(bank, beats, max_running=3) for _ in range(HOSTS)]
    written = _together(apps, monkeypatch)
    assert sorted(len(each) for each in written) == [0] * (HOSTS - 1) + [1]
    assert [row[0] for row in _revisions(bank)] == ([1, 2] if known else [1])
    assert bank.value(f"SELECT COUNT(*) FROM duly_slot WHERE job = '{BEAT}'") == 3


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_definitions_at_a_strict_level_are_all_recorded(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    """Who loses the race for the job's row there decides again, as who loses it for the number."""
    if bank.name == "sqlite":
        pytest.skip("it has one level")
    beats = Beats.of(2)
    _defining(bank, beats).register()
    apps = []
    for number in range(HOSTS):
        app = bank.app(level=level)
        app.job(BEAT, schedule="* * * * *", starts=beats.first, max_running=2 + number)(credit)
        apps.append(app)
    written = _together(apps, monkeypatch)
    assert [len(each) for each in written] == [1] * HOSTS
    assert [row[0] for row in _revisions(bank)] == list(range(1, HOSTS + 2))


@pytest.mark.parametrize("known", [False, True], ids=["first", "edit"])
def test_different_definitions_make_a_revision_each(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Numbers without a gap, each in force later than the one before, none half written."""
    beats = Beats.of(2)
    if known:
        _defining(bank, beats).register()
    apps = [_defining(bank, beats, max_running=2 + number) for number in range(HOSTS)]
    written = _together(apps, monkeypatch)
    assert [len(each) for each in written] == [1] * HOSTS
    found = _revisions(bank)
    assert [row[0] for row in found] == list(range(1, HOSTS + known + 1))
    assert len({row[2] for row in found}) == len(found)
    effective = [row[1] for row in found]
    assert effective == sorted(set(effective))
    slots = bank.value(f"SELECT COUNT(*) FROM duly_slot WHERE job = '{BEAT}'")
    assert slots == HOSTS + 1
    last = next(
        app for app, each in zip(apps, written, strict=True) if each[0].number == found[-1][0]
    )
    assert last.tick(beats.now).jobs[0].refused is None
    stale = [app for app in apps if app is not last]
    for app in stale:
        refused = app.register()[1]
        assert isinstance(refused[BEAT], duly.DefinitionStale)


# ------------------------------------------------------------------------------- beside a tick


def test_revision_made_while_a_tick_runs_leaves_each_occurrence_one_effect(bank: Bank) -> None:
    """The tick goes on by its plan; from then on the new schedule counts, and the past stays."""
    beats = Beats.of(5)
    payloads: dict[str, Any] = {}

    def note(run: duly.Run) -> None:
        credit(run)
        payloads[run.key] = run.payload

    app = beats.app(bank, note, payload=1)
    stops = Stops()
    stop = stops.at("before CallHandler")
    app._probe = stops
    tick = start(app.tick, beats.now)
    assert wait_until_reached(stop, tick)
    edited = bank.app()
    edited.job(BEAT, schedule="*/2 * * * *", starts=beats.first, payload=2)(note)
    registered = start(edited.register)
    if bank.name != "sqlite":  # there it waits for the one writer
        registered.result(BOUND_S)
    stop.go()
    assert outcomes(tick.result(BOUND_S)) == ["applied"] * 5
    written, refused = registered.result(BOUND_S)
    assert refused == {}
    (revision,) = [each for each in written if each.job == BEAT]
    assert revision.number == 2

    assert edited.tick(beats.now).jobs == []
    stale = app.tick(beats.now)
    assert [type(job.refused) for job in stale.jobs] == [duly.DefinitionStale]
    assert bank.effects() == dict.fromkeys(beats.keys, 1)
    assert payloads == dict.fromkeys(beats.keys, 1)
    later = recent(0) + 9 * MINUTE
    edited.tick(later)
    after = {key: n for key, n in bank.effects().items() if key not in beats.keys}
    expected = {}
    for number in range(1, 30):
        at = beats.times[-1] + number * MINUTE
        if at < revision.effective_at or (at.minute % 2 == 0 and at <= later):
            expected[key_at(at, BEAT)] = 1 if at < revision.effective_at else 2
    assert after == dict.fromkeys(expected, 1)
    assert {key: payloads[key] for key in after} == expected
    assert set(expected.values()) == {1, 2}


@pytest.mark.parametrize("written", ["before the mark", "during the mark", "after the mark"])
def test_revision_decided_before_a_tick_and_written_later_is_not_lost(
    bank: Bank, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    """The tick finds all complete by the old schedule; the new one counts from before that on."""
    if (bank.name, written) == ("sqlite", "after the mark"):
        pytest.skip("SQLite has one writer, and the revision's is at work")
    job = "often"
    monkeypatch.setattr(ticking, "COMPLETE_EVERY", 1)
    app, edited = bank.app(), bank.app()
    app.job(job, schedule=duly.Every(SECOND, anchor=OLD))(credit)
    app.register()
    # Half a second before whatever the old one finds complete.
    edited.job(job, schedule=duly.Every(SECOND, anchor=OLD + SECOND / 2))(credit)
    uncommitted = written == "during the mark"
    with (
        held(expectation, "add_revision", after=uncommitted) as writing,
        held(planning, "plan", after=True) as planned,
    ):
        registered = start(edited.register)
        writing.wait()  # its clock is read
        _let_pass(bank, 2_100_000)
        tick = start(app.tick)
        planned.wait()
        if written == "before the mark":
            writing.go()
            registered.result(BOUND_S)
        planned.go()
        if uncommitted and bank.name != "sqlite":
            LockWatch(bank).wait_until_waiting(1, tick)
        if not uncommitted:
            report = tick.result(BOUND_S)
        writing.go()
        report = tick.result(BOUND_S)
        revisions, refused = registered.result(BOUND_S)
    assert (refused, problems(report)) == ({}, [])
    (revision,) = [each for each in revisions if each.job == job]
    assert revision.effective_at < report.at
    edited.tick(report.at)
    with edited.database.session() as session:
        known = registry.read(session, job)
    assert known is not None
    due = list(known.expected.due_between(revision.effective_at, report.at))
    assert due
    assert {key_at(at, job) for at in due} <= set(settled(bank, job))


def _let_pass(bank: Bank, microseconds: int) -> None:
    """Wait by the database's clock."""
    with bank.app().database.session() as session:
        began_us = session.clock_us()
        wait_for(lambda: session.clock_us() > began_us + microseconds, "the clock")
