"""A prune that fails at any op: no state between two batches, and no key is ever free (R02)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args
from unittest import mock

import pytest

import duly
from duly import testing
from duly._core import ops, retention
from tests.faults.ledger import Bank, Ledger
from tests.faults.scenarios import MOMENTS, Moment, driver_error

if TYPE_CHECKING:
    from tests.faults.conftest import Ledgers
    from tests.faults.victims import Victims

BATCH = 4
OLDEST = datetime(2002, 1, 1, tzinfo=UTC)
OLD = [OLDEST + timedelta(days=each) for each in range(10)]  # three batches
BOUND = OLD[-1]
ABOVE = [BOUND + timedelta(days=1), BOUND + timedelta(days=2)]
KINDS = ("kill", "cut", "contention", "refused", "plain", "interrupt")
OPS = (
    *("ReadFacts", "Rollback", "ListJobs", "Rollback", "OldestHeld", "Rollback"),
    *("Begin", "TouchGuard", "RaiseHorizon", "DeleteBatch", "Commit") * 3,
)
DATABASES = ("sqlite", "postgresql", "mariadb")


@dataclass(frozen=True)
class Cell:
    """One fault at the op at *place* of a prune in three batches."""

    database: str
    place: int
    moment: Moment
    kind: str

    def __str__(self) -> str:
        return f"{self.database}-{self.place}-{self.moment}-{OPS[self.place]}-{self.kind}"

    @property
    def committed(self) -> int:
        """Batches that were committed before the fault."""
        done = self.place + (self.moment == "after")
        return OPS[:done].count("Commit")


def _cells() -> list[Any]:
    found = []
    chosen = set()
    for database in DATABASES:
        for place, op in enumerate(OPS):
            for moment in MOMENTS:
                for kind in KINDS:
                    cell = Cell(database, place, moment, kind)
                    turn = place + KINDS.index(kind)
                    is_sharp = (
                        moment == MOMENTS[turn % 2] and (database, op, kind) not in chosen
                    ) or (op == "Commit" and kind == "kill")
                    if is_sharp:
                        chosen.add((database, op, kind))
                    marks = [] if is_sharp else [pytest.mark.torture]
                    found.append(pytest.param(cell, id=str(cell), marks=marks))
    return found


def prune_as_victim(order: dict[str, Any]) -> None:
    """Run in a child that dies."""
    bank = Bank(order["url"])
    _prune(bank, Cell(**order["cell"]))


def _prune(bank: Bank, cell: Cell | None = None) -> list[retention.PrunedJob]:
    with mock.patch.object(retention, "BATCH_ROWS", BATCH):
        if cell is None:
            return bank.app.prune(older_than=BOUND)
        skip = OPS[: cell.place].count(OPS[cell.place])
        where: dict[str, Any] = {"op": OPS[cell.place], "when": cell.moment, "skip": skip}
        if cell.kind == "plain":
            fault = testing.fault(bank.app, **where, kind="raise")
        elif cell.kind in {"contention", "refused"}:
            error = driver_error(cell.kind, cell.database)
            fault = testing.fault(bank.app, **where, kind="raise", error=error)
        else:
            fault = testing.fault(bank.app, **where, kind=cell.kind)  # type: ignore[arg-type]
        with fault as injected:
            try:
                return bank.app.prune(older_than=BOUND)
            finally:
                assert injected.fired == 1


@dataclass(frozen=True)
class Remains:
    """What is left of the job `work` below the bound, and above it."""

    horizon_us: int | None
    occurrences: list[int]
    attempts: list[int]
    above: int

    @classmethod
    def of(cls, ledger: Ledger) -> Remains:
        bound = _us(BOUND)
        below = "WHERE job = 'work' AND nominal_us BETWEEN :oldest AND :bound ORDER BY nominal_us"
        binds = {"oldest": _us(OLDEST), "bound": bound}
        horizon = ledger.query("SELECT horizon_us FROM duly_job WHERE name = 'work'")
        above = ledger.query(
            "SELECT count(*) FROM duly_occurrence AS o JOIN duly_attempt AS a"
            " ON a.job = o.job AND a.nominal_us = o.nominal_us AND a.id = o.attempt_id"
            " WHERE o.job = 'work' AND o.nominal_us > :bound AND o.nominal_us <= :last",
            bound=bound,
            last=_us(ABOVE[-1]),
        )
        return cls(
            horizon[0][0] if horizon else None,
            [
                r[0]
                for r in ledger.query(f"SELECT nominal_us FROM duly_occurrence {below}", **binds)
            ],
            [r[0] for r in ledger.query(f"SELECT nominal_us FROM duly_attempt {below}", **binds)],
            above=above[0][0],
        )


def _us(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


_TABLES = ("duly_attempt", "duly_occurrence", "effect")  # in the order of the foreign key


def _settle_all(ledger: Ledger) -> None:
    """Ten old occurrences and two younger ones, all applied, and no horizon."""
    kept = {
        table: "job = 'work' AND nominal_us BETWEEN :oldest AND :last"
        if table != "effect"
        else "occurrence LIKE 'work:2002-%' AND :oldest < :last"
        for table in _TABLES
    }
    binds = {"oldest": _us(OLDEST), "last": _us(ABOVE[-1])}
    if ledger not in _saved:
        for at in (*OLD, *ABOVE):
            assert ledger.bank.app.run("work", at).outcome is duly.Outcome.APPLIED
        for table in _TABLES:
            ledger.query(f"CREATE TABLE saved_{table} AS SELECT * FROM {table} WHERE 1 = 0")
            ledger.query(
                f"INSERT INTO saved_{table} SELECT * FROM {table} WHERE {kept[table]}", **binds
            )
        _saved.add(ledger)
    # Other tests' refusals below the bound would be pruned too, and move the places.
    ledger.query("DELETE FROM duly_attempt WHERE job = 'pruned'")
    ledger.query("DELETE FROM duly_job WHERE name = 'work'")
    for table in reversed(_TABLES):
        ledger.query(f"DELETE FROM {table} WHERE {kept[table]}", **binds)
    for table in _TABLES:
        ledger.query(f"INSERT INTO {table} SELECT * FROM saved_{table}")


_saved: set[Ledger] = set()


@pytest.mark.parametrize("cell", _cells())
def test_fault_at_any_op_of_a_prune_leaves_whole_batches(
    cell: Cell, ledgers: Ledgers, victims: Victims
) -> None:
    """Rows and horizon move together; what lies above stays; no pruned key is applied again."""
    ledger = ledgers(cell.database)
    _settle_all(ledger)

    ended: object = None
    if cell.kind == "kill":
        status = victims.kill_one(
            "tests.faults.test_prune:prune_as_victim", url=ledger.url, cell=vars(cell)
        )
        assert status == -9
    else:
        try:
            ended = _prune(ledger.bank, cell)
        except BaseException as error:
            ended = error
    ledger.wait_until_quiet()
    remains = Remains.of(ledger)

    _check_whole_batches(cell, remains, ended)
    _check_no_key_is_free(ledger, remains)
    done = _prune(ledger.bank)
    assert {each.horizon_us for each in done if each.job == "work"} <= {_us(BOUND)}
    assert Remains.of(ledger) == Remains(_us(BOUND), [], [], len(ABOVE))
    _check_no_key_is_free(ledger, Remains.of(ledger))


def _check_whole_batches(cell: Cell, remains: Remains, ended: object) -> None:
    deleted = len(OLD) - len(remains.occurrences)
    assert remains.occurrences == remains.attempts == [_us(at) for at in OLD[deleted:]]
    assert deleted in {0, BATCH, 2 * BATCH, len(OLD)}
    assert (remains.horizon_us is None) == (deleted == 0)
    assert remains.above == len(ABOVE)
    if isinstance(ended, list):
        assert deleted == len(OLD)
    elif cell.kind != "contention":
        assert deleted == min(len(OLD), BATCH * cell.committed)
        assert cell.kind != "interrupt" or isinstance(ended, KeyboardInterrupt)


def _check_no_key_is_free(ledger: Ledger, remains: Remains) -> None:
    for at in (OLD[0], OLD[BATCH], OLD[-1], ABOVE[0]):
        key = duly.Occurrence("work", at).key
        try:
            ended = str(ledger.bank.app.run("work", at).outcome)
        except duly.Expired as error:
            ended = error.code
        is_below = remains.horizon_us is not None and _us(at) <= remains.horizon_us
        assert ended == ("expired" if is_below else "duplicate")
        effects = ledger.query("SELECT count(*) FROM effect WHERE occurrence = :key", key=key)
        assert effects[0][0] == 1


@pytest.mark.parametrize("database", DATABASES)
def test_prune_performs_the_ops_that_the_matrix_counts_on(database: str, ledgers: Ledgers) -> None:
    """A change of the protocol that would move the cells is noticed here first."""
    ledger = ledgers(database)
    _settle_all(ledger)

    with (
        testing.fault(ledger.bank.app, op="Unclaim") as watched,
        mock.patch.object(retention, "BATCH_ROWS", BATCH),
    ):
        ledger.bank.app.prune(older_than=BOUND)

    assert tuple(watched.seen) == OPS
    own = set(get_args(retention.PruneOp)) - set(get_args(ops.Op))
    assert {op.__name__ for op in own} <= set(OPS)
