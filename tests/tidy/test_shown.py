"""Every line of what must be shown to hold names tests that exist."""

from __future__ import annotations

import pytest

from tests.servers.processes import ROOT
from tests.shown import SHOWN


@pytest.mark.parametrize("line", SHOWN)
def test_line_is_shown_by_tests_that_exist(line: str) -> None:
    assert SHOWN[line]
    for test in SHOWN[line]:
        file, _, name = test.partition("::")
        assert f"def {name}(" in (ROOT / file).read_text("utf-8"), test
