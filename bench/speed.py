"""What one occurrence costs, beside the same work by hand: `make bench`.

    python bench/speed.py                    # all, and writes bench/RESULTS.md, docs/speed.svg
    python bench/speed.py --small sqlite     # seconds, one database: to see that it runs

The contenders of a table take turns in one run, in slices of a second or less, so that whatever
else the machine does meets them all. Ratios are taken within a round, and their median counts.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import machine  # noqa: E402 - after the path to them
import report  # noqa: E402
from place import Place, Wire  # noqa: E402
from settled import settle  # noqa: E402
from starts import starts  # noqa: E402
from worker import Slice, Unavailable, Workers  # noqa: E402

import duly  # noqa: E402
from tests.servers.database import DATABASES, Database  # noqa: E402
from tests.servers.mariadb import MariaDBServer  # noqa: E402
from tests.servers.postgresql import PostgresServer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENDERS = ("bare", "by_hand", "by_hand_sqlalchemy", "duly_claim", "duly_app", "duly_aio")
KEYED = CONTENDERS[1:]


class Size(NamedTuple):
    """How much is measured."""

    rounds: int
    slice_s: float
    many: int  # workers
    line_s: float  # a slice of the race for a SQLite file
    counted: int
    keys: int  # that eight processes race for
    settled: int
    starts: int
    traced: bool


FULL = Size(5, 0.4, 8, 2.5, 300, 500, 1_000_000, 7, True)
SMALL = Size(1, 0.05, 2, 0.1, 20, 20, 500, 1, False)


@dataclass
class Found:
    """All that was measured on one database; a contender's name -> its numbers of each round."""

    name: str
    version: str = ""
    alone: dict[str, list[Slice]] = field(default_factory=dict)
    together: dict[str, list[Slice]] = field(default_factory=dict)
    again: dict[str, list[Slice]] = field(default_factory=dict)
    counted: dict[str, dict[str, float]] = field(default_factory=dict)
    raced: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    filled: dict[str, list[Slice]] = field(default_factory=dict)
    line: dict[str, list[Slice]] = field(default_factory=dict)
    bytes_each: float = 0.0
    syncs_ms: list[float] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def measured(database: Maker, size: Size) -> Found:
    """Every table of one database."""
    place = database.place()
    found = Found(place.name, _version(place))
    with ExitStack() as stack:
        crews = _crews(place, size, found, stack)
        for number in range(size.rounds + 1):
            found.syncs_ms.append(machine.sync_ms(str(database.folder)))
            _round(crews, size, found if number else Found(place.name))  # the first one warms up
        for number in range(3 if size.rounds > 1 else 1):
            for name in ("by_hand", "duly_app"):
                names = [f"race{number}-{key}" for key in range(size.keys)]
                found.raced.setdefault(name, []).append(crews[name, size.many].race(names))
    for name in found.alone:
        found.counted[name] = count(name, place, size)
    fill(database, found, size)
    if place.name == "sqlite":
        line(database.place(), found, size)
    return found


def _crews(
    place: Place, size: Size, found: Found, stack: ExitStack
) -> dict[tuple[str, int], Workers]:
    crews = {}
    for name in CONTENDERS:
        for processes in (1, size.many):
            try:
                crews[name, processes] = crew = Workers(name, place, processes)
                stack.callback(crew.close)
            except Unavailable as error:
                found.missing[name] = str(error)
    return crews


def _round(crews: dict[tuple[str, int], Workers], size: Size, found: Found) -> None:
    for (name, processes), crew in crews.items():
        table = found.alone if processes == 1 else found.together
        table.setdefault(name, []).append(crew.work(size.slice_s))
    for name in KEYED:
        if (name, 1) in crews:
            slice_ = crews[name, 1].work(size.slice_s / 2, again=True)
            found.again.setdefault(name, []).append(slice_)


def count(name: str, place: Place, size: Size) -> dict[str, float]:
    """What each occurrence costs beyond time; by the difference of a long and a short run."""
    few, many = size.counted // 10, size.counted
    before, costs = None, {}
    for times in (few, many):
        began = place.counters()
        crew = Workers(name, place)
        cpu_s = crew.apply(times).cpu_s
        crew.close()
        ended = place.counters()
        costs = {key: ended[key] - began[key] for key in ended}
        if before is not None:
            costs = {key: (costs[key] - before[key]) / (many - few) for key in costs}
        before = before or costs
    costs["client_s"] = cpu_s
    if place.name == "sqlite":
        traced = size.traced and shutil.which("strace") is not None
        costs["syncs"] = _file_syncs(name, place, few, many) if traced else float("nan")
    else:
        trips = [_trips(name, place, times) for times in (few, many)]
        costs["trips"] = (trips[1] - trips[0]) / (many - few)
    return costs


