"""A SQL script as the effect of an occurrence: its parameters, its statements, its result.

Decides what each parameter is bound to and what is kept of a statement's answer. It must never
commit, and never put a value into a text: the driver binds.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from duly._db.dialects import ErrorKind
from duly._db.translate import first_line
from duly.errors import DulyError, ScriptInvalid, StatementFailed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from duly._core.schedules import Schedule
    from duly._db.dialects import Dialect
    from duly._db.script import Script, Statement
    from duly._sync.run import Run

OF_THE_RUN = (
    "key",
    "partition",
    "nominal_time",
    "local_date",
    "interval_start",
    "interval_end",
)
"""The parameters that every script has; no other may be called so."""

KEPT_MAX = 500
"""Of how many statements the rows are kept with the attempt, one by one."""

_BATCH = 1_000
_READS = {"SELECT", "VALUES", "TABLE", "SHOW", "EXPLAIN", "DESCRIBE"}
_INTERVALS = {"interval_start", "interval_end"}


@dataclass(frozen=True, slots=True)
class ScriptHandler:
    """A handler that runs a script, and returns how many rows each statement touched.

    Its parameters are those of the run, and the members of its payload.
    """

    script: Script
    dialect: Dialect

    def __call__(self, run: Run) -> dict[str, Any]:
        """Run every statement in its order.

        Raises:
            StatementFailed: The database refused one.
            ScriptInvalid: A parameter has no value.
        """
        given = members(run.payload)
        check_names(self.script, given)
        return perform(run, self.script, given, dialect=self.dialect)


def members(payload: Any) -> dict[str, Any]:
    """The members of a payload that a script can bind."""
    found = payload if isinstance(payload, dict) else {}
    return {name: value for name, value in found.items() if not isinstance(value, dict | list)}


def check_names(
    script: Script, given: Collection[str], *, step: str = "give -p {name}=VALUE"
) -> None:
    """Refuse a script with a parameter that has no value.

    Args:
        step: What gives the parameter *name* one.

    Raises:
        ScriptInvalid: It names the parameter and its line.
    """
    known = {*OF_THE_RUN, *given}
    for name, line in script.names.items():
        if name in known:
            continue
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean :{near[0]}?" if near else step.format(name=name)
        raise ScriptInvalid(
            f"{script.where}, line {line}: the parameter :{name} has no value: {hint} (a colon"
            " that begins no parameter needs a blank after it)",
            line=line,
            parameter=name,
        )


def check_schedule(script: Script, schedule: Schedule | None) -> None:
    """Refuse a script that asks for the interval of a job that has none.

    Raises:
        ScriptInvalid: It names the parameter and its line.
    """
    for name, line in script.names.items():
        if schedule is None and name in _INTERVALS:
            raise ScriptInvalid(
                f"{script.where}, line {line}: :{name} needs a schedule, which says where the"
                " interval begins: give --schedule, or bind the time with -p",
                line=line,
                parameter=name,
            )


def perform(
    run: Run, script: Script, given: Mapping[str, Any], *, dialect: Dialect
) -> dict[str, Any]:
    """Run a script's statements in the run's transaction.

    Args:
        given: Values by name, beside those of the run.
        dialect: Of the run's database, by which the script was read.

    Returns:
        JSON-ready: `script` (its SHA-256), `statements`, `rows` (changed, in all) and `each`
        (`line`, `verb` and `rows` of the first 500 statements; `rows` is None where the database
        counts none).

    Raises:
        StatementFailed: The database refused a statement; it names its number and line.
    """
    values = {**given, **_of_the_run(run, set(script.names), dialect)}
    connection = run.connection
    each: list[dict[str, Any]] = []
    changed = 0
    for statement in script.statements:
        rows, changes = _execute(connection, script, statement, values, dialect)
        changed += changes
        if len(each) < KEPT_MAX:
            each.append({"line": statement.line, "verb": statement.verb, "rows": rows})
    count = len(script.statements)
    return {"script": script.digest, "statements": count, "rows": changed, "each": each}


def _execute(
    connection: Any,
    script: Script,
    statement: Statement,
    values: Mapping[str, Any],
    dialect: Dialect,
) -> tuple[int | None, int]:
    """How many rows a statement touched, and how many of them it changed."""
    bound = {name: values[name] for name in statement.names}
    try:
        result = connection.exec_driver_sql(statement.spelled(dialect), bound)
        if not result.returns_rows:
            return (None, 0) if result.rowcount < 0 else (result.rowcount, result.rowcount)
        # To its end, because SQLite makes the changes of a RETURNING as its rows are read.
        rows = 0
        while batch := result.fetchmany(_BATCH):
            rows += len(batch)
        return rows, 0 if statement.verb in _READS else rows
    except Exception as error:
        kind = dialect.classify(error)
        if kind in {ErrorKind.CONTENTION, ErrorKind.LOST}:
            raise  # the whole attempt is tried again, or reported as such
        if kind is None and not isinstance(error, DulyError):
            raise
        raise StatementFailed(
            f"{script.where}, line {statement.line}: statement {statement.number}"
            f" ({statement.verb}): {first_line(error)}",
            line=statement.line,
            statement=statement.number,
        ) from error


def _of_the_run(run: Run, names: set[str], dialect: Dialect) -> dict[str, Any]:
    """The values of the run's own parameters; the interval only where it is asked for."""
    date, texts = run.local_date, dialect.text_instants
    found = {
        "key": run.key,
        "partition": run.partition,
        "nominal_time": _instant(run.nominal_time, dialect),
        "local_date": date.isoformat() if texts else date,
    }
    if names & _INTERVALS:
        found["interval_start"] = _instant(run.interval.start, dialect)
        found["interval_end"] = _instant(run.interval.end, dialect)
    return found


def _instant(at: datetime, dialect: Dialect) -> Any:
    """An instant as the database's own clock would write it, in UTC."""
    return at.replace(tzinfo=None).isoformat(" ") if dialect.text_instants else at
