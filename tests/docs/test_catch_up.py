"""The page about catch-up: its examples run, and its table of states is the code's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from duly._core.policies import CATCH_UP
from duly._core.status import State
from tests.docs import shell
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "catch-up.md"
FOUND = blocks(PAGE)


def test_every_example_of_the_page_runs(tmp_path: Path) -> None:
    """From top to bottom, in one directory; what a command prints is what the page shows."""
    printed = shell.run(FOUND, tmp_path)

    wrong = [
        f"line {block.line}: expected\n{shown.text}found\n{out}"
        for block, shown, out in zip(FOUND, FOUND[1:], printed, strict=False)
        if shown.language == "text" and not shell.matches(_stripped(shown.text), _stripped(out))
    ]
    assert not wrong, "\n".join(wrong)
    assert [block.language for block in FOUND].count("text") == 1


def _stripped(text: str) -> str:
    """Without the empty cells at the ends of rows, which no editor keeps."""
    return "\n".join(line.rstrip() for line in text.splitlines())


def test_each_policy_has_an_example() -> None:
    """Under a heading of its name, as code that asserts."""
    examples = {block.section.lower(): block.text for block in FOUND if block.language == "python"}
    for policy in CATCH_UP:
        assert "assert" in examples[policy], policy
        if policy != "each":
            assert f'catch_up="{policy}"' in examples[policy]


def test_table_of_states_is_the_codes_in_its_order() -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("## States")
    table = rest.partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z ]+)` \|", table, re.MULTILINE) == [each.value for each in State]
