"""Hosts that tell the ledger of their jobs at the same moment."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._db import expectation
from tests.races.bank import credit
from tests.races.beats import BEAT, Beats
from tests.races.steps import BOUND_S, start

if TYPE_CHECKING:
    from duly._core.revision import Revision
    from tests.races.bank import Bank

HOSTS = 4


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
