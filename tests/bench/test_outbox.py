"""The bench of messages runs, and looks at what it measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers.processes import ROOT


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("postgres")
def test_bench_of_messages_has_a_row_for_every_target_in_small() -> None:
    """Each carrier delivered each message once, or the run would have ended with an error."""
    done = subprocess.run(
        [sys.executable, "bench/outbox.py", "--small"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    targets = done.stdout.partition("\n## What was to be reached")[2].partition("\n## ")[0]
    for words in ("enqueued with", "delivered to a loopback", "a claim,", "sequential scans"):
        assert words in targets
    for row in ("| duly |", "| by hand |", "| 1,000 |"):
        assert row in done.stdout
