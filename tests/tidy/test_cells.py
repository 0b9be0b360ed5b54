"""No cell is forgotten: each suite goes through it, or a capability says why it cannot exist."""

from __future__ import annotations

import pytest

from tests import cells
from tests.contract.ways import WAYS
from tests.faults import matrix, test_claim
from tests.races.ways import WAYS as RACE
from tests.servers.processes import ROOT

FAULT = {matrix.FIRST_WAY, *matrix.OTHER_WAYS, test_claim.FIRST_WAY, *test_claim.OTHER_WAYS}
SUITES = {
    "contract": {cell for way in WAYS for cell in way.cells},
    "fault": {cell for way in WAYS if way.name in FAULT for cell in way.cells},
    "race": {cell for way in WAYS if way.name in RACE for cell in way.cells},
}


@pytest.mark.parametrize("suite", SUITES)
def test_suite_goes_through_every_cell_that_can_exist(suite: str) -> None:
    """A new database, mode or kind of connection is a gap until somebody tests it."""
    assert sorted(SUITES[suite]) == sorted(cells.PRESENT)


def test_capability_of_each_absent_cell_stands_in_the_docs_with_all_the_others() -> None:
    """A user reads in one table what there is; it is `tests.cells.table()`, pasted."""
    assert cells.table() in (ROOT / "docs" / "ways.md").read_text(encoding="utf-8")
