"""What the page about speed shows, is there and was written by a run."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.docs.pages import DOCS, ROOT, links

PAGE = DOCS / "speed.md"
CHART = DOCS / "speed.svg"


def test_chart_can_be_read_on_light_and_on_dark_pages() -> None:
    """It is well formed, has a bar for every contender, and colours for both."""
    text = CHART.read_text("utf-8")
    drawing = ET.fromstring(text)  # noqa: S314 - a file of ours
    said = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}

    assert "prefers-color-scheme: dark" in text
    assert {"SQLite", "PostgreSQL", "MariaDB"} <= said
    assert {"by hand", "duly.claim", "App.run", "duly.aio, App.run"} <= said


@pytest.mark.parametrize("name", ["RESULTS.md", "PEERS.md", "OUTBOX.md"])
def test_results_are_linked_and_written_by_a_run(name: str) -> None:
    """A number without its machine, or one that nobody finds, says nothing."""
    text = (ROOT / "bench" / name).read_text("utf-8")

    assert f"../bench/{name}" in links(PAGE)
    assert "Written by `make bench" in text
    assert "load at the start" in text
    assert "beside it" in text  # the disk's sync time


def test_every_contender_of_the_results_is_explained() -> None:
    """The page has a row for each that the tables name."""
    explained = PAGE.read_text("utf-8")
    results = (ROOT / "bench" / "RESULTS.md").read_text("utf-8")
    table = results.partition("\n| contender |")[2].partition("\n\n")[0]
    names = [line.split("|")[1].strip() for line in table.splitlines()[2:]]

    assert len(names) == 6
    assert not [name for name in names if f"| {name} |" not in explained]
