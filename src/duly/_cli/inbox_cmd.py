"""`duly inbox`: what was received, what is parked, and what a person decides about it.

Decides the form of what is printed. It never handles a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from duly._core.inbox_view import InboxMessage, InboxSummary, ParkedMessage
    from duly._core.retention import PrunedJob
    from duly._sync.app import App

LIMIT_MAX = 9_999
"""One message more is asked for, to know whether there are others."""
DECIDES = {"release": "release_parked", "discard": "discard_parked"}
_DONE = {
    "release": ("released", "its next delivery is handled as new"),
    "discard": ("discarded", "its deliveries are acknowledged, and not handled"),
}


@click.command()
@click.argument(
    "action",
    type=click.Choice(["summary", "list", "show", "parked", "release", "discard", "prune"]),
)
@click.argument("names", nargs=-1, metavar="[CONSUMER [SOURCE ID]]")
@click.option(
    "--fingerprint", metavar="HEX", help="Which body is meant, by the beginning of its fingerprint."
)
@click.option("--all", "all_", is_flag=True, help="With parked: also what a person decided about.")
@click.option(
    "--limit",
    type=click.IntRange(1, LIMIT_MAX),
    metavar="N",
    default=50,
    show_default=True,
    help="The most messages to show.",
)
@click.option(
    "--older-than",
    type=words.age,
    metavar="AGE",
    help="With prune: 400d, 12w or 2026-01-01T00:00:00Z, by the messages' own time.",
)
@click.option(
    "--clock-is-right",
    is_flag=True,
    help="With prune: nothing was received for a day, and that is as it should be.",
)
@click.option("--reason", type=words.words, metavar="TEXT", help="Why, for the record.")
@click.option(
    "--actor", type=words.words, metavar="TEXT", help="Who decides.  [default: USER@HOST]"
)
@options()
@click.pass_obj
def inbox(
    settings: Settings,
    /,
    *,
    action: str,
    names: tuple[str, ...],
    fingerprint: str | None,
    all_: bool,
    limit: int,
    older_than: timedelta | datetime | None,
    clock_is_right: bool,
    reason: str | None,
    actor: str | None,
) -> int:
    """Look at received messages (summary, list, show, parked), or decide about what is parked.

    release lets the next delivery of a parked message be handled as new, once; discard lets its
    deliveries be acknowledged unhandled; prune deletes old messages, whose later deliveries are
    parked. Works from --database alone. In a pipe: tab-separated rows.
    """
    from duly._cli.app_loading import load

    takes = {"summary": (0,), "prune": (0,), "list": (1,), "parked": (0, 1)}.get(action, (3,))
    if len(names) not in takes:
        raise click.UsageError(f"{action} takes {_TAKES[max(takes)]}")
    if (older_than is None) is (action == "prune"):
        raise click.UsageError("prune takes --older-than, and nothing else does")
    if action in DECIDES and reason is None:
        raise click.UsageError(f"{action} asks why, for the record: give --reason")
    app = load(settings)
    match action:
        case "summary":
            _say(settings, _SUMMARY, app.inbox_summary(), _summary)
        case "list":
            messages = app.inbox_messages(names[0], limit=limit + 1)
            _say_some(settings, _MESSAGES, messages, _message, limit)
        case "parked":
            found = app.parked(*names, held_only=not all_, limit=limit + 1)
            _say_some(settings, _PARKED, found, _parked, limit)
        case "show":
            _show(settings, app, names)
        case "prune":
            assert older_than is not None
            done = app.prune_inbox(older_than=older_than, clock_is_right=clock_is_right)
            _say(settings, _PRUNED, done, _pruned)
        case _:
            who = actor or words.person()
            decide = getattr(app, DECIDES[action])
            decided = decide(*names, reason=reason, actor=who, fingerprint=fingerprint)
            _tell(settings, action, decided, who, reason or "")
    return exits.OK


_TAKES = {0: "no names", 1: "a CONSUMER", 3: "a CONSUMER, a SOURCE and an ID"}
_SUMMARY = ("consumer", "messages", "duplicates", "held", "newest", "horizon")
_MESSAGES = ("received", "source", "id", "handled", "duplicates", "fingerprint", "value")
_PARKED = (
    "parked", "consumer", "source", "id", "why", "state", "deliveries", "fingerprint", "stored",
    "decided",
)  # fmt: skip
_PRUNED = ("consumer", "messages", "horizon", "stopped by")


def _show(settings: Settings, app: App, names: tuple[str, ...]) -> None:
    from duly._core.wording import shown
    from duly.errors import UnknownMessage

    consumer, source, message_id = names
    found = app.inbox_message(consumer, source, message_id)
    if found.message is None and not found.parked:
        raise UnknownMessage(
            f"{consumer} has no message {shown(message_id)} of {shown(source)}, and none is parked:"
            f" it never came, or it was pruned (`duly inbox list {consumer}` shows those that it"
            " has)"
        )
    if settings.json:
        message = None if found.message is None else _json(found.message)
        output.say_json({"message": message, "parked": [_json(each) for each in found.parked]})
        return
    if found.message is None:
        output.say("not in the inbox: what is parked under its id follows")
    else:
        _say(settings, _MESSAGES, [found.message], _message)
    if found.parked:
        output.say("")
        _say(settings, _PARKED, found.parked, _parked)


def _tell(settings: Settings, action: str, found: ParkedMessage, who: str, reason: str) -> None:
    word, means = _DONE[action]
    if settings.json:
        output.say_json({**_json(found), "state": word, "actor": who, "reason": reason})
        return
    name = output.plain(f"{found.consumer} {found.source} {found.message_id}")
    said = output.plain(f"{who}: {reason}")
    output.say(f"{output.styled(word, 'green')} {name}  {means}, by {said}")


def _say_some(
    settings: Settings, header: tuple[str, ...], found: list[Any], row: Any, limit: int
) -> None:
    """Print the first *limit* of *found*, and say so if others follow."""
    _say(settings, header, found[:limit], row)
    if len(found) > limit:
        said = f"{output.cut_at(limit)}: give a higher one (up to {LIMIT_MAX})"
        output.note(said, as_json=settings.json)


def _say(settings: Settings, header: tuple[str, ...], found: Any, row: Any) -> None:
    if settings.json:
        output.say_json({"rows": [_json(each) for each in found]})
        return
    rows = [[output.plain(cell) for cell in row(each)] for each in found]
    if output.on_terminal():
        from rich.table import Table

        table = Table(*header, box=None, header_style="bold", pad_edge=False)
        for cells in rows:
            table.add_row(*cells)
        output.console().print(table)
    else:
        output.say_rows(header, rows)


def _summary(found: InboxSummary) -> list[str]:
    counts = [str(found.messages), str(found.duplicates), str(found.held)]
    return [found.consumer, *counts, _at(found.newest_at), _at(found.horizon)]


def _message(found: InboxMessage) -> list[str]:
    from json import dumps

    return [
        _at(found.received_at),
        found.source,
        found.message_id,
        _at(found.handled_at) or "torn",
        str(found.duplicates),
        found.fingerprint[:16],
        "" if found.value is None else dumps(found.value),
    ]


def _parked(found: ParkedMessage) -> list[str]:
    return [
        _at(found.parked_at),
        found.consumer,
        found.source,
        found.message_id,
        found.why.value,
        found.state.value,
        str(found.deliveries),
        found.fingerprint[:16],
        (found.stored_fingerprint or "")[:16],
        f"{found.actor}: {found.reason}" if found.actor else "",
    ]


def _pruned(found: PrunedJob) -> list[str]:
    from duly._core.instants import from_us

    horizon = None if found.horizon_us is None else from_us(found.horizon_us)
    held = "" if found.held is None else f"{found.held.key}, which is {found.held.why}"
    return [found.job, str(found.occurrences), _at(horizon), held]


def _json(found: Any) -> dict[str, Any]:
    from dataclasses import asdict
    from datetime import datetime

    from duly._core.instants import format_instant
    from duly._core.retention import PrunedJob

    if isinstance(found, PrunedJob):
        return dict(
            zip(("consumer", "messages", "horizon", "held_by"), _pruned(found), strict=True)
        )
    plain = asdict(found)
    for name, value in plain.items():
        if isinstance(value, datetime):
            plain[name] = format_instant(value)
        elif name == "receipt_id" and value is not None:
            plain[name] = str(value)
    return plain


def _at(at: datetime | None) -> str:
    return "" if at is None else output.instant(at)
