"""`manage.py duly …`: every command of `duly`, for the project's App.

Decides which arguments are Django's own; all others go to `duly` as they are, and its exit
code is the command's.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from duly._cli.main import main

APP = "duly.contrib.django:app"
_DJANGOS = ("--settings", "--pythonpath")


class Command(BaseCommand):
    """Forwards its arguments."""

    help = "The commands of duly (run, tick, worker, status, …) for this project's jobs."
    requires_system_checks: tuple[str, ...] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """From a shell: end the process with duly's exit code."""
        sys.exit(main(without_djangos(argv[2:]), app=APP, program=f"{argv[0]} {argv[1]}"))

    def add_arguments(self, parser: Any) -> None:
        """For `call_command("duly", "tick", …)`."""
        parser.add_argument("arguments", nargs=argparse.REMAINDER)

    def handle(self, *_arguments: Any, **options: Any) -> None:
        """From Python.

        Raises:
            CommandError: The exit code is not 0; it is the error's `returncode`.
        """
        given = [str(each) for each in options["arguments"]]
        code = main(given, app=APP, program="manage.py duly")
        if code:
            raise CommandError(f"duly {' '.join(given[:1])}: exit code {code}", returncode=code)


def without_djangos(arguments: list[str]) -> list[str]:
    """The arguments without those that Django has taken already."""
    kept: list[str] = []
    rest = iter(arguments)
    for each in rest:
        if each == "--":
            return [*kept, each, *rest]
        if each in _DJANGOS:
            next(rest, None)
        elif not each.startswith(tuple(f"{name}=" for name in _DJANGOS)):
            kept.append(each)
    return kept
