"""The blocks of docs/channels.md run, and its tables name every channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly import channels
from tests.docs.pages import ROOT, blocks

if TYPE_CHECKING:
    import pytest

PAGE = ROOT / "docs" / "channels.md"
BROKERS = {"Amqp", "CeleryTask", "Nats", "RedisStream", "Smtp"}


def test_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """They connect to nothing before the first send."""
    monkeypatch.setenv("SMTP_PASSWORD", "x")
    for block in blocks(PAGE):
        exec(compile(block.text, str(PAGE), "exec"), {})  # noqa: S102 - the page's own code


def test_tables_name_every_channel_to_a_broker() -> None:
    """A channel that is not described is one nobody can choose."""
    text = PAGE.read_text("utf-8")
    for name in BROKERS:
        assert hasattr(channels, name)
        assert text.count(f"| `{name}` |") == 2
