"""The diagrams show the transitions that the code has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.docs import diagram

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", diagram.DIAGRAMS, ids=lambda page: page.stem)
def test_diagram_in_the_page_is_the_one_that_the_code_makes(page: Path) -> None:
    """Run `python -m tests.docs.diagram` after a change of `_core/states.py`."""
    assert diagram.shown(page) == diagram.DIAGRAMS[page]()
