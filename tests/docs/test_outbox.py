"""The page about messages does what it says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from duly import channels
from duly._core.redress import ACTIONS
from duly._core.states import MessageState
from tests.docs.pages import DOCS, blocks

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = DOCS / "outbox.md"
TEXT = PAGE.read_text("utf-8")


def test_jobs_of_the_page_send_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two accounts, two messages, to one destination; without the secret nothing leaves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PAYMENTS_TOKEN", raising=False)
    (block,) = [each for each in blocks(PAGE) if each.language == "python"]
    names: dict[str, Any] = {}
    exec(compile(block.text, str(PAGE), "exec"), names)  # noqa: S102 - the page's own block
    app = names["app"]
    app.init()
    assert app.run("payout").outcome == "applied"
    found = app.outbox.messages(destination="payments")
    assert sorted(str(each.natural_key) for each in found) == ["a-1", "a-2"]
    done = app.deliver(once=True)
    assert (done.sent, done.again) == (0, 2)
    assert {each.answer for each in app.outbox.messages()} == {"secret_missing"}
    app.close()


def test_page_names_every_state_decision_and_channel() -> None:
    for state in MessageState:
        assert f"`{state.value}`" in TEXT
    for action in ACTIONS:
        assert re.search(rf"\b{action}\b", TEXT)
    for name in ("Http", "Call", "NotSent", "Refused", "CloudEvents", "Secret", "Answer"):
        assert hasattr(channels, name)
        assert re.search(rf"\b{name}\b", TEXT)
