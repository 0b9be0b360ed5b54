"""A pytest plugin that writes what a long run has proved to `REPORT.md` beside it.

    python -m pytest -p tests.torture.report -m torture

It counts what this very run did, and says nothing of runs that left the long tests out. With
pytest-xdist it works in the session's process, so there it must be named on the command line.
"""

from __future__ import annotations

import os
import platform
import re
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pytest

REPORT = Path(__file__).with_name("REPORT.md")
DATABASES = ("sqlite", "postgresql", "mariadb")
OUTCOMES = ("passed", "failed", "skipped")
PLACES = ("tests/faults/", "tests/races/", "tests/torture/")
VERSION = "version"


class Tally:
    """What the session's reports add up to."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.tests: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.matrix: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.versions: dict[str, str] = {}
        self.notes: list[tuple[str, str, str]] = []
        self.failed: list[str] = []

    def add(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        if report.when == "teardown" and report.outcome == "skipped":
            return
        path, _, name = report.nodeid.partition("::")
        self.tests[path, database_of(name)][report.outcome] += 1
        if report.outcome == "failed":
            self.failed.append(report.nodeid)
        if "test_attempt.py::test_fault_at_any_op" in report.nodeid:
            op, kind = name.rstrip("]").split("-")[-2:]
            self.matrix[op, kind][report.outcome] += 1
        for key, value in report.user_properties:
            if key == VERSION:
                self.versions[database_of(name)] = str(value)
            else:
                self.notes.append((name, str(key), str(value)))

    def text(self) -> str:
        return "\n".join([*self._head(), *self._matrix(), *self._files(), *self._tail()]) + "\n"

    def _head(self) -> Iterator[str]:
        total = sum(self.tests.values(), Counter[str]())
        minutes, seconds = divmod(round(time.monotonic() - self.began), 60)
        yield "# The last long run"
        yield ""
        yield "Written by `make torture`; do not edit."
        yield ""
        yield f"- {datetime.now(UTC):%Y-%m-%d}, {minutes} min {seconds} s, {os.cpu_count()} cores"
        yield f"- Python {platform.python_version()}, {platform.system()}"
        for name in DATABASES:
            yield f"- {name}: {self.versions.get(name, 'not tested')}"
        yield f"- {', '.join(f'{total[each]} {each}' for each in OUTCOMES)}"
        yield ""

    def _matrix(self) -> Iterator[str]:
        ops = list(dict.fromkeys(op for op, _ in self.matrix))
        kinds = list(dict.fromkeys(kind for _, kind in self.matrix))
        if not ops:
            return
        yield "## Faults in an attempt"
        yield ""
        yield "Cells passed of cells run: each op, before and after it, in every scenario that"
        yield "reaches it, on each database."
        yield ""
        yield from table(
            ["op", *kinds],
            ([op, *(_ratio(self.matrix[op, kind]) for kind in kinds)] for op in ops),
        )

    def _files(self) -> Iterator[str]:
        yield "## Tests"
        yield ""
        yield from table(
            ["file", "database", *OUTCOMES],
            (
                [f"`{path}`", database, *(str(count[each]) for each in OUTCOMES)]
                for (path, database), count in sorted(self.tests.items())
                if path.startswith(PLACES)
            ),
        )

    def _tail(self) -> Iterator[str]:
        if self.notes:
            yield "## What was counted"
            yield ""
            yield from table(
                ["test", "what", "number"], (list(note) for note in sorted(self.notes))
            )
        if self.failed:
            yield "## Failed"
            yield ""
            yield from (f"- `{each}`" for each in sorted(self.failed))
            yield ""


def table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def database_of(name: str) -> str:
    """The database in a test's parameters; `-` if it needs none."""
    found = re.search(rf"\b({'|'.join(DATABASES)})\b", name.partition("[")[2])
    return found[1] if found else "-"


def _ratio(count: Counter[str]) -> str:
    return f"{count['passed']}/{count.total()}"


_tally = Tally()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _tally.add(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    is_long = "not torture" not in config.option.markexpr
    if hasattr(config, "workerinput") or not is_long or not _tally.versions:
        return
    REPORT.write_text(_tally.text(), encoding="utf-8")
