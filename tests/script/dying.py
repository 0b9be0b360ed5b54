"""A start of `duly sql` or `duly exec` in a child of `tests.faults.victims`; SIGKILL may end it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any


def start(order: dict[str, Any]) -> None:
    """Type a command line, and die where, or when, the order says.

    Order: `arguments`, `folder`, `environment`; of `op` and `place` (before, after), `statement`
    (a number) and `after_s` at most one says when. An op may be its `nth`; after a time `whom`
    (duly, command, both) is killed.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)  # the parent's answers go there
    os.dup2(null, 2)
    os.chdir(order["folder"])
    os.environ.update(order["environment"])
    if order.get("op"):
        _die_at_op(order["op"], order["place"], order.get("nth", 1))
    if order.get("statement"):
        _die_before_statement(order["statement"])
    if order.get("after_s") is not None:
        whom = order.get("whom", "duly")
        threading.Timer(order["after_s"], _kill, [whom]).start()
    from duly._cli.main import main

    code = main(order["arguments"])
    sys.stdout.flush()
    os._exit(code)


def _die_at_op(name: str, place: str, nth: int) -> None:
    from duly._sync.attempts import Attempts

    seen = 0

    def probe(when: str, op: Any, _shell: Any) -> None:
        nonlocal seen
        if when == place and type(op).__name__ == name:
            seen += 1
            if seen == nth:
                _die()

    untyped: Any = Attempts
    begun = Attempts.__init__

    def begin(self: Any, *args: Any, **named: Any) -> None:
        begun(self, *args, **named)
        self.probe = probe

    untyped.__init__ = begin


def _die_before_statement(number: int) -> None:
    from duly._sync import scripts

    untyped: Any = scripts
    execute = untyped._execute

    def dying(connection: Any, script: Any, statement: Any, *more: Any) -> Any:
        if statement.number == number:
            _die()
        return execute(connection, script, statement, *more)

    untyped._execute = dying


def _kill(whom: str) -> None:
    if whom != "duly":
        for entry in Path("/proc/self/task").glob("*/children"):
            for pid in entry.read_text().split():
                with suppress(ProcessLookupError):  # it was faster
                    os.killpg(int(pid), signal.SIGKILL)
    if whom != "command":
        _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
