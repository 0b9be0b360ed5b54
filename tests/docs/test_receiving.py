"""The pages about the inbox and about HTTP do what they show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import shell
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("page", "shows"), [("inbox.md", 3), ("http.md", 1)])
def test_every_block_of_the_page_runs_and_prints_what_it_shows(
    page: str, shows: int, tmp_path: Path
) -> None:
    found = blocks(DOCS / page)
    printed = shell.run(found, tmp_path)

    wrong = [
        f"line {shown.line}: expected\n{shown.text}found\n{out}"
        for shown, out in zip(found[1:], printed, strict=False)
        if shown.language == "text" and not shell.matches(shown.text, out)
    ]
    assert not wrong, "\n".join(wrong)
    assert [block.language for block in found].count("text") == shows
