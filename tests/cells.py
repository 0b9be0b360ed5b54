"""The cells: each kind of database, in threads and in tasks, on each kind of connection.

The contract, the fault and the race suite run in every one of them, and a cell that cannot exist
is listed with the capability that is missing: `tests/tidy/test_cells.py` proves it.
"""

from __future__ import annotations

from enum import Enum
from itertools import product
from typing import Literal, NamedTuple, get_args

from tests.servers.database import DATABASES, DatabaseName

Mode = Literal["sync", "async"]
Kind = Literal["own", "session", "driver", "django"]
MODES: tuple[Mode, ...] = get_args(Mode)
KINDS: tuple[Kind, ...] = get_args(Kind)


class Cell(NamedTuple):
    """One place where duly must keep its promise.

    Attributes:
        database: Which of the three.
        mode: In a thread, or in a task of an event loop.
        kind: Whose connection it is: one of duly's own, a SQLAlchemy session or connection,
            a driver's, or Django's.
    """

    database: DatabaseName
    mode: Mode
    kind: Kind

    def __str__(self) -> str:
        return "-".join(self)


class Capability(Enum):
    """What somebody else lacks, so that a cell cannot exist; the value says why."""

    DJANGO_HAS_NO_ASYNC_TRANSACTIONS = (
        "Django's connections and `transaction.atomic` are synchronous; a view that awaits calls"
        " them by `sync_to_async`, which is the column on the left"
    )


CELLS = tuple(Cell(*each) for each in product(DATABASES, MODES, KINDS))
ABSENT: dict[Cell, Capability] = {
    cell: Capability.DJANGO_HAS_NO_ASYNC_TRANSACTIONS
    for cell in CELLS
    if (cell.mode, cell.kind) == ("async", "django")
}
PRESENT = tuple(cell for cell in CELLS if cell not in ABSENT)

_TITLES: dict[Kind, str] = {
    "own": "one of duly's own",
    "session": "a SQLAlchemy session or connection",
    "driver": "a driver's",
    "django": "Django's",
}
_DRIVERS: dict[Mode, dict[DatabaseName, str]] = {
    "sync": {
        "sqlite": "SQLite (sqlite3)",
        "postgresql": "PostgreSQL (psycopg)",
        "mariadb": "MariaDB (PyMySQL)",
    },
    "async": {
        "sqlite": "SQLite (aiosqlite)",
        "postgresql": "PostgreSQL (psycopg)",
        "mariadb": "MariaDB (asyncmy)",
    },
}


def table() -> str:
    """The cells as the table of docs/ways.md."""
    lines = ["| the connection is | in a thread | in a task: `duly.aio` |", "|---|---|---|"]
    for kind in KINDS:
        columns = " | ".join(_column(mode, kind) for mode in MODES)
        lines.append(f"| {_TITLES[kind]} | {columns} |")
    return "\n".join(lines)


def _column(mode: Mode, kind: Kind) -> str:
    cells = [cell for cell in CELLS if (cell.mode, cell.kind) == (mode, kind)]
    missing = {ABSENT[cell] for cell in cells if cell in ABSENT}
    there = [_DRIVERS[mode][cell.database] for cell in cells if cell not in ABSENT]
    return "; ".join(
        (", ".join(there), *(f"`{each.name}`: {each.value}" for each in missing))
    ).removeprefix("; ")
