"""Rules of wall times, the form that every starter understands: hours and minutes on some days.

Decides which rules together name given wall times, if need be with others besides. Must never
leave one out: a start too many ends as a duplicate, a start too few is a period that is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping
    from datetime import datetime

__all__ = [
    "DAYS",
    "HOURS",
    "MINUTES",
    "MONTHS",
    "WEEKDAYS",
    "Cover",
    "Rule",
    "on_months",
    "one_rule",
]

MINUTES: Final = frozenset(range(60))
HOURS: Final = frozenset(range(24))
DAYS: Final = frozenset(range(1, 32))
MONTHS: Final = frozenset(range(1, 13))
WEEKDAYS: Final = frozenset(range(7))

# More lines than this nobody reads; then one rule has every hour with every minute of them.
LINES_MAX: Final = 6

Key = TypeVar("Key", bound="Hashable")
Times = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Rule:
    """Wall times: each of the hours with each of the minutes, on each of the days.

    Attributes:
        weekdays: Sunday is 0.
        either: A day of the month or a weekday is enough, where both are restricted.
        spelled: The five cron fields that a person wrote for it; None if it was computed.
    """

    hours: frozenset[int]
    minutes: frozenset[int]
    days: frozenset[int] = DAYS
    months: frozenset[int] = MONTHS
    weekdays: frozenset[int] = WEEKDAYS
    either: bool = False
    spelled: tuple[str, str, str, str, str] | None = None

    def matches(self, wall: datetime) -> bool:
        """Whether it names a wall time."""
        by_day, by_weekday = wall.day in self.days, wall.isoweekday() % 7 in self.weekdays
        return (
            wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and (by_day or by_weekday if self.either else by_day and by_weekday)
        )

    def times_a_day(self) -> int:
        """How many wall times it names on one of its days."""
        return len(self.hours) * len(self.minutes)


class Cover:
    """Collects wall times, and makes the rules that name them all.

    Attributes:
        times: Their times of day.
    """

    def __init__(self) -> None:
        self.times: set[tuple[int, int]] = set()
        self._dates: set[tuple[int, int, int]] = set()

    @property
    def full(self) -> bool:
        """Whether they are every minute of the day."""
        return len(self.times) == len(HOURS) * len(MINUTES)

    def add(self, wall: datetime) -> None:
        """Have this one named too."""
        self.times.add((wall.hour, wall.minute))
        self._dates.add((wall.month, wall.day, wall.isoweekday() % 7))

    def rules(self) -> tuple[Rule, ...]:
        """Their times of day, on their months, days of the month, and weekdays."""
        if self.full:
            return (Rule(HOURS, MINUTES),)
        months, days, weekdays = (frozenset(part) for part in zip(*self._dates, strict=True))
        return tuple(
            replace(rule, months=months, days=days, weekdays=weekdays)
            for rule in _of_times(frozenset(self.times))
        )


def on_months(walls: Iterable[datetime]) -> tuple[Rule, ...]:
    """Rules that name all of *walls*, on every day of their months.

    A zone's rule moves its switch from day to day over the years, and keeps to the month.
    """
    months: dict[tuple[int, int], set[int]] = {}
    for wall in walls:
        months.setdefault((wall.hour, wall.minute), set()).add(wall.month)
    return tuple(
        replace(rule, months=of)
        for of, times in _grouped({time: frozenset(of) for time, of in months.items()}).items()
        for rule in _of_times(times)
    )


def one_rule(rules: tuple[Rule, ...]) -> Rule:
    """One rule that names all that *rules* name."""
    if len(rules) == 1:
        return rules[0]
    return Rule(
        hours=frozenset().union(*(rule.hours for rule in rules)),
        minutes=frozenset().union(*(rule.minutes for rule in rules)),
        days=frozenset().union(*(rule.days for rule in rules)),
        months=frozenset().union(*(rule.months for rule in rules)),
        weekdays=frozenset().union(*(rule.weekdays for rule in rules)),
    )


def _of_times(times: Times) -> tuple[Rule, ...]:
    """Rules of every day for times of day: exact if they are few, else a superset."""
    minutes: dict[int, set[int]] = {}
    hours: dict[int, set[int]] = {}
    for hour, minute in times:
        minutes.setdefault(hour, set()).add(minute)
        hours.setdefault(minute, set()).add(hour)
    by_hour = _grouped({hour: frozenset(of) for hour, of in minutes.items()})
    by_minute = _grouped({minute: frozenset(of) for minute, of in hours.items()})
    if min(len(by_hour), len(by_minute)) > LINES_MAX:
        return (Rule(frozenset(minutes), frozenset(hours)),)
    if len(by_minute) < len(by_hour):
        rules = [Rule(of, which) for of, which in by_minute.items()]
    else:
        rules = [Rule(which, of) for of, which in by_hour.items()]
    return tuple(sorted(rules, key=lambda rule: (min(rule.hours), min(rule.minutes))))


def _grouped(values: Mapping[Key, frozenset[int]]) -> dict[frozenset[int], frozenset[Key]]:
    """The keys that have the same value, by that value."""
    groups: dict[frozenset[int], set[Key]] = {}
    for key, value in values.items():
        groups.setdefault(value, set()).add(key)
    return {value: frozenset(keys) for value, keys in groups.items()}