def _trips(name: str, place: Place, times: int) -> int:
    wire = Wire(place)
    crew = Workers(name, wire.place)
    crew.apply(times)
    crew.close()
    wire.close()
    return wire.trips


def _file_syncs(name: str, place: Place, few: int, many: int) -> float:
    """Fsync and fdatasync of the process, by strace."""
    seen = []
    for times in (few, many):
        with tempfile.NamedTemporaryFile() as log:
            command = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync"]
            command += ["-o", log.name]
            crew = Workers(name, place, under=command)
            crew.apply(times)
            crew.close()
            seen.append(len(re.findall(rb"sync\(", log.read())))
    return (seen[1] - seen[0]) / (many - few)


def fill(database: Maker, found: Found, size: Size) -> None:
    """Bytes for each settled occurrence, and the rate on top of a million of them."""
    full = database.place()
    crew = Workers("duly_app", full)
    crew.apply(1)
    found.bytes_each = settle(full, size.settled)
    other = Workers("duly_app", database.place())
    for number in range(2 * size.rounds + 1):
        for name, each in (("full", crew), ("empty", other)):
            slice_ = each.work(size.slice_s)
            if number:
                found.filled.setdefault(name, []).append(slice_)
    crew.close()
    other.close()


def line(place: Place, found: Found, size: Size) -> None:
    """Many writers on one SQLite file, with the line and with the busy handler alone."""
    shapes = {
        "1 worker": ("duly_app", 1, 1),
        "8 threads": ("duly_app", 1, size.many),
        "8 processes": ("duly_app", size.many, 1),
        "8 threads, busy handler": ("duly_app_no_line", 1, size.many),
        "8 processes, busy handler": ("duly_app_no_line", size.many, 1),
    }
    with ExitStack() as stack:
        crews = {}
        for shape, (name, processes, threads) in shapes.items():
            crews[shape] = Workers(name, place, processes, threads)
            stack.callback(crews[shape].close)
        for number in range(min(3, size.rounds) + 1):
            for shape, crew in crews.items():
                slice_ = crew.work(size.line_s if number else size.line_s / 10)
                if number:
                    found.line.setdefault(shape, []).append(slice_)


def _version(place: Place) -> str:
    select = "sqlite_version()" if place.name == "sqlite" else "version()"
    text = str(place.rows(f"SELECT {select}")[0][0])
    found = re.search(r"\d+(\.\d+)+", text)
    return found[0] if found else text


# --------------------------------------------------------------------------------------- databases


class Maker:
    """Makes places of one kind: on a server of its own, or in a folder."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self.name = name
        self.folder = folder
        self._server: Any = None
        self._number = 0
        if name != "sqlite":
            kind: Any = {"postgresql": PostgresServer, "mariadb": MariaDBServer}[name]
            self._server = kind.create()
            stack.callback(self._server.close)
            self.folder = self._server.directory

    def place(self) -> Place:
        """A fresh database with the business tables and a ledger."""
        self._number += 1
        if self._server is None:
            url = Database.in_file(self.folder / f"bench{self._number}.db").url
            place = Place("sqlite", url)
        else:
            pid_file = "data/postmaster.pid" if self._server.name == "postgresql" else "server.pid"
            pid = int((self._server.directory / pid_file).read_text().split()[0])
            place = Place(self._server.name, self._server.create_database(), pid)
        place.prepare()
        with closing(duly.App(place.url)) as app:
            app.init()
        return place


def makers(names: list[str]) -> Iterator[Maker]:
    """One after the other, so that no idle server costs another anything."""
    for name in names:
        with ExitStack() as its:
            folder = its.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-"))
            yield Maker(name, Path(folder), its)


def main() -> None:
    parser = argparse.ArgumentParser(description="What one occurrence costs, beside by hand.")
    parser.add_argument("databases", nargs="*", metavar="database", help=", ".join(DATABASES))
    parser.add_argument("--small", action="store_true", help="seconds, and no file is written")
    wanted = parser.parse_args()
    if odd := set(wanted.databases) - set(DATABASES):
        parser.error(f"no such database: {', '.join(sorted(odd))}")
    size = SMALL if wanted.small else FULL
    began = time.monotonic()
    about = machine.facts(tempfile.gettempdir())
    found = []
    with ExitStack() as stack:
        for maker in makers(wanted.databases or list(DATABASES)):
            found.append(measured(maker, size))
            print(
                f"{found[-1].name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
            )
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-")))
        processes = starts(folder, size.starts)
    text = report.written(found, processes, about, took_s=time.monotonic() - began)
    print(text)
    if not wanted.small:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
        (ROOT / "docs" / "speed.svg").write_text(report.chart(found), encoding="utf-8")


if __name__ == "__main__":
    main()
