"""Words for people: how a refused value is shown in a message, and what may stand in a record.

Decides how much of a value a message may carry, and which text is one line that every database
and every log can hold. Must never raise, call the value's own `repr` (it may be large, slow or many
lines long), or print a line break.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final

__all__ = ["UNSAYABLE", "said", "shown", "unsayable"]

SHOWN_MAX: Final = 60
UNSAYABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line breaks, halves of surrogate pairs: a line of a record has none."""


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


def unsayable(text: str) -> str | None:
    """Why a text cannot be a line of a record, in words that follow "it"; None if it can."""
    if not text.strip():
        return "is empty: say it in a few words"
    if (found := UNSAYABLE.search(text.strip())) is None:
        return None
    character = found[0]
    if character in "\n\r\x0b\x0c\x85\u2028\u2029":
        return "has a line break: say it in one line"
    if "\ud800" <= character <= "\udfff":
        return "has half of a surrogate pair, which is no text: decode it properly"
    return f"has the control character U+{ord(character):04X}: leave it out"


def said(error: BaseException) -> str:
    """An error's own words; a class of the user's may fail to say any."""
    try:
        return str(error)
    except Exception:
        return f"({type(error).__name__}, whose text cannot be read)"
