"""What a ledger should hold of one job, worked out by brute force from all that was done.

Small, slow and plain: it keeps every edit, pause and prune with its instant, and counts through
the whole timeline for each question. It must share no code with what it is held against but the
schedules' `between`, which have oracles of their own (tests/core/test_cron_oracles.py).
"""

from __future__ import annotations

from base64 import b64decode
from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from zoneinfo import ZoneInfo

import duly
from duly import zones

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[1] / "core" / "data" / "zoneinfo"
VANCOUVER = "America/Vancouver"
OLDER, NEWER = "2025b", "2026f"

MICROSECOND = timedelta(microseconds=1)
DAY = timedelta(days=1)
FLOOR = timedelta(days=1)
"""PROTOCOL 16: a prune stays two of these away from the newest record, and from the clock."""
BEGINNING = datetime(2026, 10, 26, 12, tzinfo=UTC)
"""Vancouver's clocks differ between the two releases from 2026-11-01 on."""
EARLIEST = BEGINNING - 5 * DAY
LATEST = BEGINNING + 80 * DAY
FAR = datetime.max.replace(tzinfo=UTC)

CatchUp = Literal["each", "skip", "reconcile", "none"]
Retrying = Literal["at once", "twice", "never"]


@cache
def zone(name: str, release: str) -> ZoneInfo:
    """A zone as a release of the zone data has it."""
    if name != VANCOUVER:  # the others did not change between the two
        return zones.load(name)
    text = DATA.joinpath(release, f"{name}.base64").read_text("ascii")
    return ZoneInfo.from_file(BytesIO(b64decode(text)), key=name)


@dataclass(frozen=True)
class Terms:
    """A definition of the job.

    Attributes:
        schedule: Cron text; or minutes.
        serial: Its payload.
        retry: What becomes of a failed occurrence.
    """

    schedule: str | int
    zone: str = "UTC"
    serial: int = 0
    catch_up: CatchUp = "each"
    skip_after: timedelta | None = None
    max_per_tick: int = 100
    in_order: bool = False
    retry: Retrying = "at once"
    starts: datetime | None = None
    ends: datetime | None = None


@dataclass(frozen=True)
class Revision:
    """Terms in force.

    Attributes:
        release: Of its writer's zone data.
    """

    terms: Terms
    release: str
    effective_at: datetime

    @property
    def span(self) -> tuple[datetime, datetime]:
        """From when until when it expects, but for what comes after it."""
        starts, ends = self.terms.starts, self.terms.ends
        return max(self.effective_at, starts or self.effective_at), ends or FAR

    def times(self, start: datetime, end: datetime) -> list[datetime]:
        """What its schedule says in [start, end)."""
        found = _times(self.terms.schedule, self.terms.zone, self.release)
        return found[bisect_left(found, start) : bisect_left(found, end)]

    @property
    def days(self) -> list[Day]:
        """Every day of its calendar."""
        return _days(self.terms.schedule, self.terms.zone, self.release)


class Day(NamedTuple):
    """One business day."""

    start: datetime
    end: datetime
    due: datetime


@dataclass
class Pause:
    """A pause; without an end while it lasts."""

    start: datetime
    end: datetime | None = None
    is_included: bool = False


@dataclass
class Failed:
    """How often an occurrence failed, and when last."""

    count: int
    last_at: datetime


class Plan(NamedTuple):
    """What a tick does with what is missing."""

    run: list[datetime]
    skip: list[datetime]
    cover: list[datetime]


class RefusedError(Exception):
    """A definition may not run; the first word of it is the error's name."""


