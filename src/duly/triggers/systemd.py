"""systemd: a timer is at work, and says nothing.

Decides only that. Must never read `TRIGGER_TIMER_REALTIME_USEC` as a nominal time: it is when
the timer elapsed, up to `AccuracySec=` and `RandomizedDelaySec=` late, and some versions hand
the first elapse to every later run (seen on 252).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly._core.start import Start
from duly.triggers.reading import given

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["read_environment"]

# Set by systemd 252 or newer in a unit that another unit triggered.
TRIGGERED: Final = ("TRIGGER_UNIT", "TRIGGER_TIMER_REALTIME_USEC")


def read_environment(environ: Mapping[str, str]) -> Start | None:
    """A start without an instant, if systemd started this process by a timer; else None."""
    if "INVOCATION_ID" not in environ:
        return None
    for name in TRIGGERED:
        if name in environ:
            return Start("systemd", None, given(name, environ[name]))
    return None
