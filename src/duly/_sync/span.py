"""A span of nominal times that a person gives: instants, or dates in the job's zone.

Decides what a bound means, and refuses a span that ends before it begins. It reads no clock.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from duly import zones
from duly._core.instants import as_utc, format_instant, parse_instant
from duly._core.wording import shown
from duly._db import expectation
from duly.errors import NominalTimeInvalid

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duly._db.sessions.base import Session

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read(
    since: datetime | date | str, until: datetime | date | str, *, zone: ZoneInfo
) -> tuple[datetime, datetime]:
    """The half-open span, aware UTC.

    Raises:
        NominalTimeInvalid: A bound that is no instant and no date, or *since* after *until*.
    """
    start, end = bound(since, "since", zone), bound(until, "until", zone)
    if start > end:
        raise NominalTimeInvalid(
            f"since {format_instant(start)} is after until {format_instant(end)}; "
            "give the earlier one as since"
        )
    return start, end


def bound(given: datetime | date | str, name: str, zone: ZoneInfo) -> datetime:
    """An instant; or the first one of a date in *zone*.

    Raises:
        NominalTimeInvalid: It is neither.
    """
    if isinstance(given, datetime):
        return as_utc(given, name=name)
    if isinstance(given, str):
        if not _DATE.fullmatch(given):
            return parse_instant(given, name=name)
        try:
            given = date.fromisoformat(given)
        except ValueError:
            raise NominalTimeInvalid(
                f"{name} {shown(given)} is no date of the calendar; write one such as 2026-09-13"
            ) from None
    if not isinstance(given, date):
        raise NominalTimeInvalid(
            f"{name} {shown(given)} is neither an instant nor a date; give an aware datetime, "
            "2026-09-13T00:00:00Z, or a date in the job's zone"
        )
    try:
        # Where the clocks skip midnight, the offset before it gives the first instant after.
        return datetime(given.year, given.month, given.day, tzinfo=zone).astimezone(UTC)
    except OverflowError:
        raise NominalTimeInvalid(
            f"{name} {given} begins outside the years 1 to 9999 in {zone.key}; give another date"
        ) from None


def zone_of(session: Session, job: str) -> ZoneInfo:
    """The zone of a job, as the ledger knows it; UTC where it knows none."""
    found = expectation.revisions(session, job)
    return zones.load(found[-1].zone if found else "UTC")
