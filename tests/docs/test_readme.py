"""The README's first minute works as it stands."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from typing import TYPE_CHECKING

import pytest

from tests.docs import shell
from tests.docs.pages import README, ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

# Blocks that are not run here, and what is asserted of them instead.
MAKE, INSTALL = "make demo", "pip install"


@pytest.fixture(name="minute")
def _minute(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """The README, typed: the folder, and what each block printed, by its first line."""
    run = [block for block in blocks(README) if not block.text.startswith((MAKE, INSTALL))]
    printed = shell.run(run, tmp_path)
    first = [block.text.splitlines()[0] for block in run]
    return tmp_path, dict(zip(first, printed, strict=True))


def test_start_in_a_minute_applies_once_then_reports_a_duplicate(
    minute: tuple[Path, dict[str, str]],
) -> None:
    _folder, printed = minute

    applied, duplicate, *history, checked = printed["export DULY_APP=jobs:app"].splitlines()

    key = "daily-credit:2026-09-13T00:00:00Z"
    assert applied.startswith(f"applied {key}")
    assert duplicate.startswith(f"duplicate {key}")
    assert sum("\tapplied\t" in line for line in history) == 1
    assert checked.startswith(f"{key} completed")


def test_transaction_of_ones_own_credits_the_next_day(
    minute: tuple[Path, dict[str, str]],
) -> None:
    """Ten from the job, ten from the caller's transaction."""
    folder, _printed = minute

    with sqlite3.connect(folder / "bank.db") as connection:
        units = connection.execute("SELECT units FROM balance").fetchall()
        settled = connection.execute("SELECT COUNT(*) FROM duly_occurrence").fetchone()
    connection.close()

    assert units == [(20,)]
    assert settled == (2,)


def test_blocks_that_are_not_run_name_what_there_is() -> None:
    """`make demo` is run by CI's users, pip needs a network: their words are checked."""
    left = [block.text for block in blocks(README) if block.text.startswith((MAKE, INSTALL))]
    assert len(left) == 2
    targets = re.findall(r"^make (\w+)", left[0], re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = set(re.findall(r"\[(\w+)\]", left[1]))
    assert extras == set(project["optional-dependencies"])


def test_every_block_is_run_or_named_above() -> None:
    assert {block.language for block in blocks(README)} == {"sh", "python"}
