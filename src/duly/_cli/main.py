"""The entry of `duly`: signals first, then the command, then one exit code.

Decides in which order that happens and that every ending is one line and one code. It must
never import what is slow (a Ctrl-C during an import is answered here), and never let a
traceback out unasked.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from duly._cli import stopping
from duly._cli.reader import Reader
from duly._cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(
    arguments: Sequence[str] | None = None, *, app: str | None = None, program: str = "duly"
) -> int:
    """Run one command line and return its exit code; it never raises.

    Args:
        arguments: Without the program's name; None for those of this process.
        app: Which App is meant where the command line names none.
        program: What the command is called in its help.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    settings = Settings(app=app, json="--json" in _before_dashes(given), debug="--debug" in given)
    with stopping.listening():
        stdout = sys.stdout
        try:
            _print_anything()
            sys.stdout = cast("Any", Reader(stdout))
            code = _invoke(given, settings, program)
            sys.stdout.flush()
            return code
        except BaseException as error:
            from duly._cli import exits

            return exits.report(error, settings)
        finally:
            sys.stdout = stdout
            for opened in settings.opened:
                with suppress(Exception):  # the command has ended; this must not change how
                    opened.close()


def _invoke(given: list[str], settings: Settings, program: str) -> int:
    """Run the command, without Click's own ending: it takes any broken pipe for stdout's."""
    from click.exceptions import Exit

    from duly._cli.group import cli

    try:
        with cli.make_context(program, given, obj=settings) as context:
            code = cli.invoke(context)
    except Exit as ended:
        return ended.exit_code
    return code if isinstance(code, int) else 0


def _before_dashes(arguments: list[str]) -> list[str]:
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def _print_anything() -> None:
    """A character that the terminal's encoding lacks is escaped, never an error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
