"""The page about Django, typed from an empty folder, does what it shows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from duly.contrib.django.conf import _KEYS
from tests.docs import shell
from tests.docs.pages import DOCS, blocks
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "django.md"


@pytest.mark.timeout(420)
def test_page_typed_from_top_to_bottom_prints_what_it_shows(tmp_path: Path) -> None:
    """Every block is run or written; each text block is what the one before it printed."""
    found = blocks(PAGE)
    assert {block.language for block in found} == {"python", "sh", "text"}, "a block nobody runs"
    assert all(block.file for block in found if block.language == "python"), "a block nobody runs"

    printed = shell.run(found, tmp_path, seconds=400)

    wrong = []
    for number, block in enumerate(found):
        if block.language == "text" and not shell.matches(block.text, printed[number - 1]):
            wrong.append(f"line {block.line}: expected\n{block.text}found\n{printed[number - 1]}")
    assert not wrong, "\n".join(wrong)


def test_page_names_each_key_of_the_setting() -> None:
    rows = re.findall(r"^\| `([A-Z_]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(_KEYS)


def test_page_names_the_version_that_the_extra_asks_for() -> None:
    (bound,) = re.findall(
        r'^django = \["django>=([\d.]+)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert bound in PAGE.read_text("utf-8")
