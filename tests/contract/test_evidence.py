"""What stays for people: duplicates, attempts under way, and those whose process died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import duly
from tests.contract.bank import OLD, UNITS, Bank, execute, wait_until
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

APPS = ("own", "django")

# ------------------------------------------------------------------------------- duplicates


def test_duplicates_are_counted_for_each_starter(bank: Bank) -> None:
    """Refused starts make no rows of attempts; they are counted by who started them."""
    cron = bank.define(bank.app(started_by="cron"))
    person = bank.define(bank.app(started_by="ann"))
    cron.run(bank.job, OLD)

    for app in (cron, person, person, cron, person):
        assert app.run(bank.job, OLD).outcome is duly.Outcome.DUPLICATE

    explanation = cron.explain(bank.occurrence())
    assert {r.started_by: r.times for r in explanation.refused} == {"cron": 2, "ann": 3}
    assert all(r.first_at <= r.last_at for r in explanation.refused)
    assert {r.started_by: r.times for r in person.history(bank.job).refused} == {
        "cron": 2,
        "ann": 3,
    }
    assert bank.outcomes == ["applied"]


def test_e14_two_schedulers_leave_one_applied_and_one_duplicate_that_name_each_other(
    bank: Bank,
) -> None:
    """The evidence of a double start says who did the work, and who was refused."""
    first = bank.define(bank.app(started_by="scheduler-1"))
    second = bank.define(bank.app(started_by="scheduler-2"))

    applied = first.run(bank.job, OLD)
    refused = second.run(bank.job, OLD)

    explanation = second.explain(bank.occurrence())
    assert refused.attempt_id == applied.attempt_id
    assert [a.started_by for a in explanation.attempts] == ["scheduler-1"]
    assert [r.started_by for r in explanation.refused] == ["scheduler-2"]
    assert str(applied.attempt_id) in explanation.verdict
    assert explanation.applied


def test_start_of_a_key_settled_otherwise_is_counted(bank: Bank) -> None:
    """Whoever keeps starting a waived period is seen."""
    bank.settle("waived")
    app = bank.define(bank.app(started_by="cron"))
    for _ in range(2):
        with pytest.raises(duly.AlreadySettled):
            app.run(bank.job, OLD)
    assert [(r.started_by, r.times) for r in app.explain(bank.occurrence()).refused] == [
        ("cron", 2)
    ]


# ---------------------------------------------------------------------------- under way


@contextmanager
def under_way(bank: Bank, **options: Any) -> Iterator[duly.App]:
    """An attempt in this process whose handler is at work."""
    arrived, go_on = threading.Event(), threading.Event()

    def handler(run: duly.Run) -> None:
        run.execute(bank.credit())
        arrived.set()
        assert go_on.wait(60)

    app = bank.define(bank.app(**options), handler)
    thread = threading.Thread(target=app.run, args=[bank.job, OLD])
    thread.start()
    try:
        assert arrived.wait(60)
        yield app
    finally:
        go_on.set()
        thread.join()


def test_attempt_under_way_is_seen_after_its_time_and_gone_when_it_ends(bank: Bank) -> None:
    """A long attempt is seen by others while it runs, and leaves no marker."""
    other = bank.app()
    with under_way(bank, evidence_after=0.05, started_by="cron"):
        wait_until(lambda: bool(other.explain(bank.occurrence()).running), "the marker appeared")
        (running,) = other.explain(bank.occurrence()).running
        assert (running.started_by, running.pid) == ("cron", os.getpid())
        assert "under way" in other.explain(bank.occurrence()).verdict
        assert [r.attempt_id for r in other.history(bank.job).running] == [running.attempt_id]
        assert bank.settled == []

    wait_until(lambda: not other.explain(bank.occurrence()).running, "the marker went")
    assert running.attempt_id == bank.attempts[0].id
    assert bank.outcomes == ["applied"]


def test_short_attempt_leaves_no_marker(bank: Bank) -> None:
    """An attempt that ends before its time to be marked pays and shows nothing."""
    app = bank.define(bank.app(evidence_after=60))
    with under_way(bank, evidence_after=60):
        assert bank.app().explain(bank.occurrence()).running == ()
    assert app.explain(bank.occurrence()).running == ()


def test_sweep_leaves_a_live_attempt_alone(bank: Bank) -> None:
    """However often others look for the dead, an attempt at work is completed."""
    other = bank.app()
    with under_way(bank, evidence_after=0.0):
        wait_until(lambda: bool(other.explain(bank.occurrence()).running), "the marker appeared")
        for _ in range(3):
            assert other.sweep() == 0
        assert len(other.explain(bank.occurrence()).running) == 1
    assert bank.outcomes == ["applied"]
    assert bank.units == UNITS


# ----------------------------------------------------------------------- processes that die

CHILD = """
import json, os, sys
from datetime import datetime, timezone
import duly
from tests.contract.bank import OLD

