"""A nightly credit by `duly exec` under SIGKILL: of duly, of its command, of both."""

from __future__ import annotations

import random
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from duly._core.instants import from_us
from tests.faults.victims import Victims
from tests.script.test_killed import (
    DONE,
    FIRST,
    KILLED,
    NIGHTS,
    PLAY,
    Nightly,
    assert_each_minute_is_credited_once,
    crontab,
    kill_at_random,
    nightly,  # noqa: F401 - a fixture
)
from tests.units.test_real_cron import cron  # noqa: F401 - a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    Start = Callable[..., int]

HELD = 3
COMMAND = """\
echo "$DULY_KEY" >> started
sleep 0.1
echo "UPDATE balance SET units = units + 10 WHERE id = 1;
INSERT INTO booking (nominal_key, units) VALUES ('$DULY_KEY', 10);" > "$DULY_SQL_OUT"
sleep 0.1
"""


@pytest.fixture(scope="module")
def victims() -> Iterator[Victims]:
    """With what takes longest to load, so that most kills hit the attempt itself."""
    made = Victims("duly._cli.exec_cmd", "duly._sync.commanding", "sqlglot")
    yield made
    made.close()


@pytest.fixture
def start(nightly: Nightly, victims: Victims) -> Start:  # noqa: F811 - the fixture
    """Starts the line for one night, in a process of its own; returns how it ended."""
    folder = nightly.folder
    (folder / "credit.sh").write_text(COMMAND)
    (folder / "started").touch()
    init = {"arguments": ["init", "--database", nightly.database.url], "environment": {}}
    assert victims.kill_one(PLAY, folder=str(folder), **init) == DONE

    def one(after_crash: str, night: datetime, **fate: Any) -> int:
        options = ["--database", nightly.database.url, "--schedule", "0 0 * * *"]
        options += ["--after-crash", after_crash]
        order = {
            "arguments": ["exec", "nightly", *options, "--", "sh", "credit.sh"],
            "environment": {"DULY_SCHEDULED_TIME": night.isoformat(), "TMPDIR": str(folder)},
        }
        return victims.kill_one(PLAY, folder=str(folder), **order, **fate)

    return one


def key_of(night: datetime) -> str:
    return f"nightly:{night:%Y-%m-%dT%H:%M:%SZ}"


def commands_started(nightly: Nightly) -> list[str]:  # noqa: F811 - the fixture
    return (nightly.folder / "started").read_text().split()


def held(nightly: Nightly) -> set[str]:  # noqa: F811 - the fixture
    query = "SELECT nominal_us FROM duly_occurrence WHERE disposition = 'torn'"
    return {key_of(from_us(row[0])) for row in nightly.ask(query)}


def fates(seed: int, took: float) -> list[dict[str, Any]]:
    """Of ten nights: who is killed, and when; each of the three at least three times."""
    chance = random.Random(seed)
    whom = (["duly", "command", "both"] * NIGHTS)[:NIGHTS]
    return [{"whom": each, "after_s": chance.uniform(0, took)} for each in whom]


def test_ten_nights_that_are_killed_at_random_are_credited_once_each_with_retry(
    nightly: Nightly,  # noqa: F811 - the fixture
    start: Start,
) -> None:
    """The command may run again; what it hands over is committed with the key or not at all."""
    began = time.monotonic()
    assert start("retry", FIRST) == DONE
    took = time.monotonic() - began
    ends = []

    for number, fate in enumerate(fates(20260901, took), 1):
        night = FIRST + timedelta(days=number)
        ends.append(start("retry", night, **fate))
        assert start("retry", night) == DONE

    keys = [key_of(FIRST + timedelta(days=n)) for n in range(NIGHTS + 1)]
    assert nightly.booked() == keys
    assert nightly.units() == 10 * len(keys)
    assert nightly.settled() == len(keys)
    assert KILLED in ends, "no kill came in time"


def test_command_is_never_started_twice_for_a_key_with_hold(
    nightly: Nightly,  # noqa: F811 - the fixture
    start: Start,
) -> None:
    """Under the same kills each key is credited once, or held and not credited at all."""
    began = time.monotonic()
    assert start("hold", FIRST) == DONE
    took = time.monotonic() - began
    ends, applied, waiting = [], [key_of(FIRST)], set()

    for number, fate in enumerate(fates(20260901, took), 1):
        night = FIRST + timedelta(days=number)
        ends.append(start("hold", night, **fate))
        after = start("hold", night)
        assert after in {DONE, HELD}
        if after == DONE:
            applied.append(key_of(night))
        else:
            waiting.add(key_of(night))

    started = commands_started(nightly)
    assert len(started) == len(set(started)), "a command was started again"
    assert nightly.booked() == applied
    assert nightly.units() == 10 * len(applied)
    assert nightly.settled() == len(applied)
    assert held(nightly) == waiting
    assert waiting, "no kill came in time"
    assert KILLED in ends, "no kill came in time"


# Each op of a start with `hold`, and which of its kind it is; a command must not start
# before the first commit, and the key is settled by the second.
OPS = (
    ("Begin", 1),
    ("Claim", 1),
    ("Hold", 1),
    ("Commit", 1),
    ("RunCommand", 1),
    ("Begin", 2),
    ("Resume", 1),
    ("CallHandler", 1),
    ("Seal", 1),
    ("Commit", 2),
)


@pytest.mark.parametrize("place", ["before", "after"])
def test_hold_killed_at_each_op_leaves_the_key_free_or_held_or_settled(
    nightly: Nightly,  # noqa: F811 - the fixture
    start: Start,
    place: str,
) -> None:
    """Free before the hold is committed, settled after the last commit, held in between."""
    taken, over, last = (OPS.index(op) for op in (("Commit", 1), ("RunCommand", 1), OPS[-1]))
    credited = 0
    for number, (op, nth) in enumerate(OPS):
        night = FIRST + timedelta(days=number)
        done = number + (place == "after")

        assert start("hold", night, op=op, nth=nth, place=place) == KILLED, (op, nth)

        ran = commands_started(nightly).count(key_of(night))
        assert ran == (done > over), (op, nth)
        waits = taken < done <= last
        assert (key_of(night) in held(nightly)) == waits, (op, nth)
        assert start("hold", night) == (HELD if waits else DONE), (op, nth)
        credited += not waits
        assert (len(nightly.booked()), nightly.units()) == (credited, 10 * credited), (op, nth)
        assert commands_started(nightly).count(key_of(night)) == (1 if not waits else ran)


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("start")
@pytest.mark.parametrize("kills", [1, pytest.param(10, marks=pytest.mark.torture)])
def test_a_real_crontab_line_of_a_command_killed_at_random_credits_each_minute_once(
    nightly: Nightly,  # noqa: F811 - the fixture
    cron: Callable[[str], None],  # noqa: F811 - the fixture
    kills: int,
) -> None:
    """The command goes on without duly, and what it wrote is dropped; the next start makes it."""
    file = nightly.folder / "credit.sh"
    given = f"--database {nightly.database.url} --schedule '* * * * *' --after-crash retry"
    cron(crontab(nightly, f"exec minutely {given} -- sh {file}"))

    kill_at_random(nightly, file, kills)

    assert_each_minute_is_credited_once(nightly)
    assert len(commands_started(nightly)) >= len(nightly.booked())
