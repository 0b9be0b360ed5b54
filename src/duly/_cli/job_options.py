"""The options that define a job without code, for every command that brings the work itself.

Decides where the definition of a job comes from: its App, these options, or else what the ledger
holds. It must never define a job in two ways at once, or edit one that only is to be started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from duly.errors import DefinitionStale, DulyError, FormerlyInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._cli.settings import Settings
    from duly._sync.app import App

    Handler = Callable[[Any], Any]

Command = TypeVar("Command", bound="Callable[..., Any]")

PERIODS = ("hour", "day", "week", "month", "quarter", "year")


@dataclass(frozen=True, slots=True)
class JobOptions:
    """What the options of `job_options` say; None for what was not given."""

    schedule: str | None = None
    timezone: str | None = None
    period: str | None = None
    period_offset: int | None = None
    adopt: bool = False

    @property
    def given(self) -> list[str]:
        """The options that stand on the command line."""
        values = {
            "--schedule": self.schedule,
            "--timezone": self.timezone,
            "--period": self.period,
            "--period-offset": self.period_offset,
            "--adopt": self.adopt or None,
        }
        return [name for name, value in values.items() if value is not None]


def job_options(command: Command) -> Command:
    """Add the options to a command, which gets them by the names of `JobOptions`."""
    for option in reversed(
        (
            click.option(
                "--schedule",
                metavar="TEXT",
                help="Without --app: defines the job, such as '0 0 * * *' or '@daily'."
                " [default: as the ledger has it; a new job has none]",
            ),
            click.option(
                "--timezone",
                metavar="ZONE",
                help="Of --schedule: a region such as Europe/Berlin.  [default: UTC]",
            ),
            click.option(
                "--period",
                type=click.Choice(PERIODS),
                help="Of --schedule: a start is for the whole business period it lies in.",
            ),
            click.option(
                "--period-offset",
                type=click.IntRange(-1, 0),
                help="Of --period: -1 for the period before.",
            ),
            click.option(
                "--adopt",
                is_flag=True,
                help="Of --schedule: make this the rule again, where the ledger has a later one.",
            ),
        )
    ):
        command = option(command)
    return command


def app_with(
    settings: Settings, name: str, options: JobOptions, made: Callable[[App], Handler]
) -> App:
    """The App that a command acts on; what *made* returns makes the effect of the job *name*.

    With an App of the user's, the job is defined there and only its handler is another. Nothing
    is written: the start itself tells the ledger of the definition, as with code.

    Raises:
        UnknownJob: The App does not define it.
        UsageError: The job would be defined in two ways, or not at all.
        DefinitionStale: The ledger says that the job was retired.
    """
    from duly._cli.app_loading import load
    from duly._core.job import find

    app = load(settings)
    if app.database.is_async:
        raise UsageError(
            f"{settings.app} is a duly.aio.App, and this command's work is not awaited: name the"
            " database with --database in place of the App"
        )
    handler = made(app)
    by_app = settings.app is not None and not settings.given & {"database", "schema"}
    if by_app:
        if options.given:
            raise UsageError(
                f"{options.given[0]} defines a job, and the App defines {name}: leave it out, or"
                " name the database with --database in place of --app"
            )
        found = find(app.jobs, name)
        app.jobs[found.name] = replace(found, handler=handler)
        return app
    if options.schedule is not None:
        _define(app, name, options, handler)
        return app
    if options.given:
        raise UsageError(f"{options.given[0]} says more of a --schedule: give that too")
    _as_recorded(app, name, handler)
    return app


def adopted(app: App, options: JobOptions) -> None:
    """Make the definition of the options the rule again, where they ask for it.

    Raises:
        DulyError: The ledger refuses it.
    """
    if options.adopt:
        _written, refused = app.register(adopt=True)
        for error in refused.values():
            raise error


def worded(error: DulyError, options: JobOptions) -> DulyError:
    """What the ledger refuses here is no code, but the options; say what helps."""
    details = error.details
    if options.schedule is None:
        return error
    if isinstance(error, FormerlyInvalid):
        return FormerlyInvalid(
            f"{details['job']} is the later name of the job {details['first']!r}, whose keys keep"
            f" that name: give {details['first']} with --schedule, or leave --schedule out",
            **details,
        )
    if "revision" not in details:
        return error
    return DefinitionStale(
        f"job {details['job']}: --schedule says what its revision {details['revision']} said, and"
        f" the ledger is at revision {details['latest']}: leave --schedule out to start by that"
        " one, or make this one the rule again with --adopt",
        **details,
    )


def _define(app: App, name: str, options: JobOptions, handler: Handler) -> None:
    from duly import schedules

    assert options.schedule is not None
    kind = options.schedule.partition(" ")[0]
    is_text = kind in schedules.KINDS  # the canonical text of any kind, as the ledger shows it
    more: dict[str, Any] = {} if options.period is None else {"period": options.period}
    app.job(
        name,
        schedule=schedules.from_text(options.schedule) if is_text else options.schedule,
        timezone=options.timezone,
        period_offset=options.period_offset or 0,
        **more,
    )(handler)


def _as_recorded(app: App, name: str, handler: Handler) -> None:
    """As the ledger has it; a job that it does not know has no schedule, and needs a time."""
    from duly._sync.recorded import recorded
    from duly.errors import SchemaMissing

    try:
        app._readiness.ensure(only_read=True)  # noqa: SLF001 - to ask is no first use
        found = recorded(app.database, name, handler)
    except SchemaMissing:
        if app.database.path is None:
            raise
        found = None  # a first use makes the tables
    if found is None:
        app.job(name)(handler)
    else:
        app.jobs[name] = found
