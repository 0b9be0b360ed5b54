"""Kill -9 at random: what is doubled, what is lost, and whether a kill fell where it matters.

A starter hands one occurrence after the other to a contender and acknowledges each when its answer
is there, as to a broker: that takes a millisecond. Its process is killed at random, and the next
one starts with the first occurrence that was not acknowledged. A kill between the commit and the
acknowledgement is the one that doubles an effect without a key: a run without such a kill proves
nothing, so they are counted.
"""

from __future__ import annotations

import importlib
import os
import random
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from place import ACCOUNTS, Place  # noqa: E402 - after the path to it
from worker import forked  # noqa: E402

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ACKNOWLEDGED_S = 0.001
PATIENCE_S = 30.0


class Fate(NamedTuple):
    """What became of the occurrences.

    Attributes:
        kills: How often the process was killed.
        between: Kills that fell after a commit and before its acknowledgement.
        said_duplicate: Resends of those that were answered "a duplicate".
        acknowledged: Occurrences that a starter was told of as done.
        doubled: Effects beyond the first, of any occurrence.
        lost: Occurrences acknowledged without an effect.
    """

    kills: int
    between: int
    said_duplicate: int
    acknowledged: int
    doubled: int
    lost: int


def killed(contender: str, place: Place, kills: int) -> Fate:
    """Start, kill, look; *kills* times, and once to the end."""
    before = _effects(place)
    chance = random.Random(contender)
    done = between = said_duplicate = 0
    was_between = False
    each_s = 0.01
    for life in range(kills + 1):
        process, pipe = forked(_live, contender, place, done)
        wanted = done + chance.randint(1, 4)
        began = 0.0
        while done < wanted:
            answered = _answered(pipe)
            if answered is None:
                raise RuntimeError(f"{contender} ended by itself, or did nothing for a while")
            if was_between:
                said_duplicate += answered is False
                was_between = False
            if began:
                each_s += ((time.perf_counter() - began) - each_s) / 4
            began = time.perf_counter()
            done += 1
        if life < kills:
            time.sleep(chance.uniform(0, 1.5 * each_s))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        while _answered(pipe) is not None:  # acknowledged before the kill
            done += 1
        pipe.close()
        place.await_quiet()
        if life < kills:
            was_between = _effects(place)[done % ACCOUNTS] > before[done % ACCOUNTS]
            between += was_between
    made = [now - then for now, then in zip(_effects(place), before, strict=True)]
    doubled = sum(max(0, each - 1) for each in made)
    lost = sum(each < 1 for each in made[:done])
    return Fate(kills, between, said_duplicate, done, doubled, lost)


def _answered(pipe: Connection) -> bool | None:
    """True for applied, False for a duplicate, None at the end."""
    with suppress(EOFError, OSError):
        if pipe.poll(PATIENCE_S):
            said: bool = pipe.recv()
            return said
    return None


def _effects(place: Place) -> list[int]:
    """How many each account got."""
    return [units // 10 for (units,) in place.rows("SELECT units FROM account ORDER BY id")]


def _live(contender: str, place: Place, first: int, pipe: Connection) -> None:
    module = importlib.import_module(f"contenders.{contender}")
    worker = module.connect(place)
    for number in range(first, ACCOUNTS):
        name = f"killed-{number}"
        if many := getattr(module, "many", None):
            (applied,) = many(worker, [name], [number])
        else:
            applied = module.once(worker, name, number)
        time.sleep(ACKNOWLEDGED_S)
        pipe.send(applied)
    select.select([], [], [])
