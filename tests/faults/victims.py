"""Children that die by SIGKILL, by the hundred: one process that has loaded duly forks each.

    python -m tests.faults.victims [MODULE…]

Reads one order (JSON) a line from standard input and writes the child's end as a line: the negative
number of the signal that ended it, or its exit status. A child is a process of its own, with
connections of its own; it opens none before the fork. The modules are loaded before it, too.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import traceback
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.contract import django_project

# What a child would otherwise spend half a second on, each time.
_LOADED = (
    "duly._aio.app",
    "duly.contrib.django.app",
    "django.db.backends.sqlite3.base",
    "django.db.backends.postgresql.base",
    "sqlalchemy.dialects.mysql.asyncmy",
    "sqlalchemy.dialects.mysql.pymysql",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "tests.faults.staging",
)
ROOT = Path(__file__).resolve().parents[2]
SURVIVED = 3


class Victims:
    """The tests' end."""

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.victims", *modules],
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
    from tests.faults.matrix import Cell
    from tests.faults.staging import Stage

    cell = Cell(**order["cell"])
    at = datetime.fromisoformat(order["at"])
    bank = Bank(order["url"], way=cell.way)
    stage = Stage(cell.database, bank, cell.plan, order["partition"], at)
    with stage.faulted(cell):
        stage.start()


def act_and_die(order: dict[str, Any]) -> None:
    """Register a job or tick, and die at a statement or at the commit that follows it."""
    from duly._sync import ticking
    from tests.races.bank import Bank, credit
    from tests.races.beats import BEAT, Beats

    ticking.COMPLETE_EVERY = 1
    bank, beats = Bank(order["name"], order["url"]), Beats.told(order["beats"])
    app = bank.app()
    policies = Beats.policies(order)
    app.job(BEAT, schedule=order["schedule"], starts=beats.first, **policies)(credit)
    if order["act"] == "tick":
        app.register()
    die_at(order["statement"], order["place"])
    if order["act"] == "tick":
        app.tick(beats.now)
    else:
        app.register()


def die_at(statement: str, place: str) -> None:
    """Let this process end at the *place* `before`, `after`, `before commit` or `after commit`."""
    from duly._db.sessions.base import Session
    from duly._db.sessions.psycopg_driver import PsycopgSession
    from duly._db.sessions.pymysql_driver import PyMysqlSession
    from duly._db.sessions.sqlite_driver import SqliteSession

    seen: list[str] = []

    def wrapped(inner: Any) -> Any:
        def outer(self: Session, name: str, params: Any) -> Any:
            if name == statement and place == "before":
                _die()
            value = inner(self, name, params)
            if name == statement:
                seen.append(name)
                if place == "after":
                    _die()
            return value

        return outer

    def committing(inner: Any) -> Any:
        def outer(self: Session, wait: float) -> bool:
            if seen and place == "before commit":
                _die()
            value: bool = inner(self, wait)
            if seen and place == "after commit":
                _die()
            return value

        return outer

    untyped: Any = Session
    untyped.run, untyped.change = wrapped(Session.run), wrapped(Session.change)
    for kind in (SqliteSession, PsycopgSession, PyMysqlSession):
        each: Any = kind
        each.commit = committing(kind.commit)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    for name in (*_LOADED, *sys.argv[1:]):
        importlib.import_module(name)
    django_project.connections()  # Django's settings; no connection is made before the fork
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
