"""Draws each contender's rate beside by hand; one file for light and for dark pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from targets import NAMES, TITLES, ratio

if TYPE_CHECKING:
    from speed import Found

WIDE, LEFT, RIGHT, BAR, TOP = 760, 190, 60, 12, 76
MOST = 3.0
XMLNS = "http://www.w3.org/2000/svg"
SERIES = {"alone": "1 worker", "together": "8 processes"}
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.page { fill: #ffffff } .rule { stroke: #8c959f } .grid { stroke: #d8dee4 }
.alone { fill: #0969da } .together { fill: #bc4c00 }
.head { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9da7b3 }
  .page { fill: #0d1117 } .rule { stroke: #8b949e } .grid { stroke: #30363d }
  .alone { fill: #4493f8 } .together { fill: #f0883e }
}
"""


def drawn(found: list[Found]) -> str:
    """The SVG."""
    most = max(ratio(getattr(each, key), name, "by_hand")
               for each in found for key in SERIES for name in each.alone)  # fmt: skip
    scale = (WIDE - LEFT - RIGHT) / min(most, MOST)
    parts: list[str] = []
    y = TOP
    for each in found:
        parts.append(f'<text class="head" x="12" y="{y + 10}">{TITLES[each.name]}</text>')
        y += 22
        for name in each.alone:
            parts += _row(each, name, y, scale)
            y += 2 * BAR + 9
        y += 14
    marks = [each / 2 for each in range(int(min(most, MOST) * 2) + 1)]
    behind = [_mark(LEFT + at * scale, at, y - 14) for at in marks]
    return "\n".join(
        [
            f'<svg xmlns="{XMLNS}" viewBox="0 0 {WIDE} {y}" width="{WIDE}" role="img">',
            "<title>Rate of each contender beside the same work by hand</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" width="{WIDE}" height="{y}"/>',
            '<text class="head" x="12" y="22">Rate beside the same work by hand (1.0)</text>',
            *_legend(),
            *behind,
            *parts,
            "</svg>\n",
        ]
    )


def _legend() -> list[str]:
    parts = []
    for number, (key, words) in enumerate(SERIES.items()):
        x = 12 + 110 * number
        parts.append(f'<rect class="{key}" x="{x}" y="34" width="12" height="12" rx="2"/>')
        parts.append(f'<text x="{x + 18}" y="45">{words}</text>')
    return parts


def _mark(x: float, at: float, bottom: float) -> str:
    kind = "rule" if at == 1 else "grid"
    return (
        f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"/>'
        f'<text class="small" x="{x:.1f}" y="{TOP - 10}" text-anchor="middle">{at:.1f}</text>'
    )


def _row(each: Found, name: str, y: int, scale: float) -> list[str]:
    kind = "head" if name.startswith("duly") else ""
    label = NAMES[name].replace("`", "")
    parts = [f'<text class="{kind}" x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{label}</text>']
    for number, key in enumerate(SERIES):
        value = ratio(getattr(each, key), name, "by_hand")
        wide, top = min(value, MOST) * scale, y + number * BAR
        parts.append(
            f'<rect class="{key}" x="{LEFT}" y="{top}" width="{wide:.1f}" height="{BAR - 1}"'
            f' rx="2"/><text class="small" x="{LEFT + wide + 5:.1f}" y="{top + 10}">'
            f"{value:.2f}</text>"
        )
    return parts
