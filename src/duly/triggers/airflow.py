"""Airflow: a task's context, or the variables that Airflow exports to a task's process.

Decides what the logical date means: with Airflow 2's timetables the start of the data interval,
with Airflow 3's the time of the start. Must never read the text of a run id, whose form moved
between versions, and must never guess where the environment leaves it open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from duly._core.start import Start
from duly.errors import StartInvalid
from duly.triggers.reading import given, instant_of, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EXECUTION_DATE", "LOGICAL_DATE", "read_context", "read_environment"]

# context_to_airflow_vars: Airflow 2 exports the first and not the second, Airflow 3 the second
# and not the first, and neither of them for a run without a logical date.
EXECUTION_DATE: Final = "AIRFLOW_CTX_EXECUTION_DATE"
LOGICAL_DATE: Final = "AIRFLOW_CTX_LOGICAL_DATE"
OF_EVERY_RUN: Final = "AIRFLOW_CTX_DAG_RUN_ID"

# Whether text such as "0 1 * * *" makes data intervals: on by default in 2, off in 3. Where the
# deployment sets it against its version's default, the date may mean either.
INTERVALS: Final = "AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS"
TRUE: Final = frozenset({"t", "true", "1"})
FALSE: Final = frozenset({"f", "false", "0"})

# str() of Airflow's datetimes has a space between date and time since Pendulum 3.
AT: Final = 'pass --at "{{ data_interval_end | ts }}"'


def read_environment(environ: Mapping[str, str]) -> Start | None:
    """The start that a task's environment tells of.

    Returns:
        None outside an Airflow task.

    Raises:
        StartInvalid: The run has no logical date (an asset started it), the date does not
            parse, or what it means cannot be told.
    """
    old, new = environ.get(EXECUTION_DATE), environ.get(LOGICAL_DATE)
    if old is not None and new is not None:
        raise _open(f"{given(EXECUTION_DATE, old)} and {given(LOGICAL_DATE, new)} are both set")
    if old is not None:
        _must_not_be(environ, FALSE, EXECUTION_DATE)
        at = instant_of(old, EXECUTION_DATE)
        return Start("airflow", at, given(EXECUTION_DATE, old), means="interval_start")
    if new is not None:
        _must_not_be(environ, TRUE, LOGICAL_DATE)
        return Start("airflow", instant_of(new, LOGICAL_DATE), given(LOGICAL_DATE, new))
    run = environ.get(OF_EVERY_RUN)
    if run is not None:
        raise refused(
            OF_EVERY_RUN, run, "has no logical date (an asset or a person may have started it)"
        )
    return None


def read_context(context: Mapping[str, Any]) -> Start | None:
    """The start that a task's context tells of, by its stated fields.

    Args:
        context: What Airflow hands to a task: `get_current_context()`.

    Returns:
        By `data_interval_end`, which is the time of the start under every timetable of
        Airflow's; without it by `logical_date`, if `dag_run.run_after` is the same instant.
        None if this is no task's context.

    Raises:
        StartInvalid: The run has no data interval (an asset started it), a field is no instant,
            or what it means cannot be told.
    """
    end = context.get("data_interval_end")
    if end is not None:
        at = instant_of(end, "data_interval_end")
        return Start("airflow", at, given("data_interval_end", end))
    run = context.get("dag_run")
    logical = context.get("logical_date")
    if logical is None:
        if run is None and "run_id" not in context:
            return None
        raise refused(
            "run_id",
            context.get("run_id", getattr(run, "run_id", None)),
            "has neither a data_interval_end nor a logical_date (an asset may have started it)",
        )
    at = instant_of(logical, "logical_date")
    after = getattr(run, "run_after", None)
    if after is None or instant_of(after, "run_after") != at:
        raise _open(f"{given('logical_date', logical)} stands without data_interval_end")
    return Start("airflow", at, given("logical_date", logical))


def _must_not_be(environ: Mapping[str, str], other: frozenset[str], name: str) -> None:
    intervals = environ.get(INTERVALS)
    if intervals is not None and intervals.strip().lower() in other:
        raise _open(f"{given(name, environ[name])} stands with {given(INTERVALS, intervals)}")


def _open(what: str) -> StartInvalid:
    return StartInvalid(
        f"{what}, so whether the date is the start or the end of the interval cannot be told; {AT}",
        starter="airflow",
    )
