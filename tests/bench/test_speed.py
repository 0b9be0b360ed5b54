"""The bench runs, so that it is there when a number is wanted."""

from __future__ import annotations

import subprocess
import sys

from tests.servers.processes import ROOT


def test_bench_measures_every_contender_in_small() -> None:
    """On SQLite; what it measures is not looked at, as a small run says nothing."""
    done = subprocess.run(
        [sys.executable, "bench/speed.py", "--small", "sqlite"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    for said in ("by hand, SQLAlchemy", "`duly.claim`", "`App.run`", "busy handler", "`duly run`"):
        assert said in done.stdout
