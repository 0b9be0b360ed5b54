"""Any other starter: one variable that its configuration fills in.

Decides nothing but whether the variable is an instant. Must never round it: flooring it onto
the job's nominal times is the resolver's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from duly._core.start import Start
from duly.triggers.reading import given, instant_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SCHEDULED_TIME", "read_environment"]

SCHEDULED_TIME: Final = "DULY_SCHEDULED_TIME"


def read_environment(environ: Mapping[str, str]) -> Start | None:
    """The start that `DULY_SCHEDULED_TIME` says; None if it is not set.

    Raises:
        StartInvalid: It is not RFC 3339 text with an offset (up to nine digits of fraction).
    """
    value = environ.get(SCHEDULED_TIME)
    if value is None:
        return None
    at = instant_of(value, SCHEDULED_TIME, nanoseconds=True)
    return Start("environment", at, given(SCHEDULED_TIME, value))
