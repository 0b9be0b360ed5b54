"""Reads the pages: their blocks, their headings, their links."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A line that ends a paragraph before a block and says where the block goes.
_FILE = re.compile(r"(?:Write|Change|Make) `([\w./-]+)`[^\n]*:\s*\Z")
_HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        file: The file that it is to be written to, if the line before it says so.
        section: The heading it stands under.
    """

    language: str
    text: str
    line: int
    file: str | None
    section: str


def pages() -> list[Path]:
    """Every page for users, and the other texts that link to them."""
    return [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(DOCS.glob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of *page*, in order."""
    text = page.read_text("utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        named = _FILE.search(before)
        headings = _HEADING.findall(_FENCE.sub("", before))
        found.append(
            Block(
                match[1],
                match[2],
                before.count("\n") + 1,
                named[1] if named else None,
                headings[-1] if headings else "",
            )
        )
    return found


def prose(page: Path) -> str:
    """*page* without its blocks."""
    return _FENCE.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """What a link may name after `#`, as GitHub makes it from the headings."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).replace(" ", "-")
        for heading in _HEADING.findall(prose(page))
    }


def links(page: Path) -> list[str]:
    """The targets of *page*'s links."""
    return _LINK.findall(prose(page))
