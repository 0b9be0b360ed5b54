"""Every link of a page leads somewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import anchors, links, pages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    """Links within the repository are followed; others must be https."""
    broken = []
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken
