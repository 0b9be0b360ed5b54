"""How messages are shown: for a person, for a pipe, or as JSON.

Decides the form alone. It never reads, and never decides how the command ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._cli import output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly._cli.settings import Settings
    from duly._core.redress import MessageView, Summary


def say_summary(settings: Settings, found: Sequence[Summary]) -> None:
    """Print how each destination's outbox is."""
    if settings.json:
        output.say_json({"destinations": [_plain(each) for each in found]})
        return
    header = (
        "destination",
        "pending",
        "sending",
        "uncertain",
        "dead",
        "blocked",
        "oldest",
        "key life left",
    )
    rows = [
        (
            each.destination + ("" if each.registered else " (not registered here)"),
            str(each.pending),
            str(each.sending),
            str(each.uncertain),
            " ".join(f"{count} {kind}" for kind, count in each.dead.items()) or "0",
            str(each.blocked),
            "" if each.oldest_pending_at is None else output.instant(each.oldest_pending_at),
            "" if each.key_life_left is None else output.took(each.key_life_left),
        )
        for each in found
    ]
    _table(header, rows)


def say_list(
    settings: Settings, found: list[MessageView], *, more: bool, would: Mapping[str, str]
) -> None:
    """Print messages; *would* says by their ids what a decision would come to."""
    if settings.json:
        rows_json = [
            _plain(each) | ({"would": would[each.id]} if each.id in would else {}) for each in found
        ]
        output.say_json({"messages": rows_json, "more": more})
        return
    header = ("id", "state", "destination", "key", "name", "sends", "answer", "enqueued")
    rows = [
        (
            each.id,
            each.state.value,
            each.destination,
            each.key,
            each.name or each.natural_key or "",
            str(each.started),
            each.answer or "",
            output.instant(each.created_at),
            *([would[each.id]] if would else []),
        )
        for each in found
    ]
    _table((*header, "would be") if would else header, rows)


def say_one(settings: Settings, found: MessageView) -> None:
    """Print a message, with its sends and what was decided about it."""
    if settings.json:
        output.say_json(_plain(found))
        return
    for name, value in _plain(found).items():
        if name not in {"deliveries", "decisions"} and value is not None:
            output.say(output.plain(f"{name}: {value}"))
    for send in found.deliveries:
        ended = (
            "its end is not known" if send.verdict is None else f"{send.verdict} ({send.answer})"
        )
        late = ", too late to decide" if send.late else ""
        said = f": {send.evidence}" if send.evidence else ""
        output.say(
            output.plain(
                f"send {send.number} at {output.instant(send.started_at)} by {send.relay}:"
                f" {ended}{late}{said}"
            )
        )
    for each in found.decisions:
        output.say(
            output.plain(f"{each['at']} {each['action']} by {each['actor']}: {each['reason']}")
        )


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    shown = [tuple(output.plain(cell) for cell in row) for row in rows]
    if not output.on_terminal():
        output.say_rows(header, shown)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in header:
        table.add_column(name, overflow="fold")
    for row in shown:
        table.add_row(*row)
    output.console().print(table)


def _plain(value: Any) -> dict[str, Any]:
    """A view as JSON takes it."""
    from dataclasses import asdict
    from datetime import datetime, timedelta

    from duly._core.instants import format_instant

    def each(found: Any) -> Any:
        if isinstance(found, datetime):
            return format_instant(found)
        if isinstance(found, timedelta):
            return found.total_seconds()
        if isinstance(found, dict):
            return {name: each(inner) for name, inner in found.items()}
        if isinstance(found, list | tuple):
            return [each(inner) for inner in found]
        return found

    shown: dict[str, Any] = each(asdict(value))
    return shown
