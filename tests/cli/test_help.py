"""Help: every command and option says what it does, and the help itself costs nothing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from duly._cli.group import COMMANDS, cli

if TYPE_CHECKING:
    from tests.cli.conftest import Duly


def commands() -> dict[str, click.Command]:
    context = click.Context(cli)
    return {name: cli.get_command(context, name) or pytest.fail(name) for name in COMMANDS}


@pytest.mark.parametrize("name", COMMANDS)
def test_command_and_its_options_have_help(name: str) -> None:
    command = commands()[name]
    assert command.name == name
    assert command.help
    options = [p for p in command.params if isinstance(p, click.Option)]
    assert [option.name for option in options if not option.help] == []
    assert {"json", "debug"} <= {option.name for option in options}


def test_options_of_the_group_have_help() -> None:
    options = [p for p in cli.params if isinstance(p, click.Option)]
    assert {"app", "database", "schema", "json", "debug"} <= {option.name for option in options}
    assert all(option.help for option in options)


def test_help_names_every_command_and_exit_code(duly: Duly) -> None:
    ended = duly("--help")
    assert ended.code == 0
    for word in (*COMMANDS, "70", "75", "129 130 143", "DULY_APP", "DULY_DATABASE_URL"):
        assert word in ended.out
    assert duly("run", "-h").code == 0
    assert duly("--version").out.startswith("duly ")


@pytest.mark.parametrize(
    "arguments", [["--help"], ["run", "--help"], ["--version"], ["demo", "-h"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    """A run every minute, and a person who asks, pay only for what they need."""
    script = (
        "import sys\n"
        "from duly._cli.main import main\n"
        f"code = main({arguments!r})\n"
        "heavy = {'sqlalchemy', 'rich', 'alembic', 'sqlite3', 'asyncio', 'rfc8785'}\n"
        "print(sorted(heavy & set(sys.modules)), code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[] 0\n"


def test_run_imports_neither_rich_nor_alembic(file_bank: object, duly: Duly) -> None:
    """What cron starts every minute does not load what it never shows."""
    app = file_bank.app  # type: ignore[attr-defined]
    assert duly("--app", app, "init").code == 0
    script = (
        "import sys\n"
        "from duly._cli.main import main\n"
        f"code = main(['--app', {app!r}, 'run', 'daily-credit'])\n"
        "print(sorted({'rich', 'alembic'} & set(sys.modules)), code, file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "[] 0\n"
