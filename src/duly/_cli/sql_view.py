"""How a script's run is told: its rows statement by statement, and how it ended.

Decides the words and the form. It must never decide how the command ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._cli import output
from duly._cli.run_cmd import say_result

if TYPE_CHECKING:
    from duly._cli.settings import Settings
    from duly._db.script import Script
    from duly._sync.refusals import Result
    from duly._sync.rehearsal import Rehearsed


def say_applied(settings: Settings, result: Result, script: Script) -> None:
    """Print the rows of an attempt that was applied, and how it ended."""
    if settings.json:
        say_result(settings, result)
        return
    if result.outcome.value == "applied":
        _say_rows(result.value)
    elif isinstance(result.value, dict) and result.value.get("script") != script.digest:
        output.say("the script was another text then; nothing of this one was run")
    say_result(settings, result, value=False)


def say_rehearsed(settings: Settings, rehearsed: Rehearsed) -> None:
    """Print what a dry run did and undid."""
    standing = rehearsed.standing
    if settings.json:
        output.say_json(
            {
                "outcome": "rolled back" if standing is None else standing.disposition.value,
                "key": rehearsed.key,
                "value": rehearsed.value,
            }
        )
        return
    if standing is not None:
        output.say(
            f"{rehearsed.key} is settled as {standing.disposition.value}: nothing was run, and a"
            " start would run nothing"
        )
        return
    _say_rows(rehearsed.value)
    word = output.styled("rolled back", "yellow")
    output.say(f"{word} {rehearsed.key}  dry run: nothing was kept")


def _say_rows(value: Any) -> None:
    """One line for each statement: where it stands, what it is, how many rows it touched."""
    header = ("statement", "line", "verb", "rows")
    rows = [
        (str(number), str(each["line"]), each["verb"], _count(each["rows"]))
        for number, each in enumerate(value["each"], 1)
    ]
    more = value["statements"] - len(rows)
    if output.on_terminal():
        from rich.table import Table

        table = Table(box=None, pad_edge=False)
        for name, justify in zip(header, ("right", "right", "left", "right"), strict=True):
            table.add_column(name, justify=justify)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*row)
        output.console().print(table)
    else:
        output.say_rows(header, rows)
    if more:
        output.say(f"… and {more} more statements; {value['rows']} rows changed in all")


def _count(rows: int | None) -> str:
    return "-" if rows is None else str(rows)
