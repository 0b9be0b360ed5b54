"""The tutorial does what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.docs import shell
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "tutorial.md"


def test_tutorial_typed_from_top_to_bottom_prints_what_it_shows(tmp_path: Path) -> None:
    """Every block is run; each text block is what the one before it printed."""
    found = blocks(PAGE)
    assert {block.language for block in found} == {"python", "sh", "text"}, "a block nobody runs"

    printed = shell.run(found, tmp_path)

    wrong = []
    for number, block in enumerate(found):
        if block.language == "text":
            assert number, "a text block shows what the block before it printed"
            if not shell.matches(block.text, printed[number - 1]):
                wrong.append(
                    f"line {block.line}: expected\n{block.text}found\n{printed[number - 1]}"
                )
    assert not wrong, "\n".join(wrong)


def test_tutorial_shows_what_each_command_prints() -> None:
    """A command without its output could print anything; the first and the last print little."""
    found = blocks(PAGE)
    shown = [
        number
        for number, block in enumerate(found[:-1])
        if block.language == "sh" and found[number + 1].language == "text"
    ]
    commands = [number for number, block in enumerate(found) if block.language == "sh"]
    assert len(commands) - len(shown) == 2
