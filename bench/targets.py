"""What was to be reached, each beside what was measured, and why where it was not.

The reasons are written by people, in `reasons.toml`; no number is.
"""

from __future__ import annotations

import statistics
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from killed import Fate
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
REASONS = Path(__file__).with_name("reasons.toml")
# PostgreSQL's WAL writer syncs every 200 ms what nobody waits for: an odd sync among hundreds.
ONE, NONE = 1.02, 0.05


class Verdict(NamedTuple):
    """One thing that was to be reached.

    Attributes:
        key: What its reason is found by.
        met: Whether it was.
    """

    key: str
    database: str
    what: str
    needed: str
    measured: str
    met: bool


def verdicts(found: list[Found], processes: dict[str, float]) -> list[Verdict]:
    """Everything that was to be reached."""
    listed: list[Verdict] = []
    for each in found:
        its = _Listed(each)
        _rates(its)
        _counts(its)
        _others(its)
        listed += its.verdicts
    if processes:
        listed += _of_processes(processes)
    return listed


def reasons(listed: list[Verdict]) -> dict[tuple[str, str], str]:
    """Database and key of a verdict -> why it is not reached, in people's words.

    Raises:
        ValueError: A reason belongs to no verdict of a database that was measured.
    """
    databases = {verdict.database.lower() for verdict in listed}
    keys = {(verdict.database.lower(), verdict.key) for verdict in listed}
    with REASONS.open("rb") as file:
        written = {
            (database, key): why
            for database, its in tomllib.load(file).items()
            for key, why in its.items()
        }
    if odd := [key for key in written if key[0] in databases and key not in keys]:
        raise ValueError(f"{REASONS.name}: no such target: {odd}")
    return written


def why_not(verdict: Verdict, written: dict[tuple[str, str], str]) -> str:
    return written.get((verdict.database.lower(), verdict.key), "not explained yet")


def ratio(table: dict[str, list[Slice]], name: str, base: str) -> float:
    """The median of the rounds' ratios of rates."""
    pairs = zip(table[name], table[base], strict=True)
    return statistics.median(mine.rate / theirs.rate for mine, theirs in pairs)


def longest(slices: list[Slice]) -> float:
    """The longest that anybody waited, in any round."""
    return max(each.took_s[-1] for each in slices)


# -------------------------------------------------------------------------------------- one by one


class _Listed:
    """The verdicts of one database, as they come."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.verdicts: list[Verdict] = []

    def at_least(self, key: str, what: str, needed: float, value: float) -> None:
        self.add(key, what, f"≥ {needed:g}", f"{value:.2f}", value >= needed)

    def at_most(self, key: str, what: str, needed: float, value: float, unit: str = "") -> None:
        shown = f"{value:.0f}{unit}" if value >= 20 else f"{value:.2f}{unit}"
        self.add(key, what, f"≤ {needed:g}{unit}", shown, value <= needed)

    def add(self, key: str, what: str, needed: str, measured: str, met: bool) -> None:
        verdict = Verdict(key, TITLES[self.found.name], what, needed, measured, met)
        self.verdicts.append(verdict)


def _rates(its: _Listed) -> None:
    each = its.found
    for name, needed in (("duly_claim", 0.85), ("duly_app", 0.75)):
        for base, least in (("by_hand", needed), ("by_hand_sqlalchemy", 1.0)):
            what = f"1 worker: {NAMES[name]} to {NAMES[base]}"
            its.at_least(f"{name}-to-{base}", what, least, ratio(each.alone, name, base))
    value = ratio(each.together, "duly_app", "by_hand")
    its.at_least("8-workers", f"{each.size.many} workers: `App.run` to by hand", 0.75, value)
    for name in ("duly_app", "duly_claim"):
        what = f"duplicates: {NAMES[name]} to by hand"
        its.at_least(f"duplicates-{name}", what, 0.7, ratio(each.again, name, "by_hand"))


def _counts(its: _Listed) -> None:
    each = its.found
    for name in ("duly_app", "duly_claim"):
        costs, again = each.counted[name], each.counted_again[name]
        if "syncs" in costs:
            what = f"syncs of an applied occurrence, {NAMES[name]}"
            its.at_most(f"syncs-{name}", what, ONE, costs["syncs"])
            if each.name != "mariadb":  # its flush setting is global
                what = f"syncs of a refused duplicate, {NAMES[name]}"
                its.at_most(f"duplicate-syncs-{name}", what, NONE, again["syncs"])
        if "commits" in costs:
            what = f"commits of an applied occurrence, {NAMES[name]}"
            its.at_most(f"commits-{name}", what, ONE, costs["commits"])
    if each.name == "postgresql":
        app = each.counted["duly_app"]
        its.at_most("trips", "round trips, `App.run`, on loopback", 5, app["trips"])
        what = "round trips, `App.run`, server 1 ms away"
        its.at_most("trips-far", what, 4, each.far_trips["duly_app"])
        its.at_most("client-cpu", "client CPU, `App.run`", 0.5, app["client_s"] * 1e3, " ms")


def _others(its: _Listed) -> None:
    each = its.found
    took = {
        name: statistics.median(seconds for seconds, _ in runs) for name, runs in each.raced.items()
    }
    size = each.size
    what = f"{size.many} processes, the same {size.keys} keys: seconds to by hand"
    its.at_most("same-keys", what, 2, took["duly_app"] / took["by_hand"])
    value = ratio(each.filled, "full", "empty")
    what = f"on top of {size.settled:,} settled: rate to that on an empty ledger"
    its.at_least("a-million", what, 0.95, value)
    if each.name != "mariadb":
        room = {"postgresql": 350, "sqlite": 200}[each.name]
        what = "room of a settled occurrence (no partition) with its attempt, indexes included"
        its.at_most("bytes", what, room, each.bytes_each["duly"], " bytes")
    for shape in ("8 threads", "8 processes") if each.line else ():
        key = shape.replace(" ", "-")
        value = ratio(each.line, shape, "1 worker")
        its.at_least(f"{key}-rate", f"{shape}, one file: rate to 1 worker", 0.8, value)
        value = longest(each.line[shape]) / longest(each.line[f"{shape}, busy handler"])
        what = f"{shape}, one file: longest wait to the busy handler's"
        its.at_most(f"{key}-wait", what, 0.2, value)
    for name, fate in each.fates.items():
        what = f"killed {fate.kills} times: {NAMES[name]}"
        needed = "doubles (the control)" if name == "bare" else "0 doubled, 0 lost"
        its.add(f"killed-{name}", what, needed, fate_in_words(fate), _stands(name, fate))


def fate_in_words(fate: Fate) -> str:
    return (
        f"{fate.doubled} doubled, {fate.lost} lost; {fate.between} kills between commit and"
        " acknowledgement"
    )


def _stands(name: str, fate: Fate) -> bool:
    if name == "bare":
        return fate.doubled > 0
    return not fate.doubled and not fate.lost and fate.between > 0


def _of_processes(processes: dict[str, float]) -> list[Verdict]:
    by_hand, run = processes["script by hand"], processes["duly run"]
    more = processes["duly --help"] - processes["python -c pass"]
    return [
        Verdict("start", "any", "process: `duly run` on SQLite, CPU to the script with SQLAlchemy",
                "≤ 2", f"{run / by_hand:.2f}", run <= 2 * by_hand),
        Verdict("help", "any", "process: `duly --help`, CPU above `python -c pass`",
                "≤ 0.15 s", f"{more:.3f} s", more <= 0.15),
    ]  # fmt: skip
