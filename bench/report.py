"""Words what the bench found: each target beside what was measured, then the tables."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from targets import NAMES, TITLES, fate_in_words, longest, ratio, reasons, verdicts, why_not

if TYPE_CHECKING:
    from speed import Found
    from worker import Slice

HEAD = """# What one occurrence costs

Written by `make bench` (`bench/speed.py`); nothing here is typed by hand but the reasons
(`bench/reasons.toml`). [How to read it](../docs/speed.md). The work: one of 1,000 accounts gets 10
units and the key is recorded, both durable. "By hand" is BEGIN, INSERT of a key, UPDATE, COMMIT on
the prepared raw driver; its ledger is a key and a time, duly's also says who, when, where and with
what result. A rate depends on the disk and on the neighbours; a ratio was taken within a round of
one run, and its median is shown.
"""


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
    lines += [
        f"- {size.rounds} rounds, slices of {size.slice_s:g} s, {size.many} workers,"
        f" {size.counted} occurrences counted, {size.kills} kills"
        for size in {each.size for each in found}
    ]
    lines += [f"- the run took {took_s:.0f} s", "", "## What was to be reached", ""]
    lines += _targets(found, processes)
    for each in found:
        lines += ["", f"## {TITLES[each.name]}", "", *_rates(each), "", *_costs(each)]
        lines += ["", *_kills(each)]
        if each.far:
            lines += ["", *_far(each)]
        if each.line:
            lines += ["", *_line(each)]
    lines += ["", "## Whole processes", "", "Median processor seconds, SQLite:", ""]
    lines += table(
        ["command", "CPU s"], [[f"`{name}`", f"{s:.3f}"] for name, s in processes.items()]
    )
    return "\n".join(lines) + "\n"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """As Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _targets(found: list[Found], processes: dict[str, float]) -> list[str]:
    listed = verdicts(found, processes)
    why = reasons(listed)
    met = sum(verdict.met for verdict in listed)
    rows = [
        [
            verdict.database,
            verdict.what,
            verdict.needed,
            verdict.measured,
            "reached" if verdict.met else f"**not reached**: {why_not(verdict, why)}",
        ]
        for verdict in listed
    ]
    head = ["database", "what", "to reach", "measured", "reached, or why not"]
    return [f"{met} of {len(listed)} reached.", "", *table(head, rows)]


def _rates(each: Found) -> list[str]:
    rows = []
    for name in each.alone:
        cells = [NAMES[name]]
        for its in (each.alone, each.together):
            slices = its[name]
            cells += [
                _rate(slices),
                f"{ratio(its, name, 'by_hand'):.2f}",
                *_waits(slices),
            ]
        cells.append(f"{_median(s.cpu_s for s in each.alone[name]) * 1e3:.3f}")
        again = each.again.get(name)
        cells.append(_rate(again) if again else "")
        cells.append(f"{ratio(each.again, name, 'by_hand'):.2f}" if again else "")
        rows.append(cells)
    head = ["contender", "1 worker, /s", "to by hand", "p50 ms", "p99 ms"]
    head += [f"{each.size.many} processes, /s", "to by hand", "p50 ms", "p99 ms", "client CPU ms"]
    return table([*head, "duplicates, /s", "to by hand"], rows)


def _costs(each: Found) -> list[str]:
    kinds = (("", each.counted), (", duplicate", each.counted_again))
    rows = []
    for kind, counted in kinds:
        for name, costs in counted.items():
            cells = [f"{costs['client_s'] * 1e3:.3f}"]
            cells.append(f"{costs['server_s'] * 1e3:.2f}" if "server_s" in costs else "")
            keys = ("syncs", "commits", "trips")
            cells += [f"{max(0, costs[key]):.2f}" if key in costs else "" for key in keys]
            rows.append([NAMES[name] + kind, *cells])
    head = ["each occurrence", "client CPU ms", "server CPU ms", "syncs", "commits", "round trips"]
    raced = ", ".join(
        f"{NAMES[name]} {_median(seconds for seconds, _ in runs):.2f} s"
        f" ({'/'.join(str(new) for _, new in runs)} effects)"
        for name, runs in each.raced.items()
    )
    return [
        *table(head, rows),
        "",
        (f"{each.size.many} processes on the same {each.size.keys} keys, a few times: {raced}."),
        "",
        (
            "A settled occurrence (no partition) with its attempt takes"
            f" {each.bytes_each['duly']:.0f} bytes, with indexes; by hand, a key and a time take"
            f" {each.bytes_each['by hand']:.0f}. On top of {each.size.settled:,} `App.run` did"
            f" {_rate(each.filled['full'])}/s, on an empty ledger"
            f" {_rate(each.filled['empty'])}/s."
        ),
    ]


def _kills(each: Found) -> list[str]:
    rows = [
        [NAMES[name], fate_in_words(fate), str(fate.said_duplicate), str(fate.acknowledged)]
        for name, fate in each.fates.items()
    ]
    kills = next(iter(each.fates.values())).kills
    head = [f"kill -9, {kills} times", "fate", 'resends told "duplicate"', "acknowledged"]
    said = []
    for name, fate in each.fates.items():
        if not (fate.between or fate.doubled or fate.lost):
            said.append(
                f"- No kill of {NAMES[name]} fell where it matters: its row proves nothing."
            )
    return [*table(head, rows), *([""] if said else []), *said]


def _far(each: Found) -> list[str]:
    rows = [
        [
            NAMES[name],
            _rate(slices),
            f"{ratio(each.far, name, 'by_hand'):.2f}",
            *_waits(slices),
            f"{each.far_trips[name]:.2f}",
        ]
        for name, slices in each.far.items()
    ]
    head = ["server 1 ms away", "1 worker, /s", "to by hand", "p50 ms", "p99 ms", "round trips"]
    return table(head, rows)


def _line(each: Found) -> list[str]:
    rows = []
    for shape, slices in each.line.items():
        counts = [count for s in slices for count in s.per_worker]
        rows.append(
            [
                shape,
                _rate(slices),
                *_waits(slices),
                f"{longest(slices) * 1e3:.0f}",
                f"{min(counts)} to {max(counts)}",
            ]
        )
    head = ["`App.run` on one file", "/s", "p50 ms", "p99 ms", "longest ms", "done by each worker"]
    return table(head, rows)


def _rate(slices: list[Slice]) -> str:
    return f"{_median(s.rate for s in slices):,.0f}"


def _waits(slices: list[Slice]) -> list[str]:
    parts = (0.5, 0.99)
    return [f"{_median(s.quantile(part) for s in slices) * 1e3:.2f}" for part in parts]


_median = statistics.median
