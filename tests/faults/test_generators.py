"""The protocols as generators: what they may never do, whatever the world answers.

Each is driven through every sequence of replies and faults up to a depth, and closed at every op.
"""

from __future__ import annotations

import ast
import inspect
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

import duly
from duly._core import ops, protocol, retention
from duly._core.states import Disposition, ErrorOrigin
from tests.faults.scenarios import OLD

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import ModuleType

MINE = UUID(int=1)
CLOCK_US = 1_700_000_000_000_000
FAULTS: tuple[Callable[[], BaseException], ...] = (
    lambda: ops.Contention(OSError("busy")),
    lambda: ops.Lost(OSError("gone")),
    lambda: ops.Refused(OSError("no")),
    lambda: ops.Interrupted(KeyboardInterrupt()),
)
UNKNOWN = (lambda: ops.Unknown(OSError("?")), lambda: ops.Unknown(KeyboardInterrupt()))

REQUESTS = {
    "young": ops.Request(
        duly.Occurrence.from_us("work", CLOCK_US, "", 1), b"f" * 32, MINE, looks_old=False
    ),
    "old": ops.Request(duly.Occurrence("work", OLD), b"f" * 32, MINE, looks_old=True),
    "late": ops.Request(duly.Occurrence("work", OLD), b"f" * 32, MINE, looks_old=False),
    "correction": ops.Request(
        duly.Occurrence.from_us("work", CLOCK_US, "", 2),
        b"f" * 32,
        MINE,
        looks_old=False,
        order=ops.Order("ann", "wrong rate"),
    ),
    "covering": ops.Request(
        duly.Occurrence.from_us("work", CLOCK_US, "", 1),
        b"f" * 32,
        MINE,
        looks_old=False,
        slots=1,
        cover=(CLOCK_US - 1, CLOCK_US - 2),
    ),
}


def _standing(attempt_id: UUID, disposition: Disposition = Disposition.APPLIED) -> ops.Standing:
    return ops.Standing(disposition, b"f" * 32, attempt_id, sealed=True, recorded_us=CLOCK_US)


def answers(op: Any) -> list[Any]:
    """The replies that the world may give to *op*."""
    match op:
        case ops.Claim():
            return [
                ops.Claimed(inserted=True, clock_us=CLOCK_US),
                ops.Claimed(inserted=False, clock_us=0),
                ops.Claimed(inserted=False, clock_us=0, no_slot=True),
            ]
        case ops.Explain():
            return [None, _standing(MINE), _standing(UUID(int=2), Disposition.TORN)]
        case ops.CallHandler():
            raised = ops.Raised(
                ValueError("handler"),
                ops.Transaction.OPEN,
                contention=False,
                lost=False,
                origin=ErrorOrigin.HANDLER,
            )
            return [
                *(ops.Returned(each) for each in (ops.Transaction.OPEN, ops.Transaction.ENDED)),
                raised,
            ]
        case ops.ReadHorizon():
            return [None, 2**60]
        case ops.Commit():
            return [True, False, None]
        case ops.Seal() | ops.Backoff() | ops.SettleCorrected():
            return [True, False]
        case retention.ReadFacts():
            return [retention.Facts(CLOCK_US, CLOCK_US), retention.Facts(CLOCK_US, None)]
        case retention.ListJobs():
            return [[("work", None), ("other", 5)], []]
        case retention.OldestHeld():
            return [None, retention.Held(7, "work:1970-01-01T00:00:00.000007Z", "torn")]
        case retention.DeleteBatch():
            return [retention.Deleted(retention.BATCH_ROWS, 0, 0), retention.Deleted(0, 0, 0)]
        case _:
            return [None]


PROTOCOLS: dict[str, Callable[[], Generator[Any, Any, Any]]] = {
    **{
        f"attempt-{name}": lambda request=request: protocol.attempt(request)  # type: ignore[misc]
        for name, request in REQUESTS.items()
    },
    **{
        f"claim-{name}": lambda request=request: protocol.claim(request)  # type: ignore[misc]
        for name, request in REQUESTS.items()
    },
    "prune": lambda: retention.prune(CLOCK_US - 10 * ops.FLOOR_US),
}
DEPTH = {"attempt": 6, "claim": 5, "prune": 9}

Step = tuple[str, Any]


def _replay(make: Callable[[], Generator[Any, Any, Any]], steps: list[Step]) -> Any:
    """The generator after *steps*, and the op that it waits at; None if it has ended."""
    generator = make()
    op = next(generator)
    try:
        for kind, what in steps:
            op = generator.send(what) if kind == "reply" else generator.throw(what())
    except (StopIteration, ops.Fault, duly.DulyError, RuntimeError):
        return generator, None
    return generator, op


def _walk(name: str) -> Iterator[tuple[Any, Any]]:
    make = PROTOCOLS[name]
    depth = DEPTH[name.split("-", maxsplit=1)[0]]
    todo: list[list[Step]] = [[]]
    while todo:
        steps = todo.pop()
        generator, op = _replay(make, steps)
        if op is None:
            continue
        yield generator, op
        if len(steps) == depth:
            continue
        todo += [[*steps, ("reply", answer)] for answer in answers(op)]
        # One fault of each kind, at most twice on one way: two failures in a row are enough.
        if sum(kind == "fault" for kind, _ in steps) < 2:
            faults = (*FAULTS, *UNKNOWN) if isinstance(op, ops.Seal | ops.Commit) else FAULTS
            todo += [[*steps, ("fault", fault)] for fault in faults]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_closed_protocol_yields_nothing_more(name: str) -> None:
    """A cancelled attempt runs no op: only the shell rolls back (PROTOCOL 7)."""
    seen = 0
    for generator, _op in _walk(name):
        generator.close()  # RuntimeError if it yields
        assert generator.gi_frame is None
        seen += 1
    assert seen > 1


@pytest.mark.parametrize("name", [name for name in PROTOCOLS if name.startswith("attempt")])
@pytest.mark.parametrize(
    "stop", [KeyboardInterrupt, SystemExit, MemoryError], ids=lambda each: each.__name__
)
def test_protocol_lets_what_it_does_not_know_pass(name: str, stop: type[BaseException]) -> None:
    """Only the faults of its own tongue are answered; a bare exception ends it at once."""
    for generator, _op in _walk(name):
        with pytest.raises(stop):
            generator.throw(stop())


@pytest.mark.parametrize("module", [protocol, retention], ids=["protocol", "retention"])
def test_no_yield_stands_in_finally_or_in_a_catch_all(module: ModuleType) -> None:
    """GeneratorExit passes through every protocol without an op."""
    tree = ast.parse(inspect.getsource(module))
    wrong = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Try):
            continue
        parts = list(node.finalbody)
        for handler in node.handlers:
            caught = ast.unparse(handler.type) if handler.type is not None else "BaseException"
            if "BaseException" in caught or "GeneratorExit" in caught:
                parts += handler.body
        wrong += [
            each.lineno
            for part in parts
            for each in ast.walk(part)
            if isinstance(each, ast.Yield | ast.YieldFrom)
        ]
    assert not wrong
