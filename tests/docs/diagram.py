"""The diagram of outcomes and dispositions, made from the literal data of the core.

python -m tests.docs.diagram    writes it into docs/how-it-works.md
"""

from __future__ import annotations

from duly._core.states import DISPOSITION_TRANSITIONS, RECORDED_OUTCOMES, Disposition, Outcome
from tests.docs.pages import DOCS

PAGE = DOCS / "how-it-works.md"
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


def shown() -> str:
    """What the page has between the marks."""
    _, begin, rest = PAGE.read_text("utf-8").partition(BEGIN)
    inside, end, _ = rest.partition(END)
    assert begin, f"{PAGE} has lost its mark {BEGIN}"
    assert end, f"{PAGE} has lost its mark {END}"
    return inside.strip()


def write() -> None:
    """Put the diagram into the page."""
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n\n{generated()}\n\n{END}{after}", "utf-8")


if __name__ == "__main__":
    write()
