"""A process that starts attempts, as a scheduler, a pod or a web worker does.

    python -m tests.races.starter JSON

It says `ready`, waits for a line on its standard input, so that all begin at once, and in the
end writes one line of JSON: how many attempts ended how.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

import duly
from tests.races.bank import JOB, Bank, Caller, credit
from tests.races.beats import Beats, outcomes, problems, timed
from tests.races.ways import at_once
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


# ------------------------------------------------------------------------------------ in the parent


class Starter:
    """The parent's end of one such process."""

    def __init__(self, bank: Bank, kind: str, **told: Any) -> None:
        told.update(name=bank.name, url=bank.url, kind=kind)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.races.starter", json.dumps(told)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def expect(self, word: str) -> None:
        """Wait until the process says *word*."""
        assert self._process.stdout is not None
        said = self._process.stdout.readline().strip()
        assert said == word, f"expected {word!r}, the process said {said!r}"

    def go(self) -> None:
        """Let it begin, or go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> Counter[str]:
        """How its attempts ended; waits for the end of the process."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.close()
        assert line, f"the process ended with status {self._process.returncode}"
        return Counter(json.loads(line))

    def close(self) -> None:
        """End it if it still runs."""
        with suppress(BrokenPipeError):
            self._process.communicate(timeout=60)

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self.close()


def race(starters: Sequence[Starter], rounds: int = 1) -> Counter[str]:
    """Let all begin at once, in every round; returns how all their attempts ended."""
    try:
        for _ in range(rounds):
            for starter in starters:
                starter.expect("ready")
            for starter in starters:
                starter.go()
        return sum((starter.result() for starter in starters), Counter[str]())
    finally:
        for starter in starters:
            starter.close()


# ----------------------------------------------------------------------------------- in the process


def main(told: dict[str, Any]) -> None:
    bank = Bank(told["name"], told["url"])
    counted = Counter[str]()
    for round_ in told.pop("rounds", [{}]):
        counted += KINDS[told["kind"]](bank, {**told, **round_})
    _say(json.dumps(counted))
    bank.close()


def _own(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """Each thread starts every key of the round once, through an App of this process."""
    app = bank.app(level=told.get("level"), pool_size=max(5, told["threads"]))
    app.sweep()  # connects, and looks at the ledger, before the race
    return _in_threads(told["threads"], lambda: [_run(app, key) for key in told["keys"]])


def _caller(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """Each thread claims every key of the round once, in transactions of its own."""
    threads, snapshot = told["threads"], told["snapshot"]
    callers = [bank.caller(told["level"]) for _ in range(threads)]
    together = threading.Barrier(threads)

    def work() -> list[str]:
        caller = callers.pop()
        outcomes = []
        for key in told["keys"]:
            outcome = "again"
            if snapshot:
                outcome = _first_try_from_one_snapshot(caller, key, together)
            if outcome == "again":
                outcome = caller.until_settled(key, snapshot=snapshot)
            outcomes.append(outcome)
        return outcomes

    return _in_threads(threads, work)


def _first_try_from_one_snapshot(caller: Caller, key: str, together: threading.Barrier) -> str:
    """All threads hold a snapshot before any of them claims."""
    caller.begin(snapshot=True)
    together.wait(30)
    return caller.finish(key)


def _forked(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """Children of one process that had used the App before it forked (a preloading server)."""
    app = bank.app()
    app.sweep()
    _await_go()
    pipes = []
    for _ in range(told["children"]):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.close(reader)
            counted = Counter(_run(app, key) for key in told["keys"])
            os.write(writer, json.dumps(counted).encode())
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    total = Counter(_run(app, key) for key in told["keys"])
    for reader in pipes:
        with os.fdopen(reader) as stream:
            total += Counter(json.loads(stream.read() or '{"died": 1}'))
        os.wait()
    return total


def _hold(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """One attempt whose handler says `inside` and stays there until it is told to go on."""

    def handler(run: duly.Run) -> None:
        credit(run)
        _say("inside")
        sys.stdin.readline()

    app = bank.app(handler=handler, evidence_after=told.get("evidence_after", 0.25))
    app.sweep()
    _await_go()
    return Counter([_run(app, told["keys"][0])])


def _tick(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """Each thread ticks with an App of its own until nothing is missing."""
    beats = Beats.told(told["beats"])
    apps = [beats.app(bank, timed, **beats.policies(told)) for _ in range(told["threads"])]

    def work() -> list[str]:
        app, found = apps.pop(), []
        while (report := app.tick(beats.now)).jobs:
            found += outcomes(report)
            found += [f"{type(error).__name__}: {error}" for error in problems(report)]
        return found

    return _in_threads(told["threads"], work)


def _ways(bank: Bank, told: dict[str, Any]) -> Counter[str]:
    """Each way in starts every key once, on a thread of its own, all at the same moment."""
    # SQLAlchemy imports a dialect at its first use, which two threads at once can trip over.
    make_url(bank.url).get_dialect()
    names = list(told["ways"])
    together = threading.Barrier(len(names))
    return _in_threads(len(names), lambda: at_once(bank, names.pop(), told["keys"], together))


KINDS: dict[str, Callable[[Bank, dict[str, Any]], Counter[str]]] = {
    "own": _own,
    "caller": _caller,
    "forked": _forked,
    "hold": _hold,
    "tick": _tick,
    "ways": _ways,
}


def _run(app: duly.App, key: str) -> str:
    occurrence = duly.Occurrence.parse(key)
    try:
        result = app.run(JOB, occurrence.nominal_time, partition=occurrence.partition, wait=60)
    except duly.DulyError as error:
        return f"{type(error).__name__}: {error}"
    return result.outcome.value


def _in_threads(count: int, work: Callable[[], list[str]]) -> Counter[str]:
    _await_go()
    outcomes: list[str] = []

    def collect() -> None:
        try:
            outcomes.extend(work())
        except BaseException as error:
            outcomes.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=collect) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Counter(outcomes)


def _await_go() -> None:
    _say("ready")
    sys.stdin.readline()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
