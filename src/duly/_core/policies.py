"""What a job does about time: catch-up, retries, overlap, deadlines; and their stored form.

Decides which policies a definition may have. They are kept with each revision, so that a
ledger can be read without the code that wrote it. It never reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias

from duly._core.instants import as_utc, format_instant, from_us, to_us
from duly._core.wording import shown
from duly.errors import ScheduleInvalid

__all__ = ["CATCH_UP", "CatchUp", "Policies", "Retry"]

CatchUp: TypeAlias = Literal["each", "skip", "reconcile", "none"]
CATCH_UP: Final[tuple[CatchUp, ...]] = ("each", "skip", "reconcile", "none")

MICROSECOND: Final = timedelta(microseconds=1)
PER_TICK_MAX: Final = 100_000
RUNNING_MAX: Final = 1_000
ATTEMPTS_MAX: Final = 1_000_000
LONGEST: Final = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed occurrence is tried again: exponential backoff, with jitter.

    The first retry comes *first* after the failure, each further one *factor* times later, never
    more than *most* apart; each delay is shortened by up to half, by the key, so that many
    failures do not come back at once.

    Attributes:
        attempts: How many attempts there are in all; None for no end. After the last one the
            occurrence stays missing, for a person.
        first: The delay before the first retry.
        factor: By how much each delay is longer than the one before; at least 1.
        most: The longest delay.
        on: Exceptions that are worth a retry; any other ends the attempts at once.
    """

    attempts: int | None = None
    first: timedelta = timedelta(seconds=30)
    factor: float = 2.0
    most: timedelta = timedelta(hours=1)
    on: tuple[type[BaseException], ...] = field(default=(Exception,), compare=False)

    def __post_init__(self) -> None:
        if self.attempts is not None:
            _count("retry.attempts", self.attempts, ATTEMPTS_MAX)
        _duration("retry.first", self.first)
        _duration("retry.most", self.most)
        if not _is_factor(self.factor):
            raise ScheduleInvalid(
                f"retry.factor {shown(self.factor)} is not allowed; give 1 to 100"
            )
        kinds: Any = self.on  # one class may stand for itself
        object.__setattr__(self, "on", kinds if isinstance(kinds, tuple) else (kinds,))
        for kind in self.on:
            if not _is_exception(kind):
                raise ScheduleInvalid(
                    f"retry.on has {shown(kind)}, which is no exception class; "
                    "give one such as ConnectionError"
                )

    def delay(self, failures: int, key: str) -> timedelta:
        """The time from the last of *failures* failed attempts to the next one."""
        first_us, most_us = self.first // MICROSECOND, self.most // MICROSECOND
        try:
            longest_us = min(first_us * float(self.factor) ** (failures - 1), most_us)
        except OverflowError:
            longest_us = most_us if first_us else 0
        fraction = int.from_bytes(sha256(f"{key} {failures}".encode()).digest()[:4]) / 2**33
        return timedelta(microseconds=int(longest_us * (1 - fraction)))


