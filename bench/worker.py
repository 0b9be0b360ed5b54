"""A worker process: one contender on one place, told on its standard input what to do next.

    python bench/worker.py CONTENDER PLACE THREADS

Each line of JSON in gives one line of JSON out: how many, how long each took, the processor's time.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from place import Place  # noqa: E402 - after the path to it


class Slice(NamedTuple):
    """What workers did in one slice of time.

    Attributes:
        rate: Per second.
        took_s: Of each, sorted.
        cpu_s: Of the clients, for each.
        per_worker: How many each thread did.
    """

    rate: float
    took_s: list[float]
    cpu_s: float
    per_worker: list[int]

    def quantile(self, part: float) -> float:
        return self.took_s[min(len(self.took_s) - 1, int(len(self.took_s) * part))]


class Unavailable(Exception):
    """The contender cannot be had here."""


class Workers:
    """Processes, with so many threads each, of one contender on one place."""

    def __init__(
        self,
        contender: str,
        place: Place,
        processes: int = 1,
        threads: int = 1,
        *,
        under: Sequence[str] = (),
    ) -> None:
        told = json.dumps(vars(place))
        self._processes = [
            subprocess.Popen(
                [
                    *under,
                    sys.executable,
                    __file__,
                    contender,
                    told,
                    str(threads),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(processes)
        ]
        for said in self._answers():
            if "unavailable" in said:
                self.close()
                raise Unavailable(said["unavailable"])

    def work(self, seconds: float, *, again: bool = False) -> Slice:
        """New occurrences for so long; or *again* those that were done before."""
        return _added(self._ask({"seconds": seconds, "again": again}))

    def apply(self, count: int) -> Slice:
        """So many new occurrences by each thread."""
        return _added(self._ask({"count": count}))

    def race(self, names: list[str]) -> tuple[float, int]:
        """All do the same occurrences at once; the seconds until the last, and how many new."""
        began = time.perf_counter()
        said = self._ask({"names": names})
        return time.perf_counter() - began, sum(each["applied"] for each in said)

    def close(self) -> None:
        for process in self._processes:
            process.communicate()

    def _ask(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(told) + "\n")
            process.stdin.flush()
        return self._answers()

    def _answers(self) -> list[dict[str, Any]]:
        found = []
        for process in self._processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"a worker of the bench ended: {process.args}")
            found.append(json.loads(line))
        return found


def _added(said: list[dict[str, Any]]) -> Slice:
    took = sorted(each for one in said for each in one["took_s"])
    rate = sum(one["rate"] for one in said)
    cpu = sum(one["cpu_s"] for one in said) / max(1, len(took))
    return Slice(rate, took, cpu, [count for one in said for count in one["counts"]])


# ---------------------------------------------------------------------------------- in the process


class Bench:
    """What one process does."""

    def __init__(self, contender: Any, place: Place, threads: int) -> None:
        self._contender = contender
        self._opened = [contender.connect(place) for _ in range(threads)]
        self._ours = uuid.uuid4().hex[:8]  # other crews work on the same place
        self._next = [1] * threads

    def do(self, told: dict[str, Any]) -> dict[str, Any]:
        if "names" in told:
            return {"applied": sum(map(self._raced, told["names"]))}
        took: list[list[float]] = [[] for _ in self._opened]
        elapsed = [1.0] * len(self._opened)

        def work(thread: int) -> None:
            began = time.perf_counter()
            self._work(thread, told, took[thread])
            elapsed[thread] = time.perf_counter() - began

        began_cpu = time.process_time()
        threads = [threading.Thread(target=work, args=[n]) for n in range(len(self._opened))]
        if len(threads) == 1:
            work(0)
        else:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return {
            "took_s": [each for one in took for each in one],
            "rate": sum(len(one) / s for one, s in zip(took, elapsed, strict=True)),
            "cpu_s": time.process_time() - began_cpu,
            "counts": [len(one) for one in took],
        }

    def _work(self, thread: int, told: dict[str, Any], took: list[float]) -> None:
        once, worker = self._contender.once, self._opened[thread]
        again = told.get("again", False)
        number = 0 if again else self._next[thread]
        if again:
            once(worker, f"{self._ours}.{thread}-0", 0)  # now it is there
        until = time.perf_counter() + told.get("seconds", 1e9)
        left = told.get("count", 1 << 60)
        while left > 0 and (began := time.perf_counter()) < until:
            applied = once(worker, f"{self._ours}.{thread}-{number}", number)
            took.append(time.perf_counter() - began)
            assert applied is not again or not self._contender.HAS_KEY
            left -= 1
            number += not again
        if not again:
            self._next[thread] = number

    def _raced(self, name: str) -> bool:
        applied: bool = self._contender.once(self._opened[0], name, int(name.rpartition("-")[2]))
        return applied

    def close(self) -> None:
        for worker in self._opened:
            self._contender.close(worker)


def main() -> None:
    name, place, threads = sys.argv[1:]
    try:
        contender = importlib.import_module(f"contenders.{name}")
        bench = Bench(contender, Place(**json.loads(place)), int(threads))
    except ImportError as error:
        print(json.dumps({"unavailable": str(error)}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(bench.do(json.loads(line))), flush=True)
    bench.close()


if __name__ == "__main__":
    main()
