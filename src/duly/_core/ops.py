"""What a protocol may ask of the world, and what the world may answer or throw.

A protocol is a generator: it yields an op and is sent the reply the op's docstring
names, or one of the faults below is thrown into it. Ops decide nothing and hold no
connection; a shell performs them (`_sync/shell.py`).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, TypeAlias

from duly._core.wording import said

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly._core.occurrence import Occurrence
    from duly._core.states import Disposition, ErrorOrigin, Outcome

FLOOR_US = 86_400_000_000
"""One day in microseconds. No prune reaches an occurrence younger than twice this, so a
claim younger than this need not look at the horizon (PROTOCOL 16). A constant of the
release: a setting read from an old snapshot made second effects."""


@dataclass(frozen=True, slots=True)
class Order:
    """A person's order for a correction: who wants the second effect, and why."""

    actor: str
    reason: str


@dataclass(frozen=True, slots=True)
class Request:
    """One attempt, as the protocol sees it.

    Attributes:
        occurrence: What is to be done.
        fingerprint: SHA-256 of the canonical payload, 32 bytes.
        attempt_id: This attempt's UUIDv7.
        looks_old: The caller's clock says that a prune may have passed the nominal time.
            A hint only: the database's clock decides after the claim.
        order: Set for a correction only.
        due_us: The start is refused before this instant of the database's clock; None if any
            time will do.
        tolerance_us: How much before `due_us` a start counts as due.
        slots: How many occurrences of the job may run at once; None where nobody counts.
        cover: Missing nominal times that this run supersedes, newest first.
        repeatable: The handler can be called again after contention; a `with` block cannot.
        by_key: The key is taken as it was given: no registry said how its job is called.
    """

    occurrence: Occurrence
    fingerprint: bytes
    attempt_id: UUID
    looks_old: bool
    order: Order | None = None
    due_us: int | None = None
    tolerance_us: int = 1_000_000
    slots: int | None = None
    cover: Sequence[int] = ()
    repeatable: bool = True
    by_key: bool = False


# Ops


@dataclass(frozen=True, slots=True)
class Begin:
    """Open a transaction on duly's own connection. Reply: None."""


@dataclass(frozen=True, slots=True)
class LockGuard:
    """Take the guard row in shared mode, waiting for a prune under way. Reply: None."""


@dataclass(frozen=True, slots=True)
class ReadHorizon:
    """Read the job's horizon in a statement after the guard. Reply: int microseconds or None."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Insert the occurrence; waits for a rival's transaction. Reply: `Claimed`.

    Attributes:
        slots: One of the job's slots, of which this many count, is locked first and until the
            transaction ends; None where nobody counts.
        by_key: Tell also whether the ledger keeps the key's job under another name.
    """

    slots: int | None = None
    by_key: bool = False


@dataclass(frozen=True, slots=True)
class Cover:
    """Insert the covered occurrences as superseded, newest first; one that is held is left out.

    Reply: None.

    Attributes:
        above_us: Those at or below are left out too: they may have been pruned.
    """

    above_us: int | None = None


@dataclass(frozen=True, slots=True)
class Unclaim:
    """Delete the row (and attempt) that this request's claim inserted. Reply: None."""


@dataclass(frozen=True, slots=True)
class Explain:
    """Read the row that holds the key; what is open of duly's own may end with it.

    Reply: `Standing` or None.
    """


@dataclass(frozen=True, slots=True)
class SettleCorrected:
    """Check that the corrected occurrence is settled; a torn one becomes waived. Reply: bool."""


@dataclass(frozen=True, slots=True)
class CallHandler:
    """Run the handler. Reply: `Returned` or `Raised`."""


@dataclass(frozen=True, slots=True)
class TakeTurn:
    """Wait until no other start of this key runs its command on this host. Reply: None."""


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run the command, with no transaction open. Reply: `Ran`."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Turn the claim into a torn row that names its holder: a command starts next. Reply: bool."""


@dataclass(frozen=True, slots=True)
class Resume:
    """Turn the torn row of `Hold` back into a claim. Reply: bool, whether it still was ours."""


@dataclass(frozen=True, slots=True)
class Release:
    """Free the key that `Hold` took, and record the failed attempt. Reply: bool, as `Resume`."""

    error: BaseException
    origin: ErrorOrigin


@dataclass(frozen=True, slots=True)
class Seal:
    """Insert the applied attempt from the claimed row, at once or with the COMMIT.

    Reply: bool, False if the row is known not to be ours any more.
    """


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit. Reply: bool, whether it committed; None if the seal with it found no claim."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Roll back, and say nothing if there is nothing to roll back. Reply: None."""


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Give the connection up; the next op takes a new one. Reply: None."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Sleep before trying again. Reply: bool, False if the time for it is used up.

    Attributes:
        settling: Spend the time kept for settling an unknown commit, not the caller's `wait`.
    """

    tries: int
    settling: bool = False


@dataclass(frozen=True, slots=True)
class CountDuplicate:
    """Count a refused start of a settled key, in a transaction of its own. Reply: None."""


@dataclass(frozen=True, slots=True)
class Record:
    """Write the finished attempt's row, in a transaction of its own. Reply: None."""

    outcome: Outcome
    error: BaseException | None = None
    origin: ErrorOrigin | None = None