@dataclass(frozen=True, slots=True)
class Policies:
    """What a job does about time.

    Attributes:
        catch_up: What becomes of missed occurrences: `each` runs every one, oldest first;
            `skip` settles those due longer ago than *skip_after* as skipped; `reconcile` runs the
            newest, which covers the older; `none` leaves all but the newest due for a person.
        skip_after: The age at which `skip` gives an occurrence up.
        max_per_tick: How many occurrences of the job one tick starts at most.
        max_running: How many different occurrences of the job ticks run at once, on all hosts.
        in_order: Stop at the first that is not applied; later ones wait for it.
        retry: When a failed occurrence is tried again.
        deadline: How long after its due time a missing occurrence is overdue; None for never.
        timeout: How long a handler may take; None for no bound.
        starts: Nothing due before is expected; None for the job's registration.
        ends: Nothing due from then on is expected.
    """

    catch_up: CatchUp = "each"
    skip_after: timedelta | None = None
    max_per_tick: int = 100
    max_running: int = 1
    in_order: bool = False
    retry: Retry = field(default_factory=Retry)
    deadline: timedelta | None = None
    timeout: timedelta | None = None
    starts: datetime | None = None
    ends: datetime | None = None

    def __post_init__(self) -> None:
        if self.catch_up not in CATCH_UP:
            raise ScheduleInvalid(
                f"catch_up {shown(self.catch_up)} is not allowed; allowed are {', '.join(CATCH_UP)}"
            )
        if self.catch_up == "skip" and self.skip_after is None:
            raise ScheduleInvalid(
                'catch_up="skip" needs skip_after=: how long ago an occurrence may have been due '
                "and still be run; give one such as timedelta(hours=1)"
            )
        if self.catch_up != "skip" and self.skip_after is not None:
            raise ScheduleInvalid(
                f'skip_after= means nothing with catch_up="{self.catch_up}"; write catch_up="skip"'
            )
        self._check_running()
        self._check_times()

    def _check_running(self) -> None:
        _count("max_per_tick", self.max_per_tick, PER_TICK_MAX)
        _count("max_running", self.max_running, RUNNING_MAX)
        if not _is_flag(self.in_order):
            raise ScheduleInvalid(
                f"in_order {shown(self.in_order)} is not allowed; give True or False"
            )
        if self.in_order and self.max_running != 1:
            raise ScheduleInvalid("in_order=True runs one at a time; leave max_running= out")
        if not _is_retry(self.retry):
            raise ScheduleInvalid(
                f"retry must be a Retry, not {shown(self.retry)}; "
                "give one such as Retry(attempts=5)"
            )

    def _check_times(self) -> None:
        for name in ("skip_after", "deadline", "timeout"):
            if getattr(self, name) is not None:
                _duration(name, getattr(self, name))
        for name in ("skip_after", "timeout"):
            if getattr(self, name) == timedelta(0):
                raise ScheduleInvalid(
                    f"{name} 0 would let nothing run; give one such as timedelta(hours=1)"
                )
        for name in ("starts", "ends"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, as_utc(getattr(self, name), name=name))
        if self.starts and self.ends and self.ends <= self.starts:
            raise ScheduleInvalid(
                f"ends {format_instant(self.ends)} is not after starts "
                f"{format_instant(self.starts)}; swap them, or leave one out"
            )

    def stored(self) -> dict[str, Any]:
        """A JSON-ready form; equal for equal policies. What is not set is left out."""
        found: dict[str, Any] = {}
        unset = Policies()
        for each in fields(self):
            value = getattr(self, each.name)
            if value == getattr(unset, each.name):
                continue
            match value:
                case timedelta():
                    found[each.name] = value // MICROSECOND
                case datetime():
                    found[each.name] = to_us(value)
                case Retry():
                    found[each.name] = {
                        "attempts": value.attempts,
                        "first": value.first // MICROSECOND,
                        "factor": float(value.factor),
                        "most": value.most // MICROSECOND,
                    }
                case _:
                    found[each.name] = value
        return found

    @classmethod
    def read(cls, stored: dict[str, Any]) -> Policies:
        """The policies of a stored form; what a later version added is passed over."""
        known: dict[str, Any] = {}
        for name, value in stored.items():
            if name in {"skip_after", "deadline", "timeout"}:
                known[name] = timedelta(microseconds=value)
            elif name in {"starts", "ends"}:
                known[name] = from_us(value)
            elif name == "retry":
                known[name] = Retry(
                    attempts=value["attempts"],
                    first=timedelta(microseconds=value["first"]),
                    factor=value["factor"],
                    most=timedelta(microseconds=value["most"]),
                )
            elif name in cls.__slots__:
                known[name] = value
        return cls(**known)


def _duration(name: str, given: object) -> None:
    if not isinstance(given, timedelta) or not timedelta(0) <= given <= LONGEST:
        raise ScheduleInvalid(
            f"{name} must be a timedelta from 0 to a hundred years, not {shown(given)}; "
            "give one such as timedelta(hours=1)"
        )


def _count(name: str, given: object, most: int) -> None:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise ScheduleInvalid(f"{name} {shown(given)} is not allowed; give an int from 1 to {most}")


def _is_flag(given: object) -> bool:
    return isinstance(given, bool)


def _is_retry(given: object) -> bool:
    return isinstance(given, Retry)


def _is_factor(given: object) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and 1 <= given <= 100


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)
