"""How a starter's value is read as an instant, and how one is refused.

Decides what a value must look like, and the shape of the line that refuses it. Must never let
a value pass unread: what is there and does not parse is refused by name, never ignored.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from duly._core.instants import as_utc, parse_instant
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, StartInvalid

__all__ = ["given", "instant_of", "refused"]

NEXT_STEP: Final = "give --at the time that is meant"

# Go, Java and .NET write up to nine digits of fraction; an instant here has six.
NANOSECONDS: Final = re.compile(r"(.*\.[0-9]{6})[0-9]{1,3}(Z|[+-][0-9]{2}:[0-9]{2})")


def given(name: str, value: object) -> str:
    """Where a starter says it and what stands there, for `Start.said`."""
    return f"{name}={value.isoformat() if isinstance(value, datetime) else shown(value)}"


def instant_of(value: object, name: str, *, nanoseconds: bool = False) -> datetime:
    """The aware UTC datetime that a starter's value says.

    Args:
        value: RFC 3339 text or an aware datetime.
        name: The variable, header or field that it stands in, for the message.
        nanoseconds: Whether this starter writes up to nine digits of fraction; those past the
            sixth are cut off, which cannot move an instant past the one it is floored onto.

    Raises:
        StartInvalid: It is anything else.
    """
    try:
        if isinstance(value, datetime):
            return as_utc(value, name=name)
        if not isinstance(value, str):
            raise refused(name, value, "is neither text nor a datetime")
        if not value:
            raise refused(name, value, "is empty; unset it")
        longer = NANOSECONDS.fullmatch(value) if nanoseconds else None
        return parse_instant(value if longer is None else longer[1] + longer[2], name=name)
    except NominalTimeInvalid as error:
        raise StartInvalid(f"{error.message}, or {NEXT_STEP}", where=name) from None


def refused(name: str, value: object, why: str) -> StartInvalid:
    """The error for a value that says no nominal time.

    Args:
        name: The variable, header or field.
        value: What stands there; it is shortened.
        why: What is wrong with it, as the rest of a sentence that begins with the value; it may
            end in a next step of its own.
    """
    joined = ", or " if ";" in why else "; "
    return StartInvalid(f"{name} {shown(value)} {why}{joined}{NEXT_STEP}", where=name)
