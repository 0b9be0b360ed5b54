"""A long run of occurrences whose process is killed again and again, and its control.

`run_with_duly` starts one occurrence after the other; `run_without_key` makes the same change by a
plain UPDATE in a transaction. Both acknowledge each piece by a line in a file, a moment after its
commit, as a program that answers over a network does. Whoever starts them again begins with the
first piece that was not acknowledged.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import sqlalchemy
from sqlalchemy.pool import NullPool

import duly
from tests.faults.victims import SURVIVED, Victims

if TYPE_CHECKING:
    from pathlib import Path

Answer = Callable[[int, str], None]
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ANSWER_S = 0.002  # on its way from the commit to whoever asked


@dataclass
class Race:
    """What happened in a marathon.

    Attributes:
        kills: How many times the process was killed at work.
        unanswered: Kills after a commit and before its acknowledgement: the resend was a duplicate.
    """

    kills: int = 0
    unanswered: int = 0


def run(
    url: str, victims: Victims, answers: Path, *, pieces: int, kills: int, seed: int, has_key: bool
) -> Race:
    """Run all pieces, killing the process *kills* times at random moments.

    Args:
        answers: A file for the acknowledgements; what is in it was acknowledged.
    """
    chance = random.Random(seed)
    # Each kill comes after a random piece, and a random part of what follows it.
    due = sorted(chance.randrange(1, pieces - 1) for _ in range(kills))
    race = Race()
    done = 0
    while done < pieces:
        answers.write_text("")
        kill_after = max(due.pop(0), done) if due else None
        status = victims.kill_one(
            "tests.torture.marathon:play",
            url=url,
            since=done,
            pieces=pieces,
            has_key=has_key,
            answers=str(answers),
            kill_after=kill_after,
            delay_s=chance.uniform(0, 0.012),
        )
        race.kills += status == -signal.SIGKILL
        assert status in {-signal.SIGKILL, SURVIVED}
        lines = [line.split() for line in answers.read_text().splitlines()]
        race.unanswered += sum(outcome == "duplicate" for _, outcome in lines)
        numbers = [int(number) for number, _ in lines]
        assert numbers == list(range(done, done + len(numbers)))
        assert kill_after is not None or done + len(numbers) == pieces
        done += len(numbers)
    return race


# In the process that is killed


def play(order: dict[str, Any]) -> None:
    """One life of the process; another one ends it."""
    called, call = os.pipe()
    if order["kill_after"] is not None and os.fork() == 0:
        _kill_when_called(called, call, os.getppid(), order["delay_s"])
    answers = os.open(order["answers"], os.O_WRONLY | os.O_APPEND)

    def answer(number: int, outcome: str) -> None:
        time.sleep(ANSWER_S)
        os.write(answers, f"{number} {outcome}\n".encode())
        if number == order["kill_after"]:
            os.write(call, b"!")

    run_all = run_with_duly if order["has_key"] else run_without_key
    run_all(order["url"], range(order["since"], order["pieces"]), answer)


def _kill_when_called(called: int, call: int, victim: int, delay_s: float) -> NoReturn:
    os.close(call)
    if os.read(called, 1):
        time.sleep(delay_s)
        os.kill(victim, signal.SIGKILL)
    os._exit(0)


def run_with_duly(url: str, pieces: range, answer: Answer) -> None:
    app = duly.App(url)

    @app.job("marathon")
    def step(run: duly.Run) -> None:
        run.execute("UPDATE balance SET units = units + 1 WHERE id = 1")

    for number in pieces:
        result = app.run("marathon", FIRST + timedelta(minutes=number))
        answer(number, result.outcome.value)


def run_without_key(url: str, pieces: range, answer: Answer) -> None:
    engine = sqlalchemy.create_engine(url)
    for number in pieces:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("UPDATE balance SET units = units + 1 WHERE id = 1"))
        answer(number, "applied")


def prepare(url: str) -> None:
    """Duly's tables and one row of business data."""
    app = duly.App(url)
    app.init()
    app.close()
    _execute(url, "CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
    _execute(url, "INSERT INTO balance (id, units) VALUES (1, 0)")


def ask(url: str, statement: str) -> int:
    """One number."""
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        return int(connection.execute(sqlalchemy.text(statement)).scalar_one())


def _execute(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(statement))
