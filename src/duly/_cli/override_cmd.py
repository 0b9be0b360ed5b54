"""`duly waive`, `correct`, `pause`, `resume`, `retire`: what a person decides, with a reason.

Decides nothing itself; it passes on who, what and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._sync.app import App
    from duly._sync.refusals import Result


def _said(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every override takes: why, and who."""
    actor = click.option(
        "--actor", type=words.words, metavar="TEXT", help="Who decides.  [default: USER@HOST]"
    )
    reason = click.option(
        "--reason", type=words.words, metavar="TEXT", required=True, help="Why, for the record."
    )
    return reason(actor(command))


@click.command()
@click.argument("key")
@_said
@click.option(
    "--since",
    metavar="TIME",
    help="Waive every missing occurrence of the job KEY from this nominal time, or date, on.",
)
@click.option("--until", metavar="TIME", help="With --since: up to this one, without it.")
@click.option("--dry-run", is_flag=True, help="With --since: count them, and waive none.")
@options()
@click.pass_obj
def waive(
    settings: Settings,
    *,
    key: str,
    reason: str,
    actor: str | None,
    since: str | None,
    until: str | None,
    dry_run: bool,
) -> int:
    """Settle the occurrence KEY without its effect: a missing one, or a torn one.

    Look at the data first. With --since and --until, KEY is the name of a job, and all of its
    missing occurrences between them are waived. Works from --database alone.
    """
    from duly._cli.app_loading import load

    who = actor or words.person()
    if (since is None) != (until is None):
        raise click.UsageError("--since and --until belong together: give both, or a KEY alone")
    if since is None and dry_run:
        raise click.UsageError("--dry-run counts a span: give --since and --until")
    app = load(settings)
    if since is None or until is None:
        app.waive(key, reason=reason, actor=who)
        if settings.json:
            output.say_json({"key": key, "disposition": "waived", "actor": who, "reason": reason})
        else:
            output.say(f"{output.styled('waived', 'green')} {key}  by {_plain(who, reason)}")
        return exits.OK
    count = app.waive_missing(
        key, since=since, until=until, reason=reason, actor=who, dry_run=dry_run
    )
    if settings.json:
        counted = {"waived": 0 if dry_run else count, "would_be_waived": count if dry_run else None}
        output.say_json({"job": key, **counted, "actor": who, "reason": reason})
    elif dry_run:
        output.say(f"would waive {count} missing of {key}; nothing was done")
    else:
        word = output.styled("waived", "green")
        output.say(f"{word} {count} missing of {key}  by {_plain(who, reason)}")
    return exits.OK


@click.command()
@click.argument("key")
@_said
@options()
@click.pass_obj
def correct(settings: Settings, *, key: str, reason: str, actor: str | None) -> int:
    """Make a second effect for the settled occurrence KEY, under the key's next number.

    It runs the handler with the job's own payload. It is also the way to run an occurrence that
    was skipped, superseded or waived, and the way out of a torn one whose effect is not there.
    Ordered again, it is a duplicate.
    """
    from duly._cli.app_loading import load
    from duly._core.occurrence import Occurrence

    job = Occurrence.parse(key).job
    without = "; or, for a job of duly sql or duly exec, start its line with --correct KEY"
    app = load(settings, code_for="correct", without=without)
    from duly._cli.attempt import attempted
    from duly._cli.run_cmd import name_starter, say_result

    name_starter(app, None)
    who = actor or words.person()
    names = {name: each.name for each in app.jobs.values() for name in (*each.formerly, each.name)}

    def start() -> Result:
        return app.correct(key, reason=reason, actor=who)

    result = attempted(app, names.get(job, job), start)
    assert result is not None
    say_result(settings, result)
    return exits.OK


@click.command()
@click.argument("job")
@_said
@options()
@click.pass_obj
def pause(settings: Settings, *, job: str, reason: str, actor: str | None) -> int:
    """Expect nothing of JOB until it is resumed.

    Ticks and workers leave it alone; what is under way goes on, and `duly run` still works.
    Works from --database alone.
    """
    app, who = _opened(settings, actor)
    since = app.pause(job, reason=reason, actor=who)
    _tell(
        settings, "paused", job, {"paused_at": since}, f"since {output.instant(since)}", who, reason
    )
    return exits.OK


@click.command()
@click.argument("job")
@_said
@click.option("--catch-up", is_flag=True, help="What fell due in the pause is missing now.")
@options()
@click.pass_obj
def resume(settings: Settings, *, job: str, reason: str, actor: str | None, catch_up: bool) -> int:
    """End the pause of JOB.

    What fell due in the pause is not expected, unless --catch-up says so. Works from --database
    alone.
    """
    app, who = _opened(settings, actor)
    since = app.resume(job, reason=reason, actor=who, catch_up=catch_up)
    kept = "what fell due is missing now" if catch_up else "what fell due is not expected"
    facts = {"paused_at": since, "catch_up": catch_up}
    text = f"paused since {output.instant(since)}, {kept}"
    _tell(settings, "resumed", job, facts, text, who, reason)
    return exits.OK


@click.command()
@click.argument("job")
@_said
@options()
@click.pass_obj
def retire(settings: Settings, *, job: str, reason: str, actor: str | None) -> int:
    """Expect nothing more of JOB; what is missing until now stays missing.

    Code that still defines it is told that it is stale. Works from --database alone.
    """
    app, who = _opened(settings, actor)
    since = app.retire(job, reason=reason, actor=who)
    text = f"nothing is expected from {output.instant(since)} on"
    _tell(settings, "retired", job, {"retired_at": since}, text, who, reason)
    return exits.OK


def _opened(settings: Settings, actor: str | None) -> tuple[App, str]:
    from duly._cli.app_loading import load

    return load(settings), actor or words.person()


def _tell(
    settings: Settings,
    word: str,
    job: str,
    facts: dict[str, Any],
    text: str,
    who: str,
    reason: str,
) -> None:
    from duly._core.instants import format_instant

    if settings.json:
        shown = {k: v if isinstance(v, bool) else format_instant(v) for k, v in facts.items()}
        output.say_json({"job": job, "did": word, **shown, "actor": who, "reason": reason})
    else:
        output.say(f"{output.styled(word, 'green')} {job}  {text}, by {_plain(who, reason)}")


def _plain(who: str, reason: str) -> str:
    return output.plain(f"{who}: {reason}")
