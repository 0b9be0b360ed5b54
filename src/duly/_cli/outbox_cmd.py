"""`duly outbox`: what is to be sent, what needs a person, and what that person decides.

Decides the form of what is printed, and that nothing is decided about everything by accident.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from duly._core.redress import MessageView
    from duly._sync.outbox import Outbox

READS = ("summary", "list", "show")
DECIDES = ("redrive", "resend", "confirm", "abandon", "lookup")
_DONE = {
    "redrive": "to be sent again",
    "resend": "sent once more, as",
    "confirm": "settled as sent",
    "abandon": "given up",
}


def _age(value: str) -> timedelta:
    from datetime import timedelta

    found = words.age(value)
    if not isinstance(found, timedelta):
        raise click.BadParameter("give an age, such as 2d or 1w")
    return found


@click.command()
@click.argument("action", type=click.Choice([*READS, *DECIDES]))
@click.argument("messages", nargs=-1, metavar="[ID]...")
@click.option("--destination", metavar="NAME", default="", help="Those to this destination.")
@click.option("--state", metavar="STATE", default="", help="Those in this state.")
@click.option(
    "--answer", metavar="WORD", default="", help="Those whose last answer is of this class."
)
@click.option("--job", metavar="JOB", default="", help="Those of this job.")
@click.option("--older-than", type=_age, metavar="AGE", help="Those enqueued so long ago.")
@click.option("--closed", is_flag=True, help="Also those to which nothing more happens.")
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    metavar="N",
    default=100,
    show_default=True,
    help="The most messages to show, or to decide about.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be decided about, and do nothing.")
@click.option("--reason", type=words.words, metavar="TEXT", help="Why, for the record.")
@click.option(
    "--actor", type=words.words, metavar="TEXT", help="Who decides.  [default: USER@HOST]"
)
@options()
@click.pass_obj
def outbox(
    settings: Settings,
    /,
    *,
    action: str,
    messages: tuple[str, ...],
    dry_run: bool,
    reason: str | None,
    actor: str | None,
    **chosen: Any,
) -> int:
    """Look at messages (summary, list, show), or decide about them.

    redrive sends what is dead or uncertain again under its id; resend as a new message; confirm
    says that it arrived; abandon gives it up; lookup asks the receiver (needs --app). Messages are
    named by their ids, or by options. In a pipe: tab-separated rows.
    """
    from duly._cli.app_loading import load

    app = load(settings, code_for="outbox lookup" if action == "lookup" else None)
    if action == "summary":
        _say_summary(settings, app.outbox)
        return exits.OK
    if action == "show":
        if len(messages) != 1:
            raise click.UsageError("show takes the ID of one message")
        _say_one(settings, app.outbox.show(messages[0]))
        return exits.OK
    found = _found(app.outbox, messages, chosen, deciding=action in DECIDES)
    if action == "list" or dry_run:
        _say_list(settings, found)
        return exits.OK
    ids = [each.id for each in found]
    if action == "lookup":
        for each, state in app.outbox.lookup(*ids).items():
            _tell(settings, {"id": each, "state": str(state)}, f"{each} {state}")
        return exits.OK
    if reason is None:
        raise click.UsageError(f"{action} asks why, for the record: give --reason")
    who = actor or words.person()
    done = getattr(app.outbox, action)(*ids, reason=reason, actor=who)
    for before, after in zip(ids, done, strict=True):
        text = f"{before} {_DONE[action]}" + (f" {after}" if action == "resend" else "")
        _tell(settings, {"id": before, "did": action, "now": after}, text)
    return exits.OK


def _found(
    outbox: Outbox, messages: tuple[str, ...], chosen: dict[str, Any], *, deciding: bool
) -> list[MessageView]:
    filters = ("destination", "state", "answer", "job", "older_than")
    is_chosen = any(chosen[name] for name in filters)
    if messages and is_chosen:
        raise click.UsageError("name messages by their IDs or by options, not by both")
    if messages:
        return [outbox.show(each) for each in dict.fromkeys(messages)]
    if deciding and not is_chosen:
        raise click.UsageError(
            "name the messages: their IDs, or --destination, --state, --answer, --job, --older-than"
        )
    return outbox.messages(**chosen)


def _say_summary(settings: Settings, outbox: Outbox) -> None:
    found = outbox.summary()
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


def _say_list(settings: Settings, found: list[MessageView]) -> None:
    if settings.json:
        output.say_json({"messages": [_plain(each) for each in found]})
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
        )
        for each in found
    ]
    _table(header, rows)


def _say_one(settings: Settings, found: MessageView) -> None:
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


def _tell(settings: Settings, facts: dict[str, str], text: str) -> None:
    if settings.json:
        output.say_json(facts)
    else:
        output.say(text)


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
