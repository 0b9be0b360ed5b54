"""What one occurrence costs, beside the same work by hand: `make bench`.

    python bench/speed.py                    # all; writes bench/RESULTS.md and docs/speed.svg
    python bench/speed.py --small sqlite     # seconds, one database: to see that it runs

The contenders of a table take turns in one run, in slices of a second or less, so that whatever
else the machine does meets them all. Ratios are taken within a round, and their median counts.
"""

from __future__ import annotations

import argparse
import re
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

import chart  # noqa: E402 - after the path to them
import machine  # noqa: E402
import report  # noqa: E402
from counted import costs  # noqa: E402
from killed import Fate, killed  # noqa: E402
from place import Place  # noqa: E402
from settled import record_by_hand, settle  # noqa: E402
from starts import starts  # noqa: E402
from wire import Wire  # noqa: E402
from worker import Slice, Workers  # noqa: E402

import duly  # noqa: E402
from tests.servers.database import DATABASES, Database  # noqa: E402
from tests.servers.mariadb import MariaDBServer  # noqa: E402
from tests.servers.postgresql import PostgresServer  # noqa: E402
from tests.servers.program import UnavailableError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONTENDERS = ("bare", "by_hand", "by_hand_sqlalchemy", "duly_claim", "duly_app", "duly_aio")
KEYED = CONTENDERS[1:]
RACED = ("by_hand", "duly_app", "duly_aio")
FAR = ("by_hand", "duly_claim", "duly_app", "duly_aio")
REFUSED = ("by_hand", "duly_claim", "duly_app")
FAR_S = 0.001


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
    kills: int


FULL = Size(5, 0.4, 8, 2.5, 300, 500, 1_000_000, 7, 20)
SMALL = Size(1, 0.05, 2, 0.1, 20, 20, 500, 1, 1)


@dataclass
class Found:
    """All that was measured on one database; a contender's name -> its numbers of each round."""

    name: str
    size: Size
    version: str = ""
    alone: dict[str, list[Slice]] = field(default_factory=dict)
    together: dict[str, list[Slice]] = field(default_factory=dict)
    again: dict[str, list[Slice]] = field(default_factory=dict)
    counted: dict[str, dict[str, float]] = field(default_factory=dict)
    counted_again: dict[str, dict[str, float]] = field(default_factory=dict)
    raced: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    filled: dict[str, list[Slice]] = field(default_factory=dict)
    line: dict[str, list[Slice]] = field(default_factory=dict)
    far: dict[str, list[Slice]] = field(default_factory=dict)
    far_trips: dict[str, float] = field(default_factory=dict)
    fates: dict[str, Fate] = field(default_factory=dict)
    bytes_each: dict[str, float] = field(default_factory=dict)
    syncs_ms: list[float] = field(default_factory=list)
    phases_s: dict[str, float] = field(default_factory=dict)


def measured(maker: Maker, size: Size) -> Found:
    """Every table of one database."""
    place = maker.place()
    found = Found(place.name, size, _version(place))
    phases: dict[str, Callable[[], None]] = {
        "rates": lambda: rates(maker, place, found, size),
        "counts": lambda: count(place, found, size),
        "kills": lambda: kill(maker, found, size),
        "far away": lambda: far(place, found, size),
        "a million": lambda: fill(maker, found, size),
        "line": lambda: line(maker, found, size),
    }
    skipped = "far away" if place.name == "sqlite" else "line"
    for phase, measure in phases.items():
        if phase != skipped:
            began = time.monotonic()
            measure()
            found.phases_s[phase] = time.monotonic() - began
    return found


def rates(maker: Maker, place: Place, found: Found, size: Size) -> None:
    """One worker, many, duplicates; then many on the same keys."""
    with ExitStack() as stack:
        crews = {}
        for name in CONTENDERS:
            for processes in (1, size.many):
                crews[name, processes] = crew = Workers(name, place, processes)
                stack.callback(crew.close)
        for number in range(size.rounds + 1):
            found.syncs_ms.append(machine.sync_ms(str(maker.folder)))
            _round(
                crews, size, found if number else Found(place.name, size)
            )  # the first one warms up
        for number in range(3 if size.rounds > 1 else 1):
            for name in RACED:
                keys = [f"{name}{number}-{key}" for key in range(size.keys)]
                found.raced.setdefault(name, []).append(crews[name, size.many].race(keys))


def _round(crews: dict[tuple[str, int], Workers], size: Size, found: Found) -> None:
    for (name, processes), crew in crews.items():
        table = found.alone if processes == 1 else found.together
        table.setdefault(name, []).append(crew.work(size.slice_s))
    for name in KEYED:
        slice_ = crews[name, 1].work(size.slice_s / 2, again=True)
        found.again.setdefault(name, []).append(slice_)


def count(place: Place, found: Found, size: Size) -> None:
    """Syncs, commits, round trips and processor time of each occurrence."""
    with place.undisturbed():
        for name in CONTENDERS:
            found.counted[name] = costs(name, place, size.counted)
        for name in REFUSED:
            found.counted_again[name] = costs(name, place, 3 * size.counted, again=True)


def kill(maker: Maker, found: Found, size: Size) -> None:
    """Each contender is killed; the one without a key must fail."""
    for name in CONTENDERS:
        found.fates[name] = killed(name, maker.place(), size.kills)


def far(place: Place, found: Found, size: Size) -> None:
    """With a server that is a millisecond away."""
    with ExitStack() as stack:
        crews = {}
        for name in FAR:
            wire = Wire(place, FAR_S)
            stack.callback(wire.close)
            crews[name] = crew = Workers(name, wire.place)
            stack.callback(crew.close)
            crew.apply(3)
            before = wire.trips
            crew.apply(size.counted // 10)
            found.far_trips[name] = (wire.trips - before) / (size.counted // 10)
        for _ in range(size.rounds):
            for name, crew in crews.items():
                found.far.setdefault(name, []).append(crew.work(size.slice_s))


def fill(maker: Maker, found: Found, size: Size) -> None:
    """Bytes of each settled occurrence, and the rate on top of a million of them."""
    full = maker.place()
    crew = Workers("duly_app", full)
    crew.apply(1)
    found.bytes_each["duly"] = settle(full, size.settled)
    other_place = maker.place()
    found.bytes_each["by hand"] = record_by_hand(maker.place(), size.settled // 10)
    other = Workers("duly_app", other_place)
    for number in range(2 * size.rounds + 1):
        for name, each in (("full", crew), ("empty", other)):
            slice_ = each.work(size.slice_s)
            if number:
                found.filled.setdefault(name, []).append(slice_)
    crew.close()
    other.close()


def line(maker: Maker, found: Found, size: Size) -> None:
    """Many writers on one SQLite file, with the line and with the busy handler alone."""
    place = maker.place()
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
            try:
                maker = Maker(name, Path(folder), its)
            except UnavailableError as error:
                print(f"{name}: not measured: {error}", file=sys.stderr, flush=True)
                continue
            yield maker


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
            phases = ", ".join(f"{name} {s:.0f} s" for name, s in found[-1].phases_s.items())
            print(f"{maker.name}: {phases}", file=sys.stderr, flush=True)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-")))
        processes = starts(folder, size.starts)
    text = report.written(found, processes, about, took_s=time.monotonic() - began)
    print(text)
    if not wanted.small:
        (HERE / "RESULTS.md").write_text(text, encoding="utf-8")
        (ROOT / "docs" / "speed.svg").write_text(chart.drawn(found), encoding="utf-8")


if __name__ == "__main__":
    main()
