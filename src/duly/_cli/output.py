"""What a command prints: for a person, for a pipe, or as JSON.

Decides the form, by what stdout is. It must never import Rich for a pipe, and never change
what a command did: whoever has stopped reading only misses the text.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from rich.console import Console


def on_terminal() -> bool:
    """Whether a person looks at stdout."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def speaks(characters: str) -> bool:
    """Whether stdout's encoding has these characters."""
    try:
        characters.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def say(text: str) -> None:
    """Print one line."""
    print(text, flush=True)


def plain(text: str) -> str:
    """A user's words without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def say_json(value: Any) -> None:
    """Print one JSON object on one line; ASCII, so that no encoding can break it."""
    from json import dumps

    print(dumps(value), flush=True)


def note(text: str, *, as_json: bool) -> None:
    """Print to stderr what stdout does not say, although nothing failed."""
    if sys.stderr is not None:
        from json import dumps

        print(dumps({"note": text}) if as_json else f"duly: {text}", file=sys.stderr, flush=True)


def cut_at(limit: int) -> str:
    """What to say where more is there than `--limit` shows."""
    return f"more than --limit {limit} match, and the others are left out"


def styled(text: str, style: str) -> str:
    """*text* in a colour of Click's, on a terminal that wants colours."""
    if not on_terminal() or os.environ.get("NO_COLOR"):
        return text
    import click

    return click.style(text, fg=style)


def console() -> Console:
    """Rich's console on stdout; for terminals only."""
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def say_rows(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print tab-separated rows for a pipe, the header first; one row is one line."""
    for row in (header, *rows):
        print("\t".join(" ".join(cell.split()) for cell in row))
    sys.stdout.flush()


def instant(at: datetime) -> str:
    """An instant for a person, to the second, UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def took(duration: timedelta) -> str:
    """A duration for a person, in two units at most."""
    seconds = duration.total_seconds()
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"
