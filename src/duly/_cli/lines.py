"""Lines under a header: aligned on a terminal with what a line has to say below it, or tab rows.

Decides the form, not the words. It must never leave a line out, or cut a key or a state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly._cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class Line:
    """One line.

    Attributes:
        cells: As they stand under the header.
        said: What there is to say about it; the last cell in a pipe.
        style: Of the state, Rich's.
    """

    cells: tuple[str, ...]
    said: str = ""
    style: str = ""


def show(header: Sequence[str], lines: Sequence[Line], *, state: int) -> None:
    """Print the lines to stdout.

    Args:
        header: Of the cells and, last, of what is said.
        state: The index of the cell that is coloured.
    """
    plain = [tuple(output.plain(cell) for cell in line.cells) for line in lines]
    if not output.on_terminal():
        said = [output.plain(line.said) for line in lines]
        output.say_rows(header, [(*row, text) for row, text in zip(plain, said, strict=True)])
        return
    from rich.text import Text

    console = output.console()
    names = tuple(header[:-1])
    widths = [max(map(len, column)) for column in zip(names, *plain, strict=True)]
    console.print(Text(_aligned(names, widths), style="bold"), soft_wrap=True)
    for line, cells in zip(lines, plain, strict=True):
        text = Text(_aligned(cells, widths))
        start = sum(widths[:state]) + 2 * state
        text.stylize(line.style, start, start + widths[state])
        console.print(text, soft_wrap=True)
        if line.said:
            console.print(Text(f"    {output.plain(line.said)}", style=line.style), soft_wrap=True)


def minute(at: datetime | None) -> str:
    """An instant for a column: to the minute where it is a whole one, UTC; empty for none."""
    if at is None:
        return ""
    return f"{at:%Y-%m-%d %H:%M}Z" if at.second == at.microsecond == 0 else output.instant(at)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
