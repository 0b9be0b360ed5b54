"""A ledger of an earlier version is upgraded: nothing in it is lost, and no key becomes free."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import alembic.op
import pytest

import duly
from duly._db.tables import HEAD
from tests.migration import old_ledger
from tests.migration.old_ledger import (
    APPLIED,
    FAILED,
    HORIZON,
    JOB,
    MINUTE,
    PARTITION,
    PRUNED_JOB,
    RECORDED,
    UNAPPLIED,
)
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.database import Database

INITS = 4


@pytest.fixture
def old(database: Database) -> Database:
    """A ledger of version 0001."""
    old_ledger.make(database)
    return database


@pytest.fixture
def app(old: Database) -> Iterator[duly.App]:
    made = _app(old)
    yield made
    made.close()


def _app(database: Database) -> duly.App:
    made = duly.App(database.url, started_by="tests")
    for name in (JOB, PRUNED_JOB):
        made.job(name)(_handle)
    return made


def _handle(run: duly.Run) -> str:
    return run.key


def _shared(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The rows of *after*, with the columns of *before* alone."""
    columns = {table: set(rows[0]) for table, rows in before.items()}
    return {
        table: [{name: row[name] for name in row if name in columns[table]} for row in rows]
        for table, rows in after.items()
    }


def test_upgrade_keeps_every_row_of_every_table(old: Database, app: duly.App) -> None:
    before = old_ledger.content(old)
    assert all(before.values())
    assert app.init() == ("0001", HEAD)
    after = old_ledger.content(old)
    assert _shared(before, after) == before
    assert old_ledger.version(old) == HEAD


def test_settled_keys_stay_settled_and_pruned_ones_refused(app: duly.App) -> None:
    app.init()
    for partition in ("", PARTITION):
        result = app.run(JOB, APPLIED, partition=partition)
        assert (result.outcome, result.value) == (duly.Outcome.DUPLICATE, 42)
    with pytest.raises(duly.PayloadConflict):
        app.run(JOB, APPLIED, payload=1)
    for disposition, at in UNAPPLIED.items():
        with pytest.raises(duly.AlreadySettled, match=disposition):
            app.run(JOB, at)
    for at in (HORIZON, HORIZON - MINUTE):
        with pytest.raises(duly.Expired):
            app.run(PRUNED_JOB, at)
    assert app.run(PRUNED_JOB, HORIZON + MINUTE).outcome is duly.Outcome.APPLIED
    assert app.run(JOB, FAILED).outcome is duly.Outcome.APPLIED
    found = app.explain(duly.Occurrence(JOB, FAILED))
    assert {"applied", "failed"} <= {str(each.outcome) for each in found.attempts}


def test_settled_periods_are_not_missing_to_a_tick_after_the_upgrade(old: Database) -> None:
    """A job that gets a schedule with the upgrade: what was settled by name counts."""
    with closing(_app(old)) as plain:
        plain.init()
    calls: list[str] = []
    with closing(duly.App(old.url)) as app:
        starts = RECORDED - 8 * MINUTE
        app.job(JOB, schedule="* * * * *", starts=starts)(lambda run: calls.append(run.key))
        app.tick(RECORDED - MINUTE)
        first = starts.replace(second=0) + MINUTE * bool(starts.second)
    settled = {duly.Occurrence(JOB, at).key for at in (APPLIED, *UNAPPLIED.values())}
    assert settled.isdisjoint(calls)
    assert len(calls) == len(set(calls))
    assert duly.Occurrence(JOB, first).key in calls


def test_ledger_that_was_not_upgraded_is_refused_and_left_alone(
    old: Database, app: duly.App
) -> None:
    """Also an existing SQLite file: only an empty one gets its tables at first use."""
    before = old_ledger.content(old)
    for act in (
        lambda: app.run(JOB, RECORDED),
        app.tick,
        app.register,
        lambda: app.history(JOB),
    ):
        with pytest.raises(duly.SchemaOutdated, match="duly init") as caught:
            act()
        assert caught.value.details == {"found": "0001", "needed": HEAD}
    assert old_ledger.content(old) == before
    assert old_ledger.version(old) == "0001"


def test_init_of_a_current_ledger_changes_nothing(old: Database, app: duly.App) -> None:
    app.init()
    before = old_ledger.content(old)
    assert app.init() == (HEAD, HEAD)
    with closing(_app(old)) as other:
        assert other.init() == (HEAD, HEAD)
    assert old_ledger.content(old) == before


def test_inits_at_once_upgrade_once(old: Database) -> None:
    """As when every host of a deployment runs it: each ends well, one does the work."""
    before = old_ledger.content(old)
    apps = [_app(old) for _ in range(INITS)]
    together = threading.Barrier(INITS)
    ended: list[Any] = []

    def work(app: duly.App) -> None:
        together.wait(30)
        try:
            ended.append(app.init()[1])
        except BaseException as error:
            ended.append(error)
        finally:
            app.close()

    threads = [threading.Thread(target=work, args=[app]) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert ended == [HEAD] * INITS
    assert _shared(before, old_ledger.content(old)) == before


@pytest.mark.parametrize("number", [1, 3, 5])
def test_upgrade_that_failed_half_way_is_completed_by_the_next(
    old: Database, app: duly.App, number: int
) -> None:
    """MariaDB commits each statement of the upgrade; the others all of them or none."""
    before = old_ledger.content(old)
    done = 0
    inner = alembic.op.execute

    def fail(*args: Any, **named: Any) -> Any:
        nonlocal done
        if done == number:
            raise OSError("the power went")
        done += 1
        return inner(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alembic.op, "execute", fail)
        with pytest.raises(OSError, match="power"):
            app.init()
    assert old_ledger.version(old) == "0001"
    with pytest.raises(duly.SchemaOutdated):
        app.run(JOB, RECORDED)
    assert app.init() == ("0001", HEAD)
    assert _shared(before, old_ledger.content(old)) == before
    assert app.run(JOB, RECORDED).outcome is duly.Outcome.APPLIED


def test_command_upgrades_and_says_from_where_to_where(old: Database) -> None:
    before = old_ledger.content(old)
    for earlier in ("0001", HEAD):
        done = subprocess.run(
            [sys.executable, "-m", "duly", "init", "--database", old.url, "--json"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert (told["before"], told["after"]) == (earlier, HEAD)
    assert _shared(before, old_ledger.content(old)) == before
