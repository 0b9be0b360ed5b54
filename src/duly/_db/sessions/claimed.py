"""What a caller's open transaction has claimed, kept beside its driver's connection.

Decides when that transaction is over: where the server has no number for it, by the status that
comes with its answers. It executes nothing, and keeps no connection alive.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from duly._db.dialects import MARIADB
from duly._db.ending import ending
from duly._db.sessions.base import key_params

if TYPE_CHECKING:
    from duly._core.occurrence import Occurrence
    from duly._db.sessions.base import Params

_IN_TRANSACTION = 1  # a bit of the status: SERVER_STATUS_IN_TRANS
_STATEMENT_HEAD = 1_000  # no word behind it begins a statement
HOOK = "_execute_command"


class _Claimed(NamedTuple):
    transaction: str
    attempts: dict[tuple[Any, ...], Any]


_claimed: weakref.WeakKeyDictionary[Any, _Claimed] = weakref.WeakKeyDictionary()


def note(driver: Any, claim: Params, transaction: str = "") -> None:
    """Keep that *claim* was made in this *transaction*; of another one nothing is kept."""
    kept = _claimed.get(driver)
    if kept is None or kept.transaction != transaction:
        kept = _claimed[driver] = _Claimed(transaction, {})
    key = (claim["job"], claim["nominal_us"], claim["partition_key"], claim["correction"])
    kept.attempts[key] = claim["attempt_id"]


def noted(driver: Any, occurrence: Occurrence) -> Params | None:
    """The binds by which the claim is looked for, if *driver* made it; None if it did not."""
    kept, key = _claimed.get(driver), key_params(occurrence)
    attempt_id = None if kept is None else kept.attempts.get(tuple(key.values()))
    if kept is None or attempt_id is None:
        return None
    return {**key, "attempt_id": attempt_id, "transaction": kept.transaction}


def note_until_end(driver: Any, claim: Params) -> None:
    """`note` on a connection of MariaDB's, until its transaction has ended."""
    note(driver, claim)
    if HOOK in vars(driver):
        return
    reference = weakref.ref(driver)

    def execute_command(command: int, sql: Any) -> Any:
        driver: Any = reference()
        if not is_in_transaction(driver) or _commits(sql):
            _forget(driver)
        return type(driver)._execute_command(driver, command, sql)  # noqa: SLF001 - all pass it

    setattr(driver, HOOK, execute_command)


def is_in_transaction(driver: Any) -> bool:
    """Whether one was open when MariaDB answered last."""
    return bool(driver.server_status & _IN_TRANSACTION)


def _commits(sql: Any) -> bool:
    # After COMMIT AND CHAIN a transaction is open too, but another one.
    head = sql[:_STATEMENT_HEAD]
    text = head if isinstance(head, str) else bytes(head).decode("utf-8", "replace")
    return (ending(MARIADB, text) or "").startswith("COMMIT")


def _forget(driver: Any) -> None:
    _claimed.pop(driver, None)
    vars(driver).pop(HOOK, None)
