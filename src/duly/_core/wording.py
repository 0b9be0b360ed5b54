"""How a value that was refused is shown inside a one-line message.

Decides how much of a value a message may carry. Must never raise, call the value's own
`repr` (it may be large, slow or many lines long), or print a line break.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Final

__all__ = ["said", "shown"]

SHOWN_MAX: Final = 60


def shown(value: object, *, limit: int = SHOWN_MAX) -> str:
    """The value as one short line: a literal for plain values, else the name of its type.

    Args:
        value: Anything; only plain built-in values are printed.
        limit: The most characters of the value that are shown.
    """
    match value:
        case str():
            text = str.__str__(value)
            line = repr(text[:limit])
            if len(text) > limit:
                line += f"… ({len(text)} characters)"
        case None | bool():
            line = str(value)
        case int() if value.bit_length() > 128:
            # Text of a huge integer costs quadratic time, and Python refuses it past 4,300 digits.
            line = f"an integer of {value.bit_length()} bits"
        case int() | float():
            line = repr(float(value) if isinstance(value, float) else int(value))
        case datetime() | date() | timedelta() if type(value) in (datetime, date, timedelta):
            line = value.isoformat() if isinstance(value, datetime) else str(value)
        case _:
            line = f"a value of type {type(value).__name__}"
    return line


def said(error: BaseException) -> str:
    """An error's own words; a class of the user's may fail to say any."""
    try:
        return str(error)
    except Exception:
        return f"({type(error).__name__}, whose text cannot be read)"
