"""The diagrams of states, made from the literal data of the core.

python -m tests.docs.diagram    writes them into docs/how-it-works.md and docs/outbox.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.states import (
    DISPOSITION_TRANSITIONS,
    MESSAGE_TRANSITIONS,
    RECORDED_OUTCOMES,
    Disposition,
    MessageState,
    Outcome,
)
from tests.docs.pages import DOCS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = DOCS / "how-it-works.md"
MESSAGES = DOCS / "outbox.md"
BEGIN = (
    "<!-- generated from src/duly/_core/states.py by `python -m tests.docs.diagram`;"
    " do not edit -->"
)
END = "<!-- /generated -->"


def generated() -> str:
    """The text between the marks: a Mermaid diagram, and the outcomes by where they are kept."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for start, ends in DISPOSITION_TRANSITIONS.items():
        name = "[*]" if start is None else start.value
        lines += [f"    {name} --> {end.value}" for end in Disposition if end in ends]
        if start is not None and not ends:
            lines.append(f"    {name} --> [*]")
    kept = ", ".join(f"`{each.value}`" for each in Outcome if each in RECORDED_OUTCOMES)
    counted = ", ".join(f"`{each.value}`" for each in Outcome if each not in RECORDED_OUTCOMES)
    return "\n".join(
        [
            *lines,
            "```",
            "",
            f"Outcomes with a row of their own in `duly_attempt`: {kept}.",
            f"Outcomes that are only counted, in `duly_duplicate`: {counted}.",
        ]
    )


def messages() -> str:
    """The diagram of a message's states."""
    lines = ["```mermaid", "stateDiagram-v2"]
    for start, ends in MESSAGE_TRANSITIONS.items():
        name = "[*]" if start is None else start.value
        lines += [f"    {name} --> {end.value}" for end in MessageState if end in ends]
        if start is not None and not ends:
            lines.append(f"    {name} --> [*]")
    return "\n".join([*lines, "```"])


DIAGRAMS: dict[Path, Callable[[], str]] = {PAGE: generated, MESSAGES: messages}


def shown(page: Path) -> str:
    """What *page* has between the marks."""
    _, begin, rest = page.read_text("utf-8").partition(BEGIN)
    inside, end, _ = rest.partition(END)
    assert begin, f"{page} has lost its mark {BEGIN}"
    assert end, f"{page} has lost its mark {END}"
    return inside.strip()


def write() -> None:
    """Put the diagrams into their pages."""
    for page, made in DIAGRAMS.items():
        before, _, rest = page.read_text("utf-8").partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(f"{before}{BEGIN}\n\n{made()}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    write()
