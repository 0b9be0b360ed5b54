"""One peer, measured by the Python of its own environment; told and telling in JSON.

    .bench/dbos/bin/python bench/peer.py CONTENDER < places.json

By hand takes turns with it, so that a ratio is one of this machine at this minute.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from counted import costs
from killed import killed
from place import Place
from worker import Workers, forked

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


class Size(NamedTuple):
    """How much is measured of a peer."""

    rounds: int
    slice_s: float
    many: int
    counted: int
    keys: int
    kills: int


FULL = Size(3, 1.0, 8, 100, 200, 15)
SMALL = Size(1, 0.1, 2, 20, 20, 2)


def measured(contender: str, places: dict[str, Place], size: Size) -> dict[str, Any]:
    """Rates, costs, a race and the kill test, of one contender; what goes wrong is said."""
    found: dict[str, Any] = {}
    for place in places.values():
        _in_a_process(_prepare, contender, place)
    phases: dict[str, Callable[[], Any]] = {
        "rates": lambda: rates(contender, {1: places["alone"], size.many: places["many"]}, size),
        "costs": lambda: costs(contender, places["costs"], size.counted),
        "race": lambda: race(contender, places["race"], size),
        "fate": lambda: killed(contender, places["fate"], size.kills)._asdict(),
    }
    for phase, measure in phases.items():
        began = time.monotonic()
        try:
            found[phase] = measure()
        except Exception as error:  # a peer may fail in any way; the others go on
            found.setdefault("failed", {})[phase] = f"{type(error).__name__}: {error}"
        print(f"  {phase} {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def rates(contender: str, places: dict[int, Place], size: Size) -> dict[str, Any]:
    """Per second, and each round's ratio to by hand, of one worker and of many.

    Each crew has a place of its own: a worker that waits would take the jobs of another crew.
    """
    with ExitStack() as stack:
        crews = {}
        for name in ("by_hand", contender):
            for processes, place in places.items():
                crews[name, processes] = crew = Workers(name, place, processes)
                stack.callback(crew.close)
        rounds: list[dict[tuple[str, int], float]] = []
        for number in range(size.rounds + 1):
            # By hand needs no more than a fifth of the time for as many.
            part = {"by_hand": size.slice_s / 5, contender: size.slice_s}
            done = {key: crew.work(part[key[0]]).rate for key, crew in crews.items()}
            if number:  # the first one warms up
                rounds.append(done)
    said = {}
    for words, processes in (("alone", 1), ("together", size.many)):
        ratios = [each[contender, processes] / each["by_hand", processes] for each in rounds]
        said[words] = {
            "rate": statistics.median(each[contender, processes] for each in rounds),
            "ratio": statistics.median(ratios),
        }
    return said


def race(contender: str, place: Place, size: Size) -> dict[str, Any]:
    """Many at once on the same keys; the effects are counted in the accounts."""
    crew = Workers(contender, place, size.many)
    seconds, said = crew.race([f"race-{key}" for key in range(size.keys)])
    crew.close()
    ((units,),) = place.rows("SELECT sum(units) FROM account")
    return {"seconds": seconds, "keys": size.keys, "said": said, "effects": int(units) // 10}


def _prepare(contender: str, place: Place, pipe: Connection) -> None:
    module = import_module(f"contenders.{contender}")
    if hasattr(module, "prepare"):
        module.prepare(place)
    pipe.send("ready")


def _in_a_process(target: Any, *arguments: Any) -> None:
    process, pipe = forked(target, *arguments)
    try:
        pipe.recv()
    except EOFError:
        raise SystemExit(f"{arguments[0]} could not make its tables") from None
    process.kill()
    process.join()


def main() -> None:
    told = json.load(sys.stdin)
    places = {name: Place(**each) for name, each in told["places"].items()}
    size = SMALL if told["small"] else FULL
    print(json.dumps(measured(sys.argv[1], places, size)))


if __name__ == "__main__":
    main()
