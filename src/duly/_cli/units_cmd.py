"""`duly units`: print what a starter needs to start a job.

Decides which options a starter takes and where the text goes. It must never start anything,
open the database, or overwrite a file that it was not told to.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from duly._cli import output, words
from duly._cli.settings import Settings, options
from duly._core.wording import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly._cli.units.order import Order

STARTERS = ("systemd", "cron", "kubernetes")

# Option -> the starters that have a use for it.
_FOR = {
    "user": ("systemd", "cron"),
    "timezone": ("cron",),
    "image": ("kubernetes",),
    "namespace": ("kubernetes",),
}
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@click.command()
@click.argument("starter", type=click.Choice(STARTERS))
@click.argument("job")
@click.option(
    "--command",
    type=words.words,
    metavar="TEXT",
    help="The command line to start. [default: this duly, --app and run JOB]",
)
@click.option("--user", metavar="NAME", help="Who starts it; cron: for a file in /etc/cron.d.")
@click.option(
    "--working-directory",
    type=words.words,
    metavar="DIR",
    help="Where it is started. [default: the current one; kubernetes: the image's own]",
)
@click.option(
    "--deadline",
    type=click.IntRange(1, 10_000_000),
    metavar="SECONDS",
    help="Stop a start that takes longer. [default: never]",
)
@click.option(
    "--timezone", metavar="ZONE", help="cron: where its daemon counts. [default: the job's]"
)
@click.option("--image", type=words.words, metavar="NAME", help="kubernetes: what to run it in.")
@click.option("--namespace", metavar="NAME", help="kubernetes: where to run it.")
@click.option("--output", "folder", metavar="DIR", help="Write files there in place of printing.")
@click.option("--force", is_flag=True, help="With --output: overwrite.")
@options()
@click.pass_obj
def units(
    settings: Settings,
    *,
    starter: str,
    job: str,
    command: str | None,
    user: str | None,
    working_directory: str | None,
    deadline: int | None,
    timezone: str | None,
    image: str | None,
    namespace: str | None,
    folder: str | None,
    force: bool,
) -> int:
    """Print what STARTER (systemd, cron or kubernetes) needs to start JOB.

    It starts the job at every due time of its schedule. A start too many does no harm.
    """
    given = {"user": user, "timezone": timezone, "image": image, "namespace": namespace}
    _check(starter, given, folder=folder, force=force)
    order = _ordered(
        settings,
        starter,
        job,
        command=command,
        directory=working_directory,
        deadline=deadline,
        **given,
    )
    files = _files(starter, order)
    if folder is not None:
        paths = _written(files, folder, force=force)
        if settings.json:
            output.say_json({"starter": starter, "job": job, "files": files, "written": paths})
        else:
            for path in paths:
                output.say(f"wrote {path}")
    elif settings.json:
        output.say_json({"starter": starter, "job": job, "files": files})
    else:
        output.say("\n".join(files.values()).rstrip("\n"))
    return 0


def _check(
    starter: str, given: Mapping[str, str | None], *, folder: str | None, force: bool
) -> None:
    """Refuse what does not go together."""
    for name, starters in _FOR.items():
        if given[name] is not None and starter not in starters:
            raise click.UsageError(
                f"--{name} is for {' and '.join(starters)}, not for {starter}: leave it out"
            )
    user, namespace = given["user"], given["namespace"]
    if starter == "kubernetes" and given["image"] is None:
        raise click.UsageError(
            "kubernetes runs the job in an image: name it, such as --image example.org/bank:1.0"
        )
    if user is not None and not _USER.fullmatch(user):
        raise click.UsageError(f"--user {shown(user)} is no user's name: give one such as bank")
    if namespace is not None and not _NAMESPACE.fullmatch(namespace):
        raise click.UsageError(
            f"--namespace {shown(namespace)} is not 1 to 63 of a-z, 0-9 and '-': give one such as"
            " bank"
        )
    if force and folder is None:
        raise click.UsageError("--force is about files: it needs --output")


def _ordered(
    settings: Settings,
    starter: str,
    job: str,
    *,
    command: str | None,
    directory: str | None,
    deadline: int | None,
    user: str | None,
    timezone: str | None,
    image: str | None,
    namespace: str | None,
) -> Order:
    from datetime import UTC, datetime

    from duly import zones
    from duly._cli.app_loading import load
    from duly._cli.units import kubernetes, order, times
    from duly._core.job import find

    app = load(settings, code_for="units")
    found = find(app.jobs, job)
    now = datetime.now(UTC)
    if starter == "kubernetes":
        zone = kubernetes.zone_for(found, now=now)
    else:
        zone = times.zone_of(found) if timezone is None else zones.load(timezone)
    starts = times.starts_of(found, zone, now=now)
    line = _command_line(settings, starter, job, command)
    order.without_secrets(line)
    if starter != "kubernetes":
        order.absolute(line)
        directory = _folder(directory or str(Path.cwd()))
    if starter == "systemd" and user is None:
        from duly._sync.process import user_name

        user = user_name()
    return order.Order(
        found,
        starts,
        tuple(line),
        directory=directory,
        user=user,
        deadline=deadline,
        image=image or "",
        namespace=namespace,
    )


def _command_line(settings: Settings, starter: str, job: str, command: str | None) -> list[str]:
    import shlex

    if command is not None:
        try:
            return shlex.split(command)
        except ValueError as error:
            raise click.UsageError(
                f"--command cannot be read as a shell would: {str(error).lower()}; quote it as one"
                " word"
            ) from error
    assert settings.app is not None
    return [*_program(starter), "--app", settings.app, "run", job]


def _program(starter: str) -> list[str]:
    """The running duly; in an image, the one that is on the PATH there."""
    if starter == "kubernetes":
        return ["duly"]
    own = Path(sys.argv[0])
    if own.name == "duly" and own.is_file():
        return [os.path.abspath(own)]
    return [sys.executable, "-m", "duly"]


def _folder(directory: str) -> str:
    if not directory.startswith("/") or not directory.isprintable():
        raise click.UsageError(
            f"--working-directory {shown(directory)} is no absolute path of printable characters:"
            " write it from / on"
        )
    return directory


def _files(starter: str, order: Order) -> dict[str, str]:
    from importlib import import_module

    files: dict[str, str] = import_module(f"duly._cli.units.{starter}").files(order)
    return files


def _written(files: Mapping[str, str], folder: str, *, force: bool) -> list[str]:
    """Write *files*, all or, where one is refused beforehand, none."""
    from duly.errors import UsageError

    paths = {os.path.abspath(os.path.join(folder, name)): text for name, text in files.items()}
    if not os.path.isdir(folder):
        raise UsageError(f"--output {shown(folder)} is no directory: make it first")
    there = [path for path in paths if os.path.lexists(path)]
    if there and not force:
        raise UsageError(f"{there[0]} exists: give --force to overwrite it, or another --output")
    for path, text in paths.items():
        try:
            with open(path, "w" if force else "x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return list(paths)
