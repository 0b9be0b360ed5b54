"""Who may write to a SQLite file next: the one who has waited longest, whatever dies."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import duly
from duly._db import write_queue
from duly._db.write_queue import NEXT, NOW, Place, queue_of
from tests.races.bank import JOB, OLD, Bank, credit
from tests.races.steps import BOUND_S, start, wait_for
from tests.servers.database import Database
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A process that takes a turn, and what it does then.
HOLDER = """
import os, sys
from duly._db.write_queue import Place, queue_of
place = Place(queue_of(sys.argv[1]))
place.enter(60)
print("has it", flush=True)
"""
FORKS = """
if os.fork() == 0:
    print("forked", flush=True)
sys.stdin.readline()
"""
TAKES_TURNS = """
import sys
from duly._db.write_queue import Place, queue_of
while True:
    place = Place(queue_of(sys.argv[1]))
    place.enter(60)
    print("other", file=open(sys.argv[2], "a"), flush=True)
    place.leave()
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "line.db")


@pytest.fixture
def process(path: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process with a script, the path and more arguments."""
    with ExitStack() as stack:

        def started(script: str, *arguments: str) -> subprocess.Popen[str]:
            made = subprocess.Popen(
                [sys.executable, "-c", script, path, *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.callback(made.communicate)
            stack.callback(made.kill)
            return made

        yield started


def open_files(path: str) -> list[str]:
    """The lock files that this process has open."""
    return [file.path for file in write_queue._files if file.is_there and path in file.path]


def is_locked(path: str, name: str = NOW) -> bool:
    """Whether anybody holds one of the two locks."""
    with open(os.path.join(f"{path}-duly", name), "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_threads_of_a_process_are_served_in_the_order_in_which_they_came(path: str) -> None:
    line, served = queue_of(path), list[int]()
    first = Place(line)
    first.enter(BOUND_S)

    def work(number: int) -> None:
        place = Place(line)
        place.enter(BOUND_S)
        served.append(number)
        place.leave()

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for number, thread in enumerate(threads):
        thread.start()
        wait_for(lambda number=number: len(line.behind) == number + 1, "they wait")  # type: ignore[misc]
    first.leave()
    for thread in threads:
        thread.join(BOUND_S)

    assert served == list(range(8))
    assert line.first is None


@pytest.mark.parametrize("when", ["before", "behind", "other process"])
def test_a_waiter_that_is_told_to_hurry_goes_on_and_leaves_nothing_behind(
    path: str, process: Callable[..., subprocess.Popen[str]], when: str
) -> None:
    """At once, wherever in the line it stands, and whether it stands there yet."""
    line, first = queue_of(path), Place(queue_of(path))
    if when == "other process":
        holder = process(HOLDER + "sys.stdin.readline()\n")
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
    else:
        first.enter(BOUND_S)
    place = Place(line)
    if when == "before":
        place.hurry()
    thread = threading.Thread(target=place.enter, args=[3600.0], daemon=True)
    thread.start()
    if when == "behind":
        wait_for(lambda: bool(line.behind), "it waits")
    elif when == "other process":
        wait_for(lambda: line.doorman is not None, "it waits")
    place.hurry()
    thread.join(BOUND_S)
    assert not thread.is_alive()

    place.leave()
    first.leave()
    assert (line.first, list(line.behind)) == (None, [])
    if when != "other process":
        assert not is_locked(path)


def test_a_process_passes_the_one_that_waits_while_its_spell_lasts_and_no_longer(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_queue, "_SPELL_S", 3600.0)
    line = queue_of(path)
    place = Place(line)
    place.enter(BOUND_S)
    with open(os.path.join(line.folder, NEXT), "rb") as waits:
        fcntl.flock(waits, fcntl.LOCK_EX)

        place.leave()
        place = Place(line)
        place.enter(BOUND_S)
        assert is_locked(path), "the turn is its own again"

        place.leave()
        line.spell_ends_s = time.monotonic()
        place = Place(line)
        place.enter(0.01)
        assert not is_locked(path), "it waits behind the other"
    place.leave()


def test_a_process_that_waits_takes_a_turn_that_is_free_whoever_may_come_back(
    path: str, process: Callable[..., subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spell is no reservation: if nobody writes, the next one does."""
    holder = process(HOLDER + "sys.stdin.readline()\nplace.leave()\nsys.stdin.readline()\n")
    assert holder.stdout is not None
    assert holder.stdin is not None
    assert holder.stdout.readline() == "has it\n"
    monkeypatch.setattr(write_queue, "_SPELL_S", 3600.0)
    line = queue_of(path)
    place = Place(line)
    waiter = threading.Thread(target=place.enter, args=[3600.0], daemon=True)
    waiter.start()
    wait_for(lambda: is_locked(path, NEXT), "it is next")

    holder.stdin.write("leave\n")
    holder.stdin.flush()
    waiter.join(BOUND_S)

    assert not waiter.is_alive()
    place.leave()


def test_a_process_whose_spell_is_over_does_not_pass_the_one_that_waits(
    path: str,
    process: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between two turns of this process lies one of the other, if that had waited."""
    monkeypatch.setattr(write_queue, "_SPELL_S", 0.0)
    log = tmp_path / "log"
    log.touch()
    line = queue_of(path)
    place = Place(line)
    place.enter(BOUND_S)
    process(TAKES_TURNS, str(log))

    for _ in range(20):
        wait_for(lambda: is_locked(path, NEXT), "the other stands behind")
        before = log.read_text()
        place.leave()
        place = Place(line)
        place.enter(BOUND_S)
        assert len(log.read_text()) > len(before)
    place.leave()


def test_a_waiter_goes_on_when_the_process_before_it_is_killed(
    path: str, process: Callable[..., subprocess.Popen[str]]
) -> None:
    holder = process(HOLDER + "sys.stdin.readline()")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "has it\n"
    line = queue_of(path)
    place = Place(line)
    waiter = threading.Thread(target=place.enter, args=[600])

    waiter.start()
    wait_for(lambda: line.doorman is not None, "it waits in the kernel")
    holder.kill()
    waiter.join(BOUND_S)

    assert not waiter.is_alive()
    assert is_locked(path), "the turn is the waiter's"
    place.leave()
    assert not is_locked(path)


def test_a_forked_child_does_not_keep_the_turn_of_its_dead_parent(
    path: str, process: Callable[..., subprocess.Popen[str]]
) -> None:
    holder = process(HOLDER + FORKS)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "has it\n"
    assert is_locked(path)
    assert holder.stdout.readline() == "forked\n"

    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()  # the child lives until its standard input ends, which is ours to end

    # It may have been made just now: it closes what it inherited as its first act.
    wait_for(lambda: not is_locked(path), "the child lets go of the turn")


def test_a_waiter_that_gives_up_leaves_nothing_behind(
    path: str, process: Callable[..., subprocess.Popen[str]]
) -> None:
    """Its place in the kernel's line is freed as soon as the kernel gives it."""
    holder = process(HOLDER + "sys.stdin.readline()")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "has it\n"
    line = queue_of(path)

    for _ in range(3):
        place = Place(line)
        place.enter(0.01)
        place.leave()
        assert line.first is None
    holder.kill()

    wait_for(lambda: not open_files(path), "all are closed")
    assert not is_locked(path)


def test_places_behind_the_first_are_given_up_in_any_order(path: str) -> None:
    line = queue_of(path)
    first = Place(line)
    first.enter(BOUND_S)
    behind: list[Place] = []

    def give_up() -> None:
        behind.append(Place(line))
        behind[-1].enter(0.01)

    for _ in range(3):
        thread = threading.Thread(target=give_up)
        thread.start()
        thread.join(BOUND_S)
    assert list(line.behind) == behind

    behind[1].leave()
    first.leave()
    assert line.first is behind[0]
    behind[0].leave()
    assert line.first is behind[2]
    behind[2].leave()
    behind[2].leave()
    assert line.first is None


# --------------------------------------------------------------------------- the line is advice


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    """Only SQLite has the line."""
    database = Database.in_file(tmp_path / "bank.db")
    made = Bank.found(database.name, database.url)
    yield made
    made.close()


def file_of(bank: Bank) -> str:
    return bank.url.removeprefix("sqlite:///")


def test_attempts_wait_in_the_line_and_a_callers_claim_does_not(bank: Bank) -> None:
    """Somebody holds the turn and not the file: a claim goes ahead, an attempt after its half."""
    app = bank.app()
    line = queue_of(file_of(bank))
    place = Place(line)
    threading.Thread(target=place.enter, args=[BOUND_S]).start()
    wait_for(lambda: line.first is place, "another thread has the turn")
    attempt = start(app.run, JOB, OLD, wait=2 * BOUND_S)
    wait_for(lambda: len(line.behind) == 1, "the attempt waits")

    with closing(sqlite3.connect(file_of(bank))) as raw:
        claim = duly.claim(raw, duly.Occurrence("by-hand", OLD))
        raw.commit()
    assert claim.is_new
    assert not attempt.done()

    place.leave()
    assert attempt.result(BOUND_S).outcome is duly.Outcome.APPLIED


def test_a_turn_that_is_never_given_up_bars_nobody(
    bank: Bank, process: Callable[..., subprocess.Popen[str]]
) -> None:
    """A stopped process holds the turn, and not the file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER + "sys.stdin.readline()", file_of(bank)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "has it\n"
        holder.send_signal(signal.SIGSTOP)
        try:
            result = bank.app().run(JOB, OLD, wait=0.5)
        finally:
            holder.kill()
    assert result.outcome is duly.Outcome.APPLIED


def test_a_writer_that_knows_no_line_is_waited_for(bank: Bank) -> None:
    app = bank.app()
    line = queue_of(file_of(bank))
    with closing(sqlite3.connect(file_of(bank), check_same_thread=False)) as foreign:
        foreign.execute("BEGIN IMMEDIATE")
        attempts = [start(app.run, JOB, OLD, partition=f"{n}", wait=BOUND_S) for n in range(3)]
        wait_for(lambda: len(line.behind) == 2, "one is at the file, two are behind it")
        foreign.rollback()

        outcomes = [attempt.result(BOUND_S).outcome for attempt in attempts]
    assert outcomes == [duly.Outcome.APPLIED] * 3
    assert line.first is None


def test_no_turn_outlives_its_transaction(bank: Bank) -> None:
    """Whatever the end: applied, a duplicate, failed, a commit that is denied, one rolled back."""
    line = queue_of(file_of(bank))

    def handler(run: duly.Run) -> None:
        credit(run)
        assert line.first is not None
        if run.partition:
            run.execute(run.partition)

    app = bank.app(handler=handler)
    for partition in ("", "", "nonsense", "COMMIT", "INSERT OR ROLLBACK INTO elsewhere VALUES (1)"):
        with suppress(Exception):
            app.run(JOB, OLD, partition=partition)
        assert line.first is None, partition
        assert not is_locked(file_of(bank)), partition
    app.close()


def test_lock_files_stay_where_they_are(bank: Bank) -> None:
    """Whoever locked a file that was unlinked would be alone in its line."""

    def identities() -> list[int]:
        return [os.stat(f"{file_of(bank)}-duly/{name}").st_ino for name in (NEXT, NOW)]

    bank.app().run(JOB, OLD)
    before = identities()
    for day in range(3):
        app = bank.app()
        app.run(JOB, OLD + timedelta(days=day))
        app.status()
        app.close()
    assert identities() == before


def test_without_a_place_for_the_lock_files_attempts_are_made_all_the_same(bank: Bank) -> None:
    """As in a folder that may only be read, or on a file system without locks."""
    folder = Path(f"{file_of(bank)}-duly")
    shutil.rmtree(folder, ignore_errors=True)
    folder.touch()

    assert bank.app().run(JOB, OLD).outcome is duly.Outcome.APPLIED
    assert not open_files(file_of(bank))


def test_without_lock_files_that_can_be_opened_nothing_is_said(path: str) -> None:
    """A transaction goes on without its place, and no half-made object complains of that."""
    Path(queue_of(path).folder, NEXT).mkdir(parents=True)
    place = Place(queue_of(path))
    place.enter(BOUND_S)
    place.leave()
    gc.collect()  # a complaint of a finalizer fails the test


def test_a_second_transaction_from_inside_a_handler_is_refused_at_once(bank: Bank) -> None:
    """It could only wait for itself; reading is allowed."""
    refused: list[str] = []

    def handler(run: duly.Run) -> None:
        credit(run)
        app.status()
        for second in (
            lambda: app.run(JOB, OLD, partition="other", wait=3600),
            lambda: app.waive(f"{JOB}:2020-01-02T00:00:00Z", reason="r", actor="a"),
        ):
            with pytest.raises(duly.UsageError, match="one writer") as caught:
                second()
            refused.append(str(caught.value))

    app = bank.app(handler=handler)

    assert app.run(JOB, OLD).outcome is duly.Outcome.APPLIED
    assert len(refused) == 2
