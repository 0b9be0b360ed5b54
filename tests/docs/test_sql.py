"""The page about SQL scripts does what it shows, from its first block to its last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._db.script import SCRIPT_BYTES_MAX
from duly._sync.scripts import KEPT_MAX, OF_THE_RUN
from tests.docs import shell
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

PAGE = DOCS / "sql.md"
FOUND = blocks(PAGE)


def test_every_block_of_the_page_runs_and_prints_what_it_shows(tmp_path: Path) -> None:
    printed = shell.run(FOUND, tmp_path)

    wrong = [
        f"line {shown.line}: expected\n{shown.text}found\n{out}"
        for shown, out in zip(FOUND[1:], printed, strict=False)
        if shown.language == "text" and not shell.matches(shown.text, out)
    ]
    assert not wrong, "\n".join(wrong)
    assert [block.language for block in FOUND].count("text") == 4


def test_the_line_of_the_crontab_is_the_one_that_the_page_runs() -> None:
    """Beside the database, which the environment names there, nothing is different."""
    (line,) = (block.text for block in FOUND if block.language == "crontab")
    typed = next(block.text for block in FOUND if "export" in block.text).splitlines()[-1]

    assert line.partition("&& ")[2].replace("--database sqlite:///bank.db ", "").strip() == typed


def test_the_page_names_each_parameter_and_bound() -> None:
    text = PAGE.read_text("utf-8")

    assert all(f"`:{name}`" in text for name in OF_THE_RUN)
    assert f"{SCRIPT_BYTES_MAX >> 20} MiB" in text
    assert f"first {KEPT_MAX}\nstatements" in text
