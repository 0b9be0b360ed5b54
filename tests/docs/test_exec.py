"""The page about commands does what it shows."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from duly._sync.command import TAIL_BYTES, TAIL_LINES
from duly._sync.commanding import environment_of
from tests.docs import shell
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "exec.md"


def test_blocks_of_the_page_credit_once_however_often_they_are_typed(tmp_path: Path) -> None:
    found = blocks(PAGE)
    assert [block.language for block in found] == ["sh", "text"], "a block nobody runs"
    (typed, shown) = found

    again = typed.text.splitlines()[-1]
    printed = shell.run([typed, shown], tmp_path)[0]
    assert shell.matches(shown.text, printed), printed

    second = tmp_path / "second"
    second.mkdir()
    (tmp_path / "bank.db").rename(second / "bank.db")
    repeated = type(typed)("sh", again + "\n", 1, None, "")
    assert "duplicate credit:2026-09-13T00:00:00Z" in shell.run([repeated], second)[0]
    connection = sqlite3.connect(second / "bank.db")
    assert connection.execute("SELECT units FROM balance").fetchone() == (10,)
    connection.close()


def test_page_names_each_variable_and_bound() -> None:
    text = PAGE.read_text("utf-8")
    names = [each for each in environment_of.__code__.co_consts if str(each).startswith("DULY_")]

    assert f"{TAIL_LINES} lines ({TAIL_BYTES >> 10} KiB)" in text
    assert all(name in text for name in names)
