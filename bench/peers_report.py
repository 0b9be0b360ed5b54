"""Words what bench/peers.py found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from report import table

if TYPE_CHECKING:
    from peers import Peer

HEAD = """# What others cost, and what they hold

Written by `make bench-peers` (`bench/peers.py`); nothing here is typed by hand.
[How to read it](../docs/speed.md#beside-others). Each peer does the same work as in
[RESULTS.md](RESULTS.md) on PostgreSQL: one of 1,000 accounts gets 10 units, once for each key. It
is asked for that in the way that comes nearest in its own words; some promise less, and say so. By
hand took turns with each of them, so a ratio is one of the same minute.
"""


def written(
    peers: dict[str, Peer], found: dict[str, Any], absent: dict[str, str], about: list[str]
) -> str:
    """PEERS.md."""
    lines = [HEAD, *(f"- {fact}" for fact in about), "", "## Speed", ""]
    head = ["contender", "1 worker, /s", "to by hand", "8 processes, /s", "to by hand"]
    head += ["client CPU ms", "server CPU ms", "syncs", "commits", "round trips"]
    lines += table(head, [[name, *_speed(its)] for name, its in found.items()])
    lines += ["", "## Once?", ""]
    head = ["contender", "eight starters, same keys", "kill -9: doubled", "lost"]
    head += ["kills between commit and acknowledgement"]
    lines += table(head, [[name, *_once(its)] for name, its in found.items()])
    for name, its in found.items():
        fate = its.get("fate")
        if fate and not (fate["between"] or fate["doubled"] or fate["lost"]):
            lines += ["", f"No kill of {name} fell where it matters: its row proves nothing."]
    lines += ["", "## Settings", ""]
    lines += [f"- {_version(name, peers[name])}: {peers[name].settings}." for name in found]
    lines += [f"- {name}: not measured: {why}." for name, why in absent.items()]
    for name, its in found.items():
        for phase, why in its.get("failed", {}).items():
            lines.append(f"- {name}: {phase} failed: {why}.")
    return "\n".join(lines) + "\n"


def _version(name: str, peer: Peer) -> str:
    return peer.wants[0].replace("==", " ") if peer.wants else name


def _speed(its: Any) -> list[str]:
    rates, costs = its.get("rates"), its.get("costs")
    cells = []
    for words in ("alone", "together"):
        cells += (
            [f"{rates[words]['rate']:,.0f}", f"{rates[words]['ratio']:.2f}"] if rates else ["", ""]
        )
    if costs is None:
        return [*cells, "", "", "", "", ""]
    cells += [f"{costs[key] * 1e3:.2f}" for key in ("client_s", "server_s")]
    return cells + [f"{costs[key]:.2f}" for key in ("syncs", "commits", "trips")]


def _once(its: Any) -> list[str]:
    race, fate = its.get("race"), its.get("fate")
    cells = [f"{race['effects']:,} effects of {race['keys']}" if race else ""]
    if fate is None:
        return [*cells, "", "", ""]
    return [
        *cells,
        str(fate["doubled"]),
        str(fate["lost"]),
        f"{fate['between']} of {fate['kills']}",
    ]
