"""What messages cost, enqueued and delivered: `make bench-outbox`; writes bench/OUTBOX.md.

    python bench/outbox.py            # measures, prints, and writes bench/OUTBOX.md
    python bench/outbox.py --small    # seconds, without peers from PyPI; no file is written

PostgreSQL, on a server of this program's own with its default durability, on the same cores as
the carriers and the receiver. Carriers take turns, each run in a process and a database of its own;
medians of the rounds count.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import claims  # noqa: E402 - after the path to them
import machine  # noqa: E402
from peers import Peer, installed  # noqa: E402
from place import Place  # noqa: E402
from receiver import receiver  # noqa: E402
from report import table  # noqa: E402

from tests.servers.postgresql import PostgresServer  # noqa: E402
from tests.servers.program import UnavailableError  # noqa: E402

if TYPE_CHECKING:
    from claims import Claims

RESULTS = HERE / "OUTBOX.md"
DULY, BY_HAND = "duly", "by hand"
ENQUEUED, DELIVERED, FLAT = 2_000, 500, 0.10


class Size(NamedTuple):
    """How much is measured.

    Attributes:
        batches: Of 100 messages, for each carrier and round.
        sent: How many messages were sent before a claim that is measured.
        claims: How many of them.
    """

    rounds: int
    batches: int
    sent: tuple[int, ...]
    claims: int


FULL = Size(3, 20, (1_000, 100_000, 1_000_000), 400)
SMALL = Size(1, 2, (100, 1_000), 10)
BATCH, SENDERS = 100, 16

CARRIERS = {
    DULY: Peer(
        "duly_app",
        (),
        "100 `run.send` in the handler of an occurrence, PostgreSQL, psycopg; a relay with"
        " `concurrency=16` and `Contract.inbox()`: a lease and a row of its own for each send,"
        " committed before it starts, and its answer after it",
    ),
    BY_HAND: Peer(
        "by_hand",
        (),
        "rows in a table; a loop that locks 64 of them, posts from 16 threads with httpx, and marks"
        " them sent in the same transaction: it is open while they are sent, and a kill sends up to"
        " 64 again",
    ),
    "faststream-outbox": Peer(
        "faststream_rows",
        ("faststream-outbox==0.19.0", "asyncpg==0.32.0", "httpx==0.29.0"),
        "`publish_batch` in the caller's transaction (asyncpg); a subscriber with 16 workers,"
        " `fetch_batch_size=100`, `min_fetch_interval=0.01`, `terminal_flush_batch_size=20`,"
        " posting with one httpx.AsyncClient; a sent row is deleted, and no message has an id of"
        " its own",
    ),
    "procrastinate": Peer(
        "procrastinate_jobs",
        ("procrastinate==3.10.0", "httpx==0.29.0"),
        "`batch_defer_async` on the caller's connection; a worker with `concurrency=16`, posting"
        " with one httpx.AsyncClient; a job of a worker that died waits for a person's or a task's"
        " retry",
    ),
}

HEAD = """# What messages cost