url, job, account, after = sys.argv[1:]
app = duly.App(url, evidence_after=float(after), started_by="child")

@app.job(job)
def handler(run):
    run.execute(f"UPDATE balance SET units = units + 10 WHERE id = {account}")
    print(json.dumps({"attempt": str(run.attempt), "pid": os.getpid()}), flush=True)
    if sys.stdin.readline() == "":
        sys.exit(7)

app.run(job, OLD)
print("applied", flush=True)
"""


@dataclass
class Child:
    process: subprocess.Popen[str]
    attempt: str = ""

    def go_on(self) -> str:
        """Let its handler return; returns what the process said at its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go on\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def child(bank: Bank, *, after: float = 0.0) -> Iterator[Child]:
    """Another process whose handler is at work on the occurrence."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, bank.url, bank.job, str(bank.account), str(after)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            yield Child(process, said["attempt"])
        finally:
            process.kill()


def _marked(bank: Bank, app: duly.App) -> None:
    wait_until(lambda: bool(app.explain(bank.occurrence()).running), "the child is marked")


def _claim_is_free(bank: Bank) -> bool:
    """Whether nobody's transaction holds the key any more: a server notices a death in its time."""
    connection = bank.connect()
    try:
        if bank.name == "sqlite":
            execute(connection, "PRAGMA busy_timeout = 50")
        duly.claim(connection, bank.occurrence(), wait=0.1)
    except duly.TransientError:
        return False
    finally:
        connection.rollback()
        connection.close()
    return True


def _pretend_another_host(bank: Bank) -> None:
    """Markers of a process on this host are judged by its pid; elsewhere the key decides."""
    if bank.name != "sqlite":
        bank.run(f"UPDATE duly_running SET process = 'm/b/n/1/1' WHERE job = '{bank.job}'")


@pytest.mark.parametrize("host", ["same", "another"])
def test_r05_attempt_whose_process_was_killed_is_abandoned_and_due_again(
    bank: Bank, host: str
) -> None:
    """A dead attempt is recorded as abandoned, nothing of it is kept, and the next one works."""
    app = bank.define(bank.app())
    with child(bank) as dying:
        _marked(bank, app)
        if host == "another":
            _pretend_another_host(bank)
        dying.process.send_signal(signal.SIGKILL)
        dying.process.wait()
    wait_until(lambda: _claim_is_free(bank), "the dead process's transaction ended")
    wait_until(lambda: app.sweep() == 1 or bank.outcomes == ["abandoned"], "the dead was found")

    (attempt,) = bank.attempts
    assert (attempt.outcome, str(attempt.id)) == ("abandoned", dying.attempt)
    assert attempt.started_by == "child"
    assert app.explain(bank.occurrence()).running == ()
    assert (bank.units, bank.settled) == (0, [])
    assert app.sweep() == 0
    assert app.run(bank.job, OLD).outcome is duly.Outcome.APPLIED
    assert bank.units == UNITS
    assert bank.outcomes == ["abandoned", "applied"]


def test_e05_sweep_that_meets_an_attempt_of_another_host_waits_for_its_end(bank: Bank) -> None:
    """A sweep races a commit: what is applied stays applied, and nothing is called dead."""
    app = bank.define(bank.app())
    with child(bank) as working:
        _marked(bank, app)
        _pretend_another_host(bank)
        assert app.sweep() == 0
        assert bank.outcomes == []

        assert working.go_on() == "applied"
        working.process.wait()
        for _ in range(2):
            assert app.sweep() == 0

    assert bank.outcomes == ["applied"]
    assert [s.disposition for s in bank.settled] == ["applied"]
    assert app.explain(bank.occurrence()).running == ()
    assert app.run(bank.job, OLD).outcome is duly.Outcome.DUPLICATE


def test_e05_marker_of_a_settled_attempt_is_garbage(postgres_bank: Bank) -> None:
    """A marker left behind by an attempt that had committed changes nothing about it."""
    bank = postgres_bank
    app = bank.define(bank.app())
    app.run(bank.job, OLD)
    (applied,) = bank.attempts
    us = bank.occurrence().nominal_us
    bank.run(
        "INSERT INTO duly_running (attempt_id, job, nominal_us, partition_key, correction,"
        " started_by, host, process, pid, started_us)"
        f" VALUES ('{applied.id}', '{bank.job}', {us}, '', 1, 'x', 'h', 'm/b/n/1/1', 1, 1)"
    )

    app.sweep()

    assert bank.attempts == [applied]
    assert app.explain(bank.occurrence()).applied
    assert bank.run(f"SELECT 1 FROM duly_running WHERE job = '{bank.job}'") == []


