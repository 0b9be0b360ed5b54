"""Instants: aware datetimes, their integer microseconds, and their RFC 3339 text.

Decides what counts as an instant (aware, within the years 1 to 9999, whole microseconds)
and its one canonical text. Must never use a float, assume a zone for a naive datetime, or
read a clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from duly._core.wording import shown
from duly.errors import NominalTimeInvalid

__all__ = ["as_span", "as_utc", "format_instant", "from_us", "parse_instant", "to_us"]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
US_MIN: Final = (datetime.min.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
US_MAX: Final = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MICROSECOND
NEVER_US: Final = US_MIN + 86_400_000_000
"""What stands for "complete up to no time": early enough, with room for counting down."""

RFC_3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?:\.([0-9]+))?(?:(Z)|([+-])([0-9]{2}):([0-9]{2}))?"
)
EXAMPLE: Final = "write it as 2026-09-13T00:00:00Z or 2026-09-13T02:00:00+02:00"


def as_utc(instant: datetime, *, name: str = "the instant") -> datetime:
    """The same instant as a plain `datetime` in UTC, with `fold` 0.

    Args:
        instant: An aware datetime in any zone.
        name: What the message calls it.

    Raises:
        NominalTimeInvalid: It is no datetime, naive, or outside the years 1 to 9999 in UTC.
    """
    if type(instant) is datetime and instant.tzinfo is UTC and not instant.fold:
        return instant
    if not isinstance(instant, datetime):
        raise NominalTimeInvalid(
            f"{name} must be an aware datetime, not {shown(instant)}; "
            "give one such as datetime(2026, 9, 13, tzinfo=timezone.utc)"
        )
    if instant.utcoffset() is None:
        raise NominalTimeInvalid(
            f"{name} {instant.isoformat()} is naive: it has no zone, so it names no instant; "
            "attach one, for example .replace(tzinfo=timezone.utc)"
        )
    try:
        utc = instant.astimezone(UTC)
    except OverflowError:
        raise NominalTimeInvalid(
            f"{name} {instant.isoformat()} lies outside the years 1 to 9999 in UTC; "
            "give one inside them"
        ) from None
    # Rebuilt, so that neither a subclass nor a `fold` left from another zone gets into keys.
    return datetime(
        utc.year, utc.month, utc.day, utc.hour, utc.minute, utc.second, utc.microsecond, UTC
    )


def as_span(start: datetime, end: datetime) -> tuple[datetime, datetime]:
    """Both bounds of a half-open span, in UTC.

    Raises:
        NominalTimeInvalid: A bound is naive, or *start* is after *end*.
    """
    start, end = as_utc(start, name="start"), as_utc(end, name="end")
    if start > end:
        raise NominalTimeInvalid(
            f"start {format_instant(start)} is after end {format_instant(end)}; swap them"
        )
    return start, end


def to_us(instant: datetime) -> int:
    """Microseconds since 1970-01-01T00:00:00Z, exact, negative before it.

    Raises:
        NominalTimeInvalid: As `as_utc`.
    """
    return (as_utc(instant) - EPOCH) // MICROSECOND


def from_us(us: int) -> datetime:
    """The aware UTC datetime at that many microseconds since 1970-01-01T00:00:00Z.

    Raises:
        NominalTimeInvalid: Not an int, or outside the years 1 to 9999.
    """
    if type(us) is not int or not US_MIN <= us <= US_MAX:
        raise NominalTimeInvalid(
            f"{shown(us)} is not a count of microseconds within the years 1 to 9999; "
            f"give an int from {US_MIN} to {US_MAX}"
        )
    return EPOCH + timedelta(microseconds=us)


def format_instant(instant: datetime) -> str:
    """RFC 3339 text in UTC with `Z`: a fraction only if it is not zero, then six digits.

    Raises:
        NominalTimeInvalid: As `as_utc`.
    """
    return as_utc(instant).replace(tzinfo=None).isoformat() + "Z"


def parse_instant(text: str, *, name: str = "the instant") -> datetime:
    """The aware UTC datetime of strict RFC 3339 text (RFC 3339, section 5.6).

    Stricter than the RFC where two spellings or two readings would be possible: an upper-case
    `T` and `Z`, seconds, at most six digits of fraction, no leap second, no hour 24.

    Raises:
        NominalTimeInvalid: The text is anything else; the message says what to write.
    """
    match = RFC_3339.fullmatch(text)
    if match is None:
        raise NominalTimeInvalid(f"{name} {shown(text)} {_why_not(text)}")
    *numbers, fraction, zulu, sign, hours, minutes = match.groups()
    year, month, day, hour, minute, second = map(int, numbers)
    problem = None
    if zulu is None and sign is None:
        problem = "has no offset, so it names no instant; add Z, or an offset such as +02:00"
    elif fraction is not None and len(fraction) > 6:
        problem = "has more than six digits of fraction; give whole microseconds"
    elif second == 60:
        problem = "is a leap second, which no clock here counts; give :59 or the next minute"
    elif hour == 24:
        problem = "has the hour 24; write 00:00:00 of the next day"
    elif sign is not None and (int(hours) > 23 or int(minutes) > 59):
        problem = "has an offset beyond 23:59; give the zone's real offset"
    if problem is not None:
        raise NominalTimeInvalid(f"{name} {shown(text)} {problem}")
    try:
        wall = datetime(
            year, month, day, hour, minute, second, int((fraction or "").ljust(6, "0")), UTC
        )
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        return wall + offset if sign == "-" else wall - offset
    except (ValueError, OverflowError):
        raise NominalTimeInvalid(
            f"{name} {shown(text)} is no date and time of the calendar within the years "
            f"1 to 9999; {EXAMPLE}"
        ) from None


def _why_not(text: str) -> str:
    """What is wrong with text that does not have the shape of RFC 3339, and the next step."""
    if RFC_3339.fullmatch(text.upper()):
        return "uses a lower-case t or z; write T and Z"
    if RFC_3339.fullmatch(text.replace(" ", "T", 1)):
        return "separates date and time by a space; write T between them"
    return f"is not RFC 3339 text; {EXAMPLE}"
