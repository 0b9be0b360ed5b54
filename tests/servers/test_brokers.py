"""The throw-away brokers answer after each start, and nothing of theirs outlives its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from tests.servers.program import Program

OWNER = """
import sys, time
from tests.servers.keeper import KINDS
server = KINDS[sys.argv[1]].create()
print(server.directory, flush=True)
time.sleep(600)
"""


@pytest.fixture(params=["rabbitmq_private", "redis_private", "nats_private"])
def broker(request: pytest.FixtureRequest) -> Program:
    server: Program = request.getfixturevalue(request.param)
    return server


def test_killed_broker_answers_again_after_a_start(broker: Program) -> None:
    """`start` returns only when it answers, so a start that returns is the promise."""
    broker.kill()
    assert not broker._answers()

    broker.start()

    assert broker._answers()


@pytest.mark.parametrize("name", ["rabbitmq", "redis", "nats"])
def test_broker_ends_with_a_killed_owner_and_leaves_nothing(
    name: str, request: pytest.FixtureRequest
) -> None:
    """No process and no file of it is left; RabbitMQ's own helpers end with it."""
    request.getfixturevalue(name)  # skips, or fails in CI, where there is none
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, name], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    directory = Path(owner.stdout.readline().strip())
    assert directory.exists()

    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()

    deadline = time.monotonic() + 60
    while (directory.exists() or _processes_in(directory)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not directory.exists()
    assert not _processes_in(directory)


def _processes_in(directory: Path) -> list[str]:
    """What runs with *directory* on its command line or as its working directory."""
    listed = subprocess.check_output(["ps", "-A", "-o", "pid=,args="], text=True)  # noqa: S607
    named = [line for line in listed.splitlines() if str(directory) in line]
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            here = (entry / "cwd").readlink()
        except OSError:
            continue
        if here == directory:
            named.append(entry.name)
    return named
