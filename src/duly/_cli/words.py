"""What may stand in an argument: text that a database and a log can hold, ages, waits.

Decides the form of an argument only; what it means is the core's.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from duly._core.wording import unsayable

if TYPE_CHECKING:
    from datetime import datetime

    from duly._core.payload import Payload

PAYLOAD_TEXT_MAX = 1 << 20
_AGE = re.compile(r"([0-9]{1,6})([dw])")


def words(value: str) -> str:
    """Text for people, such as a reason: one line without control characters or blanks around."""
    text = value.strip()
    if (why := unsayable(text)) is not None:
        raise click.BadParameter(f"it {why}")
    return text


def age(value: str) -> timedelta | datetime:
    """`400d`, `12w`, or an RFC 3339 instant: an age, or an aware instant."""
    from duly._core.instants import parse_instant
    from duly.errors import NominalTimeInvalid

    if match := _AGE.fullmatch(value):
        days = int(match[1]) * (7 if match[2] == "w" else 1)
        if 0 < days < 700_000:
            return timedelta(days=days)
        raise click.BadParameter(f"{value!r} is no age of a record: give 1d to 699999d")
    try:
        return parse_instant(value, name="it")
    except NominalTimeInvalid:
        raise click.BadParameter(
            f"{value[:60]!r} is no age: write 400d, 12w or 2026-01-01T00:00:00Z"
        ) from None


def seconds(value: str) -> float:
    """A finite number of seconds, zero or more."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e6:
        raise click.BadParameter(f"{value[:40]!r} is no number of seconds from 0 on")
    return number


def payload_of(text: str | None, path: str | None) -> Payload | None:
    """The payload that was given as text or in a file (`-` is stdin); None if none was.

    Raises:
        UsageError: Both were given, or the file cannot be read.
        PayloadInvalid: It is no JSON that can be fingerprinted.
    """
    from duly._core.payload import from_text
    from duly.errors import PayloadInvalid, UsageError

    if text is not None and path is not None:
        raise UsageError("--payload and --payload-file were both given: give one of them")
    if text is not None:
        return from_text(text)
    if path is None:
        return None
    try:
        with click.open_file(path, "rb") as file:
            data: bytes = file.read(PAYLOAD_TEXT_MAX + 1)
    except OSError as error:
        raise UsageError(f"--payload-file {path} cannot be read: {error.strerror}") from error
    if len(data) > PAYLOAD_TEXT_MAX:
        raise PayloadInvalid(
            f"--payload-file {path} is larger than {PAYLOAD_TEXT_MAX} bytes: send a reference to"
            " the data in its place"
        )
    return from_text(data)


def person() -> str:
    """Who is at the controls, for the record."""
    from duly._sync.process import host_name, user_name

    return f"{user_name()}@{host_name()}"
