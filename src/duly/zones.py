"""Time zones, from the `tzdata` package alone.

Decides which zone names are accepted and which data answers for them. Must never read the
system's zone files: two hosts with different data would settle one slot under two keys.
"""

from __future__ import annotations

import difflib
import re
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

from duly._core.wording import shown
from duly.errors import ScheduleInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["data_version", "load", "names", "recorded"]

EXAMPLE: Final = "give a region such as Europe/Berlin, or UTC"

# EST, CEST, EST5EDT: several places share each of them, and each place left it at some time.
ABBREVIATION: Final = re.compile(r"[A-Z]{3,5}([0-9][A-Z]{3})?")
OFFSET: Final = re.compile(r"(UTC|GMT|Z)?[+-][0-9:]+")

# The regions that people usually mean, for the message only.
MEANT: Final = {
    "BST": "Europe/London",
    "CEST": "Europe/Berlin",
    "CET": "Europe/Berlin",
    "CDT": "America/Chicago",
    "CST": "America/Chicago",
    "CST6CDT": "America/Chicago",
    "EDT": "America/New_York",
    "EEST": "Europe/Athens",
    "EET": "Europe/Athens",
    "EST": "America/New_York",
    "EST5EDT": "America/New_York",
    "HST": "Pacific/Honolulu",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MDT": "America/Denver",
    "MET": "Europe/Berlin",
    "MSK": "Europe/Moscow",
    "MST": "America/Denver",
    "MST7MDT": "America/Denver",
    "PDT": "America/Los_Angeles",
    "PRC": "Asia/Shanghai",
    "PST": "America/Los_Angeles",
    "PST8PDT": "America/Los_Angeles",
    "ROC": "Asia/Taipei",
    "ROK": "Asia/Seoul",
    "UCT": "UTC",
    "WET": "Europe/Lisbon",
}

_RECORDED: Final[ContextVar[Any]] = ContextVar("duly_recorded_zone", default=None)


def load(name: str) -> ZoneInfo:
    """The zone of that name, from the `tzdata` package; its `key` is the name.

    Args:
        name: An IANA name in its own case: a region such as `Europe/Berlin`, or `UTC`.

    Raises:
        ScheduleInvalid: An unknown name, another case, an abbreviation such as `EST`, an
            offset, a path, or the host's own zone; the message says what to write.
    """
    if not _is_text(name):
        raise ScheduleInvalid(f"a time zone is a name, not {shown(name)}; {EXAMPLE}")
    own = _RECORDED.get()
    if own is not None and own.key == name:
        found: ZoneInfo = own
        return found
    if name not in names():
        raise ScheduleInvalid(f"time zone {shown(name)} {_why_not(name)}")
    return _read(name)


@contextmanager
def recorded(zone: Any) -> Iterator[None]:
    """While inside, `load` gives *zone* for its key: as it was in other data than is installed."""
    token = _RECORDED.set(zone)
    try:
        yield
    finally:
        _RECORDED.reset(token)


def data_version() -> str:
    """The release of the zone data in use, as IANA names it, for example `2026f`."""
    return str(import_module("tzdata").IANA_VERSION)


@cache
def names() -> frozenset[str]:
    """Every name that `load` accepts."""
    listed = files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(
        name
        for name in listed
        if name in ("UTC", "GMT") or not (ABBREVIATION.fullmatch(name) or name == "Factory")
    )


@cache
def _read(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _is_text(name: object) -> bool:
    return isinstance(name, str)


def _why_not(name: str) -> str:
    """Why a name is refused, and the next step."""
    folded = {known.casefold(): known for known in names()}
    if name.casefold() in ("local", "localtime", "system", "tzlocal"):
        why = f"means the host's own clock, which two hosts may set apart; {EXAMPLE}"
    elif name.startswith(("/", ".", "~", ":")) or "\\" in name or ".." in name:
        why = f"is a path; zones come from the tzdata package; {EXAMPLE}"
    elif name.casefold() in folded:
        why = f"is in another case; write {folded[name.casefold()]}"
    elif OFFSET.fullmatch(name):
        why = f"is an offset, which no region keeps all year; {EXAMPLE}"
    elif ABBREVIATION.fullmatch(name.upper()) and (meant := MEANT.get(name.upper())):
        why = f"is an abbreviation, which names no one region; for example write {meant}"
    elif near := difflib.get_close_matches(name.casefold(), folded, n=1):
        why = f"is unknown; did you mean {folded[near[0]]}?"
    else:
        why = f"is unknown to tzdata {data_version()}; {EXAMPLE}"
    return why
