"""Worker processes: each has one contender on one place, and does what it is told through a pipe.

They are forked from a process that imported all that is big, so that a hundred of them start in
seconds; under strace one is a program of its own:

    python bench/worker.py CONTENDER PLACE COUNT NEW|AGAIN
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from place import Place  # noqa: E402 - after the path to it

BIG = ("psycopg", "pymysql", "sqlalchemy.ext.asyncio", "duly._aio.app", "duly._sync.ticking")
BATCH = 100
"""How many occurrences a contender with a queue is handed at once."""
_ours = multiprocessing.get_context("forkserver")
_ours.set_forkserver_preload([*BIG])  # what a peer's environment has not is passed over


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


def forked(target: Any, *arguments: Any) -> tuple[Any, Connection]:
    """A process that runs *target* with the arguments and the other end of the pipe."""
    pipe, its = _ours.Pipe()
    process = _ours.Process(target=target, args=(*arguments, its), daemon=True)
    process.start()
    its.close()
    return process, pipe


class Workers:
    """Processes, with so many threads each, of one contender on one place."""

    def __init__(self, contender: str, place: Place, processes: int = 1, threads: int = 1) -> None:
        self._pipes, self._processes = [], []
        for _ in range(processes):
            process, pipe = forked(_serve, contender, place, threads)
            self._pipes.append(pipe)
            self._processes.append(process)
        self._answers()

    def work(self, seconds: float, *, again: bool = False) -> Slice:
        """New occurrences for so long; or *again* those that were done before."""
        return _added(self._ask({"seconds": seconds, "again": again}))

    def apply(self, count: int, *, again: bool = False) -> Slice:
        """So many new occurrences by each thread; or *again* those that were done before."""
        return _added(self._ask({"count": count, "again": again}))

    def race(self, names: list[str]) -> tuple[float, int]:
        """All do the same occurrences at once; the seconds until the last, and how many new."""
        began = time.perf_counter()
        said = self._ask({"names": names})
        return time.perf_counter() - began, sum(each["applied"] for each in said)

    def close(self) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(10)
            if process.is_alive():  # a peer that does not end by itself
                process.kill()
                process.join()

    def _ask(self, told: dict[str, Any]) -> list[dict[str, Any]]:
        for pipe in self._pipes:
            pipe.send(told)
        return self._answers()

    def _answers(self) -> list[dict[str, Any]]:
        try:
            return [pipe.recv() for pipe in self._pipes]
        except EOFError:
            raise RuntimeError("a worker of the bench ended; its own words are above") from None


def _added(said: list[dict[str, Any]]) -> Slice:
    took = sorted(each for one in said for each in one["took_s"])
    rate = sum(one["rate"] for one in said)
    cpu = sum(one["cpu_s"] for one in said) / max(1, len(took))
    return Slice(rate, took, cpu, [count for one in said for count in one["counts"]])


# ---------------------------------------------------------------------------------- in the process


class Bench:
    """What one process does."""

    def __init__(self, contender: str, place: Place, threads: int = 1) -> None:
        self._contender = importlib.import_module(f"contenders.{contender}")
        self._opened = [self._contender.connect(place) for _ in range(threads)]
        self._ours = uuid.uuid4().hex[:8]  # other crews work on the same place
        self._next = [1] * threads
        self._many = getattr(self._contender, "many", None)
        self._shares = getattr(self._contender, "SHARES", False)

    def do(self, told: dict[str, Any]) -> dict[str, Any]:
        if "names" in told:
            names = told["names"]
            batches = (names[at : at + BATCH] for at in range(0, len(names), BATCH))
            return {"applied": sum(sum(self._apply(0, batch)) for batch in batches)}
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

    def close(self) -> None:
        for worker in self._opened:
            self._contender.close(worker)

    def _work(self, thread: int, told: dict[str, Any], took: list[float]) -> None:
        again = told["again"]
        number = 0 if again else self._next[thread]
        size = BATCH if self._many and not again else 1
        if again:
            self._apply(thread, [f"{self._ours}.{thread}-0"])  # now it is there
        until = time.perf_counter() + told.get("seconds", 1e9)
        left = told.get("count", 1 << 60)
        while left > 0 and (began := time.perf_counter()) < until:
            size = min(size, left)
            names = [f"{self._ours}.{thread}-{number + n}" for n in range(size)]
            applied = self._apply(thread, names)
            took += [(time.perf_counter() - began) / size] * size
            assert self._shares or not self._contender.HAS_KEY or any(applied) is not again, names
            left -= size
            number += 0 if again else size
        if not again:
            self._next[thread] = number

    def _apply(self, thread: int, names: list[str]) -> list[bool]:
        worker = self._opened[thread]
        numbers = [int(name.rpartition("-")[2]) for name in names]
        if self._many:
            found: list[bool] = self._many(worker, names, numbers)
            return found
        once = self._contender.once
        return [once(worker, *each) for each in zip(names, numbers, strict=True)]


def _serve(contender: str, place: Place, threads: int, pipe: Connection) -> None:
    bench = Bench(contender, place, threads)
    pipe.send({})
    while True:
        try:
            told = pipe.recv()
        except EOFError:
            break
        pipe.send(bench.do(told))
    bench.close()


def main() -> None:
    contender, place, count, kind = sys.argv[1:]
    bench = Bench(contender, Place(**json.loads(place)))
    bench.do({"count": int(count), "again": kind == "AGAIN"})
    bench.close()


if __name__ == "__main__":
    main()