@dataclass(frozen=True, slots=True)
class HoldTorn:
    """Settle the key as torn and write the torn attempt, together. Reply: None."""

    error: BaseException | None = None


Op: TypeAlias = (
    Begin | LockGuard | ReadHorizon | Claim | Cover | Unclaim | Explain | SettleCorrected
    | CallHandler | TakeTurn | RunCommand | Hold | Resume | Release | Seal | Commit | Rollback
    | Reconnect | Backoff | CountDuplicate | Record | HoldTorn
)  # fmt: skip

# Replies


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim found.

    Attributes:
        inserted: The key was free and is now ours, if we commit.
        clock_us: The database's clock, read after the wait for the key.
        no_slot: None of the job's slots was free, so nothing was inserted.
        first_name: That of the job, if the key was inserted under a later name of it.
    """

    inserted: bool
    clock_us: int
    no_slot: bool = False
    first_name: str | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The row that holds a key.

    Attributes:
        sealed: An attempt row proves how it ended; an applied row without one is torn.
        result: The stored result, canonical JSON text, or None.
    """

    disposition: Disposition
    fingerprint: bytes | None
    attempt_id: UUID | None
    sealed: bool
    recorded_us: int
    result: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended.

    Attributes:
        error: None if it ended with status 0.
        reported: It said so itself: by its exit status, or it never started. False where it was
            killed, so that what it had done by then is not known.
    """

    error: BaseException | None = None
    reported: bool = True


class Transaction(Enum):
    """What became of duly's transaction while the handler had it."""

    OPEN = auto()
    """It is ours and usable."""
    ABORTED = auto()
    """It is ours, but the database will only roll it back: an error was swallowed."""
    REFUSED = auto()
    """An attempt to end it, or the error that ended it, came out of the handler;
    nothing landed."""
    ENDED = auto()
    """It is gone, and what ran after it may have landed."""


@dataclass(frozen=True, slots=True)
class Returned:
    """The handler returned."""

    transaction: Transaction


@dataclass(frozen=True, slots=True)
class Raised:
    """The handler raised.

    Attributes:
        contention: The error is one that the database asks to be tried again.
        lost: The error is that the connection went away.
        origin: Whose error it is.
    """

    error: BaseException
    transaction: Transaction
    contention: bool
    lost: bool
    origin: ErrorOrigin


# Faults


class Fault(Exception):
    """Thrown into a protocol where a reply was expected."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(said(cause))
        self.cause = cause


class Contention(Fault):
    """The database rolled something back for another transaction's sake; try again."""


class Lost(Fault):
    """The connection is gone; nothing that was not committed survives."""


class Unknown(Fault):
    """The seal was sent and no clean reply came: committed or not, nobody knows."""

    @property
    def interrupted(self) -> bool:
        """A signal or a cancellation, not the connection, took the reply away."""
        return not isinstance(self.cause, Exception)


class Interrupted(Fault):
    """A signal or a cancellation arrived before the seal was sent."""


class Refused(Fault):
    """The database answered with an error that is neither contention nor a lost connection."""


# The result


@dataclass(frozen=True, slots=True)
class Report:
    """How an attempt ended.

    Attributes:
        outcome: None where no attempt was made: the key is settled, but not as applied
            (`standing`), or the start is not due (`not_due_us`), or the key bears a later name
            of its job (`first_name`), or `unknown`.
        standing: The row that holds the key, where one was read.
        error: What failed, for `failed`, `busy` and `torn`.
        horizon_us: The job's horizon, for `expired`.
        unknown: The commit's fate could not be learnt within its bound.
        unreachable: The database went away, and nothing was committed.
        interrupted: The signal or cancellation that came while the commit was under way; to
            be raised now that its fate is settled.
        not_due_us: The database's clock, where it says that the nominal time is to come.
        no_slot: As many occurrences of the job as may run at once are running.
        unrepeated: The handler was under way, and cannot be called again.
        first_name: The one under which the ledger keeps the key's job; nothing was claimed.
    """

    outcome: Outcome | None
    standing: Standing | None = None
    error: BaseException | None = None
    origin: ErrorOrigin | None = None
    horizon_us: int | None = None
    unknown: bool = False
    unreachable: bool = False
    interrupted: BaseException | None = None
    not_due_us: int | None = None
    no_slot: bool = False
    unrepeated: bool = False
    first_name: str | None = None


Ops: TypeAlias = Generator[Op, Any, Report]
