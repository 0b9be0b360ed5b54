"""Words what the bench found: the tables, each ratio beside what was to be reached, a chart."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from speed import Found
    from worker import Slice

TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}
NAMES = {
    "bare": "bare change, no key",
    "by_hand": "by hand",
    "by_hand_sqlalchemy": "by hand, SQLAlchemy",
    "duly_claim": "`duly.claim`",
    "duly_app": "`App.run`",
    "duly_aio": "`duly.aio`, `App.run`",
}
HEAD = """# What one occurrence costs

Written by `make bench` (`bench/speed.py`); nothing here is typed by hand. The work: one of 1,000
accounts gets 10 units and the key is recorded, both durable. "By hand" is BEGIN, INSERT of a key,
UPDATE, COMMIT on the prepared raw driver; its ledger is a key and a time, duly's also says who,
when, where and with what result. A rate depends on the disk and on the neighbours; a ratio was
taken within a round of one run, and its median is shown.
"""


class Verdict(NamedTuple):
    """One thing that was to be reached.

    Attributes:
        met: Whether it was.
    """

    database: str
    what: str
    needed: str
    measured: str
    met: bool


def written(
    found: list[Found], processes: dict[str, float], about: list[str], *, took_s: float
) -> str:
    """RESULTS.md."""
    lines = [HEAD, *(f"- {fact}" for fact in about)]
    for each in found:
        low, high = min(each.syncs_ms), max(each.syncs_ms)
        lines.append(
            f"- {TITLES[each.name]} {each.version}; an append and its sync took {low:.2f} to"
            f" {high:.2f} ms (median {statistics.median(each.syncs_ms):.2f}) beside it"
        )
    lines += [f"- the run took {took_s:.0f} s", "", "## What was to be reached", ""]
    lines += _table(
        ["database", "what", "to reach", "measured", ""],
        [
            [v.database, v.what, v.needed, v.measured, "reached" if v.met else "**not reached**"]
            for v in verdicts(found, processes)
        ],
    )
    for each in found:
        lines += ["", f"## {TITLES[each.name]}", "", *_rates(each), "", *_costs(each)]
        if each.line:
            lines += ["", *_line(each)]
        lines += [
            f"\nNot measured: {NAMES[name]} ({why})." for name, why in sorted(each.missing.items())
        ]
    lines += ["", "## Whole processes", "", "Median processor seconds, SQLite:", ""]
    lines += _table(
        ["command", "CPU s"], [[f"`{name}`", f"{s:.3f}"] for name, s in processes.items()]
    )
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------- what was to be reached


def verdicts(found: list[Found], processes: dict[str, float]) -> list[Verdict]:
    """Every ratio that was to be reached."""
    listed: list[Verdict] = []
    for each in found:
        listed += _of_database(each)
    if processes:
        by_hand, run = processes["script by hand"], processes["duly run"]
        more = processes["duly --help"] - processes["python -c pass"]
        listed += [
            Verdict("SQLite", "process: `duly run`, CPU to the script by hand with SQLAlchemy",
                    "≤ 2", f"{run / by_hand:.2f}", run <= 2 * by_hand),
            Verdict("", "process: `duly --help`, CPU above `python -c pass`",
                    "≤ 0.15 s", f"{more:.3f} s", more <= 0.15),
        ]  # fmt: skip
    return listed


def _of_database(each: Found) -> list[Verdict]:
    title = TITLES[each.name]
    listed: list[Verdict] = []

    def at_least(what: str, needed: float, value: float) -> None:
        listed.append(Verdict(title, what, f"≥ {needed:g}", f"{value:.2f}", value >= needed))

    def at_most(what: str, needed: float, value: float, unit: str = "") -> None:
        shown = f"{value:.0f}{unit}" if value >= 20 else f"{value:.2f}{unit}"
        listed.append(Verdict(title, what, f"≤ {needed:g}{unit}", shown, value <= needed))

    for name, needed in (("duly_claim", 0.85), ("duly_app", 0.75)):
        value = ratio(each.alone, name, "by_hand")
        at_least(f"1 worker: {NAMES[name]} to by hand", needed, value)
        value = ratio(each.alone, name, "by_hand_sqlalchemy")
        at_least(f"1 worker: {NAMES[name]} to by hand with SQLAlchemy", 1.0, value)
    at_least("8 workers: `App.run` to by hand", 0.75, ratio(each.together, "duly_app", "by_hand"))
    at_least("duplicates: `App.run` to by hand", 0.7, ratio(each.again, "duly_app", "by_hand"))
    at_least("duplicates: `duly.claim` to by hand", 0.7, ratio(each.again, "duly_claim", "by_hand"))
    app = each.counted["duly_app"]
    at_most("syncs for each applied occurrence, `App.run`", 1.02, app["syncs"])
    if "trips" in app and each.name == "postgresql":
        at_most("round trips, `App.run`", 5, app["trips"])
        at_most("client CPU, `App.run`", 0.5, app["client_s"] * 1e3, " ms")
    slowest = {
        name: statistics.median(seconds for seconds, _ in runs) for name, runs in each.raced.items()
    }
    what = "eight processes, the same 500 keys: seconds to by hand"
    at_most(what, 2, slowest["duly_app"] / slowest["by_hand"])
    value = ratio(each.filled, "full", "empty")
    at_least("on top of 1,000,000 settled: to the rate on an empty ledger", 0.95, value)
    if each.name != "mariadb":
        room = {"postgresql": 350, "sqlite": 200}[each.name]
        at_most("room of a settled occurrence with its attempt", room, each.bytes_each, " bytes")
    for shape in ("8 threads", "8 processes") if each.line else ():
        at_least(f"{shape}: rate to 1 worker", 0.8, ratio(each.line, shape, "1 worker"))
        value = longest(each.line[shape]) / longest(each.line[f"{shape}, busy handler"])
        at_most(f"{shape}: longest wait to the busy handler's", 0.2, value)
    return listed


def ratio(table: dict[str, list[Slice]], name: str, base: str) -> float:
    """The median of the rounds' ratios of rates."""
    pairs = zip(table[name], table[base], strict=True)
    return statistics.median(mine.rate / theirs.rate for mine, theirs in pairs)