Written by `make bench-outbox` (`bench/outbox.py`); nothing here is typed by hand.
[How messages work](../docs/outbox.md). A message is enqueued in the transaction of its effect, 100
of each in one, and delivered by one process to an HTTP receiver on this machine. A rate depends on
the disk and on the neighbours; a ratio was taken within a round of one run.
"""


def carried(
    server: Any, url: str, size: Size, names: list[str]
) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """What bench/carrier.py says of each carrier, by rounds; and why one is absent."""
    found: dict[str, list[Any]] = {}
    absent: dict[str, str] = {}
    pythons = {}
    for name in names:
        try:
            pythons[name] = installed(name, CARRIERS[name], ROOT / ".bench")
        except UnavailableError as error:
            absent[name] = str(error)
    for _ in range(size.rounds):
        for name, python in pythons.items():
            if name in absent:
                continue
            place = _place(server)
            told = {
                "place": vars(place), "url": url, "batch": BATCH, "batches": size.batches,
                "senders": SENDERS,
            }  # fmt: skip
            done = subprocess.run(
                [str(python), str(HERE / "carrier.py"), CARRIERS[name].contender],
                input=json.dumps(told),
                capture_output=True,
                text=True,
                check=False,
            )
            server.drop(place.url)
            if done.returncode:  # a peer may fail in any way; the others go on
                said = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
                absent[name] = said[0]
                continue
            found.setdefault(name, []).append(json.loads(done.stdout.splitlines()[-1]))
    if DULY in absent or BY_HAND in absent:
        raise SystemExit(f"nothing to compare: {absent}")
    return {name: its for name, its in found.items() if name not in absent}, absent


def _place(server: Any) -> Place:
    pid = int((server.directory / "data/postmaster.pid").read_text().split()[0])
    place = Place("postgresql", server.create_database(), pid)
    place.prepare()
    return place


# Words


def written(
    found: dict[str, list[Any]], absent: dict[str, str], claimed: list[Claims], about: list[str]
) -> str:
    """OUTBOX.md."""
    lines = [HEAD, *(f"- {fact}" for fact in about), "", "## What was to be reached", ""]
    lines += table(["what", "measured", "target", "reached"], _verdicts(found, claimed))
    lines += ["", "## Enqueued with their effects, and delivered", ""]
    head = ["enqueued /s", "to by hand", "CPU ms", "delivered /s", "to by hand", "CPU ms"]
    lines += table(["carrier", *head], [_row(name, found) for name in found])
    cpu = (
        "CPU is the carrier's own process, for each message. Every carrier was asked for the"
        " receiver's count afterwards: each message came, and came once."
    )
    lines += ["", cpu, "", "## A claim, by how many messages were sent before", ""]
    how = (
        f"Begin, the clock, {claims.LIMIT} messages that are due, their write-ahead, and a rollback"
        f" in place of the commit; {claims.OPEN} are open. The tables take turns."
    )
    lines += [how, ""]
    first = claimed[0].median_ms
    head = ["sent before", "median ms", "to the first", "p90 ms", "reads the outbox by"]
    lines += table(
        head,
        [
            [f"{each.sent:,}", f"{each.median_ms:.2f}", f"{each.median_ms / first:.2f}",
             f"{each.p90_ms:.2f}", ", ".join(f"`{index}`" for index in each.indexes)]
            for each in claimed
        ],
    )  # fmt: skip
    lines += ["", "## Settings", ""]
    for name in found:
        wants = CARRIERS[name].wants
        called = ", ".join(wants).replace("==", " ") or name
        lines.append(f"- {called}: {CARRIERS[name].settings}.")
    lines += [f"- {name}: not measured: {why}." for name, why in absent.items()]
    return "\n".join(lines) + "\n"


def _verdicts(found: dict[str, list[Any]], claimed: list[Claims]) -> list[list[str]]:
    enqueued, delivered = (_median(found[DULY], f"{what}_rate") for what in ("enqueue", "deliver"))
    first, *rest = (each.median_ms for each in claimed)
    off = max(abs(each / first - 1) for each in rest)
    scans = claimed[-1].scans  # a table of a few pages is read whole, and rightly
    return [
        ["enqueued with their effect, in batches of 100", f"{enqueued:,.0f}/s",
         f"at least {ENQUEUED:,}/s", _yes(enqueued >= ENQUEUED)],
        ["delivered to a loopback HTTP peer by one relay process", f"{delivered:,.0f}/s",
         f"at least {DELIVERED:,}/s", _yes(delivered >= DELIVERED)],
        [f"a claim, {claimed[0].sent:,} to {claimed[-1].sent:,} sent", f"{off:.0%} apart",
         f"at most {FLAT:.0%}", _yes(off <= FLAT)],
        ["sequential scans in the plans of a relay's statements",
         ", ".join(scans) or "none", "none", _yes(not scans)],
    ]  # fmt: skip


def _row(name: str, found: dict[str, list[Any]]) -> list[str]:
    cells = [name]
    for what in ("enqueue", "deliver"):
        ratios = [
            mine[f"{what}_rate"] / hand[f"{what}_rate"]
            for mine, hand in zip(found[name], found[BY_HAND], strict=True)
        ]
        cells += [
            f"{_median(found[name], f'{what}_rate'):,.0f}",
            f"{statistics.median(ratios):.2f}",
            f"{_median(found[name], f'{what}_cpu_ms'):.2f}",
        ]
    return cells


def _median(rounds: list[Any], what: str) -> float:
    return statistics.median(each[what] for each in rounds)


def _yes(reached: bool) -> str:
    return "yes" if reached else "**no**"


def main() -> None:
    parser = argparse.ArgumentParser(description="What messages cost.")
    parser.add_argument("--small", action="store_true", help="seconds, and no file is written")
    small = parser.parse_args().small
    size, names = (SMALL, [DULY, BY_HAND]) if small else (FULL, list(CARRIERS))
    began = time.monotonic()
    about = machine.facts(tempfile.gettempdir(), ("sqlalchemy", "psycopg", "httpx", "httpcore"))
    with ExitStack() as stack:
        server = PostgresServer.create()
        stack.callback(server.close)
        syncs_ms = [machine.sync_ms(str(server.directory))]
        url = stack.enter_context(receiver())
        found, absent = carried(server, url, size, names)
        syncs_ms.append(machine.sync_ms(str(server.directory)))
        claimed = claims.measured([_place(server) for _ in size.sent], size.sent, size.claims)
    about.append(
        f"load at the end {machine.load()}; an append and its sync took {min(syncs_ms):.2f} to"
        f" {max(syncs_ms):.2f} ms beside it; the run took {time.monotonic() - began:.0f} s"
    )
    text = written(found, absent, claimed, about)
    print(text)
    if not small:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
