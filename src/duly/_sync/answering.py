"""Answers one HTTP request under an idempotency key: the application runs once.

The shell is that of an attempt, with the row of the key; it decides nothing
(`_core/protocol.py` does), and it knows no framework.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Any, cast

from duly._core import ops
from duly._core.payload import canonical
from duly._core.protocol import attempt
from duly._db.keys import HttpRow
from duly._sync.process import new_attempt_id
from duly._sync.receiving import KeyShell, raise_interruption
from duly._sync.run import Borrower
from duly._sync.work import Work
from duly.errors import DulyError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly._core.idempotency import Answer, Asked
    from duly._sync.attempts import Attempts
    from duly._sync.run import Lender


class StoreUnavailable(Exception):
    """The keys could not be asked; the application was not run, or nothing of it was kept."""


class NotKept(Exception):
    """The application answered with a failure, so its transaction is rolled back.

    Attributes:
        answer: What it answered.
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"the application answered {answer.status}")
        self.answer = answer


class Requested(Borrower):
    """One request, at work in duly's transaction."""

    _staged = None

    def __init__(
        self, asked: Asked, _payload: Any, receipt_id: Any, *, lender: Lender, **_of_a_run: Any
    ) -> None:
        self.asked = asked
        self.receipt_id = receipt_id
        self._lender = lender


@dataclass(frozen=True, slots=True)
class Answered:
    """How a request ended.

    Attributes:
        report: How its attempt ended.
        answer: What the application answered just now, if its transaction committed.
        stored: What it had answered to the first request, if this is a replay.
        key: As the client chose it.
    """

    report: ops.Report
    answer: Answer | None
    stored: Answer | None
    key: str


def answered(
    attempts: Attempts,
    asked: Asked,
    work: Callable[[Any], Answer],
    handle: type[Any],
    wait_s: float,
) -> Answered:
    """Run *work* once for the key, in a transaction of duly's own.

    Raises:
        StoreUnavailable: The key could not be looked at.
    """
    named: Any = asked
    request = ops.Request(named, asked.fingerprint, new_attempt_id(), looks_old=False)
    row = HttpRow(asked, request.attempt_id)

    def handler(run: Any) -> None:
        row.answer = work(run)

    kind: Any = handle
    made = Work(
        request, canonical(None), handler, None, UTC, "http", attempts.started_by,
        run_class=kind,
    )  # fmt: skip
    shell = cast(
        "KeyShell",
        attempts.shell(
            made, wait_s=wait_s, kind=lambda *args, **named: KeyShell(*args, row=row, **named)
        ),
    )
    with available():
        report = shell.drive(attempt(request))
    raise_interruption(f"idempotency key {asked.key!r}", report)
    return Answered(report, row.answer, row.stored, asked.key)


@contextmanager
def available() -> Iterator[None]:
    """Around what asks the database for the keys.

    Raises:
        StoreUnavailable: It could not be asked.
    """
    try:
        yield
    except DulyError as error:
        raise StoreUnavailable(error.message) from error
