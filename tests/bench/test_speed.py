"""The bench runs, so that it is there when a number is wanted."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from tests.servers.database import Database

# What the bench is asked for: a few words of each row, and the databases that have no such row.
TARGETS: dict[str, set[str]] = {
    "1 worker: `duly.claim` to by hand |": set(),
    "1 worker: `duly.claim` to by hand, SQLAlchemy": set(),
    "1 worker: `App.run` to by hand |": set(),
    "1 worker: `App.run` to by hand, SQLAlchemy": set(),
    "2 workers: `App.run` to by hand": set(),
    "duplicates: `App.run` to by hand": set(),
    "duplicates: `duly.claim` to by hand": set(),
    "syncs of an applied occurrence, `App.run`": set(),
    "syncs of an applied occurrence, `duly.claim`": set(),
    "syncs of a refused duplicate, `App.run`": {"mariadb"},
    "syncs of a refused duplicate, `duly.claim`": {"mariadb"},
    "commits of an applied occurrence, `App.run`": {"sqlite"},
    "commits of an applied occurrence, `duly.claim`": {"sqlite"},
    "round trips, `App.run`, on loopback": {"sqlite", "mariadb"},
    "round trips, `App.run`, server 1 ms away": {"sqlite", "mariadb"},
    "client CPU, `App.run`": {"sqlite", "mariadb"},
    "2 processes, the same 20 keys": set(),
    "on top of 500 settled": set(),
    "room of a settled occurrence (no partition)": {"mariadb"},
    "8 threads, one file: rate to 1 worker": {"postgresql", "mariadb"},
    "8 threads, one file: longest wait": {"postgresql", "mariadb"},
    "8 processes, one file: rate to 1 worker": {"postgresql", "mariadb"},
    "8 processes, one file: longest wait": {"postgresql", "mariadb"},
    "times: bare change, no key | doubles (the control)": set(),
    "times: by hand |": set(),
    "times: `duly.claim`": set(),
    "times: `App.run`": set(),
    "times: `duly.aio`, `App.run`": set(),
    "process: `duly run` on SQLite, CPU": set(),
    "process: `duly --help`, CPU": set(),
}


@pytest.mark.timeout(900)
def test_bench_has_a_row_for_every_target_in_small(database: Database) -> None:
    """What it measures is not looked at, as a small run says nothing."""
    name = database.name  # the bench makes its own; this one says whether there can be one
    done = _run("bench/speed.py", "--small", name)

    targets = done.stdout.partition("\n## What was to be reached")[2].partition("\n## ")[0]
    missing = [words for words, not_on in TARGETS.items() if (words in targets) is (name in not_on)]
    assert not missing
    for said in ("kills between commit and acknowledgement", "`duly.aio`, `App.run`", "p99 ms"):
        assert said in done.stdout


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("postgres")
def test_bench_of_peers_tells_once_from_more_than_once() -> None:
    """Two starters on the same keys: one effect each by hand, two each without a key."""
    done = _run("bench/peers.py", "--small", "by hand", "no key")

    once = done.stdout.partition("\n## Once?")[2].partition("\n## ")[0]
    assert "| by hand | 20 effects of 20 |" in once
    assert "| no key | 40 effects of 20 |" in once


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done
