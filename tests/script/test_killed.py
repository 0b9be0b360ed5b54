"""A nightly credit by `duly sql`, killed again and again: each night is credited once."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.victims import Victims
from tests.servers.database import Database
from tests.units.test_real_cron import cron  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PLAY = "tests.script.dying:start"
KILLED, DONE = -signal.SIGKILL, 0
NIGHTS = 10
FIRST = datetime(2026, 9, 1, tzinfo=UTC)

# Two statements, so that half an effect could be seen.
CREDIT = """\
UPDATE balance SET units = units + :units WHERE id = 1;
INSERT INTO booking (nominal_key, units) VALUES (:key, :units);
"""
OPS = ("Begin", "Claim", "CallHandler", "LockGuard", "ReadHorizon", "Seal", "Commit")


@dataclass(frozen=True)
class Nightly:
    """A bank, and the command line that a crontab holds."""

    database: Database
    folder: Path

    @property
    def arguments(self) -> list[str]:
        where = ["--database", self.database.url, "--schedule", "0 0 * * *"]
        return ["sql", "nightly", "credit.sql", *where, "-p", "units:=10"]

    def prepare(self) -> None:
        (self.folder / "credit.sql").write_text(CREDIT)
        self.ask("CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
        self.ask("INSERT INTO balance (id, units) VALUES (1, 0)")
        self.ask("CREATE TABLE booking (nominal_key VARCHAR(300), units INTEGER)")

    def ask(self, statement: str) -> list[Any]:
        connection = self.database.connect()
        try:
            cursor = connection.cursor()
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows
        finally:
            connection.close()

    def booked(self) -> list[str]:
        return [row[0] for row in self.ask("SELECT nominal_key FROM booking ORDER BY 1")]

    def units(self) -> int:
        return int(self.ask("SELECT units FROM balance")[0][0])

    def settled(self) -> int:
        query = "SELECT count(*) FROM duly_occurrence WHERE disposition = 'applied'"
        return int(self.ask(query)[0][0])


@pytest.fixture(params=["sqlite", "postgresql"])
def nightly(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Nightly]:
    if request.param == "sqlite":
        made = Nightly(Database.in_file(tmp_path / "bank.db"), tmp_path)
        made.prepare()
        yield made
        return
    server = request.getfixturevalue("postgres")
    url = server.create_database()
    made = Nightly(Database("postgresql", url, server), tmp_path)
    made.prepare()
    yield made
    server.drop(url)


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    made = Victims()
    yield made
    made.close()


@pytest.fixture
def start(nightly: Nightly, victims: Victims) -> Callable[..., int]:
    """Starts the line for one night, in a process of its own; returns how it ended."""
    init = {"arguments": ["init", "--database", nightly.database.url], "environment": {}}
    assert victims.kill_one(PLAY, folder=str(nightly.folder), **init) == DONE

    def one(night: datetime, **fate: Any) -> int:
        scheduled = {"DULY_SCHEDULED_TIME": night.isoformat()}
        order = {"arguments": nightly.arguments, "environment": scheduled, **fate}
        return victims.kill_one(PLAY, folder=str(nightly.folder), **order)

    return one


def test_ten_nights_whose_starts_are_killed_at_random_are_credited_once_each(
    nightly: Nightly, start: Callable[..., int]
) -> None:
    """SIGKILL anywhere from the first import to the exit; cron's next start does the rest."""
    chance = random.Random(20260901)
    began = time.monotonic()
    assert start(FIRST) == DONE
    took = time.monotonic() - began
    killed = 0

    for number in range(1, NIGHTS + 1):
        night = FIRST + timedelta(days=number)
        killed += start(night, after_s=chance.uniform(0, took)) == KILLED
        assert start(night) == DONE

    keys = [f"nightly:{FIRST + timedelta(days=n):%Y-%m-%dT%H:%M:%SZ}" for n in range(NIGHTS + 1)]
    assert nightly.booked() == keys
    assert nightly.units() == 10 * len(keys)
    assert nightly.settled() == len(keys)
    assert killed, "no kill came in time"


