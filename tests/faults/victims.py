"""Children that die by SIGKILL, by the hundred: one process that has loaded duly forks each.

    python -m tests.faults.victims

Reads one order (JSON) a line from standard input and writes the child's end as a line: the negative
number of the signal that ended it, or its exit status. A child is a process of its own, with
connections of its own; it opens none before the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SURVIVED = 3


class Victims:
    """The tests' end."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.victims"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill_one(self, play: str, **order: Any) -> int:
        """Let a child do *play*, a function `module:name` of one dict, until it dies."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"play": play, **order}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait(timeout=30)


def start_attempt(order: dict[str, Any]) -> None:
    """One start of a scenario, with a cell's fault."""
    from tests.faults.ledger import Bank
    from tests.faults.scenarios import Cell, Stage

    cell = Cell(**order["cell"])
    at = datetime.fromisoformat(order["at"])
    stage = Stage(cell.database, Bank(order["url"]), cell.plan, order["partition"], at)
    with stage.faulted(cell):
        stage.start()


def main() -> None:
    for name in ("duly._sync.app", "psycopg", "pymysql", "tests.faults.scenarios"):
        importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _play(json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the answer


def _play(order: dict[str, Any]) -> None:
    try:
        module, _, name = order["play"].partition(":")
        getattr(importlib.import_module(module), name)(order)
    except BaseException:
        traceback.print_exc()
    os._exit(SURVIVED)


if __name__ == "__main__":
    main()
