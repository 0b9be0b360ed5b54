"""Which starters a process recognises in its environment, and what they say together.

Decides who is asked, in which order, and that two who disagree are refused. Must never read the
real environment (it is handed in), and never import a starter's file unless one of its variables
is set: `duly run` is started every minute.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from duly._core.start import Start

__all__ = ["STARTERS", "detect", "settle"]

# Starter -> the variables that call for its file, in the order they are asked. Those that know
# the run come before the one that a person fills in; systemd, which says no instant, is last.
STARTERS: Final[dict[str, tuple[str, ...]]] = {
    "kubernetes": ("DULY_KUBERNETES_JOB_NAME", "DULY_KUBERNETES_TIMESTAMP"),
    "airflow": (
        "AIRFLOW_CTX_EXECUTION_DATE",
        "AIRFLOW_CTX_LOGICAL_DATE",
        "AIRFLOW_CTX_DAG_RUN_ID",
    ),
    "eventbridge": ("DULY_EVENTBRIDGE_SCHEDULED_TIME",),
    "environment": ("DULY_SCHEDULED_TIME",),
    "systemd": ("TRIGGER_UNIT", "TRIGGER_TIMER_REALTIME_USEC"),
}


def detect(environ: Mapping[str, str]) -> tuple[Start, ...]:
    """What every recognised starter says, in the order of `STARTERS`.

    Args:
        environ: The process's environment.

    Returns:
        Those that say no instant included; empty under cron, or from a shell.

    Raises:
        StartInvalid: A variable of a starter is set and does not parse.
    """
    found = []
    for name, variables in STARTERS.items():
        if any(variable in environ for variable in variables):
            start: Start | None = import_module(f"duly.triggers.{name}").read_environment(environ)
            if start is not None:
                found.append(start)
    return tuple(found)


def settle(starts: Sequence[Start], floor: Callable[[Start], datetime]) -> Start | None:
    """The one start that *starts* mean together.

    Args:
        starts: As `detect` returns them.
        floor: The job's nominal time that a start with an instant means. It is asked only if
            there are several to compare; what it raises goes through.

    Returns:
        The first with an instant; else the first; None if there is none.

    Raises:
        StartInvalid: Two of them mean different nominal times.
    """
    speaking = [start for start in starts if start.at is not None]
    if not speaking:
        return starts[0] if starts else None
    first, *others = speaking
    if others:
        meant = floor(first)
        for other in others:
            also = floor(other)
            if also != meant:
                raise _disagreement(first, meant, other, also)
    return first


def _disagreement(first: Start, meant: datetime, other: Start, also: datetime) -> Exception:
    from duly._core.instants import format_instant
    from duly.errors import StartInvalid

    return StartInvalid(
        f"{first.said} means {format_instant(meant)}, but {other.said} means "
        f"{format_instant(also)}; give --at the one that is meant",
        starters=[first.starter, other.starter],
    )