@pytest.mark.parametrize("place", ["before", "after"])
def test_a_start_killed_at_each_op_is_all_or_nothing_and_the_next_one_settles_it(
    nightly: Nightly, start: Callable[..., int], place: str
) -> None:
    for number, op in enumerate(OPS):
        night = FIRST + timedelta(days=number)

        assert start(night, op=op, place=place) == KILLED, f"{op} is no op of this start"

        done = number + (op == "Commit" and place == "after")
        assert (len(nightly.booked()), nightly.units(), nightly.settled()) == (
            done,
            10 * done,
            done,
        ), op
        assert start(night) == DONE
        assert len(nightly.booked()) == number + 1


def test_a_start_killed_between_two_statements_leaves_neither(
    nightly: Nightly, start: Callable[..., int]
) -> None:
    for number in (1, 2):
        assert start(FIRST, statement=number) == KILLED
        assert (nightly.booked(), nightly.units(), nightly.settled()) == ([], 0, 0)

    assert start(FIRST) == DONE
    assert (len(nightly.booked()), nightly.units(), nightly.settled()) == (1, 10, 1)


# ----------------------------------------------------------------------------------- a real crontab


def of_the_line(file: Path) -> list[int]:
    """The processes of duly that cron started for this file: not their shells, or commands."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(file).encode() in words and b"duly" in words:
            found.append(int(entry.parent.name))
    return found


def crontab(nightly: Nightly, arguments: str) -> str:
    """Each minute a start, and twice a start for who was killed."""
    line = f"{sys.executable} -m duly {arguments}"
    line = f"{line} >> {nightly.folder / 'out'} 2>&1".replace("%", "\\%")
    return f"PYTHONPATH={ROOT / 'src'}\n" + "".join(
        f"* * * * * cd {nightly.folder} && sleep {wait} && {line}\n" for wait in (0, 20, 40)
    )


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.torture)])
def test_a_real_crontab_line_killed_at_random_credits_each_minute_once(
    nightly: Nightly,
    start: Callable[..., int],
    cron: Callable[[str], None],  # noqa: F811 - the fixture
    kills: int,
) -> None:
    file = nightly.folder / "credit.sql"
    where = f"--database {nightly.database.url} --schedule '* * * * *' -p units:=10"
    cron(crontab(nightly, f"sql minutely {file} {where}"))

    kill_at_random(nightly, file, kills)

    assert_each_minute_is_credited_once(nightly)


def kill_at_random(nightly: Nightly, file: Path, kills: int) -> None:
    """Kill so many of the line's starts, and return when half as many minutes are settled."""
    chance = random.Random(kills)
    killed: list[int] = []
    until = time.monotonic() + 90 + 60 * kills
    last = -1
    while len(killed) < kills or nightly.settled() <= kills // 2:
        assert time.monotonic() < until, (nightly.folder / "out").read_text()
        third = int(time.time() // 20)  # the last start of a minute lives
        fresh = of_the_line(file) if third != last and third % 3 != 2 else []
        if fresh and len(killed) < kills:
            time.sleep(chance.uniform(0, 0.8))
            for pid in fresh:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue  # it was faster
                killed.append(pid)
            last = third
        time.sleep(0.01)


def assert_each_minute_is_credited_once(nightly: Nightly) -> None:
    keys = nightly.booked()
    times = [datetime.fromisoformat(key.partition(":")[2]) for key in keys]
    assert len(set(keys)) == len(keys), "a minute was credited twice"
    steps = {after - before for before, after in pairwise(times)}
    assert steps <= {timedelta(minutes=1)}, "a minute was not credited"
    assert nightly.units() == 10 * len(keys)
    assert nightly.settled() == len(keys)