def longest(slices: list[Slice]) -> float:
    """The longest that anybody waited, in any round."""
    return max(each.took_s[-1] for each in slices)


# ------------------------------------------------------------------------------------------- tables


def _rates(each: Found) -> list[str]:
    rows = []
    for name in each.alone:
        cells = [NAMES[name]]
        for table in (each.alone, each.together):
            slices = table[name]
            cells += [
                f"{statistics.median(s.rate for s in slices):,.0f}",
                f"{ratio(table, name, 'by_hand'):.2f}",
                f"{statistics.median(s.quantile(0.5) for s in slices) * 1e3:.2f}",
                f"{statistics.median(s.quantile(0.99) for s in slices) * 1e3:.2f}",
            ]
        cells.append(f"{statistics.median(s.cpu_s for s in each.alone[name]) * 1e3:.3f}")
        cells.append(
            f"{statistics.median(s.rate for s in each.again[name]):,.0f}"
            if name in each.again
            else ""
        )
        rows.append(cells)
    head = ["contender", "1 worker, /s", "to by hand", "p50 ms", "p99 ms"]
    head += ["8 processes, /s", "to by hand", "p50 ms", "p99 ms", "client CPU ms", "duplicates, /s"]
    return _table(head, rows)


def _costs(each: Found) -> list[str]:
    rows = []
    for name, costs in each.counted.items():
        cells = [f"{costs['client_s'] * 1e3:.3f}"]
        cells.append(f"{costs['server_s'] * 1e3:.2f}" if "server_s" in costs else "")
        keys = ("syncs", "commits", "trips")
        cells += [f"{costs[key]:.2f}" if key in costs else "" for key in keys]
        rows.append([NAMES[name], *cells])
    head = ["each occurrence", "client CPU ms", "server CPU ms", "syncs", "commits", "round trips"]
    said = _table(head, rows)
    raced = ", ".join(
        f"{NAMES[name]} {statistics.median(seconds for seconds, _ in runs):.2f} s"
        f" ({'/'.join(str(new) for _, new in runs)} effects)"
        for name, runs in each.raced.items()
    )
    said += ["", f"Eight processes on the same 500 keys, three times: {raced}."]
    said += [
        f"A settled occurrence with its attempt takes {each.bytes_each:.0f} bytes, with indexes."
    ]
    return said


def _line(each: Found) -> list[str]:
    rows = []
    for shape, slices in each.line.items():
        counts = [count for s in slices for count in s.per_worker]
        rows.append(
            [
                shape,
                f"{statistics.median(s.rate for s in slices):,.0f}",
                f"{statistics.median(s.quantile(0.5) for s in slices) * 1e3:.2f}",
                f"{statistics.median(s.quantile(0.99) for s in slices) * 1e3:.1f}",
                f"{longest(slices) * 1e3:.0f}",
                f"{min(counts)} to {max(counts)}",
            ]
        )
    head = ["`App.run` on one file", "/s", "p50 ms", "p99 ms", "longest ms", "done by each worker"]
    return _table(head, rows)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


# -------------------------------------------------------------------------------------------- chart

_COLOURS = {"alone": "#2f6f9f", "together": "#9fc3dd"}
_BAR, _LEFT, _WIDE = 11, 190, 420


def chart(found: list[Found]) -> str:
    """An SVG: each contender's rate to by hand, 1 worker and 8."""
    parts: list[str] = []
    y = 40
    for each in found:
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{TITLES[each.name]}</text>')
        y += 10
        for name in each.alone:
            label = NAMES[name].replace("`", "")
            parts.append(
                f'<text x="{_LEFT - 8}" y="{y + _BAR + 3}" text-anchor="end">{label}</text>'
            )
            for key in ("alone", "together"):
                value = ratio(getattr(each, key), name, "by_hand")
                wide = min(value, 2.0) / 2 * _WIDE
                parts.append(
                    f'<rect x="{_LEFT}" y="{y}" width="{wide:.0f}" height="{_BAR - 1}"'
                    f' fill="{_COLOURS[key]}"/>'
                    f'<text x="{_LEFT + wide + 5:.0f}" y="{y + 9}" font-size="10">'
                    f"{value:.2f}</text>"
                )
                y += _BAR
            y += 5
        y += 25
    one = _LEFT + _WIDE / 2
    rule = f'<line x1="{one}" y1="30" x2="{one}" y2="{y - 25}" stroke="#888" stroke-dasharray="3"/>'
    legend = '<text x="10" y="18">Rate to "by hand" (1.00): dark 1 worker, light 8 processes</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 {y}" font-family="sans-serif"'
        f' font-size="12"><rect width="700" height="{y}" fill="#fff"/>{legend}{rule}'
        + "\n".join(parts)
        + "</svg>\n"
    )
