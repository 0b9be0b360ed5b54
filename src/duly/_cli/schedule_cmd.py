"""`duly schedule`: the nominal times of a job or of a text, for a person.

Decides what the argument means: a job's name has no blanks and no `@`, a schedule's text has
one of them. It must never ask the database, start anything, or take the one for the other.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING

import click

from duly._cli import exits, output
from duly._cli.settings import Settings, options
from duly._core.wall_time import FOLDS, GAPS
from duly._core.wording import shown
from duly.errors import NominalTimeInvalid, ScheduleInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from duly._cli.schedule_words import Subject
    from duly._core.schedules import Schedule
    from duly._core.wall_time import Fold, Gap

COUNT_MAX = 1_000
EXAMPLE = "duly schedule '30 2 * * *' --timezone Europe/Berlin"
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
LATE_YEAR = re.compile(r"[0-9]{5,}-[0-9]{2}-[0-9]{2}.*", re.DOTALL)


@click.command()
@click.argument("job", nargs=-1, required=True, metavar="JOB|TEXT")
@click.option(
    "--timezone",
    metavar="ZONE",
    help="Of cron text: a region such as Europe/Berlin.  [default: UTC]",
)
@click.option(
    "--from",
    "since",
    metavar="TIME",
    help="The first instant, 2026-03-28T00:00:00Z, or a date in the schedule's zone."
    " [default: now]",
)
@click.option("--until", metavar="TIME", help="Up to this instant or date, without it.")
@click.option(
    "--count",
    type=click.IntRange(1, COUNT_MAX),
    metavar="N",
    default=10,
    show_default=True,
    help="The most rows to show.",
)
@click.option(
    "--gap",
    type=click.Choice(GAPS),
    help="Of cron text: what a time that a switch skips does.  [default: cron's rule]",
)
@click.option(
    "--fold",
    type=click.Choice(FOLDS),
    help="Of cron text: what a time that comes twice does.  [default: cron's rule]",
)
@options(targets=("app",))
@click.pass_obj
def schedule(
    settings: Settings,
    *,
    job: Sequence[str],
    timezone: str | None,
    since: str | None,
    until: str | None,
    count: int,
    gap: Gap | None,
    fold: Fold | None,
) -> int:
    """The next nominal times of JOB or TEXT.

    JOB needs --app. TEXT needs nothing: '30 2 * * *', '@daily', or the canonical text of a
    schedule. It has a blank or an @; a job's name has none. In a pipe: tab-separated rows.

    duly schedule '30 2 * * *' --timezone Europe/Berlin --from 2026-03-28
    """
    if len(job) > 1:
        raise UsageError(
            f"a schedule's text is one argument, and these are {len(job)} (a shell puts file names"
            f" in the place of *): put it in quotes, such as {EXAMPLE}"
        )
    subject = _subject(settings, job[0], timezone, gap, fold)
    start, end = _span(since, until, subject.zone)

    from duly._cli import schedule_view
    from duly._core.timetable import lines

    found = list(lines(subject.schedule, subject.zone, start, until=end, limit=count + 1))
    shown_lines = schedule_view.Timetable(
        subject, start, end, tuple(found[:count]), is_more=len(found) > count
    )
    if settings.json:
        output.say_json(schedule_view.as_json(shown_lines))
    elif output.on_terminal():
        schedule_view.show(shown_lines)
    else:
        schedule_view.say(shown_lines)
    return exits.OK


def _subject(
    settings: Settings, given: str, timezone: str | None, gap: Gap | None, fold: Fold | None
) -> Subject:
    """What the argument names.

    Raises:
        UsageError: Neither a job nor a schedule, or an option that it has no use for.
    """
    from duly._cli.schedule_words import Subject

    if not _is_text(given):
        return _of_job(settings, given, timezone, gap, fold)
    made = _of_text(given, timezone, gap, fold)
    own: ZoneInfo | None = getattr(made, "zone", None)
    return Subject(made, own if own is not None else _zone(timezone or "UTC"))


def _is_text(given: str) -> bool:
    return "@" in given or bool(re.search(r"\s", given)) or not given


def _of_job(
    settings: Settings, name: str, timezone: str | None, gap: Gap | None, fold: Fold | None
) -> Subject:
    from duly._cli.app_loading import load
    from duly._cli.schedule_words import Subject
    from duly._core.job import find
    from duly._core.occurrence import JOB_NAME

    if not re.fullmatch(JOB_NAME, name):
        raise UsageError(
            f"{shown(name)} is neither a job's name nor a schedule: cron text has five fields in"
            f" one argument, such as {EXAMPLE}"
        )
    job = find(load(settings, code_for=f"schedule {name}").jobs, name)
    if job.schedule is None:
        raise ScheduleInvalid(
            f"the job {name!r} has no schedule, so nothing is due by itself: start it with --at, or"
            " give it one, such as schedule='30 2 * * *'"
        )
    _refuse_rules(f"the job {name!r}", gap, fold)
    _refuse_zone(f"the job {name!r}", timezone, job.zone)
    return Subject(job.schedule, job.zone, name=name, jitter=job.jitter)


def _of_text(text: str, timezone: str | None, gap: Gap | None, fold: Fold | None) -> Schedule:
    """The schedule of canonical or of cron text.

    Raises:
        ScheduleInvalid: It cannot be read, never fires, or the options do not fit it.
    """
    from duly import schedules

    if (home := schedules.KINDS.get(text.partition(" ")[0])) is None:
        return schedules.Cron(text, timezone or "UTC", gap=gap, fold=fold)
    made: Schedule | None = import_module(home).from_text(text)
    if made is None:
        raise ScheduleInvalid(
            f"{shown(text)} is no schedule: write cron text such as '*/5 * * * *', or a canonical"
            " text such as 'every 900s; anchor=2026-01-01T00:00:00Z'"
        )
    _refuse_rules("a canonical text", gap, fold)
    _refuse_zone("a canonical text", timezone, getattr(made, "zone", None))
    return made


def _refuse_rules(what: str, gap: Gap | None, fold: Fold | None) -> None:
    if gap is not None or fold is not None:
        name = "--gap" if gap is not None else "--fold"
        raise UsageError(
            f"{name} is for cron text, and {what} has its own rules: to see another one, give the"
            " cron text in its place"
        )


def _refuse_zone(what: str, timezone: str | None, own: ZoneInfo | None) -> None:
    if timezone is not None and own is not None and _zone(timezone).key != own.key:
        raise UsageError(
            f"--timezone is for cron text, and {what} has its own zone, {own.key}: leave it out, or"
            " give the cron text in its place"
        )


def _zone(name: str) -> ZoneInfo:
    from duly import zones

    return zones.load(name)


def _span(since: str | None, until: str | None, zone: ZoneInfo) -> tuple[datetime, datetime | None]:
    """The bounds; now is this host's, which is good enough to look by and settles nothing."""
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
    start = now if since is None else _bound(since, "--from", zone)
    end = None if until is None else _bound(until, "--until", zone)
    if end is not None and start > end:
        if since is None:
            raise NominalTimeInvalid(f"--until {until} is in the past: give --from as well")
        raise NominalTimeInvalid(f"--from {since} is after --until {until}: swap them")
    return start, end


def _bound(text: str, name: str, zone: ZoneInfo) -> datetime:
    """An instant, or the first one of a date in *zone*.

    Raises:
        NominalTimeInvalid: It is naive, past the year 9999, or neither.
    """
    from duly._core.instants import parse_instant
    from duly._core.timing import bounds

    if LATE_YEAR.fullmatch(text):
        raise NominalTimeInvalid(
            f"{name} {shown(text)} is past the year 9999, where the calendar ends: give an earlier"
            " time"
        )
    if DATE.fullmatch(text) is None:
        return parse_instant(text, name=name)
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise NominalTimeInvalid(
            f"{name} {shown(text)} is no date of the calendar: write one such as 2026-09-13"
        ) from None
    return bounds(day, zone)[0]
