"""`duly outbox`: what is to be sent, what needs a person, and what that person decides.

Decides which messages are meant, and that nothing is decided about everything by accident, or about
less than was asked for in silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, outbox_view, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from duly._core.redress import MessageView
    from duly._sync.app import App
    from duly._sync.outbox import Outbox

READS = ("summary", "list", "show")
DECIDES = ("redrive", "resend", "confirm", "abandon", "lookup")
_DONE = {
    "redrive": "to be sent again",
    "resend": "sent once more, as",
    "confirm": "settled as sent",
    "abandon": "given up",
}
_WOULD = _DONE | {"resend": "sent once more", "lookup": "looked up"}
FILTERS = ("destination", "state", "answer", "job", "older_than")


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
@click.option("--dry-run", is_flag=True, help="Show what would become of each, and do nothing.")
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

    is_chosen = any(chosen[name] for name in FILTERS)
    if action == "summary" and (messages or is_chosen):
        raise click.UsageError(
            "summary tells how each destination is, and takes no ID and no choice: show takes an"
            " ID, list the options"
        )
    if action == "show" and (len(messages) != 1 or is_chosen):
        raise click.UsageError("show takes the ID of one message, and no choice")
    app = load(settings, code_for="outbox lookup" if action == "lookup" else None)
    if action == "summary":
        outbox_view.say_summary(settings, app.outbox.summary())
        return exits.OK
    if action == "show":
        outbox_view.say_one(settings, app.outbox.show(messages[0]))
        return exits.OK
    found, more = _found(app, messages, chosen, deciding=action in DECIDES)
    if action == "list":
        outbox_view.say_list(settings, found, more=more, would={})
    elif dry_run:
        _rehearse(settings, app.outbox, action, found, more=more)
    elif action == "lookup":
        _look(settings, app.outbox, found)
    elif reason is None:
        raise click.UsageError(f"{action} asks why, for the record: give --reason")
    else:
        _decide(settings, app.outbox, action, found, reason, actor or words.person())
    _note(settings, action, found, more=more, limit=chosen["limit"])
    return exits.OK


def _found(
    app: App, messages: tuple[str, ...], chosen: dict[str, Any], *, deciding: bool
) -> tuple[list[MessageView], bool]:
    """The messages that are meant, and whether more are than --limit lets through."""
    is_chosen = any(chosen[name] for name in FILTERS)
    if messages and is_chosen:
        raise click.UsageError("name messages by their IDs or by options, not by both")
    if messages:
        found = {each.id: each for each in map(app.outbox.show, messages)}
        return list(found.values()), False
    if deciding and not is_chosen:
        raise click.UsageError(
            "name the messages: their IDs, or --destination, --state, --answer, --job, --older-than"
        )
    page = app.outbox.page(**chosen)
    if not page[0] and chosen["destination"]:
        _require_known(app, chosen["destination"])
    return page


def _require_known(app: App, name: str) -> None:
    """A name that nobody registered and no message ever had is a slip."""
    from difflib import get_close_matches

    from duly._core.wording import shown
    from duly.errors import UnknownDestination

    if name in app.destinations or app.outbox.messages(destination=name, closed=True, limit=1):
        return
    known = [each.destination for each in app.outbox.summary()]
    near = get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "look at its name"
    raise UnknownDestination(
        f"no message is to {shown(name)}, and no destination of that name is registered here:"
        f" {hint} (`duly outbox summary` shows those that there are)",
        destination=name,
    )


def _rehearse(
    settings: Settings, outbox: Outbox, action: str, found: list[MessageView], *, more: bool
) -> None:
    """Say what would become of each message; raises what the decision would end with."""
    would = {each.id: "not reached" for each in found}
    refusal = None
    for batch in _batches(action, found):
        refusals = outbox.rehearse(action, *batch)
        refusal = next((each for each in refusals.values() if each is not None), None)
        fine = _WOULD[action] if refusal is None else "left as it is"
        would |= {each: "refused" if refusals[each] else fine for each in batch}
        if refusal is not None:
            break
    outbox_view.say_list(settings, found, more=more, would=would)
    if refusal is not None:
        raise refusal


def _look(settings: Settings, outbox: Outbox, found: list[MessageView]) -> None:
    for each in found:
        (state,) = outbox.lookup(each.id).values()
        _tell(settings, {"id": each.id, "state": str(state)}, f"{each.id} {state}")


def _decide(
    settings: Settings,
    outbox: Outbox,
    action: str,
    found: list[MessageView],
    reason: str,
    actor: str,
) -> None:
    # What is done is told before the next batch is, which may be refused.
    for batch in _batches(action, found):
        done = getattr(outbox, action)(*batch, reason=reason, actor=actor)
        for before, after in zip(batch, done, strict=True):
            text = f"{before} {_DONE[action]}" + (f" {after}" if action == "resend" else "")
            _tell(settings, {"id": before, "did": action, "now": after}, text)


def _batches(action: str, found: list[MessageView]) -> Iterator[list[str]]:
    """The ids that are decided about together, or not at all."""
    from duly._sync.outbox import BATCH

    size = 1 if action == "lookup" else BATCH
    for start in range(0, len(found), size):
        yield [each.id for each in found[start : start + size]]


def _note(
    settings: Settings, action: str, found: list[MessageView], *, more: bool, limit: int
) -> None:
    """What stdout does not say: that others match too, or that none does."""
    if more:
        said = f"{output.cut_at(limit)}: narrow the choice, or give a higher one (up to 100000)"
    elif not found and action in DECIDES:
        said = "no message matches, so there is nothing to decide about"
    else:
        return
    output.note(said, as_json=settings.json)


def _tell(settings: Settings, facts: dict[str, str], text: str) -> None:
    if settings.json:
        output.say_json(facts)
    else:
        output.say(text)
