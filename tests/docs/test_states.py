"""The diagram shows the transitions that the code has."""

from __future__ import annotations

from tests.docs import diagram


def test_diagram_in_the_page_is_the_one_that_the_code_makes() -> None:
    """Run `python -m tests.docs.diagram` after a change of `_core/states.py`."""
    assert diagram.shown() == diagram.generated()