@dataclass
class Reference:
    """One job.

    Attributes:
        by_day: Its occurrences are business days.
        settled: Disposition by nominal time, of ordinary occurrences that were not pruned.
        effects: The serial of the payload by nominal time and correction; pruned or not.
        recorded: When the row of each nominal time and correction was made.
        failed: Of what is not settled.
        refused: What was tried below the horizon, which leaves a row too.
    """

    by_day: bool
    revisions: list[Revision] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    settled: dict[datetime, str] = field(default_factory=dict)
    effects: dict[tuple[datetime, int], int] = field(default_factory=dict)
    recorded: dict[tuple[datetime, int], datetime] = field(default_factory=dict)
    failed: dict[datetime, Failed] = field(default_factory=dict)
    horizon: datetime | None = None
    refused: set[datetime] = field(default_factory=set)

    # Definitions

    def told(self, terms: Terms, release: str, at: datetime, *, adopt: bool = False) -> None:
        """A process says what the job is.

        Raises:
            RefusedError: It may not.
        """
        if not self.revisions:
            self.revisions.append(Revision(terms, release, min(terms.starts or at, at)))
            return
        latest = self.revisions[-1]
        is_edit = terms != latest.terms
        if is_edit and not adopt and any(terms == each.terms for each in self.revisions):
            raise RefusedError("DefinitionStale")
        same_zone = [each for each in self.revisions if each.terms.zone == terms.zone]
        is_news = False
        if terms.zone == VANCOUVER and same_zone and same_zone[-1].release != release:
            if release == OLDER:
                raise RefusedError("ZoneDataOutdated")
            is_news = True
        if is_edit or is_news:
            effective_at = max(at, latest.effective_at + MICROSECOND)
            self.revisions.append(Revision(terms, release, effective_at))

    @property
    def latest(self) -> Terms:
        """The terms in force."""
        return self.revisions[-1].terms

    def serial_of(self, due: datetime, own: Terms) -> int:
        """The payload of what was due then: of the revision in force; before the first, *own*."""
        in_force = [each for each in self.revisions if each.effective_at <= due]
        return in_force[-1].terms.serial if in_force else own.serial

    # Expectations

    def dues(self, now: datetime) -> dict[datetime, datetime]:
        """Due time by nominal time of all that any revision expected by *now*, pauses or not."""
        found: dict[datetime, datetime] = {}
        covered: datetime | None = None
        before: tuple[Revision, datetime] | None = None
        for revision, (start, end) in self._spans():
            if not self.by_day:
                until = min(end, now + MICROSECOND)
                found |= {at: at for at in revision.times(start, max(start, until))}
                continue
            own: dict[datetime, datetime] = {}
            days = [day for day in revision.days if covered is None or day.start >= covered]
            if before is not None and before[1] == start:
                # A day that the old schedule was still to start, and the new one would have
                # started earlier than now, is owed at once.
                old = [day.start for day in before[0].days if day.due >= start]
                waiting = next(each for each in old if covered is None or each >= covered)
                # If nothing was ever expected before the edit, no day that starts before the first
                # one the old schedule waited for is owed: the past stays as it was.
                floor = covered or waiting
                own |= {
                    day.start: start
                    for day in days
                    if day.due < start and day.end > waiting and day.start >= floor
                }
            own |= {day.start: day.due for day in days if start <= day.due < end}
            found |= {nominal: due for nominal, due in own.items() if due <= now}
            if own:
                # Nobody asks beyond now but for what a later revision starts after.
                covered = max(day.end for day in days if day.start in own)
            before = (revision, end)
        return found

    def expected(self, now: datetime) -> dict[datetime, datetime]:
        """Due time by nominal time of all that should be settled by *now*, ascending."""
        return {
            nominal: due
            for nominal, due in sorted(self.dues(now).items())
            if not any(
                pause.start <= due and (pause.end is None or due < pause.end)
                for pause in self.pauses
                if not pause.is_included
            )
            and (self.horizon is None or nominal > self.horizon)
        }

    def missing(self, now: datetime) -> list[datetime]:
        """What is expected and not settled."""
        return [nominal for nominal in self.expected(now) if nominal not in self.settled]

    def is_pruned(self, nominal: datetime) -> bool:
        """Whether it lies at or below the horizon: it may not be run any more."""
        return self.horizon is not None and nominal <= self.horizon

    def is_free(self, nominal: datetime) -> bool:
        """Whether its key may be settled."""
        return nominal not in self.settled and not self.is_pruned(nominal)

    @property
    def is_paused(self) -> bool:
        """Whether a pause lasts."""
        return any(pause.end is None for pause in self.pauses)

    def _spans(self) -> Iterator[tuple[Revision, tuple[datetime, datetime]]]:
        for number, revision in enumerate(self.revisions, 1):
            start, end = revision.span
            for following in self.revisions[number : number + 1]:
                end = min(end, following.effective_at)
            if start < end:
                yield revision, (start, end)

    # Ticks

    def plan(self, now: datetime) -> Plan:
        """What a tick would do."""
        if self.is_paused:
            return Plan([], [], [])
        expected, missing = self.expected(now), self.missing(now)
        terms = self.latest
        match terms.catch_up:
            case "each":
                return Plan(self._oldest(missing, now), [], [])
            case "skip":
                assert terms.skip_after is not None
                skip = [each for each in missing if expected[each] < now - terms.skip_after]
                return Plan(self._oldest(missing[len(skip) :], now), skip, [])
            case "reconcile":
                run = [each for each in missing[-1:] if self._may_run(each, now)]
                return Plan(run, [], missing[:-1] if run else [])
            case "none":
                newest = max(expected, default=None)
                run = [each for each in missing if each == newest and self._may_run(each, now)]
                return Plan(run, [], [])

    def _oldest(self, missing: list[datetime], now: datetime) -> list[datetime]:
        found: list[datetime] = []
        for each in missing:
            if self._may_run(each, now):
                found.append(each)
            elif self.latest.in_order:
                break
        return found[: self.latest.max_per_tick]

    def _may_run(self, nominal: datetime, now: datetime) -> bool:
        failed = self.failed.get(nominal)
        if failed is None:
            return True
        match self.latest.retry:
            case "at once":
                return failed.last_at <= now
            case "twice":
                return failed.count < 2 and failed.last_at <= now
            case "never":
                return False

    # What becomes of an occurrence

    def settle(self, nominal: datetime, disposition: str, at: datetime) -> None:
        """It ended."""
        assert nominal not in self.settled, f"{nominal} is settled already"
        self.settled[nominal] = disposition
        self.recorded[nominal, 1] = at
        self.failed.pop(nominal, None)

    def apply(self, nominal: datetime, serial: int, at: datetime) -> None:
        """It was run, and its effect is there."""
        assert (nominal, 1) not in self.effects, f"a second effect of {nominal}"
        self.settle(nominal, "applied", at)
        self.effects[nominal, 1] = serial

    def fail(self, nominal: datetime, at: datetime) -> None:
        """It was tried in vain."""
        before = self.failed.get(nominal, Failed(0, at))
        self.failed[nominal] = Failed(before.count + 1, max(before.last_at, at))

    def correct(self, nominal: datetime, serial: int, at: datetime) -> int:
        """A person orders another effect; returns its number."""
        number = 1 + max(n for when, n in self.recorded if when == nominal)
        if self.settled[nominal] == "torn":
            self.settled[nominal] = "waived"
        self.effects[nominal, number] = serial
        self.recorded[nominal, number] = at
        return number

    def prune(self, bound: datetime, now: datetime) -> None:
        """Forget what lies at or below *bound*, as far as nothing holds it."""
        rows = [nominal for nominal, _ in self.recorded] + [*self.failed, *self.refused]
        if not any(nominal <= bound for nominal in rows):
            return
        held = [nominal for nominal, how in self.settled.items() if how == "torn"]
        held += self.missing(now)
        to = min([bound, *(each - MICROSECOND for each in held)])
        self.horizon = to if self.horizon is None else max(self.horizon, to)
        self.settled = {at: how for at, how in self.settled.items() if at > self.horizon}
        self.recorded = {k: at for k, at in self.recorded.items() if k[0] > self.horizon}
        self.failed = {at: each for at, each in self.failed.items() if at > self.horizon}
        self.refused = {at for at in self.refused if at > self.horizon}


@cache
def _times(schedule: str | int, name: str, release: str) -> list[datetime]:
    """All that a schedule says in the whole timeline, by a release of the zone data."""
    if isinstance(schedule, int):
        every = duly.Every(timedelta(minutes=schedule), anchor=EARLIEST)
        return list(every.between(EARLIEST - 3 * DAY, LATEST))
    with zones.recorded(zone(name, release)):
        cron = duly.Cron(schedule, timezone=name)
    return list(cron.between(EARLIEST - 5 * DAY, LATEST))


@cache
def _days(schedule: str | int, name: str, release: str) -> list[Day]:
    """All business days of the timeline, each started at the first time of the day after it."""
    dues, where = _times(schedule, name, release), zone(name, release)

    def midnight(date: date) -> datetime:
        return datetime.combine(date, time.min, where).astimezone(UTC)

    found: list[Day] = []
    day = (EARLIEST - 3 * DAY).date()
    while midnight(day + 2 * DAY) < LATEST:
        start, end, after = (midnight(day + n * DAY) for n in range(3))
        found.append(Day(start, end, next(due for due in dues if end <= due < after)))
        day += DAY
    return found