def test_e12_second_process_that_overlaps_the_first_waits_and_is_a_duplicate(bank: Bank) -> None:
    """Two processes on one key: one is at work, the other waits or is busy; one effect."""
    app = bank.define(bank.app())
    with child(bank) as first:
        with pytest.raises(duly.Busy):
            app.run(bank.job, OLD, wait=0.1)
        answers: list[duly.Result] = []
        waiter = threading.Thread(target=lambda: answers.append(app.run(bank.job, OLD, wait=60)))
        waiter.start()
        bank.wait_until_blocked()
        assert first.go_on() == "applied"
        waiter.join()

    assert [answer.outcome for answer in answers] == [duly.Outcome.DUPLICATE]
    assert str(answers[0].attempt_id) == first.attempt
    assert bank.units == UNITS


@pytest.mark.parametrize(
    ("when", "op"),
    [
        ("after", "Claim"),
        ("after", "CallHandler"),
        ("after", "Seal"),
        ("after", "Commit"),
    ],
)
def test_e15_process_that_dies_at_any_statement_leaves_all_or_nothing(
    bank: Bank, op: str, when: str
) -> None:
    """Period and effect are recorded together: what is not applied is due again."""
    script = f"""
import os, sys
import duly
from tests.contract.bank import OLD
url, job, account = sys.argv[1:]
app = duly.App(url, evidence_after=60)

@app.job(job)
def handler(run):
    run.execute(f"UPDATE balance SET units = units + 10 WHERE id = {{account}}")

def die(when, op, shell):
    if (when, type(op).__name__) == ({when!r}, {op!r}):
        os.kill(os.getpid(), 9)

app._probe = die
app.run(job, OLD)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, bank.url, bank.job, str(bank.account)],
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL

    committed = (op, when) == ("Commit", "after")
    app = bank.define(bank.app())
    assert bank.units == (UNITS if committed else 0)
    assert [s.disposition for s in bank.settled] == (["applied"] if committed else [])
    again = app.run(bank.job, OLD)
    assert again.outcome == ("duplicate" if committed else "applied")
    assert bank.units == UNITS


FORK_INSIDE = """
import os, sys
import duly
from tests.contract.bank import OLD

url, job, account = sys.argv[1:]
app = duly.App(url, evidence_after=60)
other = job + "-child"

@app.job(other)
def child(run):
    run.execute("SELECT 1")

@app.job(job)
def parent(run):
    run.execute(f"UPDATE balance SET units = units + 10 WHERE id = {account}")
    pid = os.fork()
    if pid == 0:
        try:
            app.run(other, OLD, wait=0.5)
        except duly.DulyError:
            os._exit(5)
        except BaseException as error:
            print(type(error), error, file=sys.stderr, flush=True)
            os._exit(9)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    raise ValueError("the parent rolls back")

try:
    app.run(job, OLD)
except ValueError:
    print(app.run(other, OLD).outcome.value, flush=True)
"""

FORK_BETWEEN = """
import os, sys
import duly, sqlalchemy
from tests.contract.bank import OLD

url, job, kind = sys.argv[1:]
app = duly.App(url if kind == "url" else sqlalchemy.create_engine(url), evidence_after=60)
connected = []
sqlalchemy.event.listen(app.database.engine, "connect", lambda *_: connected.append(os.getpid()))

@app.job(job)
def handler(run):
    run.execute("SELECT 1")

app.run(job, OLD, partition="before")  # leaves its connection in the pool
pid = os.fork()
if pid == 0:
    try:
        app.run(job, OLD, partition="child")
    except BaseException as error:
        print(type(error), error, file=sys.stderr, flush=True)
        os._exit(9)
    os._exit(0 if os.getpid() in connected else 8)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
made = len(connected)
outcome = app.run(job, OLD, partition="after").outcome.value
print(code, outcome, len(connected) - made)
"""


def _forked(script: str, *arguments: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_child_of_a_fork_inside_a_handler_never_commits_its_parents_work(bank: Bank) -> None:
    """The child's own attempt and exit leave the parent's transaction as it was: undone."""
    code, outcome = _forked(FORK_INSIDE, bank.url, bank.job, str(bank.account))

    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])
    # SQLite has one writer, and that is the parent's handler.
    expected = ("5", "applied") if bank.name == "sqlite" else ("0", "duplicate")
    assert (code, outcome) == expected


@pytest.mark.parametrize("kind", ["url", "engine"])
def test_child_of_a_fork_takes_connections_of_its_own(bank: Bank, kind: str) -> None:
    """A socket shared with the parent once committed its work: the child drops the pool."""
    code, outcome, reconnected = _forked(FORK_BETWEEN, bank.url, bank.job, kind)

    assert code == "0", "the child used its parent's connection"
    assert (outcome, reconnected) == ("applied", "0"), "the parent lost its own"
    assert sorted(s.partition for s in bank.settled) == ["after", "before", "child"]
