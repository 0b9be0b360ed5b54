"""What duly logs as a warning names its thing and the next step, in one line."""

from __future__ import annotations

import ast
import inspect
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import duly
from duly import testing
from duly._sync import warned
from duly._sync.markers import Marker, Markers
from tests.contract.bank import OLD, wait_until

if TYPE_CHECKING:
    from tests.contract.bank import Bank

SOURCE = Path(duly.__file__).parent
ERROR = OSError("disk full\nand a second line")
MARKER = Marker(uuid4(), "credit", 0, "", 1, "cron", "host", "process", 7, 0)
SAID = {
    "not_recorded": (MARKER, ERROR),
    "not_marked": (MARKER, ERROR),
    "not_unmarked": (MARKER.attempt_id, ERROR),
    "clock_behind": ("credit", datetime(2026, 1, 1, tzinfo=UTC)),
    "late_answer": (MARKER.attempt_id, "ledger"),
    "answers_lost": (3, ERROR),
}


def test_each_warning_of_the_source_says_something_in_words() -> None:
    """The command line prints the event and `error`; one without it would be a bare word."""
    bare = []
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("log.warning"):
                said = " ".join(ast.unparse(each) for each in node.keywords)
                if "'error'" not in said and "warned." not in said and "told(" not in said:
                    bare.append(f"{path.name}:{node.lineno}")
    assert bare == []


def test_evidence_that_cannot_be_kept_is_told_with_its_key(
    bank: Bank, caplog: pytest.LogCaptureFixture
) -> None:
    """The handler's own error comes out; that its row is missing is a line of the log."""

    def fail(run: duly.Run) -> None:
        raise LookupError("the handler's")

    app = bank.define(bank.app(), fail)
    with (
        testing.fault(app, op="Record", when="before", kind="raise", times=100, error=ERROR),
        pytest.raises((LookupError, OSError)),
    ):
        app.run(bank.job, OLD)

    record = next(each for each in caplog.records if each.getMessage() == "evidence_not_kept")
    assert record.__dict__["key"] == bank.occurrence().key
    assert record.__dict__["error"].startswith(f"{bank.occurrence().key}: ")
    assert "(disk full)" in record.__dict__["error"]


class Full:
    """A store on a disk that is full."""

    def add(self, marker: Marker) -> None:
        raise ERROR

    def remove(self, attempt_id: Any) -> None:
        raise ERROR

    def close(self) -> None:
        raise ERROR


def test_marker_that_cannot_be_kept_is_told_with_its_key(caplog: pytest.LogCaptureFixture) -> None:
    """Once when it is to be written, once when it is to go; closing says nothing more."""

    def told(count: int) -> bool:
        return len(caplog.records) == count

    markers = Markers(Full(), 0.0)
    markers.started(MARKER.attempt_id, lambda: MARKER)
    wait_until(lambda: told(1), "it was told of the marker")
    markers.finished(MARKER.attempt_id)
    wait_until(lambda: told(2), "it was told of the marker that stays")
    markers.close()

    assert [each.getMessage() for each in caplog.records] == ["marker_not_kept"] * 2
    written, gone = (each.__dict__["error"] for each in caplog.records)
    assert written.startswith("credit:1970-01-01T00:00:00Z: attempt ")
    assert gone.startswith(f"attempt {MARKER.attempt_id} has ended")


@pytest.mark.parametrize("name", SAID)
def test_warning_is_one_line_with_a_next_step(name: str) -> None:
    given: Any = SAID[name]
    if name == "not_recorded":
        request = type("R", (), {"occurrence": duly.Occurrence("credit", OLD)})
        given = (request, ERROR)
    said = getattr(warned, name)(*given)["error"]
    assert len(said.splitlines()) == 1
    assert "second line" not in said
    assert any(word in said for word in ("look at", "`duly ", "set it right"))


def test_every_warning_with_words_is_tested_above() -> None:
    found = {
        name
        for name, each in inspect.getmembers(warned, inspect.isfunction)
        if each.__module__ == warned.__name__
    }
    assert found == set(SAID)
