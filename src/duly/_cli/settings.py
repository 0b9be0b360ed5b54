"""The options that every command takes, before its name or after it.

Decides which of several spellings wins: what stands on the command line beats the
environment, and the last one beats the others. It must never open anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import click

    from duly._sync.app import App

Command = TypeVar("Command", bound="Callable[..., Any]")


@dataclass
class Settings:
    """What one command line says about itself.

    Attributes:
        app: `module:attribute` of the user's App.
        database: A URL, to work without the user's code.
        given: The names that stood on the command line, not in the environment.
        secrets: Passwords seen on the way; no message shows them.
        opened: The apps to close at the end.
    """

    app: str | None = None
    database: str | None = None
    schema: str | None = None
    json: bool = False
    debug: bool = False
    given: set[str] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    opened: list[App] = field(default_factory=list)


_TARGETS: dict[str, tuple[str, str | None, str]] = {
    "app": (
        "MODULE:ATTRIBUTE",
        "DULY_APP",
        "The App with the jobs, such as jobs:app; looked for in the working directory first.",
    ),
    "database": (
        "URL",
        "DULY_DATABASE_URL",
        "Work on this database without any code, where the command allows it.",
    ),
    "schema": ("NAME", None, "The ledger's schema, with --database, if not the default one."),
}
_FLAGS = {
    "json": "Print JSON: the result to stdout, an error to stderr.",
    "debug": "Show tracebacks.",
}


def options(
    *, environment: bool = False, targets: Sequence[str] = ("app", "database", "schema")
) -> Callable[[Command], Command]:
    """Add the common options to a command.

    Args:
        environment: Also read their variables; once, on the group.
        targets: Which of those that name an app or a database.
    """
    import click

    def add(command: Command) -> Command:
        for name, text in reversed(_FLAGS.items()):
            flag = click.option(
                f"--{name}", is_flag=True, expose_value=False, callback=_keep, help=text
            )
            command = flag(command)
        for name, (metavar, variable, text) in reversed(_TARGETS.items()):
            if name not in targets:
                continue
            option = click.option(
                f"--{name}",
                metavar=metavar,
                envvar=variable if environment else None,
                show_envvar=environment,
                expose_value=False,
                callback=_keep,
                help=text,
            )
            command = option(command)
        return command

    return add


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    from click.core import ParameterSource

    if not value or parameter.name is None:
        return
    settings: Settings = context.find_root().ensure_object(Settings)
    setattr(settings, parameter.name, value)
    if context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE:
        settings.given.add(parameter.name)
